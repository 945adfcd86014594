package xla

import (
	"fmt"
	"sort"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"gorgonia.org/gorgonia"
)

// remat computes values of the forward pass again for the backward pass, from the kept values before them, so that only these stay in memory in
// between (Chen et al. 2016, sublinear memory cost). A barrier holds each of these computations back until the gradient that needs it first
// is under way; without it XLA would merge them with the forward pass.
type remat struct {
	loss   *gorgonia.Node
	marks  []int64 // nodes that stay, ascending as they were made
	keep   map[int64]bool
	source map[int64]*step     // step of the forward pass that makes a node
	params map[int64]bool      // need no barrier
	again  map[int64]hlo.Value // computed again
	leaves map[leaf]hlo.Value
	weak   bool // see Options.WeakBarriers
}

// leaf is a value that stays, as the stretch between two marks reads it again.
type leaf struct {
	node    int64
	stretch int
}

func newRemat(t Training, o Options) *remat {
	r := &remat{loss: t.Loss, weak: o.WeakBarriers, keep: map[int64]bool{}, source: map[int64]*step{}, params: map[int64]bool{}, again: map[int64]hlo.Value{}, leaves: map[leaf]hlo.Value{}}
	for _, n := range t.Keep {
		r.keep[n.ID()] = true
		r.marks = append(r.marks, n.ID())
	}
	sort.Slice(r.marks, func(i, j int) bool { return r.marks[i] < r.marks[j] })
	for _, p := range t.Params {
		r.params[p.ID()] = true
	}
	return r
}

// plan finds the steps of the forward pass: those that the loss depends on.
func (r *remat) plan(w *graphWriter) {
	makes := map[int64]*step{}
	for _, s := range w.steps {
		for _, n := range s.out {
			if n != nil {
				makes[n.ID()] = s
			}
		}
	}
	var visit func(n *gorgonia.Node)
	visit = func(n *gorgonia.Node) {
		s := makes[n.ID()]
		if s == nil || r.source[n.ID()] != nil {
			return
		}
		r.source[n.ID()] = s
		for _, in := range s.in {
			visit(in)
		}
	}
	visit(r.loss)
}

// stretch numbers the stretch between two marks in which a node was made.
func (r *remat) stretch(n *gorgonia.Node) int {
	return sort.Search(len(r.marks), func(i int) bool { return r.marks[i] >= n.ID() })
}

// replace puts values that are computed again into the inputs of a step of the backward pass.
func (r *remat) replace(w *graphWriter, s *step, in []hlo.Value) error {
	for _, n := range s.out {
		if n != nil && r.source[n.ID()] != nil {
			return nil // of the forward pass
		}
	}
	var tie hlo.Value // a gradient that this step reads
	for i, n := range s.in {
		if n.Op() != nil && r.source[n.ID()] == nil && len(in[i].Shape) > 0 {
			tie = in[i]
		}
	}
	for i, n := range s.in {
		if r.source[n.ID()] == nil || r.keep[n.ID()] {
			continue
		}
		v, err := r.compute(w, n, tie)
		if err != nil {
			return fmt.Errorf("compute %q again: %w", n.Name(), err)
		}
		in[i] = v
	}
	return nil
}

// compute writes a value of the forward pass a second time.
func (r *remat) compute(w *graphWriter, n *gorgonia.Node, tie hlo.Value) (hlo.Value, error) {
	if v, ok := r.again[n.ID()]; ok {
		return v, nil
	}
	s := r.source[n.ID()]
	in := make([]hlo.Value, len(s.in))
	for i, x := range s.in {
		var err error
		switch {
		case r.params[x.ID()] || x.Op() != nil && r.source[x.ID()] == nil: // a parameter or a constant
			in[i], err = w.value(x)
		case r.source[x.ID()] == nil || r.keep[x.ID()]:
			in[i], err = r.read(w, x, leaf{x.ID(), r.stretch(n)}, tie)
		default:
			in[i], err = r.compute(w, x, tie)
		}
		if err != nil {
			return hlo.Value{}, err
		}
	}
	out, err := s.lower(w.b, in)
	if err != nil {
		return hlo.Value{}, err
	}
	for i, x := range s.out {
		if x != nil {
			r.again[x.ID()] = out[i]
		}
	}
	return r.again[n.ID()], nil
}

// read gives a value that stayed, or an input of the graph, behind a barrier that waits for tie.
func (r *remat) read(w *graphWriter, n *gorgonia.Node, at leaf, tie hlo.Value) (hlo.Value, error) {
	if v, ok := r.leaves[at]; ok {
		return v, nil
	}
	v, err := w.value(n)
	if err != nil {
		return v, err
	}
	switch {
	case !tie.Valid():
		v = w.b.Barrier(v)[0]
	case r.weak && v.DType.Float():
		v = w.b.Add(v, w.b.Spread(w.b.Convert(nothing(w.b, tie), v.DType), v.Shape))
	default:
		v = w.b.Barrier(v, tie)[0]
	}
	r.leaves[at] = v
	return v, nil
}

// nothing is zero times an element of a gradient: a compiler may not leave it out, since the gradient could be infinite. A step with such a
// gradient is not made anyway.
func nothing(b *hlo.Builder, tie hlo.Value) hlo.Value {
	for axis := range tie.Shape {
		tie = b.Slice(tie, axis, 0, 1)
	}
	return b.Scale(b.Wide(b.Reshape(tie)), 0)
}
