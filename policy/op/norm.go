package op

import (
	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// LayerNorm normalises the last axis to mean 0 and variance 1, then multiplies by gain and adds bias, either of which may be nil:
// x [..., d], gain and bias [d]. eps is added to the variance. Source: Ba et al. 2016, equation 3.
func LayerNorm(x, gain, bias *Node, eps float64) *Node {
	return norm("layernorm", true, x, gain, bias, eps)
}

// RMSNorm divides the last axis by the root of its mean square plus eps, then multiplies by gain, which may be nil: x [..., d],
// gain [d]. Source: Zhang and Sennrich 2019, equation 4.
func RMSNorm(x, gain *Node, eps float64) *Node { return norm("rmsnorm", false, x, gain, nil, eps) }

func norm(name string, centre bool, x, gain, bias *Node, eps float64) *Node {
	if x.Dims() < 1 {
		fail("%s: x %v has no last axis", name, x.Shape())
	}
	d := last(x.Shape())
	for _, row := range []*Node{gain, bias} {
		if row != nil && !same(row.Shape(), tensor.Shape{d}) {
			fail("%s: x %v and gain or bias %v: the last axis has %d elements", name, x.Shape(), row.Shape(), d)
		}
	}
	p := normParams{centre, gain != nil, bias != nil, d, eps}
	nodes, split := p.nodes([]*Node{x}, gain, bias)
	dt := floats(name, nodes...)
	f := &Family{
		Name: name, Attrs: p.attrs(),
		In:      args(nodes, split...),
		Out:     []Result{{Dtype: dt, Shape: x.Shape()}},
		Units:   size(x.Shape()) / d,
		compute: pick(dt, runNorm[float32](p), runNorm[float64](p)),
		lower:   one(p.lower),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes { return normGrad(name, p, in, grad) }
	return f.apply(0, nodes...)
}

// normParams are the attributes of a norm. Its inputs are x, then gain and bias if it has them.
type normParams struct {
	centre, gain, bias bool
	d                  int
	eps                float64
}

func (p normParams) attrs() string {
	s := attr("eps", p.eps)
	if p.gain {
		s += ",gain"
	}
	if p.bias {
		s += ",bias"
	}
	return s
}

// nodes appends the row vectors that are present and says that only the first nodes are cut.
func (p normParams) nodes(first []*Node, rows ...*Node) (nodes []*Node, split []bool) {
	for _, n := range first {
		nodes, split = append(nodes, n), append(split, true)
	}
	for _, n := range rows {
		if n != nil {
			nodes, split = append(nodes, n), append(split, false)
		}
	}
	return nodes, split
}

func runNorm[T kernel.Float](p normParams) func(*Call) {
	return func(c *Call) {
		var gain, bias []T
		next := 1
		if p.gain {
			gain = in[T](c, next)
			next++
		}
		if p.bias {
			bias = in[T](c, next)
		}
		kernel.Norm(p.centre, out[T](c, 0), in[T](c, 0), gain, bias, p.d, p.eps)
	}
}

// normGrad returns the gradients with respect to x, gain and bias. One pass gives them all.
func normGrad(name string, p normParams, fwd gorgonia.Nodes, grad *Node) gorgonia.Nodes {
	x := fwd[0]
	var gain *Node
	if p.gain {
		gain = fwd[1]
	}
	nodes, split := p.nodes([]*Node{x, grad}, gain)
	f := &Family{
		Name: name + "grad", Attrs: p.attrs(),
		In:    args(nodes, split...),
		Out:   []Result{{Dtype: x.Dtype(), Shape: x.Shape()}},
		Units: size(x.Shape()) / p.d,
	}
	for range fwd[1:] {
		f.Out = append(f.Out, Result{Dtype: x.Dtype(), Shape: tensor.Shape{p.d}, Reduce: true})
	}
	f.compute = pick(x.Dtype(), runNormGrad[float32](p), runNormGrad[float64](p))
	f.lower = p.lowerGrad
	grads := make(gorgonia.Nodes, len(fwd))
	for i := range grads {
		grads[i] = f.apply(i, nodes...)
	}
	return grads
}

func runNormGrad[T kernel.Float](p normParams) func(*Call) {
	return func(c *Call) {
		x, dy := in[T](c, 0), in[T](c, 1)
		var gain, dgain, dbias []T
		if p.gain {
			gain = in[T](c, 2)
		}
		if c.wants(0) {
			kernel.NormGrad(p.centre, out[T](c, 0), x, gain, dy, p.d, p.eps)
		}
		next := 1
		if p.gain {
			if c.wants(next) {
				dgain = out[T](c, next)
			}
			next++
		}
		if p.bias && c.wants(next) {
			dbias = out[T](c, next)
		}
		if dgain != nil || dbias != nil {
			kernel.NormParamGrad(p.centre, dgain, dbias, x, dy, p.d, p.eps)
		}
	}
}

// mean is the mean over the last axis, repeated to x's shape.
func lowerMean(b *hlo.Builder, x hlo.Value) hlo.Value {
	axis := len(x.Shape) - 1
	return b.Spread(b.Scale(b.Sum(x, axis), 1/float64(x.Shape[axis])), x.Shape, axesTo(axis)...)
}

// normalised is (x − mean)/√(variance + eps), and the reciprocal root.
func (p normParams) normalised(b *hlo.Builder, x hlo.Value) (hat, scale hlo.Value) {
	if p.centre {
		x = b.Sub(x, lowerMean(b, x))
	}
	scale = b.Unary("rsqrt", b.Shift(lowerMean(b, b.Mul(x, x)), p.eps))
	return b.Mul(x, scale), scale
}

func (p normParams) lower(b *hlo.Builder, in []hlo.Value) hlo.Value {
	y, _ := p.normalised(b, b.Wide(in[0]))
	next := 1
	if p.gain {
		y = b.Mul(y, row(b, b.Wide(in[next]), y.Shape))
		next++
	}
	if p.bias {
		y = b.Add(y, row(b, b.Wide(in[next]), y.Shape))
	}
	return b.Convert(y, in[0].DType)
}

func (p normParams) lowerGrad(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value {
	hat, scale := p.normalised(b, b.Wide(b.Again(in[0])))
	up := b.Wide(in[1])
	rows := axesTo(len(up.Shape) - 1)
	g := up
	if p.gain {
		g = b.Mul(up, row(b, b.Wide(in[2]), up.Shape))
	}
	down := b.Sub(g, b.Mul(hat, lowerMean(b, b.Mul(g, hat))))
	if p.centre {
		down = b.Sub(down, lowerMean(b, g))
	}
	out := []hlo.Value{b.Convert(b.Mul(scale, down), in[0].DType)}
	if p.gain {
		out = append(out, b.Sum(b.Mul(up, hat), rows...))
	}
	if p.bias {
		out = append(out, b.Sum(up, rows...))
	}
	return out
}
