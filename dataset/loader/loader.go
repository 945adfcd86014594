package loader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
)

// Loader delivers batches of windows from a mixture of datasets. Batch n is a pure function of the mixture, the Config and n.
// Memory does not grow with the size of the datasets but for some 40 bytes an episode. Safe for concurrent use.
type Loader struct {
	cfg     Config
	log     *slog.Logger
	sets    []*set
	dims    []int // of each column
	order   *sampler
	videos  *videos
	frames  *frameCache
	workers chan *worker // at rest
	spare   chan *Batch
	fetched atomic.Int64 // bytes that came from buckets
	decoded atomic.Int64 // frames
	cached  atomic.Int64 // frames that came from the cache
}

// New opens the sets of a mixture, makes what is missing of their column stores, and begins to fill the frame cache. An error
// names the dataset and, where it is about one, the episode. Close the Loader.
func New(ctx context.Context, m Mixture, cfg Config) (_ *Loader, err error) {
	cfg, err = cfg.fill()
	if err != nil {
		return nil, fmt.Errorf("loader: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("loader: mixture: %w", err)
	}
	l := &Loader{cfg: cfg, log: cfg.Logger, sets: make([]*set, len(m.Sets)), videos: newVideos(),
		workers: make(chan *worker, cfg.Workers), spare: make(chan *Batch, cfg.Workers+cfg.Ahead+1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.Close())
		}
	}()
	if err := l.openSets(ctx, m); err != nil {
		return nil, err
	}
	if err := l.layOut(m); err != nil {
		return nil, err
	}
	for range cfg.Workers {
		l.workers <- newWorker(l)
	}
	if cfg.FrameCache > 0 && len(cfg.Images) > 0 {
		l.frames, err = newFrameCache(l)
	}
	return l, err
}

// openSets opens several sets at a time.
func (l *Loader) openSets(ctx context.Context, m Mixture) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(l.cfg.Workers)
	for i, s := range m.Sets {
		g.Go(func() (err error) {
			l.sets[i], err = l.openSet(ctx, s, m)
			return err
		})
	}
	return g.Wait()
}

// layOut checks that the sets agree in the shape of their columns and draws up the order.
func (l *Loader) layOut(m Mixture) (err error) {
	sizes, weights := make([]int, len(l.sets)), make([]float64, len(l.sets))
	for i, s := range l.sets {
		sizes[i], weights[i] = s.windows(), m.Sets[i].Weight
		if sizes[i] == 0 {
			l.log.Warn("a dataset has no window", "dataset", s.path, "episodes", len(s.episodes))
		}
		for k, c := range s.columns {
			if i == 0 {
				l.dims = append(l.dims, c.dim)
			}
			if c.dim != l.dims[k] {
				return fmt.Errorf("loader: feature %q has %d elements in %s and %d in %s", l.cfg.Columns[k].Feature, l.dims[k], l.sets[0].path, c.dim, s.path)
			}
		}
	}
	if l.order, err = newSampler(sizes, weights, m.SizePower, l.cfg.Seed); err != nil {
		return fmt.Errorf("loader: %w", err)
	}
	for i, s := range l.sets {
		if sizes[i] > 0 && weights[i] > 0 && l.order.share(i) == 0 {
			l.log.Warn("the weight of a dataset is too small for one window in an epoch", "dataset", s.path)
		}
	}
	return nil
}

// Windows is the number of windows, which is the samples of an epoch. Steps of one epoch: Windows / (Batch * World).
func (l *Loader) Windows() int { return int(l.order.epoch()) }

// Episodes is the number of episodes that are drawn from.
func (l *Loader) Episodes() int {
	n := 0
	for _, s := range l.sets {
		n += len(s.episodes)
	}
	return n
}

// Share is how many samples of each epoch come from a set of the mixture.
func (l *Loader) Share(set int) int { return int(l.order.share(set)) }

// Sample says where sample n of the endless order comes from. It costs less than a microsecond.
func (l *Loader) Sample(n uint64) Sample {
	s, _, _ := l.place(n)
	return s
}

// place finds sample n: its origin, its set and the episode's place in the set.
func (l *Loader) place(n uint64) (Sample, *set, int) {
	i, window := l.order.at(n)
	s := l.sets[i]
	at, frame := s.locate(int64(window))
	return Sample{Number: n, Set: i, Episode: s.episodes[at].index, Frame: frame}, s, at
}

// Batch makes batch number step of this rank. Errors name dataset, episode and frame.
func (l *Loader) Batch(ctx context.Context, step int) (*Batch, error) {
	select {
	case w := <-l.workers:
		defer func() { l.workers <- w }()
		return w.batch(ctx, step)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Start makes batches first, first+1, ... below end ahead of the consumer.
func (l *Loader) Start(ctx context.Context, first, end int) *Stream[*Batch] {
	return Start(ctx, l.cfg.Workers, l.cfg.Ahead, first, end, l.Batch)
}

// Stats count since the Loader was made.
type Stats struct {
	Decoded, Cached int64 // frames from video, frames from the cache
	Fetched         int64 // bytes read from buckets
}

// Stats tells what was done so far.
func (l *Loader) Stats() Stats {
	return Stats{Decoded: l.decoded.Load(), Cached: l.cached.Load(), Fetched: l.fetched.Load()}
}

// WaitCache waits until the frame cache holds every episode or its limit is reached, and returns the first fault of making it.
// progress may be nil.
func (l *Loader) WaitCache(ctx context.Context, progress func(done, total int)) error {
	if l.frames == nil {
		return nil
	}
	return l.frames.wait(ctx, progress)
}

// Close stops the background work and releases everything. No batch may be in work; batches that were made stay valid.
func (l *Loader) Close() error {
	var errs []error
	if l.frames != nil {
		errs = append(errs, l.frames.close())
	}
	for range len(l.workers) {
		(<-l.workers).close()
	}
	for _, s := range l.sets {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}

// taskOf gives the instruction of a row of the column files.
func (s *set) taskOf(row int64) (string, error) {
	k := s.task.float(row)
	if k < 0 || int(k) >= len(s.tasks) {
		return "", fmt.Errorf("%s is %v, the dataset has %d tasks", dataset.TaskIndex, k, len(s.tasks))
	}
	return s.tasks[int(k)], nil
}

// Picture is a frame of a video file that a batch shows.
type Picture struct {
	Path  string `json:"path"`
	Frame int    `json:"frame"` // in order of presentation
}

// Pictures lists the frames of the videos that batch number step shows, for other readers to compare with: for each window in
// turn, its images in the order of the Config, and their offsets.
func (l *Loader) Pictures(step int) []Picture {
	var out []Picture
	first := l.first(step)
	for i := range uint64(l.cfg.Batch) {
		sample, s, at := l.place(first + i)
		for k, im := range l.cfg.Images {
			c := s.videos[k][at]
			for _, offset := range im.Offsets {
				frame, _ := clamp(sample.Frame+offset, s.episodes[at].length)
				out = append(out, Picture{s.files.name(s.paths[c.path]), int(c.frame) + frame})
			}
		}
	}
	return out
}

// first is the number of the first sample of a step of this rank.
func (l *Loader) first(step int) uint64 {
	return uint64(step)*uint64(l.cfg.Batch*l.cfg.World) + uint64(l.cfg.Rank*l.cfg.Batch)
}
