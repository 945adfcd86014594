package dataset

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// timeTolerance is how far a row time may lie from frame_index / fps, in seconds: the official loader's default.
const timeTolerance = 1e-4

// checkData reads every data file once: columns and types, the index columns, times and the numbers themselves.
func (c *checker) checkData() *content {
	c.did("rows")
	content := newContent(c.d.info)
	next := 0 // global row number
	for _, path := range c.dataPaths() {
		if c.ctx.Err() != nil {
			return content
		}
		next = c.checkDataFile(path, next, content)
	}
	c.checkPresence()
	content.report(c)
	c.checkFrozen(content)
	return content
}

// dataPaths lists the data files in the order in which the loader reads them.
func (c *checker) dataPaths() []string {
	if c.d.info.major() == 3 {
		paths := parquetFiles(c.root, "data")
		known := map[string]bool{}
		for _, e := range c.d.episodes {
			known[e.DataPath] = true
		}
		for _, p := range paths {
			if !known[p] && len(c.d.episodes) > 0 {
				c.errorf("data-orphan", p, "move it out of data/", "no episode lies in it, yet the loader reads its rows")
			}
		}
		return paths
	}
	var paths []string
	for _, e := range c.d.episodes {
		if c.exists(e.DataPath) {
			paths = append(paths, e.DataPath)
		}
	}
	for _, p := range parquetFiles(c.root, "data") {
		if !slices.Contains(paths, p) {
			c.errorf("data-orphan", p, "move it out of data/", "no listed episode lies in it")
		}
	}
	return paths
}

// checkDataFile checks one file and returns the global number of the row after it.
func (c *checker) checkDataFile(path string, next int, content *content) int {
	f, err := pq.Open(filepath.Join(c.root, path))
	if err != nil {
		c.errorf("data-file", path, "restore it, or extract the episodes that are whole", "%v; the whole dataset does not load", err)
		return next
	}
	defer f.Close()
	values := c.checkColumns(path, f)
	if _, ok := f.Metadata("huggingface"); !ok {
		c.each(Note, "data-metadata", "none", path, -1, -1, "none needed for LeRobot's own loader", "no \"huggingface\" entry in the footer: the streaming reader and the hub viewer guess the types")
	} else if text, _ := f.Metadata("huggingface"); strings.Contains(text, `"_type": "List"`) || strings.Contains(text, `"_type":"List"`) {
		c.each(Note, "data-metadata", "list", path, -1, -1, "write _type \"Sequence\", which both understand", "the footer calls lists \"List\": the datasets library below 4 (openpi) refuses it")
	}
	if !c.checkIndices(path, f.Rows(), next, values) {
		return next + f.Rows()
	}
	for name, v := range values {
		if feature, err := findFeature(c.d.info.Features, name); err == nil && !isDefault(name) && feature.DType.Numeric() {
			content.add(c, feature, path, values[EpisodeIndex], v)
		}
	}
	return next + f.Rows()
}

// checkColumns compares columns with info.json and returns the numeric ones, whole.
func (c *checker) checkColumns(path string, f *pq.File) map[string][]float64 {
	values := map[string][]float64{}
	infos := map[string]pq.Info{}
	for _, col := range f.Columns() {
		infos[col.Name] = col
		feature, err := findFeature(c.d.info.Features, col.Name)
		if err != nil && c.d.info.major() == 3 {
			c.each(Error, "column-extra", col.Name, path, -1, -1, "add the feature to info.json or drop the column", "column %q is no feature of info.json; the loader stops at it", col.Name)
		} else if err == nil && feature.DType == Video {
			c.each(Error, "column-video", col.Name, path, -1, -1, "drop the column", "column %q is a video feature, whose frames belong in an mp4", col.Name)
		}
	}
	for _, feature := range c.d.info.Features {
		if feature.DType == Video {
			continue
		}
		col, ok := infos[feature.Name]
		if !ok {
			c.each(Error, "column-missing", feature.Name, path, -1, -1, "add the column or drop the feature from info.json", "feature %q has no column; the loader fills it with nulls", feature.Name)
			continue
		}
		if v := c.checkColumn(path, f, feature, col); v != nil {
			values[feature.Name] = v
		}
	}
	return values
}

// checkColumn checks type, nesting, nulls and list lengths of one column; nil when its numbers can not be used.
func (c *checker) checkColumn(path string, f *pq.File, feature Feature, col pq.Info) []float64 {
	if !feature.DType.Numeric() && feature.DType != String {
		return nil
	}
	depth := len(feature.Shape)
	if feature.Dim() == 1 && depth == 1 {
		depth = 0
	}
	if col.Depth != depth {
		c.each(Error, "column-nesting", feature.Name, path, -1, -1, "store shape (1,) as a scalar and shape (n,) as a list of n",
			"column %q is nested %d deep, shape %v wants %d; the loader does not cast that", feature.Name, col.Depth, feature.Shape, depth)
	}
	if want := string(feature.DType); col.Type != want && !(feature.DType != String && castable(col.Type, want)) {
		c.each(Error, "column-type", feature.Name, path, -1, -1, "store it as "+want, "column %q is %s, info.json says %s", feature.Name, col.Type, want)
		return nil
	} else if col.Type != want {
		c.each(Note, "column-cast", feature.Name, path, -1, -1, "store it as "+want, "column %q is %s and is cast to %s at load", feature.Name, col.Type, want)
	}
	d, err := f.Read(feature.Name, 0, f.Rows())
	if err != nil {
		c.each(Error, "column-damaged", feature.Name, path, -1, -1, "restore the file", "%v", err)
		return nil
	}
	if len(d.Null) > 0 {
		c.each(Error, "column-null", feature.Name, path, -1, d.Null[0], "fill or remove these rows", "column %q is null in %d of %d rows, first in row %d of the file", feature.Name, len(d.Null), f.Rows(), d.Null[0])
		return nil
	}
	for r := range f.Rows() {
		if n := d.Starts[r+1] - d.Starts[r]; n != feature.Dim() {
			c.each(Error, "column-length", feature.Name, path, -1, r, "store as many values as the shape says", "column %q has %d values in row %d of the file, shape %v wants %d", feature.Name, n, r, feature.Shape, feature.Dim())
			return nil
		}
	}
	v, _ := convertTo[float64](d.Values)
	return v
}

// castable tells which stored types the loader casts silently.
func castable(stored, want string) bool {
	integer := func(s string) bool { return strings.Contains(s, "int") }
	float := func(s string) bool { return strings.HasPrefix(s, "float") }
	return integer(stored) && integer(want) || float(stored) && float(want)
}

// checkIndices verifies the index columns and times row by row. False when the rows can not be told apart.
func (c *checker) checkIndices(path string, rows, next int, values map[string][]float64) bool {
	epi, frame, index, task := values[EpisodeIndex], values[FrameIndex], values[Index], values[TaskIndex]
	if epi == nil {
		return false
	}
	fps := float64(c.d.info.FPS)
	at := values[Timestamp]
	for r := range rows {
		e := int(epi[r])
		k := c.rows[e]
		c.rows[e]++
		if r > 0 && epi[r] != epi[r-1] && k > 0 {
			c.each(Error, "rows-split", "", path, e, r, "keep the rows of an episode together", "its rows stand in several places")
		}
		if frame != nil && int(frame[r]) != k {
			c.each(Error, "frame-index", "", path, e, k, "number the rows of each episode from 0", "frame_index is %v, want %d", frame[r], k)
		}
		if index != nil && int(index[r]) != next+r && c.d.info.major() == 3 {
			c.each(Error, "index", "", path, e, k, "number all rows 0, 1, 2, ... in the order of the files", "index is %v, the row is number %d over all files; the loader takes rows by number", index[r], next+r)
		}
		if at != nil {
			if off := math.Abs(at[r] - float64(k)/fps); !(off <= timeTolerance) {
				c.each(Error, "timestamp", "", path, e, k, "set timestamp to frame_index / fps and keep real times in another feature",
					"timestamp is %.6f s, frame_index / fps is %.6f s: off by %.6f s, the loader allows %g", at[r], float64(k)/fps, off, timeTolerance)
			}
		}
		if task != nil && c.d.tasks != nil && (task[r] < 0 || int(task[r]) >= len(c.d.tasks)) {
			c.each(Error, "task-index", "", path, e, k, "use a number of the task table", "task_index is %v, there are %d tasks", task[r], len(c.d.tasks))
		}
	}
	return true
}

// checkPresence compares the rows found with the episode table.
func (c *checker) checkPresence() {
	var gone []int
	c.full = true
	listed := map[int]bool{}
	for _, e := range c.d.episodes {
		listed[e.Index] = true
		switch n := c.rows[e.Index]; {
		case n == 0:
			gone = append(gone, e.Index)
			c.full = false
		case n != e.Length:
			c.full = false
			c.each(Error, "episode-rows", "", e.DataPath, e.Index, -1, "correct length in the episode table", "%d rows are there, the table says %d", n, e.Length)
		}
	}
	if len(gone) > 0 {
		c.errorf("episodes-missing", "data", "complete the copy, or keep what is there with pinch dataset extract",
			"the rows of %d of %d listed episodes are missing: %s", len(gone), len(c.d.episodes), ranges(gone))
	}
	for _, e := range slices.Sorted(maps.Keys(c.rows)) {
		if !listed[e] {
			c.each(Error, "episodes-unlisted", "", "data", e, -1, "add it to the episode table or remove its rows", "%d rows belong to an episode that is not listed", c.rows[e])
		}
	}
}

// ranges prints sorted numbers as 0, 3-7, 9.
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if i == j {
			parts = append(parts, fmt.Sprint(n[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
