package survey

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// Tasks is the table of instructions.
type Tasks struct {
	// Found is false when there is no file.
	Found bool
	// Index and Text of each row, in the order of the file; Index is Missing where not readable.
	Index []int
	Text  []string
	// Column that holds the texts, empty when there is none; Columns counts all; Pandas tells whether the footer has pandas
	// metadata. Only of v3.0.
	Column  string
	Columns int
	Pandas  bool
}

// ByIndex maps task numbers to texts; of two rows with one number the first counts.
func (t Tasks) ByIndex() map[int]string {
	out := map[int]string{}
	for r, i := range t.Index {
		if _, twice := out[i]; !twice && i >= 0 {
			out[i] = t.Text[r]
		}
	}
	return out
}

// readTables reads the tables of a v3.0 dataset.
func (s *Set) readTables() {
	s.readTasks()
	paths := ParquetFiles(s.Root, "meta/episodes")
	type part struct {
		file     EpisodeFile
		episodes []Episode
		problems []Problem
	}
	parts := make([]part, len(paths))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, path := range paths {
		g.Go(func() error {
			t := &table{set: s, path: path}
			parts[i].file, parts[i].episodes = t.read()
			parts[i].problems = t.problems
			return nil
		})
	}
	g.Wait()
	for _, p := range parts {
		s.EpisodeFiles = append(s.EpisodeFiles, p.file)
		s.Episodes = append(s.Episodes, p.episodes...)
		s.Problems = append(s.Problems, p.problems...)
	}
}

func (s *Set) readTasks() {
	f, err := pq.Open(s.Abs(TasksPath))
	if os.IsNotExist(err) {
		return
	}
	s.Tasks.Found = true
	if err != nil {
		s.problem(TasksPath, Missing, "", err)
		return
	}
	defer f.Close()
	_, s.Tasks.Pandas = f.Metadata("pandas")
	s.Tasks.Columns = len(f.Columns())
	for _, name := range []string{"__index_level_0__", "task"} { // unnamed in 0.4, named since 0.5
		if s.Tasks.Column == "" && f.Has(name) {
			s.Tasks.Column = name
		}
	}
	t := &table{set: s, path: TasksPath, f: f}
	s.Tasks.Index = t.whole("task_index", true)
	s.Tasks.Text = make([]string, f.Rows())
	if s.Tasks.Column == "" {
		t.problem(Missing, "", fmt.Errorf("no column with the task texts (want __index_level_0__ or task)"))
	} else if d := t.column(s.Tasks.Column); d != nil {
		if texts, ok := d.Values.([]string); ok && len(texts) == f.Rows() {
			s.Tasks.Text = texts
		} else {
			t.problem(Missing, s.Tasks.Column, fmt.Errorf("it holds %T, want task texts", d.Values))
		}
	}
	s.Problems = append(s.Problems, t.problems...)
}

// table reads one file of the episode table.
type table struct {
	set      *Set
	path     string
	f        *pq.File
	problems []Problem
}

func (t *table) problem(row int, column string, err error) {
	t.problems = append(t.problems, Problem{t.path, row, column, err})
}

func (t *table) read() (EpisodeFile, []Episode) {
	file := EpisodeFile{Path: t.path}
	if t.f, file.Err = pq.Open(t.set.Abs(t.path)); file.Err != nil {
		return file, nil
	}
	defer t.f.Close()
	columns := t.f.Columns()
	for _, c := range columns {
		file.Columns = append(file.Columns, c.Name)
	}
	file.Rows = t.f.Rows()
	out := make([]Episode, file.Rows)
	for r := range out {
		out[r] = Episode{File: t.path, Row: r, Videos: map[string]Span{}, Stats: map[string]dataset.Stats{}, Extra: map[string]any{}}
	}
	for name, to := range map[string]func(*Episode) *int{
		"episode_index":      func(e *Episode) *int { return &e.Index },
		"length":             func(e *Episode) *int { return &e.Length },
		"dataset_from_index": func(e *Episode) *int { return &e.From },
		"dataset_to_index":   func(e *Episode) *int { return &e.To },
		"data/chunk_index":   func(e *Episode) *int { return &e.DataChunk },
		"data/file_index":    func(e *Episode) *int { return &e.DataFile },
	} {
		for r, v := range t.whole(name, true) {
			*to(&out[r]) = v
		}
	}
	t.tasks(out)
	for r := range out {
		if e := &out[r]; e.DataChunk >= 0 && e.DataFile >= 0 {
			e.DataPath = FilePath(t.set.Info.DataPath, "", e.DataChunk, e.DataFile)
		}
	}
	for _, c := range t.set.Cameras() {
		t.spans(c.Name, out)
	}
	for _, c := range columns {
		t.rest(c, out)
	}
	slices.SortStableFunc(t.problems, func(a, b Problem) int { return strings.Compare(a.Column, b.Column) })
	return file, out
}

// column reads a whole column; nil with a problem when it can not be read.
func (t *table) column(name string) *pq.Data {
	if !t.f.Has(name) {
		t.problem(Missing, name, fmt.Errorf("the column is missing"))
		return nil
	}
	d, err := t.f.Read(name, 0, t.f.Rows())
	if err != nil {
		t.problem(Missing, name, err)
		return nil
	}
	return d
}

// whole reads a column of whole numbers; a merge in pandas turns them into floats, with NaN where a value is missing.
func (t *table) whole(name string, must bool) []int {
	out := make([]int, t.f.Rows())
	for r := range out {
		out[r] = Missing
	}
	if !must && !t.f.Has(name) {
		return out
	}
	d := t.column(name)
	if d == nil {
		return out
	}
	v, ok := Floats(d.Values)
	if !ok || len(v) != len(out) {
		t.problem(Missing, name, fmt.Errorf("it is no list of whole numbers"))
		return out
	}
	for r, x := range v {
		if isNull(d, r) || math.IsNaN(x) || x != math.Trunc(x) || x < 0 || x > 1<<52 {
			t.problem(r, name, fmt.Errorf("it is %s, want a whole number", cell(d, r, x)))
			continue
		}
		out[r] = int(x)
	}
	return out
}

func isNull(d *pq.Data, r int) bool {
	_, null := slices.BinarySearch(d.Null, r)
	return null
}

func cell(d *pq.Data, r int, x float64) string {
	if isNull(d, r) {
		return "null"
	}
	return fmt.Sprint(x)
}

func (t *table) tasks(out []Episode) {
	d := t.column("tasks")
	if d == nil {
		return
	}
	texts, ok := d.Values.([]string)
	if !ok {
		t.problem(Missing, "tasks", fmt.Errorf("it holds %T, want lists of texts", d.Values))
		return
	}
	for r := range out {
		out[r].Tasks = texts[d.Starts[r]:d.Starts[r+1]]
	}
}

func (t *table) spans(camera string, out []Episode) {
	prefix := "videos/" + camera + "/"
	if !t.f.Has(prefix + "chunk_index") {
		return
	}
	chunk, file := t.whole(prefix+"chunk_index", true), t.whole(prefix+"file_index", true)
	from, to := t.floats(prefix+"from_timestamp"), t.floats(prefix+"to_timestamp")
	for r := range out {
		s := Span{Chunk: chunk[r], File: file[r], From: from[r], To: to[r]}
		if s.Chunk >= 0 && s.File >= 0 {
			s.Path = FilePath(t.set.Info.VideoPath, camera, s.Chunk, s.File)
		}
		out[r].Videos[camera] = s
	}
}

func (t *table) floats(name string) []float64 {
	out := make([]float64, t.f.Rows())
	for r := range out {
		out[r] = math.NaN()
	}
	d := t.column(name)
	if d == nil {
		return out
	}
	v, ok := Floats(d.Values)
	if !ok || len(v) != len(out) {
		t.problem(Missing, name, fmt.Errorf("it is no list of numbers"))
		return out
	}
	for r, x := range v {
		if !isNull(d, r) {
			out[r] = x
		}
	}
	return out
}

// rest fills statistics and the columns that the format does not define.
func (t *table) rest(c pq.Info, out []Episode) {
	switch name := c.Name; {
	case strings.HasPrefix(name, "stats/"):
		t.stats(name, out)
	case IsEpisodeColumn(name):
	default:
		t.extra(c, out)
	}
}

// IsEpisodeColumn reports whether a column of the episode table belongs to the format (statistics aside).
func IsEpisodeColumn(name string) bool {
	switch name {
	case "episode_index", "tasks", "length", "data/chunk_index", "data/file_index", "dataset_from_index", "dataset_to_index",
		"meta/episodes/chunk_index", "meta/episodes/file_index":
		return true
	}
	return strings.HasPrefix(name, "videos/")
}

// stats reads "stats/<feature>/<part>". Broken or null statistics stay nil.
func (t *table) stats(name string, out []Episode) {
	at := strings.LastIndexByte(name, '/')
	if at <= len("stats/") {
		return
	}
	feature, part := name[len("stats/"):at], name[at+1:]
	if t.set.o.SkipQuantiles && strings.HasPrefix(part, "q") {
		return
	}
	d, err := t.f.Read(name, 0, t.f.Rows())
	if err != nil || len(d.Null) > 0 {
		return
	}
	v, ok := Floats(d.Values)
	if !ok {
		return
	}
	for r := range out {
		row := v[d.Starts[r]:d.Starts[r+1]]
		s := out[r].Stats[feature]
		if part == "count" && len(row) > 0 {
			s.Count = int64(row[0])
		} else if p := Part(&s, part); p != nil {
			*p = row
		}
		out[r].Stats[feature] = s
	}
}

func (t *table) extra(c pq.Info, out []Episode) {
	d, err := t.f.Read(c.Name, 0, t.f.Rows())
	if err != nil {
		return
	}
	for r := range out {
		lo, hi := d.Starts[r], d.Starts[r+1]
		if isNull(d, r) || c.Depth == 0 && hi != lo+1 || c.Depth > 1 {
			continue
		}
		switch v := d.Values.(type) {
		case []string:
			if c.Depth == 1 {
				out[r].Extra[c.Name] = v[lo:hi]
			} else {
				out[r].Extra[c.Name] = v[lo]
			}
		case []bool:
			scalar(out[r].Extra, c, v[lo:hi])
		case []int64:
			scalar(out[r].Extra, c, v[lo:hi])
		case []float64:
			scalar(out[r].Extra, c, v[lo:hi])
		}
	}
}

func scalar[T any](extra map[string]any, c pq.Info, v []T) {
	if c.Depth == 0 && len(v) == 1 {
		extra[c.Name] = v[0]
	}
}
