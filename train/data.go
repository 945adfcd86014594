package train

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/policy"
)

// corpus is what a run learns from.
type corpus struct {
	spec       policy.Spec
	data       *loader.Data
	train, val []int // rows that have at least one step inside their episode
	// tail is the share of each episode's end that training never sees, not even as a step of a chunk; 0 when whole episodes
	// are held out.
	tail       float64
	provenance policy.Provenance

	name  string
	mu    sync.Mutex // guards order
	order *loader.Order
}

// openCorpus reads the dataset, declares the Spec from its features (or takes the given one, of a resumed run), splits whole
// episodes and decodes the frames.
func openCorpus(ctx context.Context, c Config, spec *policy.Spec, log *slog.Logger, progress func(done, total int)) (*corpus, error) {
	ds, err := dataset.Open(c.Data)
	if err != nil {
		return nil, err
	}
	k := &corpus{name: c.Data}
	features := featuresOf(ds)
	if spec == nil {
		spec = c.Spec
	}
	if spec != nil {
		k.spec = *spec
		if err := k.spec.CheckFeatures(features); err != nil {
			return nil, fmt.Errorf("dataset %s: %w", c.Data, err)
		}
	} else if k.spec, err = policy.Preset(c.Preset, features, ds.Info().FPS, c.presetOptions()); err != nil {
		return nil, fmt.Errorf("dataset %s: %w", c.Data, err)
	}
	if k.spec.FPS != ds.Info().FPS {
		return nil, fmt.Errorf("dataset %s has %d rows per second, the policy spec says fps %d", c.Data, ds.Info().FPS, k.spec.FPS)
	}
	episodes, err := chooseEpisodes(ds, c, log)
	if err != nil {
		return nil, err
	}
	// Before the slow part: a policy must be able to say what it was trained on.
	if k.provenance.Identity, err = ds.Identity(); err != nil {
		return nil, fmt.Errorf("%w; `pinch dataset check` says what is wrong, and `pinch dataset extract` makes a dataset of the episodes that are there", err)
	}
	if err := k.load(ctx, ds, c, episodes, log, progress); err != nil {
		return nil, err
	}
	return k, k.split(c, episodes)
}

func featuresOf(ds *dataset.Dataset) []policy.Feature {
	var out []policy.Feature
	for _, f := range ds.Features() {
		out = append(out, policy.Feature{Name: f.Name, DType: string(f.DType), Shape: f.Shape})
	}
	return out
}

// chooseEpisodes takes the episodes whose files are present and, if asked for, that did not fail.
func chooseEpisodes(ds *dataset.Dataset, c Config, log *slog.Logger) ([]int, error) {
	_, err := ds.Feature(feature.SuccessPrimitive)
	marked := err == nil
	var out []int
	absent, failed := 0, 0
	for _, e := range ds.Episodes() {
		if !ds.HasFiles(e.Index) {
			absent++
			continue
		}
		if marked && c.OnlySuccess {
			good, err := dataset.ReadColumn[bool](ds, feature.SuccessPrimitive, e.Index)
			if err != nil {
				return nil, err
			}
			if slices.Contains(good, false) {
				failed++
				continue
			}
		}
		if c.MaxEpisodes == 0 || len(out) < c.MaxEpisodes {
			out = append(out, e.Index)
		}
	}
	log.Info("episodes", "used", len(out), "files_missing", absent, "failed_left_out", failed)
	if len(out) == 0 {
		return nil, fmt.Errorf("dataset %s: no episode to train on (%d without files, %d marked as failed)", c.Data, absent, failed)
	}
	return out, nil
}

func (k *corpus) load(ctx context.Context, ds *dataset.Dataset, c Config, episodes []int, log *slog.Logger, progress func(done, total int)) (err error) {
	o := loader.Options{Episodes: episodes, CacheDir: c.CacheDir, Logger: log, Progress: progress}
	for _, cam := range k.spec.Cameras {
		o.Cameras = append(o.Cameras, loader.Camera{Feature: cam.Feature, Geometry: cam.Geometry})
	}
	for _, col := range k.spec.Columns() {
		o.Columns = append(o.Columns, col.Feature)
	}
	if k.data, err = loader.Open(ctx, ds, o); err != nil {
		return err
	}
	s := k.data.Decoding()
	log.Info("frames", "decoded", s.Decoded, "from_cache", s.Cached, "frames_per_second", int(s.FramesPerSecond()))
	return nil
}

// Ways to hold rows out.
const (
	splitAuto     = "auto"
	splitEpisodes = "episodes"
	splitTail     = "tail"
	splitNone     = "none"
)

// fewEpisodes is where auto begins to hold out whole episodes: below it too little of the variety would be left.
const fewEpisodes = 5

// split holds rows out and lists the rows of both parts.
func (k *corpus) split(c Config, episodes []int) (err error) {
	p := policy.Provenance{Identity: k.provenance.Identity, Name: filepath.Base(filepath.Clean(c.Data)), Split: splitEpisodes, ValEpisodes: []int{}}
	switch {
	case c.ValShare == 0:
		p.Split, p.TrainEpisodes = splitNone, episodes
		k.train = k.usable(episodes)
	case c.ValSplit == splitTail || c.ValSplit == splitAuto && len(episodes) < fewEpisodes:
		p.Split, p.TrainEpisodes = splitTail, episodes
		k.tail = c.ValShare
		k.splitTails(episodes)
	default:
		var val []int
		if p.TrainEpisodes, val, err = loader.Split(episodes, c.ValShare, c.Seed); err != nil {
			return err
		}
		p.ValEpisodes = append(p.ValEpisodes, val...)
		k.train, k.val = k.usable(p.TrainEpisodes), k.usable(val)
	}
	if len(k.train) == 0 {
		return fmt.Errorf("dataset %s: no training row has a step of the chunk inside its episode (the first step is %d rows after the observation)", c.Data, k.spec.First)
	}
	p.Rows, p.Prompts = len(k.train), k.prompts()
	k.provenance = p
	k.order = loader.NewOrder(k.train, c.Seed)
	return nil
}

// usable lists the rows of the episodes from which at least step 0 lies inside the episode.
func (k *corpus) usable(episodes []int) []int {
	var rows []int
	for _, row := range k.data.Rows(episodes) {
		if e, t := k.data.Locate(row); t+k.spec.First < e.Length {
			rows = append(rows, row)
		}
	}
	return rows
}

func (k *corpus) splitTails(episodes []int) {
	for _, row := range k.usable(episodes) {
		e, t := k.data.Locate(row)
		switch cut := k.seen(e).Length; {
		case t+k.spec.First < cut:
			k.train = append(k.train, row)
		case t >= cut:
			k.val = append(k.val, row)
		}
	}
}

// seen is the part of an episode that training may look at.
func (k *corpus) seen(e *loader.Episode) policy.Episode {
	p := episodeOf(e)
	if k.tail == 0 {
		return p
	}
	cut := e.Length - int(k.tail*float64(e.Length)+0.5)
	out := policy.Episode{Length: cut, Columns: map[string][]float64{}}
	for name, v := range p.Columns {
		out.Columns[name] = v[:len(v)/e.Length*cut]
	}
	return out
}

// prompts are the distinct instructions of the training rows, sorted.
func (k *corpus) prompts() []string {
	seen := map[string]bool{}
	out := []string{}
	for _, row := range k.train {
		if task := k.data.Task(row); !seen[task] {
			seen[task] = true
			out = append(out, task)
		}
	}
	slices.Sort(out)
	return out
}

// samples implements source.
func (k *corpus) samples() int { return len(k.train) }

func (k *corpus) training(_ context.Context, first, n int) ([]example, error) {
	out := make([]example, n)
	k.mu.Lock()
	for i := range out {
		out[i].key = uint64(k.order.At(first + i))
	}
	k.mu.Unlock()
	for i := range out {
		out[i] = k.example(int(out[i].key), true)
	}
	return out, nil
}

// example makes the example of a row. In training the held-out end of its episode is outside.
func (k *corpus) example(row int, training bool) example {
	e, t := k.data.Locate(row)
	seen := episodeOf(e)
	if training {
		seen = k.seen(e)
	}
	x := example{origin: origin{k.name, e.Index, t}, key: uint64(row), rows: policy.Around(seen, t), prompt: k.data.Task(row)}
	for c := range k.spec.Cameras {
		for f := range max(k.spec.Frames, 1) {
			x.images = append(x.images, k.data.Image(c, max(row+k.spec.FrameRow(f), e.First)))
		}
	}
	return x
}

func (k *corpus) shown(n int) (count int, heldOut bool) {
	if len(k.val) == 0 {
		return min(n, len(k.train)), false
	}
	return min(n, len(k.val)), true
}

func (k *corpus) show(_ context.Context, n, from, to int) ([]example, error) {
	rows := k.val
	if len(rows) == 0 {
		rows = k.train
	}
	var out []example
	for _, row := range spread(rows, n)[from:to] {
		out = append(out, k.example(row, false))
	}
	return out, nil
}

func (k *corpus) replayed(_ context.Context, every, n int) ([]example, error) {
	var rows []int
	for _, row := range k.val {
		if _, t := k.data.Locate(row); t%every == 0 {
			rows = append(rows, row)
		}
	}
	var out []example
	for _, row := range spread(rows, n) {
		out = append(out, k.example(row, false))
	}
	return out, nil
}

func (k *corpus) fit(_ context.Context, spec policy.Spec, rule policy.Rot6DRule) (policy.Stats, error) {
	return policy.FitStats(spec, rule, k.trainEpisodes())
}

func (k *corpus) numbers(ctx context.Context, n int, visit func(example) error) error {
	for _, row := range spread(k.train, n) {
		e, t := k.data.Locate(row)
		if err := visit(example{origin: origin{k.name, e.Index, t}, rows: policy.Around(k.seen(e), t)}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Close releases the pictures.
func (k *corpus) Close() error {
	if k.data == nil {
		return nil
	}
	return k.data.Close()
}

// episodeOf gives the numbers of a loaded episode in the policy's form.
func episodeOf(e *loader.Episode) policy.Episode {
	return policy.Episode{Length: e.Length, Columns: e.Columns}
}

// trainEpisodes are the episodes that statistics are measured on.
func (k *corpus) trainEpisodes() []policy.Episode {
	var out []policy.Episode
	for _, e := range k.data.Episodes() {
		if slices.Contains(k.provenance.TrainEpisodes, e.Index) {
			out = append(out, k.seen(&e))
		}
	}
	return out
}

// spread picks at most n rows at equal distances.
func spread(rows []int, n int) []int {
	if len(rows) <= n {
		return rows
	}
	out := make([]int, n)
	for i := range out {
		out[i] = rows[i*len(rows)/n]
	}
	return out
}
