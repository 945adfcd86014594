package xla

import (
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"gorgonia.org/gorgonia"
)

// Training describes a training step: the graph of a loss with its gradients, AdamW or Muon with clipping by the global norm, and a running
// average of the weights, in the arithmetic of policy/engine/kernel and package train.
type Training struct {
	Loss      *gorgonia.Node
	Params    gorgonia.Nodes // Float32
	Gradients gorgonia.Nodes // one per parameter
	// Decays says for each parameter whether weight decay applies.
	Decays []bool
	// Factors of the learning rate, one per parameter; 0 keeps a parameter, its moments and its average as they are. nil: 1 for all.
	Factors      []float64
	Beta1, Beta2 float64
	Clip         float64 // largest global norm of the gradients
	// Muon says for each parameter, a matrix, whether Muon updates it in place of AdamW; nil: none.
	Muon     []bool
	Momentum float64 // of Muon
	// Parts makes two programs in place of one: one that adds up the gradients of a part of the batch, and one that makes the step.
	Parts bool
	// Keep lists values of the forward pass, in the order in which they were made, that stay until the backward pass; what lies between two
	// of them is computed again there. nil: everything stays.
	Keep gorgonia.Nodes
}

// Places of the numbers that change from step to step, in the one vector that carries them.
const (
	hyperSize       = iota // learning rate with both bias corrections
	hyperEps               // with the second moment's bias correction
	hyperDecay             // 1 − rate·decay
	hyperAverage           // decay of the running average
	hyperShrink            // rate·decay
	hyperMuon              // Muon's learning rate
	hyperMuonShrink        // Muon's rate·decay
	hyperCount
)

// statesPerParam are weights, two moments and the running average.
const statesPerParam = 4

// EmitTraining writes one step. Arguments: for each slab of parameters its weights, both moments and average, all of which the results
// overwrite; the step's numbers; the graph's other inputs, which Module.Arguments lists. Results: the same four for each slab, then the
// loss and the global norm of the gradients as one vector of two. With a loss or norm that is not finite the weights come back unchanged.
func EmitTraining(t Training, o Options) (*Module, error) {
	w, err := newTrainingWriter(t, o)
	if err == nil {
		err = w.collect(w.outputs())
	}
	if err != nil {
		return nil, fmt.Errorf("write training step: %w", err)
	}
	states := w.stateArguments()
	w.bindParams(states)
	hyper := w.wholeArgument(hyperCount)
	m := &Module{Options: w.o, Outputs: w.outputs()}
	loss, flat, err := w.gradients(m)
	if err != nil {
		return nil, fmt.Errorf("write training step: %w", err)
	}
	w.finish(m, "training_step", w.update(states, hyper, loss, flat))
	return m, nil
}

// EmitParts writes the two programs of a step whose batch comes in parts.
//
// The first adds up gradients. Arguments: the weights of each slab; the sum of each slab that is not frozen and the sum of losses, which the
// results overwrite; the part's share of the batch's valid scalars and whether it is the first (0) or follows others (1); the graph's inputs.
//
// The second makes the step from the sums. Arguments: states as in EmitTraining, sums, the loss as vector of one, the step's numbers. Results as
// in EmitTraining.
func EmitParts(t Training, o Options) (add, step *Module, err error) {
	if add, err = emitAdd(t, o); err == nil {
		step, err = emitApply(t, o)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("write training step in parts: %w", err)
	}
	return add, step, nil
}

func emitAdd(t Training, o Options) (*Module, error) {
	w, err := newTrainingWriter(t, o)
	if err == nil {
		err = w.collect(w.outputs())
	}
	if err != nil {
		return nil, err
	}
	var states [][statesPerParam]hlo.Value
	for _, s := range w.slabs {
		states = append(states, [statesPerParam]hlo.Value{w.vector(s.stored, s.cuts(w.o)[0], -1)})
	}
	w.bindParams(states)
	sums := w.sumArguments(true)
	share := w.wholeArgument(2)
	m := &Module{Options: w.o, Outputs: w.outputs()}
	loss, flat, err := w.gradients(m)
	if err != nil {
		return nil, err
	}
	flat = append(flat, w.b.Reshape(loss, 1))
	b := w.b
	weight, follows := b.Reshape(b.Slice(share, 0, 0, 1)), b.Reshape(b.Slice(share, 0, 1, 2))
	first := b.Compare("EQ", follows, b.Scalar(hlo.F32, 0))
	var results []result
	for k, g := range flat {
		part := b.Mul(g, b.Spread(weight, g.Shape))
		total := b.Select(first, part, b.Add(sums[k].Value, part)) // the first part does not read what an earlier step left
		results = append(results, result{total, sums[k].cut})
	}
	w.finish(m, "training_part", results)
	return m, nil
}

func emitApply(t Training, o Options) (*Module, error) {
	w, err := newTrainingWriter(t, o)
	if err != nil {
		return nil, err
	}
	states := w.stateArguments()
	sums := w.sumArguments(false)
	hyper := w.wholeArgument(hyperCount)
	var flat []hlo.Value
	for _, s := range sums[:len(sums)-1] {
		flat = append(flat, s.Value)
	}
	loss := w.b.Reshape(sums[len(sums)-1].Value)
	m := &Module{Options: w.o}
	w.finish(m, "training_step", w.update(states, hyper, loss, flat))
	return m, nil
}

// trainingWriter writes the programs of a training step.
type trainingWriter struct {
	*graphWriter
	t     Training
	o     Options
	slabs []slab
}

// result is a value that a program gives back, whole on each device or cut over them.
type result struct {
	hlo.Value
	cut bool
}

func newTrainingWriter(t Training, o Options) (*trainingWriter, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	n := len(t.Params)
	if len(t.Gradients) != n || len(t.Decays) != n || t.Factors != nil && len(t.Factors) != n || t.Muon != nil && len(t.Muon) != n {
		return nil, fmt.Errorf("%d parameters, %d gradients, %d decays, %d factors and %d choices of optimiser given", n, len(t.Gradients), len(t.Decays), len(t.Factors), len(t.Muon))
	}
	for i, p := range t.Params {
		if t.Muon != nil && t.Muon[i] && p.Dims() != 2 {
			return nil, fmt.Errorf("parameter %q of shape %v: Muon is for matrices", p.Name(), p.Shape())
		}
	}
	w := &trainingWriter{graphWriter: newGraphWriter(o.builder()), t: t, o: o, slabs: t.slabs(o)}
	if t.Keep != nil {
		w.remat = newRemat(t, o)
	}
	return w, nil
}

// outputs are the loss and the gradients of the parameters that are not frozen.
func (w *trainingWriter) outputs() gorgonia.Nodes {
	out := gorgonia.Nodes{w.t.Loss}
	for i, g := range w.t.Gradients {
		if w.t.kindOf(i).factor != 0 {
			out = append(out, g)
		}
	}
	return out
}

// vector adds an argument: a vector that result number overwritten overwrites, unless that is negative.
func (w *trainingWriter) vector(n int, cut bool, overwritten int) hlo.Value {
	var attributes []string
	if overwritten >= 0 {
		attributes = append(attributes, fmt.Sprintf("tf.aliasing_output = %d : i32", overwritten))
	}
	return w.b.Argument(strings.Join(append(attributes, w.o.sharding(1, cut)...), ", "), hlo.F32, n)
}

func (w *trainingWriter) wholeArgument(n int) hlo.Value { return w.vector(n, false, -1) }

// stateArguments adds weights, moments and average of each slab, which the results overwrite.
func (w *trainingWriter) stateArguments() (states [][statesPerParam]hlo.Value) {
	for k, s := range w.slabs {
		var state [statesPerParam]hlo.Value
		cuts := s.cuts(w.o)
		for j := range state {
			state[j] = w.vector(s.stored, cuts[j], k*statesPerParam+j)
		}
		states = append(states, state)
	}
	return states
}

// sumArguments adds the sum of gradients of each slab that is not frozen, and the sum of losses.
func (w *trainingWriter) sumArguments(overwritten bool) (sums []result) {
	add := func(n int, cut bool) {
		at := -1
		if overwritten {
			at = len(sums)
		}
		sums = append(sums, result{w.vector(n, cut, at), cut})
	}
	for _, s := range w.slabs {
		if !s.frozen() {
			add(s.stored, s.cut)
		}
	}
	add(1, false)
	return sums
}

// bindParams cuts the parameters out of the slabs' weights.
func (w *trainingWriter) bindParams(states [][statesPerParam]hlo.Value) {
	for k, s := range w.slabs {
		weights := states[k][0]
		if s.cut && w.o.Shard == ShardWeights {
			weights = w.b.Constrain(weights, false)
		}
		at := 0
		for _, i := range s.params {
			p := w.t.Params[i]
			n := p.Shape().TotalSize()
			w.values[p.ID()] = w.b.Reshape(w.b.Slice(weights, 0, at, at+n), p.Shape()...)
			at += n
		}
	}
}

// gradients writes the graph and gives its loss and the gradient of each slab that is not frozen, in float32.
func (w *trainingWriter) gradients(m *Module) (loss hlo.Value, flat []hlo.Value, err error) {
	for _, n := range w.inputs {
		if _, isParam := w.values[n.ID()]; isParam {
			continue
		}
		a, err := w.argument(n, w.o, false)
		if err != nil {
			return loss, nil, err
		}
		if err := w.bind(a, w.o); err != nil {
			return loss, nil, err
		}
		m.Arguments = append(m.Arguments, a)
	}
	if err := w.write(); err != nil {
		return loss, nil, err
	}
	if loss, err = w.value(w.t.Loss); err != nil {
		return loss, nil, err
	}
	for _, s := range w.slabs {
		if s.frozen() {
			continue
		}
		g, err := w.flatten(s)
		if err != nil {
			return loss, nil, err
		}
		flat = append(flat, g)
	}
	return w.b.Wide(loss), flat, nil
}

// flatten joins the gradients of a slab.
func (w *trainingWriter) flatten(s slab) (hlo.Value, error) {
	var parts []hlo.Value
	for _, i := range s.params {
		g, err := w.value(w.t.Gradients[i])
		if err != nil {
			return g, err
		}
		if g = w.b.Wide(g); g.DType != hlo.F32 {
			return g, fmt.Errorf("gradient of %q has element type %s; want Float32", w.t.Params[i].Name(), g.DType)
		}
		parts = append(parts, w.b.Reshape(g, g.Size()))
	}
	if s.stored > s.size {
		parts = append(parts, w.b.Splat(hlo.F32, 0, s.stored-s.size))
	}
	flat := w.b.Concat(0, parts...)
	if s.cut { // whole first, so that the cut does not spread into the backward pass
		flat = w.b.Constrain(w.b.Constrain(flat, false), true)
	}
	return flat, nil
}

// finish closes the module.
func (w *trainingWriter) finish(m *Module, name string, results []result) {
	values, attributes := make([]hlo.Value, len(results)), make([]string, len(results))
	for i, r := range results {
		values[i], attributes[i] = r.Value, strings.Join(w.o.sharding(len(r.Shape), r.cut), "")
	}
	m.Text = w.o.module(name, w.b.Function("main", attributes, values...))
}
