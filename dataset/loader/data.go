package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Camera is one video feature and the geometry its frames are kept in.
type Camera struct {
	Feature  string
	Geometry imaging.Geometry
}

// Options say what Open reads.
type Options struct {
	Cameras  []Camera
	Columns  []string // numeric features to keep, float64 in memory
	Episodes []int    // dataset's episode numbers; nil means every episode whose files are present
	CacheDir string   // folder of decoded frames; empty keeps them in memory only
	Workers  int      // videos decoded at a time; default one per processor
	Logger   *slog.Logger
	// Progress is called after each decoded or cached episode of a camera; calls do not overlap. May be nil.
	Progress func(done, total int)
}

// Episode is one episode inside Data.
type Episode struct {
	Index   int                  // number in the dataset
	First   int                  // row of its first frame in Data
	Length  int                  // rows
	Columns map[string][]float64 // Length*dim numbers each
	Tasks   []string             // instruction of each row
	images  [][]byte             // per camera Length*frameBytes
}

// Data holds the chosen episodes. Safe for concurrent reading.
type Data struct {
	episodes []Episode
	rowOf    []int32 // row to its place in episodes
	cameras  []Camera
	stats    DecodeStats
	unmap    []func() error
}

// DecodeStats tell how the pictures were obtained.
type DecodeStats struct {
	Decoded, Cached int           // frames
	Wall            time.Duration // of the whole picture stage
}

// FramesPerSecond is the rate of the picture stage, decoded and cached frames together.
func (s DecodeStats) FramesPerSecond() float64 {
	if s.Wall <= 0 {
		return 0
	}
	return float64(s.Decoded+s.Cached) / s.Wall.Seconds()
}

// Open reads the numbers and decodes (or finds in the cache) the pictures of the chosen episodes. An episode whose files are
// missing, a video with fewer frames than the episode has rows, or a number that is not finite is an error that names it.
func Open(ctx context.Context, ds *dataset.Dataset, o Options) (*Data, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.NumCPU()
	}
	if o.Episodes == nil {
		o.Episodes = present(ds, o.Logger)
	}
	if len(o.Episodes) == 0 {
		return nil, fmt.Errorf("load dataset %s: no episode has its files", ds.Root())
	}
	d := &Data{cameras: o.Cameras}
	for _, index := range o.Episodes {
		e, err := readEpisode(ds, index, o.Columns)
		if err != nil {
			return nil, fmt.Errorf("load dataset %s: episode %d: %w", ds.Root(), index, err)
		}
		e.First = len(d.rowOf)
		for range e.Length {
			d.rowOf = append(d.rowOf, int32(len(d.episodes)))
		}
		d.episodes = append(d.episodes, e)
	}
	if err := d.loadImages(ctx, ds, o); err != nil {
		return nil, errors.Join(fmt.Errorf("load dataset %s: %w", ds.Root(), err), d.Close())
	}
	return d, nil
}

// present lists the episodes whose files are there; incomplete copies of large datasets are common.
func present(ds *dataset.Dataset, log *slog.Logger) []int {
	var have []int
	for _, e := range ds.Episodes() {
		if ds.HasFiles(e.Index) {
			have = append(have, e.Index)
		}
	}
	if missing := len(ds.Episodes()) - len(have); missing > 0 {
		log.Warn("episodes without files are left out", "missing", missing, "present", len(have))
	}
	return have
}

func readEpisode(ds *dataset.Dataset, index int, columns []string) (Episode, error) {
	meta, err := ds.Episode(index)
	if err != nil {
		return Episode{}, err
	}
	e := Episode{Index: index, Length: meta.Length, Columns: map[string][]float64{}}
	for _, name := range columns {
		f, err := ds.Feature(name)
		if err != nil {
			return Episode{}, err
		}
		v, err := dataset.ReadColumn[float64](ds, name, index)
		if err != nil {
			return Episode{}, err
		}
		if len(v) != meta.Length*f.Dim() {
			return Episode{}, fmt.Errorf("column %q has %d numbers, want %d rows of %d", name, len(v), meta.Length, f.Dim())
		}
		if i, ok := notFinite(v); ok {
			return Episode{}, fmt.Errorf("column %q, row %d: %v is not finite; `pinch dataset check` lists such rows", name, i/f.Dim(), v[i])
		}
		e.Columns[name] = v
	}
	e.Tasks, err = tasksOf(ds, meta)
	return e, err
}

// notFinite finds the first NaN or infinity: only for those is x-x not zero.
func notFinite(v []float64) (int, bool) {
	for i, x := range v {
		if x-x != 0 {
			return i, true
		}
	}
	return 0, false
}

// tasksOf gives each row its instruction text.
func tasksOf(ds *dataset.Dataset, meta dataset.EpisodeMeta) ([]string, error) {
	index, err := dataset.ReadColumn[int64](ds, dataset.TaskIndex, meta.Index)
	if err != nil {
		return nil, err
	}
	texts := ds.Tasks()
	out := make([]string, len(index))
	for i, k := range index {
		if k < 0 || int(k) >= len(texts) {
			return nil, fmt.Errorf("row %d has task_index %d, the dataset has %d tasks", i, k, len(texts))
		}
		out[i] = texts[k]
	}
	return out, nil
}

// loadImages fills the frames of all cameras, several videos at a time.
func (d *Data) loadImages(ctx context.Context, ds *dataset.Dataset, o Options) error {
	if len(o.Cameras) == 0 {
		return nil
	}
	start := time.Now()
	store, err := newStore(ds, o)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(o.Workers)
	results := make(chan frames)
	total := len(d.episodes) * len(o.Cameras)
	for i := range d.episodes {
		d.episodes[i].images = make([][]byte, len(o.Cameras))
	}
	go func() {
		for i := range d.episodes {
			for c := range o.Cameras {
				g.Go(func() error {
					f, err := store.load(ctx, ds, d.episodes[i], o.Cameras[c])
					if err != nil {
						return fmt.Errorf("episode %d, camera %q: %w", d.episodes[i].Index, o.Cameras[c].Feature, err)
					}
					f.episode, f.camera = i, c
					results <- f // drained below until closed
					return nil
				})
			}
		}
		_ = g.Wait()
		close(results)
	}()
	done := 0
	for f := range results {
		d.episodes[f.episode].images[f.camera] = f.pix
		if f.unmap != nil {
			d.unmap = append(d.unmap, f.unmap)
		}
		if f.cached {
			d.stats.Cached += d.episodes[f.episode].Length
		} else {
			d.stats.Decoded += d.episodes[f.episode].Length
		}
		if done++; o.Progress != nil {
			o.Progress(done, total)
		}
	}
	d.stats.Wall = time.Since(start)
	return g.Wait()
}

// frames are the pictures of one camera and episode.
type frames struct {
	episode, camera int
	pix             []byte
	cached          bool
	unmap           func() error
}

// decode runs through a video once and keeps each frame at the network's size.
func decode(ctx context.Context, ds *dataset.Dataset, e Episode, c Camera) ([]byte, error) {
	path, first, err := ds.VideoFrame(e.Index, c.Feature)
	if err != nil {
		return nil, err
	}
	x, err := video.OpenIndex(path)
	if err != nil {
		return nil, err
	}
	if first+e.Length > x.Frames() {
		return nil, fmt.Errorf("%s has %d frames, the episode has %d rows from frame %d on", path, x.Frames(), e.Length, first)
	}
	im := Images{Feature: c.Feature, Geometry: c.Geometry}
	pix := bytes.NewBuffer(make([]byte, 0, e.Length*im.bytes()))
	if !video.RandomAccess { // one process for the file instead of one for each run
		err = video.Each(path, video.ReaderOptions{Geometry: &c.Geometry}, first, e.Length, func(_ int, rgb []byte) error {
			pix.Write(rgb)
			return ctx.Err()
		})
		return pix.Bytes(), err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	d := video.NewDecoder()
	defer d.Close()
	err = decodeRun(ctx, d, x, f, first, e.Length, im, pix)
	return pix.Bytes(), err
}

// Episodes lists the episodes in the order of their rows. The caller must not change them.
func (d *Data) Episodes() []Episode { return d.episodes }

// Len is the number of rows.
func (d *Data) Len() int { return len(d.rowOf) }

// Locate gives the episode of a row and the row's number inside it.
func (d *Data) Locate(row int) (e *Episode, t int) {
	e = &d.episodes[d.rowOf[row]]
	return e, row - e.First
}

// Image gives the pixels of a camera (place in Options.Cameras) at a row: Height*Width*3 bytes that must not be changed.
func (d *Data) Image(camera, row int) []byte {
	e, t := d.Locate(row)
	size := d.cameras[camera].Geometry.Width * d.cameras[camera].Geometry.Height * 3
	return e.images[camera][t*size : (t+1)*size]
}

// Task gives the instruction of a row.
func (d *Data) Task(row int) string {
	e, t := d.Locate(row)
	return e.Tasks[t]
}

// Rows lists the rows of the given episodes (dataset's numbers), in order.
func (d *Data) Rows(episodes []int) []int {
	want := map[int]bool{}
	for _, e := range episodes {
		want[e] = true
	}
	var rows []int
	for _, e := range d.episodes {
		for t := 0; t < e.Length && want[e.Index]; t++ {
			rows = append(rows, e.First+t)
		}
	}
	return rows
}

// Decoding tells how fast the pictures came.
func (d *Data) Decoding() DecodeStats { return d.stats }

// Close releases mapped cache files; Image must not be called after it.
func (d *Data) Close() error {
	var errs []error
	for _, f := range d.unmap {
		errs = append(errs, f())
	}
	d.unmap = nil
	return errors.Join(errs...)
}
