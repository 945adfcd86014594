package cpu

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// step is one run of a family: one node, or several that are its results.
type step struct {
	family *op.Family
	in     []*value
	out    []*value // nil where nobody wants the result
	id     int64    // the smallest id of its nodes
	at     int      // place in the order
	level  int      // how many times the workers must have met before
	main   bool     // belongs to the largest set of steps that follow one another part by part
}

// splitEdge reports whether input i of s can be read part by part while its producer works.
func (s *step) splitEdge(i int) bool { return s.family.In[i].Split && !s.in[i].reduce }

// collect makes values and steps for everything that the outputs depend on.
func (p *Program) collect(g *gorgonia.ExprGraph, outputs gorgonia.Nodes) ([]*step, error) {
	var steps []*step
	byKey := map[string]*step{}
	var visit func(n *gorgonia.Node) (*value, error)
	visit = func(n *gorgonia.Node) (*value, error) {
		if v, ok := p.values[n.ID()]; ok {
			return v, nil
		}
		v := newValue(n)
		p.values[n.ID()] = v
		if n.Op() == nil {
			return v, v.own()
		}
		if c, ok := n.Op().(interface{ Value() gorgonia.Value }); ok {
			v.constant = true
			if err := v.own(); err != nil {
				return nil, err
			}
			return v, v.set(c.Value())
		}
		var in []*value
		key := &strings.Builder{}
		for children := g.From(n.ID()); children.Next(); {
			child, err := visit(children.Node().(*gorgonia.Node))
			if err != nil {
				return nil, err
			}
			in = append(in, child)
			fmt.Fprintf(key, "%d ", child.node.ID())
		}
		f, index, err := familyOf(n, in)
		if err != nil {
			return nil, err
		}
		key.WriteString(f.Key())
		s := byKey[key.String()]
		if s == nil {
			s = &step{family: f, in: in, out: make([]*value, len(f.Out)), id: n.ID()}
			byKey[key.String()] = s
			steps = append(steps, s)
		}
		s.out[index], s.id = v, min(s.id, n.ID())
		v.producer, v.reduce = s, f.Out[index].Reduce
		return v, nil
	}
	for _, n := range outputs {
		if n.Graph() != g {
			return nil, fmt.Errorf("output %q belongs to another graph", n.Name())
		}
		v, err := visit(n)
		if err != nil {
			return nil, err
		}
		v.output = true
		if v.producer != nil && v.buffer.IsZero() {
			if err := v.own(); err != nil {
				return nil, err
			}
		}
	}
	return steps, nil
}

// familyOf returns the family and result that a node stands for.
func familyOf(n *gorgonia.Node, in []*value) (*op.Family, int, error) {
	if o, ok := n.Op().(op.Op); ok {
		return o.Family, o.Index, nil
	}
	// gorgonia's additions have no exported type; they print as "+ false".
	if b, ok := n.Op().(gorgonia.BinaryOp); ok && b.String() == "+ false" && slices.Equal(in[0].shape, in[1].shape) {
		return op.Addition(n.Dtype(), in[0].shape), 0, nil
	}
	return nil, 0, fmt.Errorf("node %q: operation %v (%T) is none of package op", n.Name(), n.Op(), n.Op())
}

// order sorts the steps so that each follows what it reads. Among steps that are ready, those that follow one another part by part come
// late and together: everything else that could interrupt them is done first.
func order(steps []*step) {
	sortByDependency(steps)
	markMain(steps)
	for _, s := range steps {
		for i, v := range s.in {
			t := v.producer
			if t == nil {
				continue
			}
			level := t.level
			if t.main && (!s.main || !s.splitEdge(i)) {
				level++
			}
			s.level = max(s.level, level)
		}
	}
	rank := func(s *step) int {
		if s.main {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(steps, func(a, b *step) int {
		if a.level != b.level {
			return a.level - b.level
		}
		return rank(a) - rank(b)
	})
	for i, s := range steps {
		s.at = i
	}
}

// sortByDependency puts the steps into topological order, the smallest id first where there is a choice: the order in which the graph
// was built, so that a gradient is used soon after it is made.
func sortByDependency(steps []*step) {
	waiting := map[*step]int{}
	readers := map[*step][]*step{}
	ready := &stepHeap{}
	for _, s := range steps {
		for _, v := range s.in {
			if v.producer != nil {
				waiting[s]++
				readers[v.producer] = append(readers[v.producer], s)
			}
		}
		if waiting[s] == 0 {
			heap.Push(ready, s)
		}
	}
	for i := range steps {
		s := heap.Pop(ready).(*step)
		steps[i] = s
		for _, r := range readers[s] {
			if waiting[r]--; waiting[r] == 0 {
				heap.Push(ready, r)
			}
		}
	}
}

type stepHeap []*step

func (h stepHeap) Len() int           { return len(h) }
func (h stepHeap) Less(i, j int) bool { return h[i].id < h[j].id }
func (h stepHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *stepHeap) Push(x any)        { *h = append(*h, x.(*step)) }
func (h *stepHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	*h = old[:len(old)-1]
	return s
}

// markMain finds the largest set of steps, by elements computed, that are joined by values passed on part by part.
func markMain(steps []*step) {
	parent := map[*step]*step{}
	var find func(s *step) *step
	find = func(s *step) *step {
		if parent[s] == nil || parent[s] == s {
			return s
		}
		parent[s] = find(parent[s])
		return parent[s]
	}
	for _, s := range steps {
		for i, v := range s.in {
			if v.producer != nil && s.splitEdge(i) {
				if a, b := find(s), find(v.producer); a != b {
					parent[a] = b
				}
			}
		}
	}
	weight := map[*step]int{}
	var top *step
	for _, s := range steps {
		r := find(s)
		for _, v := range s.out {
			if v != nil {
				weight[r] += v.elems
			}
		}
		if top == nil || weight[r] > weight[top] {
			top = r
		}
	}
	for _, s := range steps {
		s.main = find(s) == top
	}
}

// cut divides the ordered steps into segments: a new one begins where a step reads as a whole what the current one makes, or where the
// parts do not match.
func cut(steps []*step, threads int) []*segment {
	var list []*segment
	var s *segment
	inside := map[*step]bool{}
	for _, t := range steps {
		if s == nil || !fits(s, t, inside, threads) {
			s = &segment{units: t.family.Units}
			list = append(list, s)
			clear(inside)
		}
		s.units = gcd(s.units, t.family.Units)
		s.steps = append(s.steps, t)
		inside[t] = true
	}
	return list
}

func fits(s *segment, t *step, inside map[*step]bool, threads int) bool {
	for i, v := range t.in {
		if v.producer != nil && inside[v.producer] && !t.splitEdge(i) {
			return false
		}
	}
	// Once a segment is too coarse to share among the workers, nothing is lost by a coarser step.
	enough := 2 * threads
	return s.units < enough && t.family.Units < enough || gcd(s.units, t.family.Units) >= enough
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
