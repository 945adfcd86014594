package op

import (
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// Softmax returns e^x / Σ e^x over the last axis. A row of only −∞ gives NaN.
func Softmax(x *Node) *Node {
	if x.Dims() < 1 {
		fail("softmax: x %v has no last axis", x.Shape())
	}
	d := last(x.Shape())
	f := elementwise("softmax", x)
	f.Units /= d
	f.compute = pick(x.Dtype(), runSoftmax[float32](d), runSoftmax[float64](d))
	f.lower = unary(lowerSoftmax)
	f.grad = func(_ gorgonia.Nodes, y, grad *Node) gorgonia.Nodes { return gorgonia.Nodes{softmaxGrad(y, grad)} }
	return f.apply(0, x)
}

// softmaxGrad returns y·(grad − Σ y·grad) from the softmax y.
func softmaxGrad(y, grad *Node) *Node {
	d := last(y.Shape())
	f := elementwise("softmaxgrad", y, grad)
	f.Units /= d
	f.compute = pick(y.Dtype(), runSoftmaxGrad[float32](d), runSoftmaxGrad[float64](d))
	f.lower = one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		return b.Convert(lowerSoftmaxGrad(b, b.Wide(in[0]), b.Wide(in[1])), in[0].DType)
	})
	return f.apply(0, y, grad)
}

func runSoftmax[T kernel.Float](d int) func(*Call) {
	return func(c *Call) { kernel.Softmax(out[T](c, 0), in[T](c, 0), d) }
}

func runSoftmaxGrad[T kernel.Float](d int) func(*Call) {
	return func(c *Call) { kernel.SoftmaxGrad(out[T](c, 0), in[T](c, 0), in[T](c, 1), d, 1) }
}

func lowerSoftmax(b *hlo.Builder, x hlo.Value) hlo.Value {
	axis := len(x.Shape) - 1
	repeat := func(v hlo.Value) hlo.Value { return b.Spread(v, x.Shape, axesTo(axis)...) }
	e := b.Unary("exponential", b.Sub(x, repeat(b.Reduce("maximum", x, math.Inf(-1), axis))))
	return b.Div(e, repeat(b.Sum(e, axis)))
}

// lowerSoftmaxGrad is y·(grad − Σ y·grad).
func lowerSoftmaxGrad(b *hlo.Builder, y, grad hlo.Value) hlo.Value {
	axis := len(y.Shape) - 1
	dot := b.Spread(b.Sum(b.Mul(y, grad), axis), y.Shape, axesTo(axis)...)
	return b.Mul(y, b.Sub(grad, dot))
}
