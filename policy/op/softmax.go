package op

import (
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
	f.grad = func(_ gorgonia.Nodes, y, grad *Node) gorgonia.Nodes { return gorgonia.Nodes{softmaxGrad(y, grad)} }
	return f.apply(0, x)
}

// softmaxGrad returns y·(grad − Σ y·grad) from the softmax y.
func softmaxGrad(y, grad *Node) *Node {
	d := last(y.Shape())
	f := elementwise("softmaxgrad", y, grad)
	f.Units /= d
	f.compute = pick(y.Dtype(), runSoftmaxGrad[float32](d), runSoftmaxGrad[float64](d))
	return f.apply(0, y, grad)
}

func runSoftmax[T kernel.Float](d int) func(*Call) {
	return func(c *Call) { kernel.Softmax(out[T](c, 0), in[T](c, 0), d) }
}

func runSoftmaxGrad[T kernel.Float](d int) func(*Call) {
	return func(c *Call) { kernel.SoftmaxGrad(out[T](c, 0), in[T](c, 0), in[T](c, 1), d, 1) }
}
