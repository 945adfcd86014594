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
	end := b.Repeat(len(f.Times), noise, func(i, x hlo.Value) hlo.Value {
		step.values[f.X.ID()], step.values[f.Time.ID()] = x, b.At(times, i)
		if err = step.write(); err != nil {
			return x
		}
		v := b.Wide(step.values[f.Velocity.ID()])
		return b.Sub(x, b.Scale(v, 1/float64(len(f.Times))))
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
