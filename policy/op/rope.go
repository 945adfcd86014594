package op

import (
	"math"

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
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		back := p
		back.sign = -p.sign
		return gorgonia.Nodes{rope(grad, back)}
	}
	return f.apply(0, x)
}

func runRope[T kernel.Float](p ropeParams) func(*Call) {
	half := p.d / 2
	cos, sin := make([]T, p.t*half), make([]T, p.t*half)
	for t := range p.t {
		for j := range half {
			angle := float64(p.start+t) * math.Pow(p.base, -2*float64(j)/float64(p.d))
			cos[t*half+j], sin[t*half+j] = T(math.Cos(angle)), T(math.Sin(angle))
		}
	}
	return func(c *Call) { kernel.Rotate(out[T](c, 0), in[T](c, 0), cos, sin, p.heads, p.d, p.t, T(p.sign)) }
}
