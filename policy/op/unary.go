package op

import (
	"fmt"
	"strconv"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// GELU returns x·Φ(x) in its tanh form: 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))). Source: Hendrycks and Gimpel 2016, section 2.
func GELU(x *Node) *Node { return activation("gelu", kernel.GELU, x) }

// SiLU returns x·σ(x).
func SiLU(x *Node) *Node { return activation("silu", kernel.SiLU, x) }

// Tanh returns tanh(x).
func Tanh(x *Node) *Node { return activation("tanh", kernel.Tanh, x) }

// BiasGELU returns GELU(x + bias), bias [last axis]. After a Linear give the bias to Linear, which adds it at no cost.
func BiasGELU(x, bias *Node) *Node { return GELU(Add(x, bias)) }

// Scale returns c·x.
func Scale(x *Node, c float64) *Node { return affine("scale", x, c, 0) }

// AddConst returns x + c.
func AddConst(x *Node, c float64) *Node { return affine("addconst", x, 1, c) }

// elementwise describes a function of one argument that works element by element.
func elementwise(name string, nodes ...*Node) *Family {
	dt := floats(name, nodes...)
	split := make([]bool, len(nodes))
	for i := range split {
		split[i] = true
	}
	shape := nodes[0].Shape()
	return &Family{Name: name, In: args(nodes, split...), Out: []Result{{Dtype: dt, Shape: shape}}, Units: size(shape)}
}

func activation(name string, kind kernel.Activation, x *Node) *Node {
	f := elementwise(name, x)
	f.compute = pick(x.Dtype(), runActivation[float32](kind), runActivation[float64](kind))
	f.lower = unary(func(b *hlo.Builder, x hlo.Value) hlo.Value { return lowerActivation(b, kind, x) })
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{activationGrad(name, kind, in[0], grad)}
	}
	return f.apply(0, x)
}

func activationGrad(name string, kind kernel.Activation, x, grad *Node) *Node {
	f := elementwise(name+"grad", x, grad)
	f.compute = pick(x.Dtype(), runActivationGrad[float32](kind), runActivationGrad[float64](kind))
	f.lower = one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		return b.Convert(b.Mul(lowerSlope(b, kind, b.Wide(b.Again(in[0]))), b.Wide(in[1])), in[0].DType)
	})
	return f.apply(0, x, grad)
}

func runActivation[T kernel.Float](kind kernel.Activation) func(*Call) {
	return func(c *Call) { kernel.Activate(kind, out[T](c, 0), in[T](c, 0)) }
}

func runActivationGrad[T kernel.Float](kind kernel.Activation) func(*Call) {
	return func(c *Call) { kernel.ActivateGrad(kind, out[T](c, 0), in[T](c, 0), in[T](c, 1)) }
}

func affine(name string, x *Node, scale, shift float64) *Node {
	f := elementwise(name, x)
	f.Attrs = strconv.FormatFloat(scale, 'g', -1, 64) + "," + strconv.FormatFloat(shift, 'g', -1, 64)
	f.compute = pick(x.Dtype(), runAffine[float32](scale, shift), runAffine[float64](scale, shift))
	f.lower = unary(func(b *hlo.Builder, x hlo.Value) hlo.Value {
		if scale != 1 {
			x = b.Scale(x, scale)
		}
		if shift != 0 {
			x = b.Shift(x, shift)
		}
		return x
	})
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		if scale == 1 {
			return gorgonia.Nodes{grad}
		}
		return gorgonia.Nodes{Scale(grad, scale)}
	}
	return f.apply(0, x)
}

func runAffine[T kernel.Float](scale, shift float64) func(*Call) {
	return func(c *Call) { kernel.Affine(out[T](c, 0), in[T](c, 0), T(scale), T(shift)) }
}

// attr writes a number into a family's attributes with all its digits.
func attr(name string, v any) string { return fmt.Sprintf("%s=%v", name, v) }

// geluInner returns tanh(√(2/π)·(x + 0.044715·x³)) and x².
func geluInner(b *hlo.Builder, x hlo.Value) (tanh, square hlo.Value) {
	square = b.Mul(x, x)
	inner := b.Mul(x, b.Shift(b.Scale(square, geluCubic), 1))
	return b.Unary("tanh", b.Scale(inner, geluRoot)), square
}

// The constants of GELU's tanh form.
const (
	geluRoot  = 0.7978845608028654 // √(2/π)
	geluCubic = 0.044715
)

func lowerActivation(b *hlo.Builder, kind kernel.Activation, x hlo.Value) hlo.Value {
	switch kind {
	case kernel.GELU:
		t, _ := geluInner(b, x)
		return b.Mul(b.Scale(x, 0.5), b.Shift(t, 1))
	case kernel.SiLU:
		return b.Mul(x, b.Unary("logistic", x))
	default:
		return b.Unary("tanh", x)
	}
}

// lowerSlope is the derivative of an activation at x.
func lowerSlope(b *hlo.Builder, kind kernel.Activation, x hlo.Value) hlo.Value {
	switch kind {
	case kernel.GELU: // (1 + t)/2 + x/2·(1 − t²)·√(2/π)·(1 + 3·0.044715·x²)
		t, square := geluInner(b, x)
		inner := b.Shift(b.Scale(square, 3*geluCubic*geluRoot), geluRoot)
		turn := b.Shift(b.Scale(b.Mul(t, t), -1), 1)
		return b.Scale(b.Add(b.Shift(t, 1), b.Mul(b.Mul(x, turn), inner)), 0.5)
	case kernel.SiLU: // s·(1 + x·(1 − s))
		s := b.Unary("logistic", x)
		return b.Mul(s, b.Shift(b.Mul(x, b.Shift(b.Scale(s, -1), 1)), 1))
	default:
		t := b.Unary("tanh", x)
		return b.Shift(b.Scale(b.Mul(t, t), -1), 1)
	}
}
