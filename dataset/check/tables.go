package check

import (
	"math"
	"os"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

func (c *checker) tasksFile() string {
	if c.v3() {
		return survey.TasksPath
	}
	return survey.TasksPathV21
}

// checkTasks looks at the instruction table.
func (c *checker) checkTasks() {
	c.did("tasks")
	t, file := c.set.Tasks, c.tasksFile()
	damaged := false
	for _, p := range c.set.Problems {
		if p.File == file {
			damaged = true
			c.say("tasks", in(file).keyed("*"), nil, "%s%v", rowColumn(p), p.Err)
		}
	}
	total := c.set.Info.TotalTasks
	if !t.Found || len(t.Index) == 0 && !damaged {
		if total > 0 || len(c.set.Episodes) > 0 {
			c.say("tasks-missing", in(file), nil, "it is missing or empty, info.json counts %d tasks", max(0, total))
		}
		return
	}
	if damaged {
		return
	}
	if total != len(t.Index) {
		c.say("info-totals-tasks", in(survey.InfoPath), nums{"total_tasks": float64(total), "listed": float64(len(t.Index))}, "total_tasks is %d, the table has %d", total, len(t.Index))
	}
	if c.v3() {
		c.checkTaskTable()
	}
	c.checkTaskNumbers()
	c.checkTaskTexts()
}

func (c *checker) checkTaskTable() {
	t := c.set.Tasks
	if !t.Pandas {
		c.say("tasks-pandas", in(survey.TasksPath), nil, "no pandas metadata: the official loader takes the row number for the task text")
	}
	if t.Column == "task" {
		c.say("tasks-column", in(survey.TasksPath), nil, "the texts are in column \"task\"; Rerun does not show them")
	}
	if t.Columns != 2 {
		c.say("tasks-columns", in(survey.TasksPath), nums{"columns": float64(t.Columns)}, "%d columns; resuming a recording with a new task writes numbers into the extra ones", t.Columns)
	}
}

// checkTaskNumbers: the loader takes texts by row, so row i has to be task i.
func (c *checker) checkTaskNumbers() {
	seen := map[int]bool{}
	n := len(c.set.Tasks.Index)
	for r, i := range c.set.Tasks.Index {
		if i < 0 || i >= n || seen[i] {
			c.say("tasks-numbers", in(c.tasksFile()).keyed("*"), nums{"row": float64(r), "task_index": float64(i)},
				"row %d has task_index %d; %d tasks must be numbered 0 to %d once each", r, i, n, n-1)
		}
		seen[i] = true
	}
	for r, i := range c.set.Tasks.Index {
		if i != r && len(seen) == n && i < n && i >= 0 {
			c.say("tasks-order", in(c.tasksFile()).keyed("*"), nums{"row": float64(r), "task_index": float64(i)}, "row %d holds task_index %d; the loader takes texts by row", r, i)
			return
		}
	}
}

func (c *checker) checkTaskTexts() {
	seen := map[string]int{}
	for r, text := range c.set.Tasks.Text {
		if strings.TrimSpace(text) == "" {
			c.say("task-empty", in(c.tasksFile()).keyed("*"), nil, "task %d has no text", c.set.Tasks.Index[r])
			continue
		}
		key := strings.ToLower(strings.Join(strings.Fields(text), " "))
		if j, twice := seen[key]; twice {
			c.say("task-duplicate", in(c.tasksFile()).keyed("*"), nil, "tasks %d and %d have the same text but for case and spaces: %q", c.set.Tasks.Index[j], c.set.Tasks.Index[r], text)
		}
		seen[key] = r
	}
}

func rowColumn(p survey.Problem) string {
	s := ""
	if p.Column != "" {
		s = "column " + p.Column + ": "
	}
	if p.Row >= 0 {
		s += "row " + itoa(p.Row) + ": "
	}
	return s
}

// checkEpisodes looks at the episode table and its agreement with info.json.
func (c *checker) checkEpisodes() {
	c.did("episode table")
	if len(c.set.Episodes) == 0 && !c.brokenTable() {
		if c.set.Info.TotalEpisodes > 0 || len(c.set.DataFiles) > 0 {
			c.say("episodes-table", in(c.episodesFile()), nil, "it holds no episodes, info.json counts %d", max(0, c.set.Info.TotalEpisodes))
		}
	}
	for _, f := range c.set.EpisodeFiles {
		if f.Err != nil {
			c.say("episodes-file", in(f.Path), nil, "%v; the whole dataset does not load", f.Err)
		}
	}
	for _, p := range c.set.Problems {
		if p.File == c.tasksFile() {
			continue
		}
		c.say("episodes-value", in(p.File).on(p.Column), nil, "%s%v", rowColumn(p), p.Err)
	}
	if c.v3() {
		c.checkEpisodeColumns()
	}
	c.checkTotals()
	c.checkEpisodeRows()
	if c.v3() {
		c.checkSpans()
	}
}

func (c *checker) brokenTable() bool {
	return slices.ContainsFunc(c.set.EpisodeFiles, func(f survey.EpisodeFile) bool { return f.Err != nil })
}

func (c *checker) episodesFile() string {
	if c.v3() {
		return "meta/episodes"
	}
	return survey.EpisodesPathV21
}

// checkEpisodeColumns: all files of the table need one set of columns.
func (c *checker) checkEpisodeColumns() {
	var first *survey.EpisodeFile
	for i := range c.set.EpisodeFiles {
		f := &c.set.EpisodeFiles[i]
		if f.Err != nil {
			continue
		}
		if first == nil {
			first = f
			continue
		}
		if extra := without(f.Columns, first.Columns); len(extra) > 0 {
			c.say("episodes-columns", in(f.Path), nil, "columns %s are not in %s; the loader stops there", few(extra, 6), first.Path)
		} else if gone := without(first.Columns, f.Columns); len(gone) > 0 {
			c.say("episodes-columns-null", in(f.Path), nil, "columns %s of %s are missing and become null", few(gone, 6), first.Path)
		}
	}
}

// without lists names of a that are not in b.
func without(a, b []string) []string {
	have := map[string]bool{}
	for _, x := range b {
		have[x] = true
	}
	return slices.DeleteFunc(slices.Clone(a), func(x string) bool { return have[x] })
}

func (c *checker) checkEpisodeRows() {
	texts := map[string]bool{}
	for _, t := range c.set.Tasks.Text {
		texts[t] = true
	}
	seen := map[int]bool{}
	next := 0
	for n := range c.set.Episodes {
		e := &c.set.Episodes[n]
		here := at(e.File, e.Index, -1)
		if e.Index < 0 {
			continue // said already
		}
		if seen[e.Index] {
			c.say("episodes-twice", here, nil, "episode %d is listed twice", e.Index)
		} else if e.Index != n {
			c.say("episodes-order", here.keyed("*"), nums{"row": float64(n)}, "row %d is episode %d; the loader looks episodes up by row", n, e.Index)
		}
		seen[e.Index] = true
		if e.Length == 0 {
			c.say("episode-empty", here, nil, "the episode has no rows")
		}
		c.checkRange(e, next)
		next += max(0, e.Length)
		if len(e.Tasks) == 0 {
			c.say("episode-tasks", here, nil, "the episode lists no task")
		}
		for _, t := range e.Tasks {
			if len(texts) > 0 && !texts[t] {
				c.say("episode-task-text", here, nil, "its task %q is not in the task table", t)
			}
		}
		c.checkPlaces(e)
	}
}

// checkRange: rows are numbered over all episodes without a gap; want is the number of the episode's first row.
func (c *checker) checkRange(e *survey.Episode, want int) {
	if !c.v3() || e.From < 0 || e.To < 0 || e.Length < 0 {
		return
	}
	here := at(e.File, e.Index, -1)
	switch {
	case e.From != want:
		c.say("episodes-range", here, nums{"from": float64(e.From), "want": float64(want)}, "it starts at row %d, the one before ends at %d", e.From, want)
	case e.To-e.From != e.Length:
		c.say("episodes-range", here, nums{"from": float64(e.From), "to": float64(e.To), "length": float64(e.Length)},
			"dataset_from_index %d to dataset_to_index %d are %d rows, its length is %d", e.From, e.To, e.To-e.From, e.Length)
	}
}

// maxFileIndex: the official loader sorts paths as text, and %03d sorts wrongly from 1000 on.
const maxFileIndex = 999

func (c *checker) checkPlaces(e *survey.Episode) {
	here := at(e.File, e.Index, -1)
	if e.DataPath == "" {
		if !c.v3() || e.DataChunk >= 0 && e.DataFile >= 0 {
			c.say("episode-place", here, nil, "its rows have no place inside the dataset (chunk %d, file %d)", e.DataChunk, e.DataFile)
		}
	}
	if c.v3() && max(e.DataFile, e.DataChunk) > maxFileIndex {
		c.say("file-number", here, nums{"chunk": float64(e.DataChunk), "file": float64(e.DataFile)}, "from 1000 on the loader sorts file names wrongly and mixes up rows")
	}
	for _, cam := range c.cameras() {
		if _, ok := e.Videos[cam]; !ok {
			c.say("episode-video", here.on(cam), nil, "the table has no place of its video %q", cam)
		}
	}
}

// maxFileSeconds: beyond 1024 s the float32 times that the official loader compares are coarser than its tolerance of 1e-4 s
// (2^10 s has an ulp of 1.2e-4 s).
const maxFileSeconds = 1024

// timeTolerance is how far a row or frame time may lie from where it belongs, in seconds: the official loader's default.
const timeTolerance = 1e-4

// checkSpans compares the video times of the table with the rows, per camera and file.
func (c *checker) checkSpans() {
	type last struct {
		to      float64
		episode int
	}
	for _, cam := range c.cameras() {
		end := map[string]last{} // of the previous episode in the file
		for n := range c.set.Episodes {
			e := &c.set.Episodes[n]
			s, ok := e.Videos[cam]
			if !ok || e.Index < 0 || e.Length < 0 || !c.checkSpan(cam, e, s) {
				continue
			}
			here := at(e.File, e.Index, -1).on(cam)
			if have, ok := end[s.Path]; ok && s.From < have.to-0.5/c.fps {
				c.say("video-overlap", here, nums{"from": s.From, "before": have.to}, "it starts at %.4f s of %s, episode %d before it ends at %.4f s", s.From, s.Path, have.episode, have.to)
			}
			end[s.Path] = last{s.To, e.Index}
			if s.To > maxFileSeconds {
				c.say("video-long", here, nums{"to": s.To}, "it ends at %.0f s of the file: beyond %d s the loader's float32 time check fails for part of the frames", s.To, maxFileSeconds)
			}
		}
	}
}

// checkSpan checks the times of one video of one episode; false when they can not be used.
func (c *checker) checkSpan(cam string, e *survey.Episode, s survey.Span) bool {
	here := at(e.File, e.Index, -1).on(cam)
	if math.IsNaN(s.From) || math.IsNaN(s.To) || math.IsInf(s.To, 0) || s.From < 0 {
		c.say("video-range", here, nil, "video %q lasts from %v to %v s", cam, s.From, s.To)
		return false
	}
	if off := math.Abs(s.From - math.Round(s.From*c.fps)/c.fps); off > timeTolerance {
		c.say("video-from", here, nums{"from": s.From, "off": off}, "from_timestamp %.6f s of %q is %.6f s away from a frame; the loader allows %g", s.From, cam, off, timeTolerance)
	}
	if n := int(math.Round(s.To*c.fps) - math.Round(s.From*c.fps)); n != e.Length {
		why := ""
		if n == e.Length-1 {
			why = " (counted from first to last frame instead of to the end of the last)"
		}
		c.say("video-span", here, nums{"frames": float64(n), "rows": float64(e.Length)},
			"to_timestamp - from_timestamp of %q is %.6f s = %d frames at %g Hz, the episode has %d rows%s; delete and split stop there",
			cam, s.To-s.From, n, c.fps, e.Length, why)
	}
	return true
}

func (c *checker) fileExists(path string) bool {
	st, err := os.Stat(c.set.Abs(path))
	return err == nil && st.Mode().IsRegular()
}
