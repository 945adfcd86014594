package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// Streams of randomness; each sample draws from PCG(seed xor stream, number of the sample).
const (
	trainStream = 0x7261696e
	valStream   = 0x76616c
)

// maker fills batches with the examples of a source. Safe for concurrent use.
type maker struct {
	source
	spec       policy.Spec
	provenance policy.Provenance
	words      policy.Words
	cfg        Config
	arch       policy.Architecture
	stats      policy.Stats
	clips      policy.ClipCount
}

// filled is the batch of an optimiser step: its parts, which are accumulated, and where their samples come from, for messages.
type filled struct {
	parts   []*policy.Batch
	staged  []*xla.Staged // the parts on the devices, where the engine has devices
	origins []origin
}

// training makes batch n of the run: samples n*Batch to n*Batch+Batch-1 of the shuffled sequence, with augmentation. How the batch is
// parted does not change a sample.
func (m *maker) training(ctx context.Context, n int) (filled, error) {
	var f filled
	size := m.cfg.part()
	for p := range m.cfg.accumulated() {
		first := n*m.cfg.Batch + p*size
		examples, err := m.source.training(ctx, first, size)
		if err != nil {
			return f, err
		}
		b := m.newBatch(size, m.cfg.Draws)
		b.DropoutKey = [2]int32{int32(m.cfg.Seed), int32(n*m.cfg.accumulated() + p)}
		for i, x := range examples {
			rng := rand.New(rand.NewPCG(m.cfg.Seed^trainStream, uint64(first+i)))
			if err := m.fill(b, i, x, rng, true); err != nil {
				return f, err
			}
			f.origins = append(f.origins, x.origin)
		}
		f.parts = append(f.parts, b)
	}
	return f, nil
}

// validation makes a batch of held-out examples: no augmentation, and noise and times that depend on the example alone, so that
// losses of different steps and runs compare.
func (m *maker) validation(examples []example, draws int) (*policy.Batch, error) {
	b := m.newBatch(len(examples), draws)
	for i, x := range examples {
		rng := rand.New(rand.NewPCG(valStream, x.key))
		if err := m.fill(b, i, x, rng, false); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (m *maker) newBatch(samples, draws int) *policy.Batch {
	b := policy.NewBatch(m.spec, m.arch, samples, draws)
	b.SetWords(m.words)
	return b
}

func (m *maker) fill(b *policy.Batch, i int, x example, rng *rand.Rand, training bool) error {
	if err := m.fillExample(b, i, x, rng, training); err != nil {
		return fmt.Errorf("%v: %w", x.origin, err)
	}
	return nil
}

func (m *maker) fillExample(b *policy.Batch, i int, x example, rng *rand.Rand, training bool) error {
	frames := max(m.spec.Frames, 1)
	for c, cam := range m.spec.Cameras {
		if err := m.fillCamera(b, i, c, x.images[c*frames:(c+1)*frames], cam, rng, training); err != nil {
			return err
		}
	}
	state := make([]float64, m.spec.StateDim())
	for f := range frames {
		if err := m.spec.EncodeStateRows(state, x.rows, f); err != nil {
			return err
		}
		m.stats.NormalizeState(b.StateFrame(i, f), state, &m.clips)
	}
	if training && m.cfg.StateDropout > 0 && rng.Float64() < m.cfg.StateDropout {
		for f := range frames {
			clear(b.StateFrame(i, f))
		}
	}
	chunk, valid := make([]float64, m.spec.Horizon*m.spec.ActionDim()), make([]bool, m.spec.Horizon)
	if err := m.spec.EncodeTargetRows(chunk, valid, x.rows); err != nil {
		return err
	}
	normal := make([]float32, len(chunk))
	m.normalizeValid(normal, chunk, valid)
	b.SetChunk(i, normal, valid, rng)
	return b.SetPrompt(i, x.prompt)
}

// fillCamera writes the moments of one camera. One draw of augmentation serves all of them: a change between moments would be a motion that
// was none.
func (m *maker) fillCamera(b *policy.Batch, i, c int, frames [][]byte, cam policy.Camera, rng *rand.Rand, training bool) error {
	var same uint64
	if training && len(frames) > 1 {
		same = rng.Uint64()
	}
	for f, pix := range frames {
		if training {
			draw := rng
			if len(frames) > 1 {
				draw = rand.New(rand.NewPCG(same, 0))
			}
			changed := make([]byte, len(pix))
			m.cfg.Augment.Apply(changed, imaging.RGB{Width: cam.Geometry.Width, Height: cam.Geometry.Height, Pix: pix}, draw)
			pix = changed
		}
		if err := b.SetFrame(i, c, f, pix); err != nil {
			return err
		}
	}
	return nil
}

// normalizeValid normalises and counts clips at valid steps only; the others stay zero.
func (m *maker) normalizeValid(dst []float32, chunk []float64, valid []bool) {
	all := slices.Index(valid, false)
	if all < 0 {
		m.stats.NormalizeAction(dst, chunk, &m.clips)
		return
	}
	n := all * m.spec.ActionDim() // steps leave the episode once and stay outside
	m.stats.NormalizeAction(dst[:n], chunk[:n], &m.clips)
}
