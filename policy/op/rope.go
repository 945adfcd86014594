package op

import (
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// RoPE turns pairs of features by angles that grow with the position: x [B, T, D], heads of D/heads features, of which feature j of the
// first half is paired with feature j of the second half and turned by (start + t)·base^(−2j·heads/D). Source: Su et al. 2021, section
// 3.2, with the pairs of two halves that Llama and Gemma use.
func RoPE(x *Node, heads int, base float64, start int) *Node {
	s := x.Shape()
	if len(s) != 3 || heads < 1 || s[2]%(2*heads) != 0 {
		fail("rope: x %v: want [B,T,D] with axis 2 dividing into %d heads of an even size", s, heads)
	}
	if !(base > 0) {
		fail("rope: base %v, want more than 0", base)
	}
	return rope(x, ropeParams{heads, s[2] / heads, s[1], start, base, 1})
}

type ropeParams struct {
	heads, d, t, start int
	base               float64
	sign               float64 // 1 forward, −1 back
}

func rope(x *Node, p ropeParams) *Node {
	f := elementwise("rope", x)
	f.Units = x.Shape()[0]
	f.Attrs = attr("heads", p.heads) + attr(",base", p.base) + attr(",start", p.start) + attr(",sign", p.sign)
	f.compute = pick(x.Dtype(), runRope[float32](p), runRope[float64](p))
	f.lower = one(p.lower)
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		back := p
		back.sign = -p.sign
		return gorgonia.Nodes{rope(grad, back)}
	}
	return f.apply(0, x)
}

func runRope[T kernel.Float](p ropeParams) func(*Call) {
	c64, s64 := p.turns()
	cos, sin := make([]T, len(c64)), make([]T, len(s64))
	for i := range cos {
		cos[i], sin[i] = T(c64[i]), T(s64[i])
	}
	return func(c *Call) { kernel.Rotate(out[T](c, 0), in[T](c, 0), cos, sin, p.heads, p.d, p.t, T(p.sign)) }
}

// turns gives cosine and sine of each angle: [t, d/2].
func (p ropeParams) turns() (cos, sin []float64) {
	half := p.d / 2
	for t := range p.t {
		for j := range half {
			angle := float64(p.start+t) * math.Pow(p.base, -2*float64(j)/float64(p.d))
			cos, sin = append(cos, math.Cos(angle)), append(sin, math.Sin(angle))
		}
	}
	return cos, sin
}

func (p ropeParams) lower(b *hlo.Builder, in []hlo.Value) hlo.Value {
	x := b.Wide(in[0])
	n, half := x.Shape[0], p.d/2
	cos, sin := p.turns()
	for i := range sin {
		sin[i] *= p.sign
	}
	shape := []int{n, p.t, p.heads, 1, half}
	table := func(data []float64) hlo.Value { return b.Spread(b.Table(x.DType, data, p.t, half), shape, 1, 4) }
	c, s := table(cos), table(sin)
	pairs := b.Reshape(x, n, p.t, p.heads, 2, half)
	first, second := b.Slice(pairs, 3, 0, 1), b.Slice(pairs, 3, 1, 2)
	turned := b.Concat(3, b.Sub(b.Mul(first, c), b.Mul(second, s)), b.Add(b.Mul(second, c), b.Mul(first, s)))
	return b.Convert(b.Reshape(turned, x.Shape...), in[0].DType)
}
