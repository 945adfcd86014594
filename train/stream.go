package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/policy"
)

// stream is a mixture of datasets, read as training goes.
type stream struct {
	spec    policy.Spec
	mixture loader.Mixture
	train   *loader.Loader
	val     *loader.Loader // nil: nothing is held out
	numeric *loader.Loader // training windows without pictures
	offsets map[string][]int
	part    int // windows of a training batch of the loader
}

// openStream declares the Spec from the first dataset's features (or takes the given one) and opens the mixture. It names what was found
// in provenance.
func openStream(ctx context.Context, c Config, spec *policy.Spec, log *slog.Logger) (_ *stream, _ policy.Provenance, err error) {
	m, err := loader.ReadMixture(c.Mixture)
	if err != nil {
		return nil, policy.Provenance{}, err
	}
	s := &stream{mixture: m, part: c.part()}
	p, err := s.declare(c, spec)
	if err != nil {
		return nil, p, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.train, err = loader.New(ctx, m, s.config(c, loader.Train, c.part(), true, log)); err != nil {
		return nil, p, err
	}
	if s.numeric, err = loader.New(ctx, m, s.config(c, loader.Train, numericBatch, false, log)); err != nil {
		return nil, p, err
	}
	if m.Split.Share > 0 {
		if s.val, err = loader.New(ctx, m, s.config(c, loader.Val, 1, true, log)); err != nil {
			return nil, p, fmt.Errorf("held-out part (split.share %v): %w", m.Split.Share, err)
		}
	}
	p.Rows = s.train.Windows()
	for i := range p.Sets {
		p.Sets[i].Samples = s.train.Share(i)
	}
	return s, p, nil
}

// numericBatch is how many windows are read at a time where no pictures are needed.
const numericBatch = 256

// declare fixes the Spec and the provenance from the datasets' metadata.
func (s *stream) declare(c Config, spec *policy.Spec) (policy.Provenance, error) {
	p := policy.Provenance{Name: filepath.Base(c.Mixture), TrainEpisodes: []int{}, ValEpisodes: []int{}, Split: splitNone, Prompts: []string{}}
	if s.mixture.Split.Share > 0 {
		p.Split = splitEpisodes
	}
	if spec == nil {
		spec = c.Spec
	}
	all := sha256.New()
	fmt.Fprintf(all, "%v %v\n", s.mixture.SizePower, s.mixture.Split)
	for _, set := range s.mixture.Sets {
		if strings.Contains(set.Path, "://") {
			return p, fmt.Errorf("dataset %s: training needs the sets of a mixture on disk; `pinch data pull` brings them", set.Path)
		}
		ds, err := dataset.Open(set.Path)
		if err != nil {
			return p, err
		}
		features := featuresOf(ds)
		if spec == nil {
			made, err := policy.Preset(c.Preset, features, ds.Info().FPS, c.presetOptions())
			if err != nil {
				return p, fmt.Errorf("dataset %s: %w", set.Path, err)
			}
			spec = &made
		} else if err := spec.CheckFeatures(features); err != nil {
			return p, fmt.Errorf("dataset %s: %w", set.Path, err)
		}
		if spec.FPS != ds.Info().FPS {
			return p, fmt.Errorf("dataset %s has %d rows per second, the policy spec says fps %d", set.Path, ds.Info().FPS, spec.FPS)
		}
		id, err := ds.Identity()
		if err != nil {
			return p, fmt.Errorf("dataset %s: %w", set.Path, err)
		}
		fmt.Fprintf(all, "%s %v %+v\n", id, set.Weight, set.Filter)
		p.Sets = append(p.Sets, policy.SetShare{Name: filepath.Base(set.Path), Identity: id})
		p.Prompts = append(p.Prompts, ds.Tasks()...)
	}
	slices.Sort(p.Prompts)
	p.Prompts = slices.Compact(p.Prompts)
	p.Identity = hex.EncodeToString(all.Sum(nil)[:16])
	s.spec = *spec
	return p, nil
}

// config asks the loader for the rows that the Spec reads. Augmentation is not the loader's here: it belongs to the number of the sample, as for
// a dataset in memory.
func (s *stream) config(c Config, part loader.Part, batch int, pictures bool, log *slog.Logger) loader.Config {
	s.offsets = s.rowsRead()
	out := loader.Config{Batch: batch, Seed: c.Seed, Part: part, Workers: max(c.Workers, 1), DropLast: s.spec.First, CacheDir: c.CacheDir, Logger: log,
		FrameCache: int64(c.FrameCache * 1e9)}
	for _, col := range s.spec.Columns() {
		out.Columns = append(out.Columns, loader.Columns{Feature: col.Feature, Offsets: s.offsets[col.Feature]})
	}
	if !pictures {
		return out
	}
	moments := make([]int, max(s.spec.Frames, 1))
	for f := range moments {
		moments[f] = s.spec.FrameRow(f)
	}
	for _, cam := range s.spec.Cameras {
		out.Images = append(out.Images, loader.Images{Feature: cam.Feature, Geometry: cam.Geometry, Offsets: moments})
	}
	return out
}

// rowsRead lists for each column the rows around an observation that the Spec reads, sorted.
func (s *stream) rowsRead() map[string][]int {
	out := map[string][]int{}
	add := func(feature string, rows ...int) { out[feature] = append(out[feature], rows...) }
	for _, in := range s.spec.State {
		for f := range max(s.spec.Frames, 1) {
			add(in.Feature, s.spec.FrameRow(f))
		}
	}
	for _, o := range s.spec.Action {
		add(o.Feature, 0)
		for k := range s.spec.Horizon {
			add(o.Feature, s.spec.Row(k))
		}
		if o.StateFeature != "" {
			add(o.StateFeature, 0)
		}
	}
	for name, rows := range out {
		slices.Sort(rows)
		out[name] = slices.Compact(rows)
	}
	return out
}

// window gives the numbers of one window of a batch.
type window struct {
	s     *stream
	batch *loader.Batch
	i     int
}

// At implements policy.Rows. Rows before an episode's start are its first row, as the loader gives them.
func (w window) At(feature string, dim, row int) ([]float64, bool, error) {
	for k := range w.batch.Columns {
		a := &w.batch.Columns[k]
		if a.Feature != feature {
			continue
		}
		t, ok := slices.BinarySearch(w.s.offsets[feature], row)
		if !ok {
			return nil, false, fmt.Errorf("row %d of %q was not read", row, feature)
		}
		if a.Dim != dim {
			return nil, false, fmt.Errorf("column %q has %d numbers, want %d", feature, a.Dim, dim)
		}
		n := w.i*a.Times + t
		if a.Pad[n] && row > 0 {
			return nil, false, nil
		}
		v := make([]float64, dim)
		for j := range v {
			v[j] = float64(a.Values[n*dim+j])
		}
		return v, true, nil
	}
	return nil, false, fmt.Errorf("column %q was not read", feature)
}

// examples of a batch of the loader; the batch belongs to them from here on.
func (s *stream) examples(b *loader.Batch) []example {
	out := make([]example, len(b.Samples))
	for i, from := range b.Samples {
		x := example{origin: origin{s.mixture.Sets[from.Set].Path, from.Episode, from.Frame}, key: from.Number, rows: window{s, b, i}, prompt: b.Tasks[i]}
		for _, im := range b.Images {
			size := im.Height * im.Width * 3
			for t := range im.Times {
				at := (i*im.Times + t) * size
				x.images = append(x.images, im.Pix[at:at+size])
			}
		}
		out[i] = x
	}
	return out
}

func (s *stream) samples() int { return s.train.Windows() }

func (s *stream) training(ctx context.Context, first, n int) ([]example, error) {
	b, err := s.train.Batch(ctx, first/n) // parts are of one size
	if err != nil {
		return nil, err
	}
	return s.examples(b), nil
}

func (s *stream) shown(n int) (count int, heldOut bool) {
	if s.val == nil {
		return min(n, s.train.Windows()), false
	}
	return min(n, s.val.Windows()), true
}

// show reads held-out windows one by one, in the order of their shuffle; without a held-out part the first training windows.
func (s *stream) show(ctx context.Context, _, from, to int) ([]example, error) {
	var out []example
	for i := from; i < to; i++ {
		l, step, at := s.val, i, 0
		if l == nil {
			l, step, at = s.train, i/s.part, i%s.part
		}
		b, err := l.Batch(ctx, step)
		if err != nil {
			return nil, err
		}
		out = append(out, s.examples(b)[at])
	}
	return out, nil
}

func (s *stream) replayed(ctx context.Context, _, n int) ([]example, error) {
	count, heldOut := s.shown(n)
	if !heldOut {
		return nil, nil
	}
	return s.show(ctx, count, 0, count)
}

// maxFitted bounds the windows that statistics and means are measured on.
const maxFitted = 200_000

func (s *stream) fit(ctx context.Context, spec policy.Spec, rule policy.Rot6DRule) (policy.Stats, error) {
	f := policy.NewFitter(spec, rule)
	state, chunk, valid := make([]float64, spec.StateDim()), make([]float64, spec.Horizon*spec.ActionDim()), make([]bool, spec.Horizon)
	err := s.numbers(ctx, maxFitted, func(x example) error {
		if err := spec.EncodeStateRows(state, x.rows, 0); err != nil {
			return fmt.Errorf("fit normalisation: %v: %w", x.origin, err)
		}
		if err := spec.EncodeTargetRows(chunk, valid, x.rows); err != nil {
			return fmt.Errorf("fit normalisation: %v: %w", x.origin, err)
		}
		f.Add(state, chunk, valid)
		return nil
	})
	if err != nil {
		return policy.Stats{}, err
	}
	return f.Stats()
}

// numbers visits the first samples of the order, so that sets count by their weight, as they do in training.
func (s *stream) numbers(ctx context.Context, n int, visit func(example) error) error {
	n = min(n, s.numeric.Windows())
	for step := 0; step*numericBatch < n; step++ {
		b, err := s.numeric.Batch(ctx, step)
		if err != nil {
			return err
		}
		for i, x := range s.examples(b) {
			if step*numericBatch+i >= n {
				break
			}
			if err := visit(x); err != nil {
				return err
			}
		}
		b.Release()
	}
	return nil
}

// Close releases the loaders.
func (s *stream) Close() error {
	var errs []error
	for _, l := range []*loader.Loader{s.train, s.val, s.numeric} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}
