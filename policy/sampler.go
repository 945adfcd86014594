package policy

import (
	"fmt"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
)

// sampler draws chunks for one observation at a time with two compiled programs: the encoder runs once, the step once per
// Euler step on the encoder's keys and values.
type sampler struct {
	batch   *Batch // room for the observation of one sample
	encoder *encoderGraph
	encode  *cpu.Program
	step    *stepGraph
	move    *cpu.Program
	x, time []float32
}

func newSampler(s Spec, a Architecture, params *Params, threads int) (*sampler, error) {
	r := &sampler{batch: NewBatch(s, a, 1, 1)}
	var err error
	if r.encoder, err = buildEncoder(s, a); err != nil {
		return nil, err
	}
	if r.encode, err = cpu.Compile(r.encoder.graph, r.encoder.outputs(), cpu.Options{Threads: threads}); err != nil {
		return nil, fmt.Errorf("compile encoder: %w", err)
	}
	if r.step, err = buildStep(s, a); err != nil {
		return nil, err
	}
	if r.move, err = cpu.Compile(r.step.graph, []*op.Node{r.step.out}, cpu.Options{Threads: threads}); err != nil {
		return nil, fmt.Errorf("compile sampling step: %w", err)
	}
	if err := bind(r.encode, r.encoder.network, params); err != nil {
		return nil, err
	}
	if err := bind(r.move, r.step.network, params); err != nil {
		return nil, err
	}
	r.x = make([]float32, s.Horizon*s.ActionDim())
	r.time = make([]float32, a.times(s)*a.TimeDim)
	return r, r.batch.SetPrompt(0, "")
}

// bind makes the parameters the storage of the graph's parameter nodes.
func bind(p *cpu.Program, n *network, params *Params) error {
	for _, info := range n.info {
		view := params.View(info.Name)
		if view == nil {
			return fmt.Errorf("parameter %q is missing", info.Name)
		}
		if err := p.Bind(n.params[info.Name], view); err != nil {
			return fmt.Errorf("parameter %q: %w", info.Name, err)
		}
	}
	return nil
}

// run samples a normalised chunk for the observation in r.batch. The result is valid until the next run.
func (r *sampler) run(rng *rand.Rand) ([]float32, error) {
	b := r.batch
	for _, f := range r.encoder.in.feeds(b) {
		if err := r.encode.Set(f.Node, f.Value); err != nil {
			return nil, err
		}
	}
	if err := r.encode.Run(); err != nil {
		return nil, fmt.Errorf("encode observation: %w", err)
	}
	if err := r.pass(r.encoder.summary, r.step.summary); err != nil {
		return nil, err
	}
	for i := range r.encoder.memory.keys {
		if err := r.pass(r.encoder.memory.keys[i], r.step.memory.keys[i]); err != nil {
			return nil, err
		}
		if err := r.pass(r.encoder.memory.values[i], r.step.memory.values[i]); err != nil {
			return nil, err
		}
	}
	r.start(rng)
	return r.x, integrate(r.x, r.step.arch.SampleSteps, r.velocity)
}

// pass copies an output of the encoder to an input of the step.
func (r *sampler) pass(from, to *op.Node) error {
	return r.move.Set(to, r.encode.Float32(from))
}

func (r *sampler) velocity(dst, x []float32, t float64) error {
	dim := r.step.arch.TimeDim
	TimeFeatures(r.time[:dim], t)
	for k := dim; k < len(r.time); k += dim {
		copy(r.time[k:], r.time[:dim])
	}
	if err := r.move.Set(r.step.x, x); err != nil {
		return err
	}
	if err := r.move.Set(r.step.time, r.time); err != nil {
		return err
	}
	if err := r.move.Run(); err != nil {
		return fmt.Errorf("sampling step at t = %.3f: %w", t, err)
	}
	copy(dst, r.move.Float32(r.step.out))
	return nil
}

// start fills x with noise, or with its middle without a generator.
func (r *sampler) start(rng *rand.Rand) {
	clear(r.x)
	for i := range r.x {
		if rng != nil {
			r.x[i] = float32(rng.NormFloat64())
		}
	}
}
