package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
)

// Streams of randomness; each sample draws from PCG(seed xor stream, number of the sample).
const (
	trainStream = 0x7261696e
	valStream   = 0x76616c
)

// maker fills batches from the corpus. Safe for concurrent use.
type maker struct {
	*corpus
	cfg   Config
	arch  policy.Architecture
	stats policy.Stats
	clips policy.ClipCount
}

// filled is a batch with the rows it was made from, for messages.
type filled struct {
	*policy.Batch
	rows []int
}

// training makes batch n of the run: samples n*Batch .. n*Batch+Batch-1 of the shuffled sequence, with augmentation.
func (m *maker) training(rows []int, n int) (filled, error) {
	f := filled{policy.NewBatch(m.spec, m.arch, len(rows), m.cfg.Draws), rows}
	for i, row := range rows {
		rng := rand.New(rand.NewPCG(m.cfg.Seed^trainStream, uint64(n*len(rows)+i)))
		if err := m.fill(f.Batch, i, row, rng, true); err != nil {
			return f, err
		}
	}
	return f, nil
}

// validation makes a batch of held-out rows: no augmentation, and noise and times that depend on the row alone, so that losses
// of different steps and runs compare.
func (m *maker) validation(rows []int, draws int) (filled, error) {
	f := filled{policy.NewBatch(m.spec, m.arch, len(rows), draws), rows}
	for i, row := range rows {
		rng := rand.New(rand.NewPCG(valStream, uint64(row)))
		if err := m.fill(f.Batch, i, row, rng, false); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (m *maker) fill(b *policy.Batch, i, row int, rng *rand.Rand, training bool) error {
	e, t := m.data.Locate(row)
	if err := m.fillRow(b, i, row, rng, training); err != nil {
		return fmt.Errorf("episode %d, row %d: %w", e.Index, t, err)
	}
	return nil
}

func (m *maker) fillRow(b *policy.Batch, i, row int, rng *rand.Rand, training bool) error {
	e, t := m.data.Locate(row)
	for c, cam := range m.spec.Cameras {
		pix := m.data.Image(c, row)
		if training {
			changed := make([]byte, len(pix))
			m.cfg.Augment.Apply(changed, imaging.RGB{Width: cam.Geometry.Width, Height: cam.Geometry.Height, Pix: pix}, rng)
			pix = changed
		}
		if err := b.SetImage(i, c, pix); err != nil {
			return err
		}
	}
	state := make([]float64, m.spec.StateDim())
	if err := m.spec.EncodeState(state, episodeOf(e), t); err != nil {
		return err
	}
	m.stats.NormalizeState(b.State(i), state, &m.clips)
	if training && m.cfg.StateDropout > 0 && rng.Float64() < m.cfg.StateDropout {
		clear(b.State(i))
	}
	chunk, valid := make([]float64, m.spec.Horizon*m.spec.ActionDim()), make([]bool, m.spec.Horizon)
	shown := episodeOf(e)
	if training {
		shown = m.seen(e)
	}
	if err := m.spec.EncodeTargets(chunk, valid, shown, t); err != nil {
		return err
	}
	normal := make([]float32, len(chunk))
	m.normalizeValid(normal, chunk, valid)
	b.SetChunk(i, normal, valid, rng)
	return b.SetPrompt(i, m.data.Task(row))
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

// batches adapts training to a loader stream; the shuffled sequence is shared by the workers.
func (m *maker) batches() func(context.Context, int) (filled, error) {
	order := loader.NewOrder(m.train, m.cfg.Seed)
	var mu sync.Mutex // guards order
	return func(_ context.Context, n int) (filled, error) {
		rows := make([]int, m.cfg.Batch)
		mu.Lock()
		for i := range rows {
			rows[i] = order.At(n*m.cfg.Batch + i)
		}
		mu.Unlock()
		return m.training(rows, n)
	}
}
