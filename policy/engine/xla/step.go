package xla

import (
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"gorgonia.org/gorgonia"
)

// Training describes a training step: the graph of a loss with its gradients, and AdamW with clipping by the global norm and a running
// average of the weights, in the arithmetic of policy/engine/kernel.
type Training struct {
	Loss      *gorgonia.Node
	Params    gorgonia.Nodes // Float32
	Gradients gorgonia.Nodes // one per parameter
	// Decays says for each parameter whether weight decay applies.
	Decays       []bool
	Beta1, Beta2 float64
	Clip         float64 // largest global norm of the gradients
}

// Places of the numbers that change from step to step, in the one vector that carries them.
const (
	hyperSize    = iota // learning rate with both bias corrections
	hyperEps            // with the second moment's bias correction
	hyperDecay          // 1 − rate·decay
	hyperAverage        // decay of the running average
	hyperCount
)

// statesPerParam are weights, two moments and the running average.
const statesPerParam = 4

// EmitTraining writes one step. Arguments: for each slab of parameters its weights, both moments and average, all of which the results
// overwrite; the step's numbers; the graph's other inputs, which Module.Arguments lists. Results: the same four for each slab, then the
// loss and the global norm of the gradients as one vector of two. With a loss or norm that is not finite the weights come back unchanged.
func EmitTraining(t Training, o Options) (*Module, error) {
	m, err := emitTraining(t, o)
	if err != nil {
		return nil, fmt.Errorf("write training step: %w", err)
	}
	return m, nil
}

func emitTraining(t Training, o Options) (*Module, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	if len(t.Gradients) != len(t.Params) || len(t.Decays) != len(t.Params) {
		return nil, fmt.Errorf("%d parameters, %d gradients and %d decays given", len(t.Params), len(t.Gradients), len(t.Decays))
	}
	b := o.builder()
	w := newGraphWriter(b)
	outputs := append(gorgonia.Nodes{t.Loss}, t.Gradients...)
	if err := w.collect(outputs); err != nil {
		return nil, err
	}
	states := w.bindSlabs(t, o)
	hyper := b.Argument(strings.Join(o.sharding(1, false), ""), hlo.F32, hyperCount)
	m := &Module{Options: o, Outputs: outputs}
	for _, n := range w.inputs {
		if _, isParam := w.values[n.ID()]; isParam {
			continue
		}
		a, err := w.argument(n, o, false)
		if err != nil {
			return nil, err
		}
		if err := w.bind(a, o); err != nil {
			return nil, err
		}
		m.Arguments = append(m.Arguments, a)
	}
	if err := w.write(); err != nil {
		return nil, err
	}
	loss, grads, err := w.results(t)
	if err != nil {
		return nil, err
	}
	results := t.update(b, states, hyper, loss, grads)
	attributes := make([]string, len(results))
	for i, r := range results {
		attributes[i] = strings.Join(o.sharding(len(r.Shape), false), "")
	}
	m.Text = o.module("training_step", b.Function("main", attributes, results...))
	return m, nil
}

// bindSlabs adds the slabs' arguments and cuts the parameters out of them.
func (w *graphWriter) bindSlabs(t Training, o Options) (states [][statesPerParam]hlo.Value) {
	for k, s := range t.slabs() {
		var state [statesPerParam]hlo.Value
		for j := range state {
			attributes := append([]string{fmt.Sprintf("tf.aliasing_output = %d : i32", k*statesPerParam+j)}, o.sharding(1, false)...)
			state[j] = w.b.Argument(strings.Join(attributes, ", "), hlo.F32, s.size)
		}
		states = append(states, state)
	}
	for k, s := range t.slabs() {
		at := 0
		for _, i := range s.params {
			p := t.Params[i]
			n := p.Shape().TotalSize()
			w.values[p.ID()] = w.b.Reshape(w.b.Slice(states[k][0], 0, at, at+n), p.Shape()...)
			at += n
		}
	}
	return states
}

// results are the loss and the gradients in float32.
func (w *graphWriter) results(t Training) (loss hlo.Value, grads []hlo.Value, err error) {
	if loss, err = w.value(t.Loss); err != nil {
		return loss, nil, err
	}
	for i, n := range t.Gradients {
		g, err := w.value(n)
		if err != nil {
			return loss, nil, err
		}
		g = w.b.Wide(g)
		if g.DType != hlo.F32 {
			return loss, nil, fmt.Errorf("gradient of %q has element type %s; want Float32", t.Params[i].Name(), g.DType)
		}
		grads = append(grads, g)
	}
	return w.b.Wide(loss), grads, nil
}

// update writes clipping, AdamW and the running average.
func (t Training) update(b *hlo.Builder, states [][statesPerParam]hlo.Value, hyper, loss hlo.Value, grads []hlo.Value) []hlo.Value {
	slabs := t.slabs()
	flat := make([]hlo.Value, len(slabs))
	squares := b.Scalar(hlo.F32, 0)
	for k, s := range slabs {
		parts := make([]hlo.Value, len(s.params))
		for j, i := range s.params {
			parts[j] = b.Reshape(grads[i], grads[i].Size())
		}
		flat[k] = b.Concat(0, parts...)
		squares = b.Add(squares, b.Sum(b.Mul(flat[k], flat[k]), 0))
	}
	norm := b.Unary("sqrt", squares)
	clip := b.Scalar(hlo.F32, t.Clip)
	one := b.Scalar(hlo.F32, 1)
	scale := b.Select(b.Compare("GT", norm, clip), b.Div(clip, norm), one)
	finite := b.Binary("and", b.Finite(norm), b.Finite(loss))

	number := func(place int) hlo.Value { return b.Reshape(b.Slice(hyper, 0, place, place+1)) }
	size, eps, decay, average := number(hyperSize), number(hyperEps), number(hyperDecay), number(hyperAverage)
	rest := b.Sub(one, average)
	var results []hlo.Value
	for k, g := range flat {
		all := func(x hlo.Value) hlo.Value { return b.Spread(x, g.Shape) }
		p, m, v, e := states[k][0], states[k][1], states[k][2], states[k][3]
		d := b.Mul(g, all(scale))
		m1 := b.Add(b.Scale(m, t.Beta1), b.Scale(d, 1-t.Beta1))
		v1 := b.Add(b.Scale(v, t.Beta2), b.Mul(b.Scale(d, 1-t.Beta2), d))
		p1 := p
		if slabs[k].decays {
			p1 = b.Mul(p, all(decay))
		}
		p1 = b.Sub(p1, b.Div(b.Mul(m1, all(size)), b.Add(b.Unary("sqrt", v1), all(eps))))
		e1 := b.Add(b.Mul(e, all(average)), b.Mul(p1, all(rest)))
		for j, updated := range []hlo.Value{p1, m1, v1, e1} {
			results = append(results, b.Select(finite, updated, states[k][j]))
		}
	}
	return append(results, b.Concat(0, b.Reshape(loss, 1), b.Reshape(norm, 1)))
}
