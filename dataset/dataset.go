package dataset

// Info is meta/info.json.
type Info struct {
	// CodebaseVersion is "v3.0" or "v2.1".
	CodebaseVersion string
	// RobotType is empty when the file has null.
	RobotType     string
	TotalEpisodes int
	TotalFrames   int
	TotalTasks    int
	// ChunksSize is the greatest number of files (v3.0) or episodes (v2.1) in a chunk folder.
	ChunksSize int
	// DataFilesSizeMB and VideoFilesSizeMB are the roll-over sizes of v3.0 in MiB; 0 in v2.1.
	DataFilesSizeMB, VideoFilesSizeMB int
	// FPS is the row rate in Hz.
	FPS int
	// Splits maps a split's name to "from:to" in episodes.
	Splits map[string]string
	// DataPath and VideoPath are the path templates; VideoPath is empty when the file has null.
	DataPath, VideoPath string
	// Features in file order, the five default columns included.
	Features []Feature
}

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
	// Stats by feature name; nil where the file has none.
	Stats map[string]Stats
	// Extra columns of meta/episodes that the format does not define: string, bool, int64, float64 or []string.
	Extra map[string]any
}

// VideoSpan is the part of an mp4 that belongs to one episode.
type VideoSpan struct {
	// Path relative to the dataset's root.
	Path string
	// FromTime and ToTime in seconds of the file, [from, to).
	FromTime, ToTime float64
	// FirstFrame is round(FromTime*fps): the frame of the file that shows row 0.
	FirstFrame int
}

// Dataset is a dataset open for reading. Opening reads only meta/; the other files are opened when asked for, so an
// incomplete copy can be read as far as it goes. Safe for concurrent use.
type Dataset struct {
	root     string
	info     Info
	episodes []EpisodeMeta
	tasks    []string
	stats    map[string]Stats
}

// Open reads the metadata of the v3.0 or v2.1 dataset at root.
func Open(root string) (*Dataset, error) { return nil, errNotBuilt }

// Root is the folder the dataset was opened from.
func (d *Dataset) Root() string { return d.root }

// Info returns meta/info.json.
func (d *Dataset) Info() Info { return d.info }

// Features returns all features in file order.
func (d *Dataset) Features() []Feature { return d.info.Features }

// Feature returns one feature; the error lists the names there are.
func (d *Dataset) Feature(name string) (Feature, error) { return findFeature(d.info.Features, name) }

// Episodes returns the episode table, in order of index. The caller must not change it.
func (d *Dataset) Episodes() []EpisodeMeta { return d.episodes }

// Episode returns the row of one episode.
func (d *Dataset) Episode(index int) (EpisodeMeta, error) { return EpisodeMeta{}, errNotBuilt }

// Tasks returns the instruction texts; task_index points into it.
func (d *Dataset) Tasks() []string { return d.tasks }

// Stats returns meta/stats.json by feature; nil when the dataset has none (v2.1).
func (d *Dataset) Stats() map[string]Stats { return d.stats }

// Element is a Go type that ReadColumn can return.
type Element interface {
	float32 | float64 | int32 | int64 | bool | string
}

// ReadColumn reads one non-visual column of one episode: Length*Dim values, row after row. Numbers are converted to T
// when that loses nothing but float64 precision (float64 to float32); a null row, a wrong list length or a missing file is an error.
func ReadColumn[T Element](d *Dataset, name string, episode int) ([]T, error) { return nil, errNotBuilt }

// HasFiles reports whether the data file and every video file of the episode are present.
func (d *Dataset) HasFiles(episode int) bool { return false }

// VideoFrame locates row 0 of an episode in a camera's mp4: the absolute path and the frame number there; row k is frame+k.
func (d *Dataset) VideoFrame(episode int, key string) (path string, frame int, err error) {
	return "", 0, errNotBuilt
}

// Identity is a hash of the content: features, rates, tasks, rows and encoded video of every episode, whatever the file
// layout (hex SHA-256). Two copies, or a copy before and after compaction, have the same identity.
func (d *Dataset) Identity() (string, error) { return "", errNotBuilt }
