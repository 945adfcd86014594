package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// EpisodeMeta says where one episode lies.
type EpisodeMeta struct {
	// Index of the episode.
	Index int
	// Length in rows.
	Length int
	// Tasks are the distinct instructions of its rows.
	Tasks []string
	// FromIndex is the global number of its first row (dataset_from_index; computed for v2.1).
	FromIndex int
	// DataPath of its rows, relative to the dataset's root.
	DataPath string
	// Videos by feature name.
	Videos map[string]VideoSpan
	// Stats by feature name where the file has them (v2.1); those of a v3.0 dataset are read by Dataset.EpisodeStats.
	Stats map[string]Stats
	// Extra columns of meta/episodes that the format does not define: string, bool, int64, float64 or []string.
	Extra map[string]any

	data    fileIndex // v3.0: where the row's files stand
	meta    fileIndex
	content string // content hash as stored, empty when there is none
}

// VideoSpan is the part of an mp4 that belongs to one episode.
type VideoSpan struct {
	// Path relative to the dataset's root.
	Path string
	// FromTime and ToTime in seconds of the file, [from, to).
	FromTime, ToTime float64
	// FirstFrame is round(FromTime*fps): the frame of the file that shows row 0.
	FirstFrame int

	file fileIndex
}

// fileIndex is a chunk and file number.
type fileIndex struct{ chunk, file int }

// next is the number of a new file after f.
func (f fileIndex) next(chunksSize int) fileIndex {
	if f.file+1 >= chunksSize {
		return fileIndex{f.chunk + 1, 0}
	}
	return fileIndex{f.chunk, f.file + 1}
}

func (f fileIndex) less(g fileIndex) bool {
	return f.chunk < g.chunk || f.chunk == g.chunk && f.file < g.file
}

func (f fileIndex) path(template, camera string) string {
	return expand(template, map[string]any{"chunk_index": f.chunk, "file_index": f.file, "video_key": camera})
}

// Dataset is a dataset open for reading. Opening reads only meta/, and of the episode table only the columns that place the
// episodes; the other files are opened when asked for, so an incomplete copy can be read as far as it goes. Safe for concurrent use.
type Dataset struct {
	root     string
	info     Info
	table    *table        // v3.0
	once     sync.Once     // fills episodes from table
	episodes []EpisodeMeta // v2.1, and whoever asks for all
	tasks    []string
	stats    map[string]Stats

	mu    sync.Mutex
	files map[string]*dataFile // most recently used data files
	order []string
}

// Open reads the metadata of the v3.0 or v2.1 dataset at root. A change that a crash interrupted is finished or undone first,
// unless a writer is at work.
func Open(root string) (*Dataset, error) {
	if err := recoverIfNeeded(root); err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", root, err)
	}
	return openAsItIs(root)
}

// openAsItIs is Open for whoever holds the lock.
func openAsItIs(root string) (*Dataset, error) {
	info, err := readInfo(root)
	if err != nil {
		return nil, err
	}
	d := &Dataset{root: root, info: info, files: map[string]*dataFile{}}
	if info.major() == 2 {
		err = d.readV21()
	} else {
		err = d.readV30()
	}
	if err != nil {
		return nil, fmt.Errorf("open dataset %s: %w", root, err)
	}
	return d, nil
}

func (d *Dataset) readV30() (err error) {
	if d.tasks, err = readTasks(d.root); err != nil {
		return err
	}
	if d.stats, err = readStats(d.root); err != nil {
		return err
	}
	loadStats(d.info.Features, d.stats)
	if d.info.TotalEpisodes == 0 {
		return nil // an empty dataset has no episode files, which is valid
	}
	d.table, err = readTable(d.root, d.info)
	return err
}

// Root is the folder the dataset was opened from.
func (d *Dataset) Root() string { return d.root }

// Info returns meta/info.json.
func (d *Dataset) Info() Info { return d.info }

// Features returns all features in file order.
func (d *Dataset) Features() []Feature { return d.info.Features }

// Feature returns one feature; the error lists the names there are.
func (d *Dataset) Feature(name string) (Feature, error) { return findFeature(d.info.Features, name) }

// Episodes returns the episode table, in order of index. The caller must not change it. It takes about a kilobyte for each
// episode: All, NumEpisodes, Length and Locate need no more than the table itself.
func (d *Dataset) Episodes() []EpisodeMeta {
	d.once.Do(func() {
		if d.table != nil {
			d.episodes = slices.Collect(d.All())
		}
	})
	return d.episodes
}

// Episode returns the row of one episode.
func (d *Dataset) Episode(index int) (EpisodeMeta, error) {
	if d.table != nil {
		if row := d.table.row(index); row >= 0 {
			return d.table.meta(row)
		}
		return EpisodeMeta{}, d.noEpisode(index)
	}
	if index >= 0 && index < len(d.episodes) && d.episodes[index].Index == index {
		return d.episodes[index], nil
	}
	for _, e := range d.episodes {
		if e.Index == index {
			return e, nil
		}
	}
	return EpisodeMeta{}, d.noEpisode(index)
}

func (d *Dataset) noEpisode(index int) error {
	return fmt.Errorf("dataset %s has no episode %d; it lists %d", d.root, index, d.NumEpisodes())
}

// Tasks returns the instruction texts; task_index points into it.
func (d *Dataset) Tasks() []string { return d.tasks }

// Missing lists the files of an episode that are not there: its data file and one mp4 per camera, relative to the root.
func (d *Dataset) Missing(episode int) []string {
	e, err := d.Episode(episode)
	if err != nil {
		return nil
	}
	return d.missing(e)
}

func (d *Dataset) missing(e EpisodeMeta) []string {
	paths := []string{e.DataPath}
	for _, c := range d.info.cameras() {
		paths = append(paths, e.Videos[c.Name].Path)
	}
	var missing []string
	for _, p := range paths {
		if st, err := os.Stat(filepath.Join(d.root, p)); err != nil || !st.Mode().IsRegular() {
			missing = append(missing, p)
		}
	}
	return missing
}

// HasFiles reports whether the rows and every video of the episode are present. In a v3.0 file shared by many episodes
// the rows must really be in it.
func (d *Dataset) HasFiles(episode int) bool {
	e, err := d.Episode(episode)
	if err != nil || len(d.Missing(episode)) > 0 {
		return false
	}
	f, err := d.open(e.DataPath)
	if err != nil {
		return false
	}
	_, ok := f.spans[episode]
	return ok
}

// VideoFrame locates row 0 of an episode in a camera's mp4: the absolute path and the frame number there; row k is frame+k.
func (d *Dataset) VideoFrame(episode int, key string) (path string, frame int, err error) {
	e, err := d.Episode(episode)
	if err != nil {
		return "", 0, err
	}
	span, ok := e.Videos[key]
	if !ok {
		_, err := findFeature(d.info.cameras(), key)
		if err == nil {
			err = fmt.Errorf("episode %d of %s has no video of %q", episode, d.root, key)
		}
		return "", 0, err
	}
	return filepath.Join(d.root, span.Path), span.FirstFrame, nil
}

// dataFile is an open data file with the rows of each episode in it.
type dataFile struct {
	*pq.File
	spans map[int][2]int // episode to first row and row after the last

	groupOnce sync.Once
	groups    map[[2]int]int // first row and row after the last to the row group with just these
}

// openFiles bounds the data files kept open. An evicted one is closed by the garbage collector, so that a reader that
// still uses it can finish.
const openFiles = 32

// open returns the data file at a path relative to the root.
func (d *Dataset) open(path string) (*dataFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if f, ok := d.files[path]; ok {
		return f, nil
	}
	f, err := openData(filepath.Join(d.root, path))
	if err != nil {
		return nil, err
	}
	d.files[path] = f
	if d.order = append(d.order, path); len(d.order) > openFiles {
		delete(d.files, d.order[0])
		d.order = d.order[1:]
	}
	return f, nil
}

func openData(path string) (*dataFile, error) {
	f, err := pq.Open(path)
	if err != nil {
		return nil, err
	}
	column, err := f.Read(EpisodeIndex, 0, f.Rows())
	if err != nil {
		f.Close()
		return nil, err
	}
	ids, ok := column.Values.([]int64)
	if !ok || len(ids) != f.Rows() || len(column.Null) > 0 {
		f.Close()
		return nil, fmt.Errorf("column %q of %s is no complete list of whole numbers", EpisodeIndex, path)
	}
	df := &dataFile{File: f, spans: map[int][2]int{}}
	for r := 0; r < len(ids); {
		end := r + 1
		for end < len(ids) && ids[end] == ids[r] {
			end++
		}
		if _, twice := df.spans[int(ids[r])]; twice {
			f.Close()
			return nil, fmt.Errorf("rows of episode %d are in two places of %s", ids[r], path)
		}
		df.spans[int(ids[r])] = [2]int{r, end}
		r = end
	}
	return df, nil
}

// Element is a Go type that ReadColumn can return.
type Element interface {
	float32 | float64 | int32 | int64 | bool | string
}

// ReadColumn reads one non-visual column of one episode: Length*Dim values, row after row. Numbers are converted to T
// (float64 to float32 rounds; a float is not converted to a whole number); a null row, a wrong list length, a wrong
// number of rows or a missing file is an error.
func ReadColumn[T Element](d *Dataset, name string, episode int) ([]T, error) {
	f, err := d.Feature(name)
	if err != nil {
		return nil, err
	}
	if f.DType.Visual() {
		return nil, fmt.Errorf("feature %q of %s is a picture: read it with VideoFrame and package video", name, d.root)
	}
	values, err := d.readValues(f, episode)
	if err != nil {
		return nil, err
	}
	out, ok := convertTo[T](values)
	if !ok {
		var want T
		return nil, fmt.Errorf("feature %q of %s holds %T, which does not become %T", name, d.root, values, want)
	}
	return out, nil
}

// rowsOf finds the file and the rows in it of an episode.
func (d *Dataset) rowsOf(episode int) (e EpisodeMeta, file *dataFile, span [2]int, err error) {
	if e, err = d.Episode(episode); err != nil {
		return e, nil, span, err
	}
	if file, err = d.open(e.DataPath); err != nil {
		return e, nil, span, fmt.Errorf("read episode %d: %w", episode, err)
	}
	span, ok := file.spans[episode]
	if !ok {
		return e, nil, span, fmt.Errorf("read episode %d: %s has no rows of it", episode, filepath.Join(d.root, e.DataPath))
	}
	if n := span[1] - span[0]; n != e.Length {
		return e, nil, span, fmt.Errorf("read episode %d: %s has %d rows of it, the metadata says %d", episode, filepath.Join(d.root, e.DataPath), n, e.Length)
	}
	return e, file, span, nil
}

// Pictures are the picture files (PNG or JPEG) of one episode of an image feature, by row.
func (d *Dataset) Pictures(name string, episode int) ([]string, error) {
	f, err := d.Feature(name)
	if err != nil {
		return nil, err
	}
	p, err := d.readPictures(f, episode)
	return p.Bytes, err
}

// readPictures reads the encoded pictures of an image feature.
func (d *Dataset) readPictures(f Feature, episode int) (pq.Pictures, error) {
	_, file, span, err := d.rowsOf(episode)
	if err != nil {
		return pq.Pictures{}, err
	}
	p, err := file.ReadPictures(f.Name, span[0], span[1])
	if err != nil {
		return p, fmt.Errorf("read episode %d: %w", episode, err)
	}
	return p, nil
}

// readValues reads the rows of one episode in the type the file has, checked against the feature's shape.
func (d *Dataset) readValues(f Feature, episode int) (any, error) {
	e, file, span, err := d.rowsOf(episode)
	if err != nil {
		return nil, err
	}
	column, err := file.Read(f.Name, span[0], span[1])
	if err != nil {
		return nil, fmt.Errorf("read episode %d: %w", episode, err)
	}
	if len(column.Null) > 0 {
		return nil, fmt.Errorf("read episode %d: feature %q is null in row %d", episode, f.Name, column.Null[0])
	}
	for r := range e.Length {
		if n := column.Starts[r+1] - column.Starts[r]; n != f.Dim() {
			return nil, fmt.Errorf("read episode %d: feature %q has %d values in row %d, its shape %v wants %d", episode, f.Name, n, r, f.Shape, f.Dim())
		}
	}
	return column.Values, nil
}

func convertTo[T Element](values any) ([]T, bool) {
	if same, ok := values.([]T); ok {
		return same, true
	}
	var want T
	var out any
	switch any(want).(type) {
	case float32:
		out = toFloats[float32](values)
	case float64:
		out = toFloats[float64](values)
	case int64:
		out = toInts[int64](values)
	case int32:
		return nil, false
	}
	same, ok := out.([]T)
	return same, ok && same != nil
}

func toFloats[F float32 | float64](values any) []F {
	switch v := values.(type) {
	case []float32:
		return mapSlice(v, func(x float32) F { return F(x) })
	case []float64:
		return mapSlice(v, func(x float64) F { return F(x) })
	case []int32:
		return mapSlice(v, func(x int32) F { return F(x) })
	case []int64:
		return mapSlice(v, func(x int64) F { return F(x) })
	case []bool:
		return mapSlice(v, func(x bool) F {
			if x {
				return 1
			}
			return 0
		})
	}
	return nil
}

func toInts[I int64](values any) []I {
	switch v := values.(type) {
	case []int32:
		return mapSlice(v, func(x int32) I { return I(x) })
	case []bool:
		return mapSlice(v, func(x bool) I {
			if x {
				return 1
			}
			return 0
		})
	}
	return nil
}

func mapSlice[A, B any](in []A, f func(A) B) []B {
	out := make([]B, len(in))
	for i, x := range in {
		out[i] = f(x)
	}
	return out
}
