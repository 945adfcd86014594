package op

import (
	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Linear returns x·w + b over the last axis: x [..., in], w [in, out], b [out] or nil, result [..., out].
func Linear(x, w, b *Node) *Node {
	if w.Dims() != 2 || x.Dims() < 1 || last(x.Shape()) != w.Shape()[0] {
		fail("linear: x %v and w %v: the last axis of x must be axis 0 of w", x.Shape(), w.Shape())
	}
	if b != nil && !same(b.Shape(), tensor.Shape{w.Shape()[1]}) {
		fail("linear: w %v and b %v: axis 1 of w must be axis 0 of b, its only one", w.Shape(), b.Shape())
	}
	return linear(x, w, b, false)
}

// linear is Linear, with w [out, in] if transW.
func linear(x, w, b *Node, transW bool) *Node {
	nodes := []*Node{x, w}
	if b != nil {
		nodes = append(nodes, b)
	}
	dt := floats("linear", nodes...)
	k, n, attrs := w.Shape()[0], w.Shape()[1], ""
	if transW {
		k, n, attrs = n, k, "wᵀ"
	}
	shape := x.Shape()
	shape[len(shape)-1] = n
	f := &Family{
		Name: "linear", Attrs: attrs,
		In:      args(nodes, true, false, false),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   size(x.Shape()) / k,
		compute: pick(dt, runLinear[float32](k, n, transW), runLinear[float64](k, n, transW)),
		lower:   lowerLinear(transW),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		x, w := in[0], in[1]
		dx := linear(grad, w, nil, !transW)
		if transW { // w [n, k]: its gradient is gradᵀ·x
			dw := outer(grad, x, false)
			return append(gorgonia.Nodes{dx, dw[0]}, biasGrad(in, grad)...)
		}
		dw := outer(x, grad, len(in) > 2)
		return append(gorgonia.Nodes{dx}, dw...)
	}
	return f.apply(0, nodes...)
}

// biasGrad returns the gradient of the bias if a linear operation has one.
func biasGrad(in gorgonia.Nodes, grad *Node) gorgonia.Nodes {
	if len(in) < 3 {
		return nil
	}
	return gorgonia.Nodes{sumTo(grad, in[2].Shape())}
}

func runLinear[T kernel.Float](k, n int, transW bool) func(*Call) {
	return func(c *Call) {
		var bias []T
		if len(c.In) > 2 {
			bias = in[T](c, 2)
		}
		kernel.Linear(transW, n, k, in[T](c, 0), in[T](c, 1), bias, out[T](c, 0))
	}
}

func lowerLinear(transW bool) lowering {
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		x, w, sum := b.Narrow(in[0]), b.Narrow(in[1]), 0
		if transW {
			sum = 1
		}
		y := b.Dot(x, w, nil, nil, []int{len(x.Shape) - 1}, []int{sum}, x.DType)
		if len(in) > 2 {
			y = b.Add(y, row(b, b.Convert(in[2], y.DType), y.Shape))
		}
		return y
	})
}

// outer returns Σ over rows of xᵀ·y for x [..., k] and y [..., n] of equally many rows: [k, n]; and, if sums is set, Σ over rows of y: [n].
func outer(x, y *Node, sums bool) gorgonia.Nodes {
	dt := floats("outer", x, y)
	k, n := last(x.Shape()), last(y.Shape())
	rows := size(x.Shape()) / k
	if size(y.Shape())/n != rows {
		fail("outer: x %v and y %v have %d and %d rows", x.Shape(), y.Shape(), rows, size(y.Shape())/n)
	}
	f := &Family{
		Name:    "outer",
		In:      args([]*Node{x, y}, true, true),
		Out:     []Result{{Dtype: dt, Shape: tensor.Shape{k, n}, Reduce: true}},
		Units:   rows,
		compute: pick(dt, runOuter[float32](k, n), runOuter[float64](k, n)),
		lower:   lowerOuter,
	}
	if !sums {
		return gorgonia.Nodes{f.apply(0, x, y)}
	}
	f.Out = append(f.Out, Result{Dtype: dt, Shape: tensor.Shape{n}, Reduce: true})
	return gorgonia.Nodes{f.apply(0, x, y), f.apply(1, x, y)}
}

func runOuter[T kernel.Float](k, n int) func(*Call) {
	return func(c *Call) {
		x, y := in[T](c, 0), in[T](c, 1)
		rows := len(x) / k
		if c.wants(0) {
			kernel.Gemm(true, false, k, n, rows, x, k, y, n, 1, out[T](c, 0), n)
		}
		if len(c.Out) > 1 && c.wants(1) {
			kernel.SumTo(out[T](c, 1), 0, 1, y, rows, n)
		}
	}
}

func lowerOuter(b *hlo.Builder, in []hlo.Value, want []bool) []hlo.Value {
	x, y := b.Narrow(in[0]), b.Narrow(in[1])
	rows := axesTo(len(x.Shape) - 1)
	if len(x.Shape) != len(y.Shape) { // rows are the same elements in other shapes
		x, y = b.Reshape(x, x.Size()/last(x.Shape), last(x.Shape)), b.Reshape(y, y.Size()/last(y.Shape), last(y.Shape))
		rows = []int{0}
	}
	out := []hlo.Value{b.Dot(x, y, nil, nil, rows, rows, b.Wide(in[0]).DType)}
	if len(want) > 1 {
		out = append(out, b.Sum(b.Wide(y), rows...))
	}
	return out
}
