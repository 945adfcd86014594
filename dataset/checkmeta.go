package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// checkTasks looks at the instruction table.
func (c *checker) checkTasks() {
	c.did("tasks")
	if c.d.info.major() == 2 {
		if err := c.d.readV21Tasks(); err != nil {
			c.errorf("tasks", v21TasksPath, "write one {\"task_index\", \"task\"} object per line, numbered from 0", "%v", err)
		}
	} else if !c.checkTaskTable() {
		return
	}
	if got := len(c.d.tasks); got != c.d.info.TotalTasks {
		c.warnf("info-totals", infoPath, "correct total_tasks", "total_tasks is %d, the table has %d", c.d.info.TotalTasks, got)
	}
	seen := map[string]int{}
	for i, t := range c.d.tasks {
		if strings.TrimSpace(t) == "" {
			c.warnf("task-empty", c.tasksFile(), "write the instruction", "task %d has no text", i)
		}
		key := strings.ToLower(strings.Join(strings.Fields(t), " "))
		if j, twice := seen[key]; twice {
			c.warnf("task-duplicate", c.tasksFile(), "merge them", "tasks %d and %d have the same text but for case and spaces: %q", j, i, t)
		}
		seen[key] = i
	}
}

func (c *checker) tasksFile() string {
	if c.d.info.major() == 2 {
		return v21TasksPath
	}
	return tasksPath
}

func (c *checker) checkTaskTable() bool {
	const fix = "write it again with the task texts as pandas index, row i for task i"
	tasks, err := readTasks(c.root)
	if err != nil {
		c.errorf("tasks", tasksPath, fix, "%v", err)
		return false
	}
	c.d.tasks = tasks
	if tasks == nil {
		if c.d.info.TotalTasks > 0 {
			c.errorf("tasks", tasksPath, fix, "it is missing or empty, info.json counts %d tasks", c.d.info.TotalTasks)
		}
		return false
	}
	f, err := pq.Open(filepath.Join(c.root, tasksPath))
	if err != nil {
		return false
	}
	defer f.Close()
	if _, ok := f.Metadata("pandas"); !ok {
		c.errorf("tasks-pandas", tasksPath, fix, "no pandas metadata: the official loader takes the row number for the task text")
	}
	if name := taskTextColumn(f); name == "task" {
		c.notef("tasks-column", tasksPath, "name the column __index_level_0__", "the texts are in column \"task\"; Rerun does not show them")
	}
	if n := len(f.Columns()); n != 2 {
		c.warnf("tasks-column", tasksPath, "keep task_index and the texts only", "%d columns; resuming a recording with a new task writes numbers into the extra ones", n)
	}
	index := (&columns{f: f}).ints("task_index")
	for i, t := range index {
		if t != i {
			c.errorf("tasks-order", tasksPath, fix, "row %d holds task_index %d; the loader takes texts by row", i, t)
			break
		}
	}
	return true
}

// checkEpisodes looks at the episode table and its agreement with info.json.
func (c *checker) checkEpisodes() {
	c.did("episode table")
	i := c.d.info
	if i.major() == 2 {
		tasks := c.d.tasks
		c.d.tasks = nil
		if err := c.d.readV21(); err != nil && len(c.d.episodes) == 0 {
			c.errorf("episodes", v21EpisodesPath, "correct this line", "%v", err)
		} else if err != nil {
			c.errorf("episodes", "meta", "correct this line", "%v", err)
		}
		if len(c.d.tasks) == 0 {
			c.d.tasks = tasks
		}
	} else if i.TotalEpisodes > 0 || len(episodeFiles(c.root)) > 0 {
		c.checkEpisodeFiles()
		var err error
		if c.d.episodes, err = readEpisodes(c.root, i); err != nil {
			c.errorf("episodes", "meta/episodes", "restore the file, or extract the episodes that are whole", "%v", err)
		}
	}
	c.checkTotals()
	for n, e := range c.d.episodes {
		c.checkEpisodeRow(n, e)
	}
	if i.major() == 3 {
		c.checkSpans()
	}
}

// checkEpisodeFiles verifies footers and that all files have one set of columns.
func (c *checker) checkEpisodeFiles() {
	var first string
	var want []pq.Info
	for _, path := range episodeFiles(c.root) {
		f, err := pq.Open(filepath.Join(c.root, path))
		if err != nil {
			c.errorf("episodes-file", path, "restore it or remove it and its episodes", "%v; the whole dataset does not load", err)
			continue
		}
		if want == nil {
			first, want = path, f.Columns()
		} else if extra := missingColumns(f.Columns(), want); len(extra) > 0 {
			c.errorf("episodes-columns", path, "give all episode files the same columns", "columns %s are not in %s", strings.Join(extra, ", "), first)
		} else if gone := missingColumns(want, f.Columns()); len(gone) > 0 {
			c.warnf("episodes-columns", path, "give all episode files the same columns", "columns %s of %s are missing and become null", strings.Join(gone, ", "), first)
		}
		f.Close()
	}
}

// missingColumns lists names of a that are not in b.
func missingColumns(a, b []pq.Info) []string {
	var out []string
	for _, x := range a {
		if !slices.ContainsFunc(b, func(y pq.Info) bool { return y.Name == x.Name }) {
			out = append(out, x.Name)
		}
	}
	return out
}

func (c *checker) checkTotals() {
	i, rows := c.d.info, 0
	for _, e := range c.d.episodes {
		rows += e.Length
	}
	if len(c.d.episodes) == 0 && i.TotalEpisodes > 0 {
		return // said already
	}
	if i.TotalEpisodes != len(c.d.episodes) {
		c.errorf("info-totals", infoPath, "correct total_episodes", "total_episodes is %d, the episode table has %d", i.TotalEpisodes, len(c.d.episodes))
	}
	if i.TotalFrames != rows {
		c.errorf("info-totals-frames", infoPath, "correct total_frames", "total_frames is %d, the episode lengths add up to %d", i.TotalFrames, rows)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Splits)) {
		span := i.Splits[name]
		var from, to int
		if n, err := fmt.Sscanf(span, "%d:%d", &from, &to); n != 2 || err != nil || from < 0 || to > len(c.d.episodes) || from > to {
			c.warnf("info-splits", infoPath, "write from:to within the episodes", "split %q is %q, there are %d episodes", name, span, len(c.d.episodes))
		}
	}
}

func (c *checker) checkEpisodeRow(n int, e EpisodeMeta) {
	const table = "meta/episodes"
	if e.Index != n {
		c.each(Error, "episodes-order", "", table, e.Index, -1, "number the rows 0, 1, 2, ...", "row %d is episode %d; the loader looks episodes up by row", n, e.Index)
	}
	if e.Length < 1 {
		c.each(Error, "episode-empty", "", table, e.Index, -1, "remove it", "the episode has %d rows", e.Length)
	}
	if n > 0 && c.d.info.major() == 3 {
		if prev := c.d.episodes[n-1]; e.FromIndex != prev.FromIndex+prev.Length {
			c.each(Error, "episodes-range", "", table, e.Index, -1, "recompute dataset_from_index and dataset_to_index",
				"it starts at row %d, the one before ends at %d", e.FromIndex, prev.FromIndex+prev.Length)
		}
	}
	if len(e.Tasks) == 0 {
		c.each(Warn, "episode-tasks", "", table, e.Index, -1, "list the instructions of its rows", "the episode lists no task")
	}
	for _, t := range e.Tasks {
		if c.d.tasks != nil && !slices.Contains(c.d.tasks, t) {
			c.each(Warn, "episode-tasks", "text", table, e.Index, -1, "use the text of the task table", "its task %q is not in the task table", t)
		}
	}
	if e.data.file > maxFileIndex || e.data.chunk > maxFileIndex {
		c.each(Error, "file-number", "", e.DataPath, e.Index, -1, "compact the dataset", "from 1000 on the loader sorts file names wrongly and mixes up rows")
	}
	for _, cam := range c.d.info.cameras() {
		if _, ok := e.Videos[cam.Name]; !ok {
			c.each(Error, "episode-video", cam.Name, table, e.Index, -1, "add the four columns videos/"+cam.Name+"/...", "the table has no place of its video %q", cam.Name)
		}
	}
}

// checkSpans compares the video times of the table with the rows, per camera and file.
func (c *checker) checkSpans() {
	fps := float64(c.d.info.FPS)
	for _, cam := range c.d.info.cameras() {
		end := map[string]float64{} // of the previous episode in the file
		for _, e := range c.d.episodes {
			s, ok := e.Videos[cam.Name]
			if !ok {
				continue
			}
			c.checkSpan(cam.Name, e, s, fps)
			if have, ok := end[s.Path]; ok && s.FromTime < have-0.5/fps {
				c.each(Error, "video-overlap", cam.Name, s.Path, e.Index, -1, "recompute the times: from = first frame / fps",
					"it starts at %.4f s of the file, the episode before it ends at %.4f s", s.FromTime, have)
			}
			end[s.Path] = s.ToTime
			if s.ToTime > maxFileSeconds {
				c.each(Warn, "video-long", cam.Name, s.Path, e.Index, -1, "use files under 1024 s", "it ends at %.0f s of the file: beyond %d s the loader's float32 time check fails for part of the frames", s.ToTime, maxFileSeconds)
			}
		}
	}
}

func (c *checker) checkSpan(camera string, e EpisodeMeta, s VideoSpan, fps float64) {
	if math.IsNaN(s.FromTime) || math.IsNaN(s.ToTime) || s.FromTime < 0 {
		c.each(Error, "video-times", camera, "meta/episodes", e.Index, -1, "recompute the times", "video %q lasts from %v to %v s", camera, s.FromTime, s.ToTime)
		return
	}
	if off := math.Abs(s.FromTime - math.Round(s.FromTime*fps)/fps); off > 1e-4 {
		c.each(Error, "video-from", camera, "meta/episodes", e.Index, -1, "set from_timestamp to first frame / fps, not to a sum of durations",
			"from_timestamp %.6f s of %q is %.6f s away from a frame; the loader allows 0.0001", s.FromTime, camera, off)
	}
	if n := int(math.Round(s.ToTime*fps) - math.Round(s.FromTime*fps)); n != e.Length {
		why := ""
		if n == e.Length-1 {
			why = " (counted from first to last frame instead of to the end of the last)"
		}
		c.each(Error, "video-span", camera, "meta/episodes", e.Index, -1, "set to_timestamp to from_timestamp + length / fps",
			"to_timestamp - from_timestamp of %q is %.6f s = %d frames at %g Hz, the episode has %d rows%s; delete and split stop there",
			camera, s.ToTime-s.FromTime, n, fps, e.Length, why)
	}
}

// notExist reports a missing file among errors.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
