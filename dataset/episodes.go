package dataset

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// episodeFiles lists meta/episodes/*/*.parquet in the order the official loader reads them: by path as text.
func episodeFiles(root string) []string { return parquetFiles(root, "meta/episodes") }

// parquetFiles lists folder/*/*.parquet relative to the root, sorted as text.
func parquetFiles(root, folder string) []string {
	found, _ := filepath.Glob(filepath.Join(root, folder, "*", "*.parquet"))
	for i, p := range found {
		if rel, err := filepath.Rel(root, p); err == nil {
			found[i] = filepath.ToSlash(rel)
		}
	}
	sort.Strings(found)
	return found
}

// readEpisodes reads the episode table of a v3.0 dataset.
func readEpisodes(root string, info Info) ([]EpisodeMeta, error) {
	var all []EpisodeMeta
	for _, path := range episodeFiles(root) {
		some, err := readEpisodeFile(root, path, info)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("meta/episodes holds no episodes, info.json counts %d", info.TotalEpisodes)
	}
	return all, nil
}

// columns reads whole columns of one file, remembering the first error.
type columns struct {
	f   *pq.File
	err error
}

func (c *columns) read(name string) *pq.Data {
	if c.err != nil {
		return &pq.Data{}
	}
	d, err := c.f.Read(name, 0, c.f.Rows())
	if err != nil {
		c.err = err
		return &pq.Data{}
	}
	if len(d.Null) > 0 {
		c.err = fmt.Errorf("column %q is null in row %d", name, d.Null[0])
	}
	return d
}

// ints reads a scalar column of whole numbers. A merge in pandas turns them into floats, with NaN where a value is
// missing: a whole float is taken, NaN is an error.
func (c *columns) ints(name string) []int {
	d := c.read(name)
	if c.err != nil {
		return nil
	}
	if whole, ok := d.Values.([]int64); ok && len(whole) == c.f.Rows() {
		out := make([]int, len(whole))
		for i, x := range whole {
			if x < 0 || x > 1<<52 {
				c.err = fmt.Errorf("column %q is %d in row %d, want a whole number of at least 0", name, x, i)
				return nil
			}
			out[i] = int(x)
		}
		return out
	}
	out := make([]int, c.f.Rows())
	v, ok := convertTo[float64](d.Values)
	if !ok || len(v) != len(out) {
		c.err = fmt.Errorf("column %q is no list of whole numbers", name)
		return nil
	}
	for i, x := range v {
		if math.IsNaN(x) || x != math.Trunc(x) || x < 0 || x > 1<<52 {
			c.err = fmt.Errorf("column %q is %v in row %d, want a whole number", name, x, i)
			return nil
		}
		out[i] = int(x)
	}
	return out
}

func (c *columns) floats(name string) []float64 {
	d := c.read(name)
	v, ok := convertTo[float64](d.Values)
	if c.err == nil && (!ok || len(v) != c.f.Rows()) {
		c.err = fmt.Errorf("column %q is no list of numbers", name)
	}
	return v
}

func readEpisodeFile(root, path string, info Info) ([]EpisodeMeta, error) {
	f, err := pq.Open(filepath.Join(root, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &columns{f: f}
	index, length, from := c.ints("episode_index"), c.ints("length"), c.ints("dataset_from_index")
	chunk, file := c.ints("data/chunk_index"), c.ints("data/file_index")
	tasks := c.read("tasks")
	if c.err != nil {
		return nil, fmt.Errorf("read %s: %w", path, c.err)
	}
	texts, _ := tasks.Values.([]string)
	out := make([]EpisodeMeta, f.Rows())
	for r := range out {
		e := EpisodeMeta{Index: index[r], Length: length[r], FromIndex: from[r], data: fileIndex{chunk[r], file[r]},
			Videos: map[string]VideoSpan{}, Stats: map[string]Stats{}, Extra: map[string]any{}}
		e.DataPath = e.data.path(info.DataPath, "")
		if texts != nil {
			e.Tasks = texts[tasks.Starts[r]:tasks.Starts[r+1]]
		}
		if !inside(e.DataPath) {
			return nil, fmt.Errorf("read %s: episode %d lies outside the dataset at %q", path, e.Index, e.DataPath)
		}
		out[r] = e
	}
	for _, camera := range info.cameras() {
		if err := readSpans(c, camera.Name, info, out); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	if err := readRest(c, out); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

func readSpans(c *columns, camera string, info Info, out []EpisodeMeta) error {
	prefix := "videos/" + camera + "/"
	if !c.f.Has(prefix + "chunk_index") {
		return nil // the validator reports it; other columns stay readable
	}
	chunk, file := c.ints(prefix+"chunk_index"), c.ints(prefix+"file_index")
	from, to := c.floats(prefix+"from_timestamp"), c.floats(prefix+"to_timestamp")
	if c.err != nil {
		return c.err
	}
	for r := range out {
		s := VideoSpan{FromTime: from[r], ToTime: to[r], FirstFrame: int(math.Round(from[r] * float64(info.FPS))), file: fileIndex{chunk[r], file[r]}}
		s.Path = s.file.path(info.VideoPath, camera)
		if !inside(s.Path) {
			return fmt.Errorf("video of episode %d lies outside the dataset at %q", out[r].Index, s.Path)
		}
		out[r].Videos[camera] = s
	}
	return nil
}

// readRest fills statistics and the columns that the format does not define.
func readRest(c *columns, out []EpisodeMeta) error {
	for _, info := range c.f.Columns() {
		name := info.Name
		switch {
		case strings.HasPrefix(name, "stats/"):
			readStatColumn(c, name, out)
		case name == "meta/episodes/chunk_index" || name == "meta/episodes/file_index":
			for r, v := range c.ints(name) {
				if strings.HasSuffix(name, "chunk_index") {
					out[r].meta.chunk = v
				} else {
					out[r].meta.file = v
				}
			}
		case isEpisodeColumn(name):
		default:
			readExtra(c.f, info, out)
		}
	}
	return c.err
}

func isEpisodeColumn(name string) bool {
	switch name {
	case "episode_index", "tasks", "length", "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index", contentColumn:
		return true
	}
	return strings.HasPrefix(name, "videos/")
}

// readStatColumn reads "stats/<feature>/<part>". Broken or null statistics stay nil: the validator reports them.
func readStatColumn(c *columns, name string, out []EpisodeMeta) {
	readStatRows(c.f, name, 0, c.f.Rows(), mapSlice(out, func(e EpisodeMeta) map[string]Stats { return e.Stats }))
}

// readStatRows reads one such column for rows [lo, hi) into out.
func readStatRows(f *pq.File, name string, lo, hi int, out []map[string]Stats) {
	at := strings.LastIndexByte(name, '/')
	if at <= len("stats/") {
		return
	}
	feature, part := name[len("stats/"):at], name[at+1:]
	d, err := f.Read(name, lo, hi)
	if err != nil || len(d.Null) > 0 {
		return
	}
	v, ok := convertTo[float64](d.Values)
	if !ok {
		return
	}
	for r := range out {
		row := v[d.Starts[r]:d.Starts[r+1]]
		s := out[r][feature]
		if part == "count" && len(row) > 0 {
			s.Count = int64(row[0])
		} else if p := s.part(part); p != nil {
			*p = row
		}
		out[r][feature] = s
	}
}

func readExtra(f *pq.File, info pq.Info, out []EpisodeMeta) {
	d, err := f.Read(info.Name, 0, f.Rows())
	if err != nil {
		return
	}
	null := map[int]bool{}
	for _, r := range d.Null {
		null[r] = true
	}
	for r := range out {
		if null[r] {
			continue
		}
		lo, hi := d.Starts[r], d.Starts[r+1]
		switch v := d.Values.(type) {
		case []string:
			if info.Depth > 0 {
				out[r].Extra[info.Name] = v[lo:hi]
			} else {
				out[r].Extra[info.Name] = v[lo]
			}
		case []bool:
			extraScalar(out[r].Extra, info, v, lo, hi)
		case []int64:
			extraScalar(out[r].Extra, info, v, lo, hi)
		case []float64:
			extraScalar(out[r].Extra, info, v, lo, hi)
		}
	}
}

func extraScalar[T any](extra map[string]any, info pq.Info, v []T, lo, hi int) {
	if info.Depth == 0 && hi == lo+1 {
		extra[info.Name] = v[lo]
	}
}

// readTasks reads meta/tasks.parquet by value: the text of task i stands at i whatever the order of the rows.
func readTasks(root string) ([]string, error) {
	path := filepath.Join(root, tasksPath)
	f, err := pq.Open(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.Rows() == 0 {
		return nil, nil
	}
	c := &columns{f: f}
	name := taskTextColumn(f)
	if name == "" {
		return nil, fmt.Errorf("read %s: no column with the task texts (want __index_level_0__ or task)", path)
	}
	index, text := c.ints("task_index"), c.read(name)
	if c.err != nil {
		return nil, fmt.Errorf("read %s: %w", path, c.err)
	}
	texts, ok := text.Values.([]string)
	if !ok {
		return nil, fmt.Errorf("read %s: column %q holds %T, want task texts", path, name, text.Values)
	}
	tasks := make([]string, len(texts))
	seen := make([]bool, len(texts))
	for r, i := range index {
		if i >= len(tasks) || seen[i] {
			return nil, fmt.Errorf("read %s: row %d has task_index %d; %d tasks must be numbered 0 to %d once each", path, r, i, len(tasks), len(tasks)-1)
		}
		tasks[i], seen[i] = texts[r], true
	}
	return tasks, nil
}

// taskTextColumn is the column that holds the texts: the unnamed pandas index of 0.4, or "task" since 0.5.
func taskTextColumn(f *pq.File) string {
	for _, name := range []string{"__index_level_0__", "task"} {
		if f.Has(name) {
			return name
		}
	}
	return ""
}
