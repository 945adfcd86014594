package train

import (
	"context"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
)

// valDraws is how many noises a validation row is seen with: more draws, less scatter between rows.
const valDraws = 4

// validator computes the loss of the averaged weights on fixed rows, noises and times.
type validator struct {
	*maker
	count   int // examples, in whole batches: the graph's size is fixed
	asked   int // of the source
	batch   int
	graph   *policy.Training
	program engine.Program
}

// newValidator compiles the loss graph on the averaged weights. Without held-out rows it gives NaN losses.
func newValidator(m *maker, ema *policy.Params) (*validator, error) {
	v := &validator{maker: m}
	count, heldOut := m.shown(m.cfg.ValRows)
	if !heldOut || count == 0 {
		return v, nil
	}
	v.asked, v.batch = count, min(m.cfg.part(), count)
	v.count = count / v.batch * v.batch
	var err error
	if v.graph, err = policy.BuildLoss(m.spec, m.arch, v.batch, valDraws); err != nil {
		return nil, err
	}
	eng, err := engine.Open(m.cfg.engine())
	if err != nil {
		return nil, err
	}
	if v.program, err = eng.Compile(v.graph.Graph, v.graph.Outputs()); err != nil {
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
	if v.count == 0 {
		return math.NaN(), nil
	}
	if err := v.program.Refresh(); err != nil {
		return 0, fmt.Errorf("validation: %w", err)
	}
	sum := 0.0
	for at := 0; at < v.count; at += v.batch {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		examples, err := v.show(ctx, v.asked, at, at+v.batch)
		if err != nil {
			return 0, err
		}
		b, err := v.validation(examples, valDraws)
		if err != nil {
			return 0, err
		}
		for _, f := range v.graph.Feeds(b) {
			if err := v.program.Set(f.Node, f.Value); err != nil {
				return 0, fmt.Errorf("validation: %w", err)
			}
		}
		if err := v.program.Run(); err != nil {
			return 0, fmt.Errorf("validation: %w", err)
		}
		loss, err := v.program.Read(v.graph.Loss)
		if err != nil {
			return 0, fmt.Errorf("validation: %w", err)
		}
		sum += float64(loss[0])
	}
	return sum / float64(v.count/v.batch), nil
}
