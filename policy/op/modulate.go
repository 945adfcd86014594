package op

import (
	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// Modulate returns x·(1 + scale) + shift. x is [B, ..., D]; shift and scale are both [B, D], one per sample, or both of x's shape. It is
// the adaptive norm's second half (Peebles and Xie 2023, section 3.2).
func Modulate(x, shift, scale *Node) *Node {
	dt := floats("modulate", x, shift, scale)
	p := condition("modulate", x, shift)
	if !same(shift.Shape(), scale.Shape()) {
		fail("modulate: shift %v and scale %v differ", shift.Shape(), scale.Shape())
	}
	f := p.family("modulate", x, shift, scale)
	f.compute = pick(dt, runModulate[float32](p), runModulate[float64](p))
	f.lower = p.lowerModulate
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		g := p.family("modulategrad", grad, in[0], in[2])
		for range 2 {
			g.Out = append(g.Out, Result{Dtype: dt, Shape: in[1].Shape()})
		}
		g.compute = pick(dt, runModulateGrad[float32](p), runModulateGrad[float64](p))
		g.lower = p.lowerModulateGrad
		nodes := []*Node{grad, in[0], in[2]}
		return gorgonia.Nodes{g.apply(0, nodes...), g.apply(1, nodes...), g.apply(2, nodes...)}
	}
	return f.apply(0, x, shift, scale)
}

// Gate returns x + gate·y. x and y are [B, ..., D]; gate is [B, D], one per sample, or of x's shape.
func Gate(x, y, gate *Node) *Node {
	dt := floats("gate", x, y, gate)
	p := condition("gate", x, gate)
	if !same(x.Shape(), y.Shape()) {
		fail("gate: x %v and y %v differ", x.Shape(), y.Shape())
	}
	f := p.family("gate", x, y, gate)
	f.compute = pick(dt, runGate[float32](p), runGate[float64](p))
	f.lower = p.lowerGate
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		g := p.family("gategrad", grad, in[1], in[2])
		g.Out = append(g.Out, Result{Dtype: dt, Shape: in[2].Shape()})
		g.compute = pick(dt, runGateGrad[float32](p), runGateGrad[float64](p))
		g.lower = p.lowerGateGrad
		nodes := []*Node{grad, in[1], in[2]}
		return gorgonia.Nodes{grad, g.apply(0, nodes...), g.apply(1, nodes...)}
	}
	return f.apply(0, x, y, gate)
}

// conditioning says how the rows of a conditioning tensor meet the rows of x.
type conditioning struct {
	d   int // elements of a row
	per int // rows of x that share one row of the condition
}

func condition(name string, x, cond *Node) conditioning {
	xs, cs := x.Shape(), cond.Shape()
	switch {
	case len(xs) < 1:
	case same(xs, cs):
		return conditioning{last(xs), 1}
	case len(xs) >= 2 && same(cs, []int{xs[0], last(xs)}):
		return conditioning{last(xs), size(xs) / size(cs)}
	}
	fail("%s: x %v and condition %v: want the same shape, or axis 0 and the last axis of x", name, xs, cs)
	return conditioning{}
}

func (p conditioning) family(name string, nodes ...*Node) *Family {
	f := elementwise(name, nodes...)
	f.Units /= p.d * p.per
	return f
}

// blocks calls fn for each run of x's elements that share one row of the condition; with a condition of x's shape, once for all, and the
// condition's stride is d instead of 0.
func (p conditioning) blocks(n int, fn func(from, to, cond, stride int)) {
	if p.per == 1 {
		fn(0, n, 0, p.d)
		return
	}
	step := p.per * p.d
	for i := range n / step {
		fn(i*step, (i+1)*step, i*p.d, 0)
	}
}

func runModulate[T kernel.Float](p conditioning) func(*Call) {
	return func(c *Call) {
		x, shift, scale, y := in[T](c, 0), in[T](c, 1), in[T](c, 2), out[T](c, 0)
		p.blocks(len(x), func(from, to, cond, stride int) {
			kernel.Modulate(y[from:to], x[from:to], scale[cond:], shift[cond:], p.d, stride)
		})
	}
}

// runModulateGrad gives dx = g·(1 + scale), dshift = Σ g and dscale = Σ g·x, summed over the rows that share a row of the condition.
func runModulateGrad[T kernel.Float](p conditioning) func(*Call) {
	return func(c *Call) {
		g, x, scale := in[T](c, 0), in[T](c, 1), in[T](c, 2)
		p.blocks(len(x), func(from, to, cond, stride int) {
			if c.wants(0) {
				kernel.Modulate(out[T](c, 0)[from:to], g[from:to], scale[cond:], nil, p.d, stride)
			}
			if c.wants(1) {
				sumRows(p, out[T](c, 1)[cond:], g[from:to])
			}
			if c.wants(2) {
				sumProducts(p, out[T](c, 2)[cond:], g[from:to], x[from:to])
			}
		})
	}
}

func runGate[T kernel.Float](p conditioning) func(*Call) {
	return func(c *Call) {
		x, y, gate, o := in[T](c, 0), in[T](c, 1), in[T](c, 2), out[T](c, 0)
		p.blocks(len(x), func(from, to, cond, stride int) {
			kernel.Gate(o[from:to], x[from:to], y[from:to], gate[cond:], p.d, stride)
		})
	}
}

// runGateGrad gives dy = g·gate and dgate = Σ g·y.
func runGateGrad[T kernel.Float](p conditioning) func(*Call) {
	return func(c *Call) {
		g, y, gate := in[T](c, 0), in[T](c, 1), in[T](c, 2)
		p.blocks(len(g), func(from, to, cond, stride int) {
			if c.wants(0) {
				kernel.Binary(kernel.MulKind, out[T](c, 0)[from:to], (to-from)/p.d, p.d, g[from:], p.d, 1, gate[cond:], stride, 1)
			}
			if c.wants(1) {
				sumProducts(p, out[T](c, 1)[cond:], g[from:to], y[from:to])
			}
		})
	}
}

// sumRows writes the sum of g's rows to the condition's row, or g itself where the condition has x's shape.
func sumRows[T kernel.Float](p conditioning, to, g []T) {
	if p.per == 1 {
		copy(to, g)
		return
	}
	clear(to[:p.d])
	kernel.SumTo(to, 0, 1, g, p.per, p.d)
}

// sumProducts is sumRows of a·b.
func sumProducts[T kernel.Float](p conditioning, to, a, b []T) {
	if p.per == 1 {
		kernel.Binary(kernel.MulKind, to, len(a)/p.d, p.d, a, p.d, 1, b, p.d, 1)
		return
	}
	clear(to[:p.d])
	kernel.MulSum(to, a, b, p.d)
}

// meet repeats a condition, in wide numbers, to x's shape.
func (p conditioning) meet(b *hlo.Builder, cond hlo.Value, shape []int) hlo.Value {
	if p.per == 1 { // x may still have an axis of one element more
		return b.Reshape(b.Wide(cond), shape...)
	}
	return b.Spread(b.Wide(cond), shape, 0, len(shape)-1)
}

// part is the opposite of meet: sums over the rows that share a row of the condition, in the condition's shape and element type.
func (p conditioning) part(b *hlo.Builder, x, cond hlo.Value) hlo.Value {
	if p.per > 1 {
		x = b.Sum(x, axesTo(len(x.Shape) - 1)[1:]...)
	}
	return b.Convert(b.Reshape(x, cond.Shape...), cond.DType)
}

func (p conditioning) lowerModulate(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	x := b.Wide(in[0])
	y := b.Add(b.Mul(x, b.Shift(p.meet(b, in[2], x.Shape), 1)), p.meet(b, in[1], x.Shape))
	return []hlo.Value{b.Convert(y, hlo.Join(in...))}
}

func (p conditioning) lowerModulateGrad(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	g, x := b.Wide(in[0]), b.Wide(in[1])
	return []hlo.Value{
		b.Convert(b.Mul(g, b.Shift(p.meet(b, in[2], x.Shape), 1)), in[1].DType),
		p.part(b, g, in[2]),
		p.part(b, b.Mul(g, x), in[2]),
	}
}

func (p conditioning) lowerGate(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	x, y := b.Wide(in[0]), b.Wide(in[1])
	return []hlo.Value{b.Convert(b.Add(x, b.Mul(p.meet(b, in[2], x.Shape), y)), hlo.Join(in...))}
}

func (p conditioning) lowerGateGrad(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	g, y := b.Wide(in[0]), b.Wide(in[1])
	return []hlo.Value{
		b.Convert(b.Mul(g, p.meet(b, in[2], g.Shape)), in[1].DType),
		p.part(b, b.Mul(g, y), in[2]),
	}
}
