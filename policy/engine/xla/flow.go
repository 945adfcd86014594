package xla

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"gorgonia.org/gorgonia"
)

// Flow describes the sampling of a flow-matching policy as one program: an encoder graph that runs once, and a graph of the velocity that
// runs at each Euler step, from t = 1 to t = 0.
type Flow struct {
	Encoded gorgonia.Nodes // outputs of the encoder
	Inputs  gorgonia.Nodes // inputs of the velocity's graph that take them, in order
	X, Time *gorgonia.Node // inputs of the velocity's graph: the state and the features of the flow time
	// Velocity is dx/dt, of X's shape.
	Velocity *gorgonia.Node
	// Times holds Time's value at each step; a step is 1/len(Times) long.
	Times [][]float32
	// Committed is a Float32 input [1, H, 1], no part of either graph, for X and Time of shape [1, H, ...]: 1 at rows of X that are what they
	// should be and do not move, 0 elsewhere. Clean is Time's value there. nil: all rows move.
	Committed *gorgonia.Node
	Clean     []float32
}

// EmitFlow writes a sampler. Arguments: the other inputs of both graphs and X, the noise. Its one output stands for the end state and is
// read as Velocity.
func EmitFlow(f Flow, o Options) (*Module, error) {
	m, err := emitFlow(f, o)
	if err != nil {
		return nil, fmt.Errorf("write sampler: %w", err)
	}
	return m, nil
}

func emitFlow(f Flow, o Options) (*Module, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	if len(f.Encoded) != len(f.Inputs) || len(f.Times) == 0 || o.Devices > 1 {
		return nil, fmt.Errorf("%d outputs for %d inputs, %d steps, %d devices: want as many inputs, at least one step and one device",
			len(f.Encoded), len(f.Inputs), len(f.Times), o.Devices)
	}
	b := o.builder()
	m := &Module{Options: o, Outputs: gorgonia.Nodes{f.Velocity}}
	encoder, step := newGraphWriter(b), newGraphWriter(b)
	if err := encoder.arguments(m, f.Encoded, nil); err != nil {
		return nil, err
	}
	given := map[*gorgonia.Node]bool{f.Time: true}
	for _, n := range f.Inputs {
		given[n] = true
	}
	if err := step.arguments(m, gorgonia.Nodes{f.Velocity}, given); err != nil {
		return nil, err
	}
	if err := encoder.write(); err != nil {
		return nil, err
	}
	for i, n := range f.Encoded {
		v, err := encoder.value(n)
		if err != nil {
			return nil, err
		}
		step.values[f.Inputs[i].ID()] = v
	}
	noise, ok := step.values[f.X.ID()]
	if !ok {
		return nil, fmt.Errorf("the velocity does not depend on %q", f.X.Name())
	}
	var table []float64
	for _, row := range f.Times {
		for _, v := range row {
			table = append(table, float64(v))
		}
	}
	times := b.Table(hlo.F32, table, append([]int{len(f.Times)}, f.Time.Shape()...)...)
	hold, err := f.hold(step, m)
	if err != nil {
		return nil, err
	}
	end := b.Repeat(len(f.Times), noise, func(i, x hlo.Value) hlo.Value {
		step.values[f.X.ID()], step.values[f.Time.ID()] = x, hold.time(b.At(times, i))
		if err = step.write(); err != nil {
			return x
		}
		v := b.Wide(step.values[f.Velocity.ID()])
		return b.Sub(x, hold.velocity(b.Scale(v, 1/float64(len(f.Times)))))
	})
	if err != nil {
		return nil, err
	}
	m.Text = o.module("sampler", b.Function("main", nil, end))
	return m, nil
}

// arguments collects a graph and adds its inputs, but for those that are given otherwise, to the module's.
func (w *graphWriter) arguments(m *Module, outputs gorgonia.Nodes, given map[*gorgonia.Node]bool) error {
	if err := w.collect(outputs); err != nil {
		return err
	}
	for _, n := range w.inputs {
		if given[n] {
			continue
		}
		a, err := w.argument(n, m.Options, false)
		if err != nil {
			return err
		}
		if err := w.bind(a, m.Options); err != nil {
			return err
		}
		m.Arguments = append(m.Arguments, a)
	}
	return nil
}

// held keeps committed rows where they are.
type held struct {
	b           *hlo.Builder
	mask, clean hlo.Value // none: no rows are committed
}

// hold adds the input that names the committed rows.
func (f Flow) hold(w *graphWriter, m *Module) (held, error) {
	if f.Committed == nil {
		return held{}, nil
	}
	a, err := w.argument(f.Committed, m.Options, false)
	if err != nil {
		return held{}, err
	}
	if err := w.bind(a, m.Options); err != nil {
		return held{}, err
	}
	m.Arguments = append(m.Arguments, a)
	clean := make([]float64, len(f.Clean))
	for i, v := range f.Clean {
		clean[i] = float64(v)
	}
	return held{w.b, w.values[f.Committed.ID()], w.b.Table(hlo.F32, clean, f.Time.Shape()...)}, nil
}

// time is the flow time's features, or those of data where a row is committed.
func (h held) time(t hlo.Value) hlo.Value {
	if !h.mask.Valid() {
		return t
	}
	return h.b.Select(h.rows(t.Shape), h.clean, t)
}

// velocity is nothing where a row is committed.
func (h held) velocity(v hlo.Value) hlo.Value {
	if !h.mask.Valid() {
		return v
	}
	return h.b.Select(h.rows(v.Shape), h.b.Splat(v.DType, 0, v.Shape...), v)
}

// rows says for each element of a shape [1, H, ...] whether its row is committed.
func (h held) rows(shape []int) hlo.Value {
	b := h.b
	on := b.Compare("GT", b.Reshape(h.mask, h.mask.Size()), b.Splat(hlo.F32, 0.5, h.mask.Size()))
	return b.Spread(on, shape, 1)
}
