package check

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

func itoa(n int) string { return strconv.Itoa(n) }

// fileResult is what one data file told.
type fileResult struct {
	sink
	path     string
	broken   bool
	rows     int
	runs     []run
	episodes []*episode
	index    indexRun
}

// run is a stretch of rows of one episode in a file.
type run struct{ episode, lo, hi int }

// indexRun describes the column index of a file: its first value, and the first row that does not follow the one before.
type indexRun struct {
	have       bool
	first      int
	breakRow   int // -1: none
	breakValue float64
}

// checkData reads every data file once, several at a time: columns and types, the index columns, times and the numbers themselves.
func (c *checker) checkData() {
	c.did("rows")
	paths := c.dataPaths()
	results := make([]*fileResult, len(paths))
	var mu sync.Mutex
	done := 0
	var g errgroup.Group
	g.SetLimit(c.o.Workers)
	for i, path := range paths {
		g.Go(func() error {
			if c.ctx.Err() != nil {
				return nil
			}
			results[i] = c.readDataFile(path)
			mu.Lock()
			defer mu.Unlock()
			done++
			c.progress("rows", done, len(paths))
			return nil
		})
	}
	g.Wait()
	for _, e := range c.set.Episodes {
		c.lacking = c.lacking || e.DataPath != "" && !c.set.Exists(e.DataPath)
	}
	next, known := 0, true // global row number
	for _, r := range results {
		if r == nil {
			return
		}
		c.take(&r.sink)
		if r.broken {
			known = false
			continue
		}
		if known {
			c.checkIndexColumn(r, next)
		}
		next += r.rows
		c.collect(r)
	}
	slices.SortFunc(c.episodes, func(a, b *episode) int { return a.index - b.index })
}

// collect joins the episodes of a file with those of the files before.
func (c *checker) collect(r *fileResult) {
	for i, run := range r.runs {
		if c.rows[run.episode] > 0 {
			c.say("rows-split", at(r.path, run.episode, c.rows[run.episode]), nil, "its rows stand in several places")
		} else if e := r.episodes[i]; e != nil {
			c.episodes = append(c.episodes, e)
			c.byIndex[e.index] = e
		}
		c.rows[run.episode] += run.hi - run.lo
	}
}

// dataPaths lists the data files in the order in which the loader reads them.
func (c *checker) dataPaths() []string {
	known := map[string]bool{}
	for _, e := range c.set.Episodes {
		known[e.DataPath] = true
	}
	for _, p := range c.set.DataFiles {
		if !known[p] && len(c.set.Episodes) > 0 && !c.brokenTable() {
			c.say("data-orphan", in(p), nil, "no listed episode lies in it, yet the loader reads its rows")
		}
	}
	if c.v3() {
		return c.set.DataFiles
	}
	var paths []string
	for _, p := range c.set.DataFiles {
		if known[p] {
			paths = append(paths, p)
		}
	}
	return paths
}

// readDataFile reads and checks one file.
func (c *checker) readDataFile(path string) *fileResult {
	r := &fileResult{path: path}
	f, err := pq.Open(c.set.Abs(path))
	if err != nil {
		r.broken = true
		r.say("data-file", in(path), nil, "%v; the whole dataset does not load", err)
		return r
	}
	defer f.Close()
	r.rows = f.Rows()
	c.checkFooter(r, f)
	values := c.readColumns(r, f)
	if c.checkRows(r, values) {
		for _, run := range r.runs {
			r.episodes = append(r.episodes, c.readEpisode(r, run, values))
		}
	}
	return r
}

// checkFooter looks at the key-value entries of a file.
func (c *checker) checkFooter(r *fileResult, f *pq.File) {
	text, ok := f.Metadata("huggingface")
	if !ok {
		r.say("data-metadata", in(r.path).keyed("*"), nil, "no \"huggingface\" entry in the footer: the streaming reader and the hub viewer guess the types")
	} else if flat := strings.Join(strings.Fields(text), ""); strings.Contains(flat, `"_type":"List"`) {
		r.say("data-metadata-list", in(r.path).keyed("*"), nil, "the footer calls lists \"List\": the datasets library below 4 (openpi) refuses it")
	}
}

// column is a numeric column of a file, row after row.
type column struct {
	f dataset.Feature
	v []float64
}

// readColumns compares columns with info.json and returns those that can be used, by feature.
func (c *checker) readColumns(r *fileResult, f *pq.File) map[string]column {
	values := map[string]column{}
	infos := map[string]pq.Info{}
	for _, col := range f.Columns() {
		infos[col.Name] = col
		feature, ok := c.set.Info.Feature(col.Name)
		switch {
		case !ok && c.v3():
			r.say("column-extra", of(col.Name, r.path), nil, "column %q is no feature of info.json; the loader stops at it", col.Name)
		case ok && feature.DType == dataset.Video:
			r.say("column-video", of(col.Name, r.path), nil, "column %q is a video feature, whose frames belong in an mp4", col.Name)
		}
	}
	for _, feature := range c.set.Info.Features {
		if feature.DType == dataset.Video || feature.Err != nil {
			continue
		}
		col, ok := infos[feature.Name]
		if !ok {
			r.say("column-missing", of(feature.Name, r.path), nil, "feature %q has no column; the loader fills it with nulls", feature.Name)
			continue
		}
		if v, ok := c.readColumn(r, f, feature, col); ok {
			values[feature.Name] = column{feature.Feature, v}
		}
	}
	return values
}

// readColumn checks type, nesting, nulls and list lengths of one column; false when its numbers can not be used.
func (c *checker) readColumn(r *fileResult, f *pq.File, feature survey.Feature, col pq.Info) ([]float64, bool) {
	here := of(feature.Name, r.path)
	if !feature.DType.Numeric() && feature.DType != dataset.String {
		return nil, false
	}
	depth := len(feature.Shape)
	if feature.Dim() == 1 && depth == 1 {
		depth = 0
	}
	if col.Depth != depth {
		r.say("column-nesting", here, nums{"depth": float64(col.Depth), "want": float64(depth)}, "column %q is nested %d deep, shape %v wants %d; the loader does not cast that", feature.Name, col.Depth, feature.Shape, depth)
	}
	if want := string(feature.DType); col.Type != want && !(feature.DType != dataset.String && castable(col.Type, want)) {
		r.say("column-type", here.fixedBy("store it as "+want), nil, "column %q is %s, info.json says %s", feature.Name, col.Type, want)
		return nil, false
	} else if col.Type != want && !narrow(want) {
		r.say("column-cast", here.fixedBy("store it as "+want), nil, "column %q is %s and is cast to %s at load", feature.Name, col.Type, want)
	}
	d, err := f.Read(feature.Name, 0, f.Rows())
	if err != nil {
		r.say("column-damaged", here.keyed(r.path), nil, "%v", err)
		return nil, false
	}
	if len(d.Null) > 0 {
		r.say("column-null", here.keyed(r.path), nums{"rows": float64(len(d.Null)), "first": float64(d.Null[0])}, "column %q is null in %d of %d rows, first in row %d of the file", feature.Name, len(d.Null), f.Rows(), d.Null[0])
		return nil, false
	}
	dim := feature.Dim()
	for row := range f.Rows() {
		if n := d.Starts[row+1] - d.Starts[row]; n != dim {
			r.say("column-length", here.keyed(r.path), nums{"row": float64(row), "values": float64(n), "want": float64(dim)},
				"column %q has %d values in row %d of the file, shape %v wants %d", feature.Name, n, row, feature.Shape, dim)
			return nil, false
		}
	}
	v, ok := survey.Floats(d.Values)
	return v, ok
}

// castable tells which stored types the loader casts silently.
func castable(stored, want string) bool {
	integer := func(s string) bool { return strings.Contains(s, "int") }
	float := func(s string) bool { return strings.HasPrefix(s, "float") }
	return integer(stored) && integer(want) || float(stored) && float(want)
}

// narrow types have no physical type of their own in Parquet.
func narrow(dtype string) bool {
	return slices.Contains([]string{"int8", "int16", "uint8", "uint16", "uint32", "uint64", "float16"}, dtype)
}

// checkRows verifies the index columns and times of a file row by row and finds its episodes. False when the rows can not be told
// apart.
func (c *checker) checkRows(r *fileResult, values map[string]column) bool {
	epi := values[dataset.EpisodeIndex].v
	if epi == nil {
		return false
	}
	for lo := 0; lo < len(epi); {
		hi := lo + 1
		for hi < len(epi) && epi[hi] == epi[lo] {
			hi++
		}
		r.runs = append(r.runs, run{int(epi[lo]), lo, hi})
		lo = hi
	}
	for _, run := range r.runs {
		c.checkRun(r, run, values)
	}
	r.index = followIndex(values[dataset.Index].v)
	return true
}

func followIndex(index []float64) indexRun {
	if len(index) == 0 {
		return indexRun{}
	}
	out := indexRun{have: true, first: int(index[0]), breakRow: -1}
	for i, v := range index {
		if v != index[0]+float64(i) {
			out.breakRow, out.breakValue = i, v
			return out
		}
	}
	return out
}

// checkIndexColumn compares the column index with the number of the row over all files, of which next is that of the first row here.
func (c *checker) checkIndexColumn(r *fileResult, next int) {
	if !r.index.have || !c.v3() && len(c.set.DataFiles) < len(c.set.Episodes) {
		return
	}
	if c.lacking { // the number over all files is not known; that of the table is
		e := c.listed[r.runs[0].episode]
		if e == nil || e.From < 0 {
			return
		}
		next = e.From
	}
	row, got := 0, float64(r.index.first)
	if r.index.first == next {
		if r.index.breakRow < 0 {
			return
		}
		row, got = r.index.breakRow, r.index.breakValue
	}
	for _, run := range r.runs {
		if row >= run.lo && row < run.hi {
			c.say("index", at(r.path, run.episode, row-run.lo), nums{"index": got, "want": float64(next + row)},
				"index is %v, the row is number %d over all files; the loader takes rows by number", got, next+row)
		}
	}
}

// checkRun checks frame numbers, times and tasks of one episode's rows.
func (c *checker) checkRun(r *fileResult, run run, values map[string]column) {
	frame, task, times := values[dataset.FrameIndex].v, values[dataset.TaskIndex].v, values[dataset.Timestamp].v
	wrong := func(code string, n *int, k int, num nums, format string, a ...any) {
		if *n++; *n == 1 {
			r.say(code, at(r.path, run.episode, k), num, format, a...)
		}
	}
	var badFrame, badTime, badTask int
	worst, firstAt := 0.0, -1
	for row := run.lo; row < run.hi; row++ {
		k := row - run.lo
		if frame != nil && frame[row] != float64(k) {
			wrong("frame-index", &badFrame, k, nums{"frame_index": frame[row], "want": float64(k)}, "frame_index is %v, want %d", frame[row], k)
		}
		if times != nil {
			if off := math.Abs(times[row] - float64(k)/c.fps); !(off <= timeTolerance) {
				if badTime++; badTime == 1 {
					firstAt = k
				}
				worst = math.Max(worst, off)
			}
		}
		if task != nil && len(c.tasks) > 0 {
			if _, ok := c.tasks[int(task[row])]; !ok || task[row] != math.Trunc(task[row]) {
				wrong("task-index", &badTask, k, nums{"task_index": task[row], "tasks": float64(len(c.tasks))}, "task_index is %v, there are %d tasks", task[row], len(c.tasks))
			}
		}
	}
	if badTime > 0 {
		t, want := times[run.lo+firstAt], float64(firstAt)/c.fps
		r.say("timestamp", at(r.path, run.episode, firstAt), nums{"timestamp": t, "want": want, "worst": worst, "rows": float64(badTime)},
			"timestamp is %.6f s, frame_index / fps is %.6f s: off by %.6f s, the loader allows %g; %d of %d rows, by up to %.6f s", t, want, math.Abs(t-want), timeTolerance, badTime, run.hi-run.lo, worst)
	}
	if badTask == 0 && task != nil && len(c.tasks) > 0 {
		c.checkRowTasks(r, run, task)
	}
}

// checkRowTasks compares the tasks of the rows with those that the table lists.
func (c *checker) checkRowTasks(r *fileResult, run run, task []float64) {
	e := c.listed[run.episode]
	if e == nil || len(e.Tasks) == 0 {
		return
	}
	used := map[string]bool{}
	for row := run.lo; row < run.hi; row++ {
		used[c.tasks[int(task[row])]] = true
	}
	listed := map[string]bool{}
	for _, t := range e.Tasks {
		listed[t] = true
	}
	if !maps.Equal(used, listed) {
		r.say("episode-tasks-rows", at(r.path, run.episode, -1), nil, "its rows have the tasks %q, the episode table lists %q", slices.Sorted(maps.Keys(used)), e.Tasks)
	}
}

// checkPresence compares the rows found with the episode table.
func (c *checker) checkPresence() {
	var gone []int
	c.full = len(c.set.Episodes) > 0
	for n := range c.set.Episodes {
		e := &c.set.Episodes[n]
		if e.Index < 0 {
			continue
		}
		switch found := c.rows[e.Index]; {
		case found == 0:
			gone = append(gone, e.Index)
			c.full = false
		case e.Length >= 0 && found != e.Length:
			c.full = false
			c.say("episode-rows", at(e.DataPath, e.Index, -1), nums{"rows": float64(found), "length": float64(e.Length)}, "%d rows are there, the table says %d", found, e.Length)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		c.say("episodes-missing", in("data"), nums{"missing": float64(len(gone)), "listed": float64(len(c.set.Episodes))},
			"the rows of %d of %d listed episodes are missing: %s", len(gone), len(c.set.Episodes), dataset.Ranges(gone))
	}
	if c.brokenTable() {
		return // the list is not whole
	}
	for _, e := range slices.Sorted(maps.Keys(c.rows)) {
		if c.listed[e] == nil && len(c.set.Episodes) > 0 {
			c.say("episodes-unlisted", at("data", e, -1), nums{"rows": float64(c.rows[e])}, "%d rows belong to an episode that is not listed", c.rows[e])
		}
	}
	if used := c.usedTasks(); c.full && len(used) < len(c.set.Tasks.Text) {
		var idle []string
		for _, i := range slices.Sorted(maps.Keys(c.tasks)) {
			if !used[i] {
				idle = append(idle, fmt.Sprintf("%d %q", i, c.tasks[i]))
			}
		}
		if len(idle) > 0 {
			c.say("task-unused", in(c.tasksFile()), nums{"tasks": float64(len(idle))}, "no row has task %s", few(idle, 4))
		}
	}
}

func (c *checker) usedTasks() map[int]bool {
	used := map[int]bool{}
	for _, e := range c.episodes {
		for _, t := range e.tasks {
			used[t] = true
		}
	}
	return used
}
