package op

import (
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Attention returns softmax(q·kᵀ/√(D/heads) + mask)·v for each head: q [B, Tq, D], k and v [B, Tk, D], result [B, Tq, D]; head h is
// columns [h·D/heads, (h+1)·D/heads). Source: Vaswani et al. 2017, section 3.2.
//
// k and v may have fewer heads, [B, Tk, D·n/heads] for any n that divides heads: n heads of keys and values then serve heads/n heads of
// queries each, in order. Source: Ainslie et al. 2023, section 2.2.
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
		lower:   a.lower,
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
	groups                  int // heads of keys and values
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
	if len(qs) != 3 || len(ks) != 3 || !same(ks, v.Shape()) || qs[0] != ks[0] {
		fail("attention: q %v, k %v, v %v: want [B,Tq,D], [B,Tk,D], [B,Tk,D] with equal axis 0", qs, ks, v.Shape())
	}
	if heads < 1 || qs[2]%heads != 0 {
		fail("attention: q %v: axis 2 does not divide into %d heads", qs, heads)
	}
	a := attention{b: qs[0], tq: qs[1], tk: ks[1], d: qs[2], heads: heads, hd: qs[2] / heads}
	if a.groups = ks[2] / a.hd; ks[2]%a.hd != 0 || a.groups == 0 || heads%a.groups != 0 {
		fail("attention: q %v and k %v: axis 2 of k is no whole number of heads of %d that divides %d heads", qs, ks, a.hd, heads)
	}
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
		n, dk := a.tq*a.tk, a.groups*a.hd
		var weights []T
		if c.wants(1) {
			weights = out[T](c, 1)
		}
		one := kernel.Scratch[T](c.Worker, n)
		for s := range len(q) / (a.tq * a.d) {
			qs, ks, vs := q[s*a.tq*a.d:], k[s*a.tk*dk:], v[s*a.tk*dk:]
			for h := range a.heads {
				p := one
				if weights != nil {
					p = weights[(s*a.heads+h)*n:][:n]
				}
				at, group := h*a.hd, h*a.groups/a.heads*a.hd
				kernel.Gemm(false, true, a.tq, a.tk, a.hd, qs[at:], a.d, ks[group:], dk, 0, p, a.tk)
				var m []T
				if mask != nil {
					m = mask[s*perSample:]
				}
				kernel.Scores(p, a.tk, scale, m, perQuery)
				if c.wants(0) {
					kernel.Gemm(false, false, a.tq, a.hd, a.tk, p, a.tk, vs[group:], dk, 0, out[T](c, 0)[s*a.tq*a.d+at:], a.d)
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
		lower:   a.lowerGrad,
	}
	return gorgonia.Nodes{f.apply(0, nodes...), f.apply(1, nodes...), f.apply(2, nodes...)}
}

func runAttentionGrad[T kernel.Float](a attention) func(*Call) {
	scale := T(1 / math.Sqrt(float64(a.hd)))
	return func(c *Call) {
		q, k, v, weights, up := in[T](c, 0), in[T](c, 1), in[T](c, 2), in[T](c, 3), in[T](c, 4)
		n, dk, share := a.tq*a.tk, a.groups*a.hd, a.heads/a.groups
		ds := kernel.Scratch[T](c.Worker, n)
		for s := range len(q) / (a.tq * a.d) {
			for h := range a.heads {
				p := weights[(s*a.heads+h)*n:][:n]
				atQ, atK := s*a.tq*a.d+h*a.hd, s*a.tk*dk+h/share*a.hd
				var add T // heads that share keys and values add up their gradients
				if h%share > 0 {
					add = 1
				}
				if c.wants(2) { // dv = pᵀ·up
					kernel.Gemm(true, false, a.tk, a.hd, a.tq, p, a.tk, up[atQ:], a.d, add, out[T](c, 2)[atK:], dk)
				}
				if !c.wants(0) && !c.wants(1) {
					continue
				}
				kernel.Gemm(false, true, a.tq, a.tk, a.hd, up[atQ:], a.d, v[atK:], dk, 0, ds, a.tk)
				kernel.SoftmaxGrad(ds, p, ds, a.tk, scale)
				if c.wants(0) {
					kernel.Gemm(false, false, a.tq, a.hd, a.tk, ds, a.tk, k[atK:], dk, 0, out[T](c, 0)[atQ:], a.d)
				}
				if c.wants(1) {
					kernel.Gemm(true, false, a.tk, a.hd, a.tq, ds, a.tk, q[atQ:], a.d, add, out[T](c, 1)[atK:], dk)
				}
			}
		}
	}
}

// scoresMask is the mask as float32 terms of the scores that repeats to [B, heads, Tq, Tk] by numpy's rule: −∞ where shut.
func (a attention) scoresMask(b *hlo.Builder, mask hlo.Value, dt hlo.DType) hlo.Value {
	if a.boolMask {
		mask = b.Select(mask, b.Splat(dt, 0, mask.Shape...), b.Splat(dt, math.Inf(-1), mask.Shape...))
	}
	mask = b.Convert(mask, dt)
	switch a.mask {
	case sampleMask:
		return b.Reshape(mask, a.b, 1, 1, a.tk)
	case queryMask:
		return b.Reshape(mask, 1, 1, a.tq, a.tk)
	}
	return b.Reshape(mask, a.b, 1, a.tq, a.tk)
}

// split gives x [B, T, groups·hd] its heads: [B, T, groups, hd].
func (a attention) split(b *hlo.Builder, x hlo.Value, t, groups int) hlo.Value {
	return b.Reshape(x, a.b, t, groups, a.hd)
}

// repeat gives each head of queries its head of keys or values: [B, Tk, heads, hd].
func (a attention) repeat(b *hlo.Builder, x hlo.Value) hlo.Value {
	x = a.split(b, x, a.tk, a.groups)
	if a.groups == a.heads {
		return x
	}
	x = b.Spread(x, []int{a.b, a.tk, a.groups, a.heads / a.groups, a.hd}, 0, 1, 2, 4)
	return b.Reshape(x, a.b, a.tk, a.heads, a.hd)
}

func (a attention) lower(b *hlo.Builder, in []hlo.Value, want []bool) []hlo.Value {
	q, k, v := b.Narrow(in[0]), b.Narrow(in[1]), b.Narrow(in[2])
	if f := a.fused(); b.Fuses(f) {
		return a.lowerFused(b, f, append([]hlo.Value{q, k, v}, in[3:]...), want)
	}
	wide := b.Wide(q).DType
	heads := []int{0, 2}
	scores := b.Dot(a.split(b, q, a.tq, a.heads), a.repeat(b, k), heads, heads, []int{3}, []int{3}, wide) // [B, heads, Tq, Tk]
	scores = b.Scale(scores, 1/math.Sqrt(float64(a.hd)))
	if len(in) > 3 {
		scores = b.Add(scores, b.Spread(a.scoresMask(b, in[3], wide), scores.Shape, 0, 1, 2, 3))
	}
	weights := b.Convert(a.lowerWeights(b, scores), q.DType)
	y := b.Dot(weights, a.repeat(b, v), []int{0, 1}, heads, []int{3}, []int{1}, q.DType) // [B, heads, Tq, hd]
	return []hlo.Value{b.Reshape(b.Transpose(y, 0, 2, 1, 3), a.b, a.tq, a.d), weights}
}

// lowerWeights is a softmax in which a row of only −∞ gives zeros.
func (a attention) lowerWeights(b *hlo.Builder, scores hlo.Value) hlo.Value {
	if a.mask == noMask {
		return lowerSoftmax(b, scores)
	}
	repeat := func(v hlo.Value) hlo.Value { return b.Spread(v, scores.Shape, 0, 1, 2) }
	top := b.Reduce("maximum", scores, math.Inf(-1), 3)
	shut := b.Compare("EQ", top, b.Splat(top.DType, math.Inf(-1), top.Shape...))
	top = b.Select(shut, b.Splat(top.DType, 0, top.Shape...), top)
	e := b.Unary("exponential", b.Sub(scores, repeat(top)))
	sum := b.Sum(e, 3)
	sum = b.Select(shut, b.Splat(sum.DType, 1, sum.Shape...), sum)
	return b.Div(e, repeat(sum))
}

func (a attention) lowerGrad(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	q, k, v, weights, up := b.Narrow(in[0]), b.Narrow(in[1]), b.Narrow(in[2]), in[3], b.Narrow(in[4])
	if weights.Kept != nil {
		return a.lowerFusedGrad(b, a.fused(), in, []hlo.Value{q, k, v}, weights.Kept, up)
	}
	wide := b.Wide(q).DType
	upHeads := a.split(b, up, a.tq, a.heads)
	dv := b.Dot(weights, upHeads, []int{0, 1}, []int{0, 2}, []int{2}, []int{1}, q.DType)                  // [B, heads, Tk, hd]
	dp := b.Dot(upHeads, a.repeat(b, v), []int{0, 2}, []int{0, 2}, []int{3}, []int{3}, wide)              // [B, heads, Tq, Tk]
	ds := b.Scale(lowerSoftmaxGrad(b, b.Wide(weights), dp), 1/math.Sqrt(float64(a.hd)))                   // [B, heads, Tq, Tk]
	dsA := b.Convert(ds, q.DType)                                                                         // [B, heads, Tq, Tk]
	dq := b.Dot(dsA, a.repeat(b, k), []int{0, 1}, []int{0, 2}, []int{3}, []int{1}, q.DType)               // [B, heads, Tq, hd]
	dk := b.Dot(dsA, a.split(b, q, a.tq, a.heads), []int{0, 1}, []int{0, 2}, []int{2}, []int{1}, q.DType) // [B, heads, Tk, hd]
	return []hlo.Value{
		b.Convert(b.Reshape(b.Transpose(dq, 0, 2, 1, 3), a.b, a.tq, a.d), in[0].DType),
		b.Convert(a.join(b, dk), in[1].DType),
		b.Convert(a.join(b, dv), in[2].DType),
	}
}

// join is the opposite of repeat for gradients [B, heads, Tk, hd]: heads that share keys add up.
func (a attention) join(b *hlo.Builder, x hlo.Value) hlo.Value {
	if share := a.heads / a.groups; share > 1 {
		x = b.Convert(b.Sum(b.Wide(b.Reshape(x, a.b, a.groups, share, a.tk, a.hd)), 2), x.DType)
	}
	return b.Reshape(b.Transpose(x, 0, 2, 1, 3), a.b, a.tk, a.groups*a.hd)
}

// fused describes the attention to cuDNN.
func (a attention) fused() hlo.Attention {
	return hlo.Attention{Batch: a.b, Queries: a.tq, Keys: a.tk, Heads: a.heads, KeyHeads: a.groups, HeadDim: a.hd,
		Scale: 1 / math.Sqrt(float64(a.hd)), Bias: a.mask != noMask}
}

// shutOut is −2⁴¹: as a term of the scores it leaves a key no weight, and cuDNN may subtract two of them.
const shutOut = -2 << 40

// bias is the mask as cuDNN takes it, and which queries may attend some key: [B or 1, 1, Tq, Tk] and [B or 1, Tq or 1, 1].
func (a attention) bias(b *hlo.Builder, mask hlo.Value) (bias, open hlo.Value) {
	scores := a.scoresMask(b, mask, hlo.F32)
	top := b.Reduce("maximum", scores, math.Inf(-1), 3)
	open = b.Compare("GT", top, b.Splat(hlo.F32, math.Inf(-1), top.Shape...)) // [B or 1, 1, Tq or 1]
	bias = b.Binary("maximum", scores, b.Splat(hlo.F32, shutOut, scores.Shape...))
	bias = b.Spread(b.Convert(bias, hlo.BF16), []int{scores.Shape[0], 1, a.tq, a.tk}, 0, 1, 2, 3)
	return bias, b.Reshape(open, top.Shape[0], top.Shape[2], 1)
}

// where sets the rows of x [B, Tq, D] to zero whose query may attend no key.
func (a attention) where(b *hlo.Builder, open, x hlo.Value) hlo.Value {
	return b.Select(b.Spread(open, x.Shape, 0, 1, 2), x, b.Splat(x.DType, 0, x.Shape...))
}

func (a attention) lowerFused(b *hlo.Builder, f hlo.Attention, in []hlo.Value, want []bool) []hlo.Value {
	heads := []hlo.Value{a.split(b, in[0], a.tq, a.heads), a.split(b, in[1], a.tk, a.groups), a.split(b, in[2], a.tk, a.groups)}
	var open hlo.Value
	if f.Bias {
		var bias hlo.Value
		bias, open = a.bias(b, in[3])
		heads = append(heads, bias)
	}
	y, stats := b.FusedAttention(f, heads, want[1])
	flat := b.Reshape(y, a.b, a.tq, a.d)
	kept := hlo.Value{Kept: []hlo.Value{stats, y}}
	if f.Bias {
		flat = a.where(b, open, flat)
		kept.Kept = append(kept.Kept, heads[3], open)
	}
	return []hlo.Value{flat, kept}
}

func (a attention) lowerFusedGrad(b *hlo.Builder, f hlo.Attention, in, qkv, kept []hlo.Value, up hlo.Value) []hlo.Value {
	stats, y := kept[0], kept[1]
	if f.Bias {
		up = a.where(b, kept[3], up)
	}
	heads := []hlo.Value{a.split(b, qkv[0], a.tq, a.heads), a.split(b, qkv[1], a.tk, a.groups), a.split(b, qkv[2], a.tk, a.groups),
		stats, a.split(b, up, a.tq, a.heads)}
	if f.Bias {
		heads = append(heads, kept[2])
	}
	grads := b.FusedAttentionGrad(f, append(heads, y))
	for i, t := range []int{a.tq, a.tk, a.tk} {
		grads[i] = b.Convert(b.Reshape(grads[i], a.b, t, grads[i].Size()/(a.b*t)), in[i].DType)
	}
	return grads
}
