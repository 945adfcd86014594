package op

import (
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Attention returns softmax(q·kᵀ/√(D/heads) + mask)·v for each head: q [B, Tq, D], k and v [B, Tk, D], result [B, Tq, D]; head h is
// columns [h·D/heads, (h+1)·D/heads). Source: Vaswani et al. 2017, section 3.2.
//
// mask may be nil; else it is [B, 1, Tk] or [B, Tk], one per sample, or [1, Tq, Tk] or [Tq, Tk], one per query (with B = Tq give three
// axes), or [B, Tq, Tk]. A Bool mask says which keys may be attended, a floating one is added to the scores. A query that may attend no
// key gives zeros. No gradient flows to the mask.
func Attention(q, k, v, mask *Node, heads int) *Node {
	a, nodes := newAttention(q, k, v, mask, heads)
	dt := q.Dtype()
	f := &Family{
		Name: "attention", Attrs: a.attrs(),
		In: a.args(nodes),
		// The weights are kept for the gradient.
		Out:     []Result{{Dtype: dt, Shape: q.Shape()}, {Dtype: dt, Shape: tensor.Shape{a.b, heads, a.tq, a.tk}}},
		Units:   a.b,
		compute: pick(dt, runAttention[float32](a), runAttention[float64](a)),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		weights := f.apply(1, in...)
		grads := attentionGrad(a, in[0], in[1], in[2], weights, grad)
		for range in[3:] {
			grads = append(grads, nil)
		}
		return grads
	}
	return f.apply(0, nodes...)
}

// attention holds the sizes of one attention operation.
type attention struct {
	b, tq, tk, d, heads, hd int
	mask                    maskKind
	boolMask                bool
}

// maskKind says how a mask repeats.
type maskKind int

const (
	noMask     maskKind = iota
	sampleMask          // [B, Tk]
	queryMask           // [Tq, Tk]
	fullMask            // [B, Tq, Tk]
)

func newAttention(q, k, v, mask *Node, heads int) (attention, []*Node) {
	dt := floats("attention", q, k, v)
	qs, ks := q.Shape(), k.Shape()
	if len(qs) != 3 || len(ks) != 3 || !same(ks, v.Shape()) || qs[0] != ks[0] || qs[2] != ks[2] {
		fail("attention: q %v, k %v, v %v: want [B,Tq,D], [B,Tk,D], [B,Tk,D] with equal axes 0 and 2", qs, ks, v.Shape())
	}
	if heads < 1 || qs[2]%heads != 0 {
		fail("attention: q %v: axis 2 does not divide into %d heads", qs, heads)
	}
	a := attention{b: qs[0], tq: qs[1], tk: ks[1], d: qs[2], heads: heads, hd: qs[2] / heads}
	nodes := []*Node{q, k, v}
	if mask == nil {
		return a, nodes
	}
	if a.boolMask = mask.Dtype() == Bool; !a.boolMask && mask.Dtype() != dt {
		fail("attention: mask of element type %v, want Bool or %v", mask.Dtype(), dt)
	}
	a.mask = a.kindOf(mask.Shape())
	return a, append(nodes, mask)
}

func (a attention) kindOf(s tensor.Shape) maskKind {
	sample, query := same(s, tensor.Shape{a.b, a.tk}), same(s, tensor.Shape{a.tq, a.tk})
	switch {
	case sample && query:
		fail("attention: mask %v may be one per sample or one per query; give it as [%d,1,%d] or [1,%d,%d]", s, a.b, a.tk, a.tq, a.tk)
	case sample, same(s, tensor.Shape{a.b, 1, a.tk}):
		return sampleMask
	case query, same(s, tensor.Shape{1, a.tq, a.tk}):
		return queryMask
	case same(s, tensor.Shape{a.b, a.tq, a.tk}):
		return fullMask
	}
	fail("attention: mask %v: want [%d,%d], [%d,%d] or [%d,%d,%d]", s, a.b, a.tk, a.tq, a.tk, a.b, a.tq, a.tk)
	return noMask
}

func (a attention) attrs() string { return attr("heads", a.heads) + attr(",mask", int(a.mask)) }

func (a attention) args(nodes []*Node) []Arg {
	split := []bool{true, true, true, a.mask != queryMask}
	list := args(nodes, split[:len(nodes)]...)
	if len(list) > 3 {
		list[3].Fixed = true
	}
	return list
}

// maskRows returns the additive mask of one call and the distances, in elements, between the masks of two samples and of two queries.
func maskRows[T kernel.Float](a attention, c *Call) (rows []T, perSample, perQuery int) {
	switch a.mask {
	case noMask:
		return nil, 0, 0
	case sampleMask:
		perSample = a.tk
	case queryMask:
		perQuery = a.tk
	case fullMask:
		perSample, perQuery = a.tq*a.tk, a.tk
	}
	if !a.boolMask {
		return in[T](c, 3), perSample, perQuery
	}
	open := in[bool](c, 3)
	rows = kernel.Scratch[T](c.Worker, len(open))
	for i, ok := range open {
		rows[i] = 0
		if !ok {
			rows[i] = T(math.Inf(-1))
		}
	}
	return rows, perSample, perQuery
}

func runAttention[T kernel.Float](a attention) func(*Call) {
	scale := T(1 / math.Sqrt(float64(a.hd)))
	return func(c *Call) {
		q, k, v := in[T](c, 0), in[T](c, 1), in[T](c, 2)
		mask, perSample, perQuery := maskRows[T](a, c)
		n := a.tq * a.tk
		var weights []T
		if c.wants(1) {
			weights = out[T](c, 1)
		}
		one := kernel.Scratch[T](c.Worker, n)
		for s := range len(q) / (a.tq * a.d) {
			qs, ks, vs := q[s*a.tq*a.d:], k[s*a.tk*a.d:], v[s*a.tk*a.d:]
			for h := range a.heads {
				p := one
				if weights != nil {
					p = weights[(s*a.heads+h)*n:][:n]
				}
				at := h * a.hd
				kernel.Gemm(false, true, a.tq, a.tk, a.hd, qs[at:], a.d, ks[at:], a.d, 0, p, a.tk)
				var m []T
				if mask != nil {
					m = mask[s*perSample:]
				}
				kernel.Scores(p, a.tk, scale, m, perQuery)
				if c.wants(0) {
					kernel.Gemm(false, false, a.tq, a.hd, a.tk, p, a.tk, vs[at:], a.d, 0, out[T](c, 0)[s*a.tq*a.d+at:], a.d)
				}
			}
		}
	}
}

// attentionGrad returns the gradients of q, k and v from the attention weights [B, heads, Tq, Tk].
func attentionGrad(a attention, q, k, v, weights, grad *Node) gorgonia.Nodes {
	dt := q.Dtype()
	nodes := []*Node{q, k, v, weights, grad}
	f := &Family{
		Name: "attentiongrad", Attrs: attr("heads", a.heads),
		In:      args(nodes, true, true, true, true, true),
		Out:     []Result{{Dtype: dt, Shape: q.Shape()}, {Dtype: dt, Shape: k.Shape()}, {Dtype: dt, Shape: v.Shape()}},
		Units:   a.b,
		compute: pick(dt, runAttentionGrad[float32](a), runAttentionGrad[float64](a)),
	}
	return gorgonia.Nodes{f.apply(0, nodes...), f.apply(1, nodes...), f.apply(2, nodes...)}
}

func runAttentionGrad[T kernel.Float](a attention) func(*Call) {
	scale := T(1 / math.Sqrt(float64(a.hd)))
	return func(c *Call) {
		q, k, v, weights, up := in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4)
		n := a.tq * a.tk
		ds := kernel.Scratch[T](c.Worker, n)
		for s := range len(q) / (a.tq * a.d) {
			for h := range a.heads {
				p := weights[(s*a.heads+h)*n:][:n]
				atQ, atK := s*a.tq*a.d+h*a.hd, s*a.tk*a.d+h*a.hd
				if c.wants(2) { // dv = pᵀ·up
					kernel.Gemm(true, false, a.tk, a.hd, a.tq, p, a.tk, up[atQ:], a.d, 0, out[T](c, 2)[atK:], a.d)
				}
				if !c.wants(0) && !c.wants(1) {
					continue
				}
				kernel.Gemm(false, true, a.tq, a.tk, a.hd, up[atQ:], a.d, v[atK:], a.d, 0, ds, a.tk)
				kernel.SoftmaxGrad(ds, p, ds, a.tk, scale)
				if c.wants(0) {
					kernel.Gemm(false, false, a.tq, a.hd, a.tk, ds, a.tk, k[atK:], a.d, 0, out[T](c, 0)[atQ:], a.d)
				}
				if c.wants(1) {
					kernel.Gemm(true, false, a.tk, a.hd, a.tq, ds, a.tk, q[atQ:], a.d, 0, out[T](c, 1)[atK:], a.d)
				}
			}
		}
	}
}
