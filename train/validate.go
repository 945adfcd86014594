package train

import (
	"context"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
)

// valDraws is how many noises a validation row is seen with: more draws, less scatter between rows.
const valDraws = 4

// validator computes the loss of the averaged weights on fixed rows, noises and times.
type validator struct {
	*maker
	rows    []int
	batch   int
	graph   *policy.Training
	program *cpu.Program
}

// newValidator compiles the loss graph on the averaged weights. Without held-out rows it gives NaN losses.
func newValidator(m *maker, ema *policy.Params) (*validator, error) {
	v := &validator{maker: m, rows: spread(m.val, m.cfg.ValRows)}
	if len(v.rows) == 0 {
		return v, nil
	}
	v.batch = min(m.cfg.Batch, len(v.rows))
	v.rows = v.rows[:len(v.rows)/v.batch*v.batch] // whole batches: the graph's size is fixed
	var err error
	if v.graph, err = policy.BuildLoss(m.spec, m.arch, v.batch, valDraws); err != nil {
		return nil, err
	}
	if v.program, err = cpu.Compile(v.graph.Graph, v.graph.Outputs(), cpu.Options{Threads: m.cfg.Threads}); err != nil {
		return nil, fmt.Errorf("compile validation: %w", err)
	}
	for i, info := range ema.Info {
		if err := v.program.Bind(v.graph.Params[i], ema.View(info.Name)); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", info.Name, err)
		}
	}
	return v, nil
}

// loss is the mean over the batches, each of which divides by its valid scalars.
func (v *validator) loss(ctx context.Context) (float64, error) {
	if len(v.rows) == 0 {
		return math.NaN(), nil
	}
	sum := 0.0
	for at := 0; at < len(v.rows); at += v.batch {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		b, err := v.validation(v.rows[at:at+v.batch], valDraws)
		if err != nil {
			return 0, err
		}
		for _, f := range v.graph.Feeds(b.Batch) {
			if err := v.program.Set(f.Node, f.Value); err != nil {
				return 0, fmt.Errorf("validation: %w", err)
			}
		}
		if err := v.program.Run(); err != nil {
			return 0, fmt.Errorf("validation: %w", err)
		}
		sum += v.program.Scalar(v.graph.Loss)
	}
	return sum / float64(len(v.rows)/v.batch), nil
}
