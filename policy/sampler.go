package policy

import (
	"fmt"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
)

// sampler draws chunks for one observation at a time with two compiled programs: the encoder runs once, the step once per
// Euler step on the encoder's keys and values.
//
// On XLA's devices both are one program, flow, whose loop over the Euler steps stays on the device.
type sampler struct {
	batch   *Batch // room for the observation of one sample
	encoder *encoderGraph
	encode  engine.Program
	step    *stepGraph
	move    engine.Program
	flow    engine.Program // nil on the processor; then encode and move are nil
	x, time []float32
	prefix  []float32 // committed first steps of the next run, normalised; empty without
}

func newSampler(s Spec, a Architecture, words Words, params *Params, eng *engine.Engine) (*sampler, error) {
	r := &sampler{batch: NewBatch(s, a, 1, 1)}
	r.batch.SetWords(words)
	var err error
	if r.encoder, err = buildEncoder(s, a); err != nil {
		return nil, err
	}
	if r.step, err = buildStep(s, a); err != nil {
		return nil, err
	}
	r.x = make([]float32, s.Horizon*s.ActionDim())
	r.time = make([]float32, a.times(s)*a.TimeDim)
	if eng.Client() != nil {
		return r, r.compileFlow(params, eng)
	}
	if r.encode, err = eng.Compile(r.encoder.graph, r.encoder.outputs()); err != nil {
		return nil, fmt.Errorf("compile encoder: %w", err)
	}
	if r.move, err = eng.Compile(r.step.graph, []*op.Node{r.step.out}); err != nil {
		return nil, fmt.Errorf("compile sampling step: %w", err)
	}
	if err := bind(r.encode, r.encoder.network, params); err != nil {
		return nil, err
	}
	if err := bind(r.move, r.step.network, params); err != nil {
		return nil, err
	}
	return r, r.batch.SetPrompt(0, "")
}

// compileFlow compiles the sampler as one program of the device.
func (r *sampler) compileFlow(params *Params, eng *engine.Engine) error {
	steps := r.step.arch.SampleSteps
	f := xla.Flow{Encoded: r.encoder.outputs(), X: r.step.x, Time: r.step.time, Velocity: r.step.out}
	f.Inputs = append(append(append(f.Inputs, r.step.summary), r.step.memory.keys...), r.step.memory.values...)
	for k := range steps {
		r.features(1 - float64(k)/float64(steps))
		f.Times = append(f.Times, append([]float32(nil), r.time...))
	}
	if r.step.committed != nil {
		dim := r.step.arch.TimeDim
		f.Committed, f.Clean = r.step.committed, make([]float32, len(r.time))
		for k := 0; k < len(f.Clean); k += dim {
			TimeFeatures(f.Clean[k:k+dim], 0)
		}
	}
	p, err := eng.Client().CompileFlow(f, eng.XLA(false))
	if err != nil {
		return fmt.Errorf("compile sampler: %w", err)
	}
	r.flow = p
	for _, n := range []*network{r.encoder.network, r.step.network} {
		if err := bind(p, n, params); err != nil {
			return err
		}
	}
	return r.batch.SetPrompt(0, "")
}

// bind makes the parameters the storage of the graph's parameter nodes.
func bind(p engine.Program, n *network, params *Params) error {
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

// refresh makes changed parameters known to the programs.
func (r *sampler) refresh() error {
	for _, p := range []engine.Program{r.encode, r.move, r.flow} {
		if p == nil {
			continue
		}
		if err := p.Refresh(); err != nil {
			return fmt.Errorf("refresh parameters: %w", err)
		}
	}
	return nil
}

// run samples a normalised chunk for the observation in r.batch. The result is valid until the next run.
func (r *sampler) run(rng *rand.Rand) ([]float32, error) {
	b := r.batch
	encode := r.encode
	if r.flow != nil {
		encode = r.flow
	}
	for _, f := range r.encoder.in.feeds(b) {
		if err := encode.Set(f.Node, f.Value); err != nil {
			return nil, err
		}
	}
	if r.flow != nil {
		return r.runFlow(rng)
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
	if mask := r.step.memory.mask; mask != nil {
		if err := r.move.Set(mask, b.context); err != nil {
			return nil, err
		}
	}
	r.start(rng)
	copy(r.x, r.prefix)
	return r.x, integrate(r.x, r.step.arch.SampleSteps, r.velocity)
}

// runFlow runs the one program of a device, whose observation has been set.
func (r *sampler) runFlow(rng *rand.Rand) ([]float32, error) {
	if mask := r.step.memory.mask; mask != nil {
		if err := r.flow.Set(mask, r.batch.context); err != nil {
			return nil, err
		}
	}
	r.start(rng)
	copy(r.x, r.prefix)
	if r.step.committed != nil {
		held := make([]float32, r.step.spec.Horizon)
		for k := range len(r.prefix) / r.step.spec.ActionDim() {
			held[k] = 1
		}
		if err := r.flow.Set(r.step.committed, held); err != nil {
			return nil, err
		}
	}
	if err := r.flow.Set(r.step.x, r.x); err != nil {
		return nil, err
	}
	if err := r.flow.Run(); err != nil {
		return nil, fmt.Errorf("sample: %w", err)
	}
	return r.flow.Read(r.step.out)
}

// pass copies an output of the encoder to an input of the step.
func (r *sampler) pass(from, to *op.Node) error {
	v, err := r.encode.Read(from)
	if err != nil {
		return err
	}
	return r.move.Set(to, v)
}

// features writes the features of flow time t, which all steps of the chunk share.
func (r *sampler) features(t float64) {
	dim := r.step.arch.TimeDim
	TimeFeatures(r.time[:dim], t)
	for k := dim; k < len(r.time); k += dim {
		copy(r.time[k:], r.time[:dim])
	}
}

func (r *sampler) velocity(dst, x []float32, t float64) error {
	r.features(t)
	committed := len(r.prefix) / r.step.spec.ActionDim() // clean, at flow time 0, and not moved
	for k := range committed {
		TimeFeatures(r.time[k*r.step.arch.TimeDim:][:r.step.arch.TimeDim], 0)
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
	v, err := r.move.Read(r.step.out)
	copy(dst, v)
	clear(dst[:len(r.prefix)])
	return err
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
