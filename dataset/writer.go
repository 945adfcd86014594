package dataset

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Options describe a new dataset.
type Options struct {
	// FPS is the row rate in Hz; every video must have exactly this rate.
	FPS int
	// RobotType is free text for info.json; empty writes null.
	RobotType string
	// Features of the caller in the order info.json lists them; DefaultFeatures are appended.
	// The writer takes scalars and vectors (Float32, Float64, Int32, Int64, Bool), scalar String, and Video.
	Features []Feature
	// Writer settings that do not change the meaning of the data.
	WriterOptions
}

// WriterOptions are the settings of an open writer.
type WriterOptions struct {
	// Logger gets one line for each recovery and published episode; nil is silent.
	Logger *slog.Logger
	// ImageWorkers is how many goroutines decode sampled frames for image statistics; default 2.
	ImageWorkers int
	// SkipImageStats leaves picture statistics to Episode.ImageStats: AddEpisode fails if a camera has none there.
	SkipImageStats bool

	fault func(op, path string) error // tests only
	trace func(op, path, to string)
}

// Episode is what AddEpisode writes. The writer fills the five default columns itself.
type Episode struct {
	// Length is the number of rows, at least 1.
	Length int
	// Tasks holds one instruction for all rows, or one per row.
	Tasks []string
	// Columns maps each non-video feature to its values, row after row: []float32, []float64, []int32, []int64,
	// []bool or []string of Length*Dim elements, of exactly the feature's type. NaN and infinity are refused.
	Columns map[string]any
	// Videos maps each video feature to an mp4 of exactly Length frames at times k/FPS. A file under Writer.Scratch
	// is moved into the dataset (and gone if AddEpisode fails); any other file is copied.
	Videos map[string]string
	// ImageStats of video features, when the caller has them from the frames (see ImageAccumulator); else the writer
	// decodes a sample of the mp4.
	ImageStats map[string]Stats
	// Extra columns of meta/episodes, such as the hash of the source recording or the success flag: string, bool, int64,
	// float64 or []string. The first episode of a dataset fixes the set and the types.
	Extra map[string]any
}

// Writer adds episodes to a dataset. Each accepted episode is durable when AddEpisode returns: every file is synced
// before meta/info.json is renamed into place. Not safe for concurrent use; one writer per dataset (a lock file holds that).
type Writer struct {
	root string
	o    WriterOptions
	log  *slog.Logger
	disk disk
	lock *os.File

	info     Info
	tasks    []string
	stats    map[string]Stats
	episodes int
	frames   int
	extra    []extraColumn // fixed by the first episode
	data     fileIndex     // next file numbers
	meta     fileIndex
	video    map[string]fileIndex
	content  bool // episodes carry a content hash: those there are, or none are there
	added    bool
	broken   error
}

// ErrLocked is returned when another process has the dataset open for writing.
var ErrLocked = errors.New("the dataset is open for writing elsewhere")

// Create makes an empty dataset at root, which must not exist or be an empty folder.
func Create(root string, o Options) (*Writer, error) {
	info, err := newInfo(o)
	if err != nil {
		return nil, fmt.Errorf("create dataset %s: %w", root, err)
	}
	if left, err := os.ReadDir(root); err == nil {
		for _, e := range left {
			if e.Name() != workDir {
				return nil, fmt.Errorf("create dataset %s: the folder is not empty (it holds %s); choose another or open it for writing", root, e.Name())
			}
		}
	}
	w, err := newWriter(root, o.WriterOptions)
	if err != nil {
		return nil, fmt.Errorf("create dataset %s: %w", root, err)
	}
	w.info, w.stats, w.video, w.content = info, map[string]Stats{}, map[string]fileIndex{}, true
	if err := w.publishEmpty(); err != nil {
		w.release()
		return nil, fmt.Errorf("create dataset %s: %w", root, err)
	}
	return w, nil
}

// newWriter locks the folder and cleans up after a crash.
func newWriter(root string, o WriterOptions) (*Writer, error) {
	w := &Writer{root: root, added: disk{root: root}.exists(provisionalMark), o: o, log: o.Logger, disk: disk{root: root, fault: o.fault, trace: o.trace}}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	w.log = w.log.With("dataset", root)
	if w.o.ImageWorkers <= 0 {
		w.o.ImageWorkers = 2
	}
	var err error
	if w.lock, err = w.disk.lock(); err != nil {
		return nil, err
	}
	did, err := w.disk.recover()
	if err != nil {
		w.release()
		return nil, err
	}
	if did != "" {
		w.log.Warn("recovered after a crash", "did", did)
	}
	return w, nil
}

func (w *Writer) publishEmpty() error {
	b, err := w.info.encode()
	if err != nil {
		return err
	}
	c := &change{d: w.disk}
	if err := c.addBytes(infoPath, b); err != nil {
		return err
	}
	if err := c.publish(); err != nil {
		return err
	}
	return w.disk.remove(stageDir)
}

// OpenWriter opens the v3.0 dataset at root to add episodes. It first finishes or rolls back what a crash left behind:
// an episode whose redo log is complete is published, everything else in staging is removed. A dataset whose metadata
// and files disagree is refused.
func OpenWriter(root string, o WriterOptions) (*Writer, error) {
	if _, err := readInfo(root); err != nil {
		if (disk{root: root}).exists(commitLog) {
			err = nil // the first save was interrupted before info.json moved
		}
		if err != nil {
			return nil, err
		}
	}
	w, err := newWriter(root, o)
	if err != nil {
		return nil, fmt.Errorf("open dataset for writing: %w", err)
	}
	if err := w.load(); err != nil {
		w.release()
		return nil, fmt.Errorf("open dataset %s for writing: %w", root, err)
	}
	return w, nil
}

// load reads the state of an existing dataset and verifies that nothing in it contradicts.
func (w *Writer) load() error {
	d, err := openAsItIs(w.root)
	if err != nil {
		return err
	}
	if d.info.major() != 3 {
		return fmt.Errorf("format %s can not be extended; convert it to %s first (pinch dataset convert)", d.info.CodebaseVersion, Version)
	}
	w.info, w.tasks, w.video, w.content = d.info, d.tasks, map[string]fileIndex{}, true
	if err := checkFeatures(w.userFeatures()); err != nil {
		return err
	}
	if d.NumEpisodes() != d.info.TotalEpisodes {
		return fmt.Errorf("info.json counts %d episodes, meta/episodes has %d: run pinch dataset check", d.info.TotalEpisodes, d.NumEpisodes())
	}
	files := map[string]bool{}
	for i := range d.NumEpisodes() {
		e, err := d.at(i)
		if err != nil {
			return err
		}
		if e.Index != i || e.FromIndex != w.frames {
			return fmt.Errorf("row %d of meta/episodes is episode %d from row %d, want %d from %d: run pinch dataset check", i, e.Index, e.FromIndex, i, w.frames)
		}
		if err := d.filesThere(e, files); err != nil {
			return err
		}
		w.account(e)
		w.extra = extraColumns(e.Extra)
	}
	if d.table != nil {
		w.content = d.table.hashed
	}
	if w.frames != d.info.TotalFrames {
		return fmt.Errorf("info.json counts %d rows, the episodes have %d: run pinch dataset check", d.info.TotalFrames, w.frames)
	}
	if err := w.loadStats(d); err != nil {
		return err
	}
	return w.refuseOrphans(files)
}

// filesThere looks once for each file of an episode.
func (d *Dataset) filesThere(e EpisodeMeta, seen map[string]bool) error {
	look := func(path string) error {
		if seen[path] {
			return nil
		}
		seen[path] = true
		if st, err := os.Stat(filepath.Join(d.root, path)); err != nil || !st.Mode().IsRegular() {
			return fmt.Errorf("episode %d: %s is missing: run pinch dataset check", e.Index, path)
		}
		return nil
	}
	if err := look(e.DataPath); err != nil {
		return err
	}
	for _, c := range d.info.cameras() {
		if err := look(e.Videos[c.Name].Path); err != nil {
			return err
		}
	}
	return nil
}

// loadStats takes the statistics of the rows so far from stats.json when they count all rows, else from the episodes.
func (w *Writer) loadStats(d *Dataset) error {
	if s, ok := d.stats[Index]; ok && s.complete(1) && s.Count == int64(w.frames) {
		w.stats = maps.Clone(d.stats)
		return nil
	}
	w.stats = map[string]Stats{}
	for i := range d.NumEpisodes() {
		stats, err := d.statsAt(i)
		if err != nil {
			return err
		}
		for name, s := range stats {
			if have := w.stats[name]; have.Count == 0 || len(have.Mean) == len(s.Mean) {
				w.stats[name] = merge(have, s)
			}
		}
	}
	return nil
}

// refuseOrphans stops when data/ holds files of no episode: the official loader would read their rows.
func (w *Writer) refuseOrphans(known map[string]bool) error {
	for _, p := range parquetFiles(w.root, "data") {
		if !known[p] {
			return fmt.Errorf("%s belongs to no episode: move it out of the dataset", p)
		}
	}
	return nil
}

// account adds a published episode to the running totals.
func (w *Writer) account(e EpisodeMeta) {
	w.episodes++
	w.frames += e.Length
	size := w.info.ChunksSize
	if n := e.data.next(size); w.data.less(n) {
		w.data = n
	}
	if n := e.meta.next(size); w.meta.less(n) {
		w.meta = n
	}
	for name, v := range e.Videos {
		if n := v.file.next(size); w.video[name].less(n) {
			w.video[name] = n
		}
	}
}

func (w *Writer) userFeatures() []Feature {
	return slices.DeleteFunc(slices.Clone(w.info.Features), func(f Feature) bool { return isDefault(f.Name) })
}

// Scratch is a folder inside the dataset, on the same file system, to encode videos into. It is emptied when the
// writer opens and closes, so a killed recording leaves nothing behind.
func (w *Writer) Scratch() string { return w.disk.abs(scratchDir) }

// NumEpisodes is the number of published episodes.
func (w *Writer) NumEpisodes() int { return w.episodes }

// AddEpisode checks ep, writes its file set and publishes it. It returns the episode's index. On error the dataset is as
// before the call.
func (w *Writer) AddEpisode(ctx context.Context, ep Episode) (int, error) {
	if w.broken != nil {
		return 0, fmt.Errorf("add episode to %s: the writer stopped after an error: %w", w.root, w.broken)
	}
	if w.lock == nil {
		return 0, fmt.Errorf("add episode to %s: the writer is closed", w.root)
	}
	b, err := w.build(ctx, ep)
	if err == nil && !w.added { // a later Close knows that stats.json is not final, also after a crash
		err = w.disk.writeBytes(provisionalMark, nil)
	}
	if err == nil {
		err = b.change.publish()
	}
	if e := w.disk.remove(stageDir); e != nil && err == nil {
		w.log.Warn("could not empty the working folder", "err", e) // the next writer does it
	}
	if err != nil {
		if errors.Is(err, errUndecided) {
			w.broken = err
		}
		return 0, fmt.Errorf("add episode %d to %s: %w", w.episodes, w.root, err)
	}
	w.info, w.tasks, w.extra, w.added = b.info, b.tasks, b.extra, true
	w.account(b.meta)
	w.stats = b.stats
	w.log.Info("episode published", "episode", b.meta.Index, "rows", b.meta.Length)
	return b.meta.Index, nil
}

// Close rewrites meta/stats.json with quantiles computed from all rows, removes the working folder and releases the lock.
func (w *Writer) Close() error {
	if w.lock == nil {
		return nil
	}
	defer w.release()
	if w.broken != nil || !w.added {
		return nil
	}
	if err := w.finalStats(); err != nil {
		return fmt.Errorf("close dataset %s: write statistics: %w", w.root, err)
	}
	return nil
}

// release removes the working folder and frees the lock. A folder with an open redo log stays for the next writer.
func (w *Writer) release() {
	if w.lock == nil {
		return
	}
	if !w.disk.exists(commitLog) && !w.disk.exists(abortLog) {
		os.RemoveAll(w.disk.abs(workDir))
	}
	w.lock.Close()
	w.lock = nil
}

// newInfo checks options and makes the info of an empty dataset.
func newInfo(o Options) (Info, error) {
	if o.FPS <= 0 {
		return Info{}, fmt.Errorf("fps is %d, want a positive whole number", o.FPS)
	}
	if err := checkFeatures(o.Features); err != nil {
		return Info{}, err
	}
	info := Info{CodebaseVersion: Version, RobotType: o.RobotType, ChunksSize: defaultChunksSize, DataFilesSizeMB: defaultDataFileMB,
		VideoFilesSizeMB: defaultVideoFileMB, FPS: o.FPS, Splits: map[string]string{}, DataPath: defaultDataPath}
	for _, f := range o.Features {
		f.Shape = slices.Clone(f.Shape)
		if f.DType == Video {
			info.VideoPath = defaultVideoPath
			f.Names, f.Info = []string{"height", "width", "channels"}, nil
		}
		info.Features = append(info.Features, f)
	}
	info.Features = append(info.Features, DefaultFeatures()...)
	return info, nil
}

// checkFeatures refuses what LeRobot's loader or tools can not take.
func checkFeatures(features []Feature) error {
	seen := map[string]bool{}
	for _, f := range features {
		if err := checkFeature(f); err != nil {
			return fmt.Errorf("feature %q: %w", f.Name, err)
		}
		if seen[f.Name] || isDefault(f.Name) {
			return fmt.Errorf("feature %q: the name is taken", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

func checkFeature(f Feature) error {
	switch {
	case f.Name == "" || strings.Contains(f.Name, "/"):
		return errors.New("a name must not be empty or contain \"/\"")
	case f.DType == Video:
		if len(f.Shape) != 3 || f.Shape[0] <= 0 || f.Shape[1] <= 0 || f.Shape[2] != 3 {
			return fmt.Errorf("shape %v, want {height, width, 3}", f.Shape)
		}
		if filepath.IsLocal(f.Name) {
			return nil
		}
		return errors.New("the name can not be a folder")
	case f.DType == String:
		if len(f.Shape) != 1 || f.Shape[0] != 1 {
			return fmt.Errorf("shape %v, want {1} for a string", f.Shape)
		}
		return nil
	case !slices.Contains([]DType{Float32, Float64, Int32, Int64, Bool}, f.DType):
		return fmt.Errorf("type %q is not written here; choose float32, float64, int32, int64, bool, string or video", f.DType)
	case len(f.Shape) != 1 || f.Shape[0] < 1:
		return fmt.Errorf("shape %v, want {n} with n of at least 1", f.Shape)
	case len(f.Names) != 0 && len(f.Names) != f.Shape[0]:
		return fmt.Errorf("%d names for %d elements", len(f.Names), f.Shape[0])
	case strings.Contains(f.Name, "image") && f.Shape[0] != 1 && f.Shape[0] != 3:
		return fmt.Errorf("LeRobot's merge takes every name with \"image\" for a picture and refuses its statistics unless it has 1 or 3 elements, this has %d: choose another name", f.Shape[0])
	}
	return nil
}
