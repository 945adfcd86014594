package op

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Add returns a + b. Shapes are broadcast as numpy does: aligned at the last axis, an axis of one element or a missing axis is repeated.
func Add(a, b *Node) *Node { return binary("add", kernel.AddKind, a, b) }

// Sub returns a − b, broadcast as Add.
func Sub(a, b *Node) *Node { return binary("sub", kernel.SubKind, a, b) }

// Mul returns a·b element by element, broadcast as Add.
func Mul(a, b *Node) *Node { return binary("mul", kernel.MulKind, a, b) }

// Addition returns the family that adds two tensors of one shape (empty for bare scalars): what an engine runs in place of gorgonia's own
// additions, with which Grad sums the gradients of a node that is used more than once.
func Addition(dt tensor.Dtype, shape tensor.Shape) *Family {
	p := planBroadcast(shape, shape, shape)
	a := Arg{Dtype: dt, Shape: shape, Split: p.split[0]}
	return &Family{
		Name:    "add",
		In:      []Arg{a, a},
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   p.units,
		compute: pick(dt, runBinary[float32](kernel.AddKind, p), runBinary[float64](kernel.AddKind, p)),
		lower:   lowerBinary(kernel.AddKind, shape),
	}
}

// BroadcastTo repeats x to the given shape by the rule of Add.
func BroadcastTo(x *Node, shape ...int) *Node {
	if got := broadcastShape("broadcast", x.Shape(), shape); !same(got, shape) {
		fail("broadcast: x %v does not repeat to %v", x.Shape(), shape)
	}
	if same(x.Shape(), shape) {
		return x
	}
	dt := floats("broadcast", x)
	p := planBroadcast(shape, x.Shape())
	f := &Family{
		Name:    "broadcast",
		In:      args([]*Node{x}, p.split[0]),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   p.units,
		compute: pick(dt, runBroadcast[float32](p), runBroadcast[float64](p)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.BroadcastTo(in[0], shape) }),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{sumTo(grad, in[0].Shape())}
	}
	return f.apply(0, x)
}

func binary(name string, kind kernel.Kind, a, b *Node) *Node {
	dt := floats(name, a, b)
	shape := broadcastShape(name, a.Shape(), b.Shape())
	p := planBroadcast(shape, a.Shape(), b.Shape())
	f := &Family{
		Name:    name,
		In:      args([]*Node{a, b}, p.split[0], p.split[1]),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   p.units,
		compute: pick(dt, runBinary[float32](kind, p), runBinary[float64](kind, p)),
		lower:   lowerBinary(kind, shape),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		da, db := grad, grad
		switch kind {
		case kernel.SubKind:
			db = Scale(grad, -1)
		case kernel.MulKind:
			da, db = Mul(grad, in[1]), Mul(grad, in[0])
		}
		return gorgonia.Nodes{sumTo(da, in[0].Shape()), sumTo(db, in[1].Shape())}
	}
	return f.apply(0, a, b)
}

func broadcastShape(name string, a, b []int) tensor.Shape {
	shape := make(tensor.Shape, max(len(a), len(b)))
	for i := range shape {
		axis := len(shape) - 1 - i
		na, nb := axisFromEnd(a, i), axisFromEnd(b, i)
		switch {
		case na == nb || nb == 1:
			shape[axis] = na
		case na == 1:
			shape[axis] = nb
		default:
			fail("%s: shapes %v and %v do not broadcast: axis %d has %d and %d elements", name, a, b, axis, na, nb)
		}
	}
	return shape
}

func axisFromEnd(s []int, i int) int {
	if i >= len(s) {
		return 1
	}
	return s[len(s)-1-i]
}

// broadcastPlan walks a dense array of the full shape beside operands that repeat along some axes. Axis 0, along which the work is cut,
// stays; the others are merged wherever every operand allows it.
type broadcastPlan struct {
	units   int
	dims    []int   // dims[0] is axis 0
	strides [][]int // per operand, in elements; 0 repeats
	split   []bool  // per operand: cut along axis 0
}

func planBroadcast(full []int, operands ...[]int) broadcastPlan {
	dims := append([]int(nil), full...)
	if len(dims) == 0 {
		dims = []int{1}
	}
	p := broadcastPlan{dims: dims[:1], units: dims[0], strides: make([][]int, len(operands)), split: make([]bool, len(operands))}
	all := make([][]int, len(operands))
	for i, s := range operands {
		all[i] = stridesIn(s, len(dims))
		p.strides[i] = []int{all[i][0]}
		p.split[i] = all[i][0] != 0 || dims[0] == 1 && len(s) == len(dims)
	}
	for axis := 1; axis < len(dims); axis++ {
		if dims[axis] == 1 {
			continue
		}
		at := len(p.dims) - 1
		merge := at >= 1
		for i := range all {
			merge = merge && p.strides[i][at] == all[i][axis]*dims[axis]
		}
		if merge {
			p.dims[at] *= dims[axis]
		} else {
			p.dims = append(p.dims[:at+1:at+1], dims[axis])
		}
		for i := range all {
			if merge {
				p.strides[i][at] = all[i][axis]
			} else {
				p.strides[i] = append(p.strides[i], all[i][axis])
			}
		}
	}
	if len(dims) == 1 {
		// One axis: it is both the axis that is cut and the row that a kernel walks.
		p.dims = []int{1, p.dims[0]}
		for i := range p.strides {
			p.strides[i] = []int{0, p.strides[i][0]}
		}
	} else if len(p.dims) == 1 { // all further axes have one element
		p.dims = append(p.dims[:1:1], 1)
		for i := range p.strides {
			p.strides[i] = append(p.strides[i], 0)
		}
	}
	return p
}

// stridesIn returns the strides of a dense array of shape s seen with rank axes, 0 where it repeats.
func stridesIn(s []int, rank int) []int {
	strides := make([]int, rank)
	step := 1
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] > 1 {
			strides[rank-len(s)+i] = step
		}
		step *= s[i]
	}
	return strides
}

// each calls f for every run of the two inner axes, with their sizes and the element offsets in the full array and in each operand, for
// the share count/units of axis 0.
func (p *broadcastPlan) each(count, units int, f func(rows, cols, at int, offsets [2]int)) {
	var offsets [2]int
	dims := p.dims
	inner := len(dims) - 1
	first := dims[0] * count / units
	if len(dims) == 2 {
		if dims[0] == 1 && p.units > 1 { // the cut axis is the row itself
			f(1, dims[1]*count/units, 0, offsets)
			return
		}
		f(first, dims[1], 0, offsets)
		return
	}
	block := dims[inner-1] * dims[inner]
	outer := first
	for _, d := range dims[1 : inner-1] {
		outer *= d
	}
	for o := range outer {
		rest := o
		offsets = [2]int{}
		for axis := inner - 2; axis >= 0; axis-- {
			index := rest
			if axis > 0 {
				index = rest % dims[axis]
				rest /= dims[axis]
			}
			for i := range p.strides {
				offsets[i] += index * p.strides[i][axis]
			}
		}
		f(dims[inner-1], dims[inner], o*block, offsets)
	}
}

// rowCol returns the strides of operand i along the two inner axes.
func (p *broadcastPlan) rowCol(i int) (row, col int) {
	s := p.strides[i]
	return s[len(s)-2], s[len(s)-1]
}

func runBinary[T kernel.Float](kind kernel.Kind, p broadcastPlan) func(*Call) {
	ar, ac := p.rowCol(0)
	br, bc := p.rowCol(1)
	return func(c *Call) {
		a, b, y := in[T](c, 0), in[T](c, 1), out[T](c, 0)
		p.each(c.Count, c.Units, func(rows, cols, o int, at [2]int) {
			kernel.Binary(kind, y[o:], rows, cols, a[at[0]:], ar, ac, b[at[1]:], br, bc)
		})
	}
}

func runBroadcast[T kernel.Float](p broadcastPlan) func(*Call) {
	xr, xc := p.rowCol(0)
	zero := make([]T, 1)
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		p.each(c.Count, c.Units, func(rows, cols, o int, at [2]int) {
			kernel.Binary(kernel.AddKind, y[o:], rows, cols, x[at[0]:], xr, xc, zero, 0, 0)
		})
	}
}

// sumTo sums x over the axes along which shape would repeat to x's shape: the gradient of a broadcast.
func sumTo(x *Node, shape tensor.Shape) *Node {
	if same(x.Shape(), shape) {
		return x
	}
	dt := floats("sum", x)
	p := planBroadcast(x.Shape(), shape)
	f := &Family{
		Name:    "sum",
		Attrs:   fmt.Sprint([]int(shape)),
		In:      args([]*Node{x}, true),
		Out:     []Result{{Dtype: dt, Shape: shape, Reduce: !p.split[0]}},
		Units:   p.units,
		compute: pick(dt, runSumTo[float32](p), runSumTo[float64](p)),
		lower:   lowerSumTo(x.Shape(), shape),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{BroadcastTo(grad, in[0].Shape()...)}
	}
	return f.apply(0, x)
}

func runSumTo[T kernel.Float](p broadcastPlan) func(*Call) {
	yr, yc := p.rowCol(0)
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		if p.split[0] {
			clear(y)
		}
		p.each(c.Count, c.Units, func(rows, cols, o int, at [2]int) {
			kernel.SumTo(y[at[0]:], yr, yc, x[o:], rows, cols)
		})
	}
}

// lowerBinary keeps a sum of two activations in their own element type, so that XLA can join it with the product before it.
func lowerBinary(kind kernel.Kind, shape []int) lowering {
	name := map[kernel.Kind]string{kernel.AddKind: "add", kernel.SubKind: "subtract", kernel.MulKind: "multiply"}[kind]
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		x, y := in[0], in[1]
		dt := hlo.Join(x, y)
		if x.DType != y.DType {
			x, y = b.Wide(x), b.Wide(y)
		}
		return b.Convert(b.Binary(name, b.BroadcastTo(x, shape), b.BroadcastTo(y, shape)), dt)
	})
}

// lowerSumTo adds up, in wide numbers, the axes along which shape would repeat to full.
func lowerSumTo(full, shape []int) lowering {
	var axes []int
	for i := range full {
		at := i - (len(full) - len(shape))
		if at < 0 || shape[at] == 1 && full[i] != 1 {
			axes = append(axes, i)
		}
	}
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		return b.Reshape(b.Sum(b.Wide(in[0]), axes...), shape...)
	})
}
