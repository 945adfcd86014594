package op

import (
	"fmt"
	"slices"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Reshape gives the elements of x, in memory order, another shape. One axis may be −1: it takes what is left.
func Reshape(x *Node, shape ...int) *Node {
	n := size(x.Shape())
	want := slices.Clone(shape)
	if i := slices.Index(want, -1); i >= 0 {
		want[i] = 1
		if known := size(want); known > 0 {
			want[i] = n / known
		}
	}
	if size(want) != n || len(want) == 0 || slices.Min(want) < 1 {
		fail("reshape: x %v to %v: %d elements do not fit", x.Shape(), shape, n)
	}
	if same(x.Shape(), want) {
		return x
	}
	f := elementwise("reshape", x)
	f.Out[0].Shape = want
	f.View = true
	f.compute = pick(x.Dtype(), runCopy[float32], runCopy[float64])
	f.lower = one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Reshape(in[0], want...) })
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{Reshape(grad, in[0].Shape()...)}
	}
	return f.apply(0, x)
}

func runCopy[T kernel.Float](c *Call) { copy(out[T](c, 0), in[T](c, 0)) }

// Transpose reorders the axes of x: axis i of the result is axis perm[i] of x.
func Transpose(x *Node, perm ...int) *Node {
	dt, s := floats("transpose", x), x.Shape()
	shape, back := make(tensor.Shape, len(s)), make([]int, len(s))
	sorted := slices.Sorted(slices.Values(perm))
	for i, axis := range sorted {
		if axis != i || len(perm) != len(s) {
			fail("transpose: x %v by %v: want every axis once", s, perm)
		}
	}
	for i, axis := range perm {
		shape[i], back[axis] = s[axis], i
	}
	if slices.IsSorted(perm) {
		return x
	}
	all := stridesOf(s)
	strides := make([]int, len(s))
	for i, axis := range perm {
		strides[i] = all[axis]
	}
	split := perm[0] == 0
	f := &Family{
		Name: "transpose", Attrs: fmt.Sprint(perm),
		In:      args([]*Node{x}, split),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   shape[0],
		compute: pick(dt, runTranspose[float32](shape, strides, split), runTranspose[float64](shape, strides, split)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Transpose(in[0], perm...) }),
	}
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes { return gorgonia.Nodes{Transpose(grad, back...)} }
	return f.apply(0, x)
}

// stridesOf returns the strides of a dense array in elements.
func stridesOf(s []int) []int {
	strides, step := make([]int, len(s)), 1
	for i := len(s) - 1; i >= 0; i-- {
		strides[i] = step
		step *= s[i]
	}
	return strides
}

func runTranspose[T kernel.Float](shape, strides []int, split bool) func(*Call) {
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		first := 0
		if !split {
			first = c.First
		}
		n := shape[0] * c.Count / c.Units
		at := 0
		for i := range n {
			at = gather(y, at, x, (first*shape[0]/c.Units+i)*strides[0], shape[1:], strides[1:])
		}
	}
}

// gather copies the strided array of x that starts at from to y[at:], densely, and returns the position after it.
func gather[T any](y []T, at int, x []T, from int, shape, strides []int) int {
	switch len(shape) {
	case 0:
		y[at] = x[from]
		return at + 1
	case 1:
		n, step := shape[0], strides[0]
		if step == 1 {
			copy(y[at:at+n], x[from:])
			return at + n
		}
		for i := range y[at : at+n] {
			y[at+i] = x[from+i*step]
		}
		return at + n
	}
	for i := range shape[0] {
		at = gather(y, at, x, from+i*strides[0], shape[1:], strides[1:])
	}
	return at
}

// Concat joins tensors along an axis; all other axes must be equal.
func Concat(axis int, xs ...*Node) *Node {
	if len(xs) == 0 {
		fail("concat: nothing to join")
	}
	dt := floats("concat", xs...)
	shape := xs[0].Shape()
	if axis < 0 || axis >= len(shape) {
		fail("concat: x %v has no axis %d", shape, axis)
	}
	shape[axis] = 0
	widths := make([]int, len(xs)) // elements that one row of each input adds
	for i, x := range xs {
		s := x.Shape()
		for a := range max(len(s), len(shape)) {
			if len(s) != len(shape) || a != axis && s[a] != shape[a] {
				fail("concat: x0 %v and x%d %v on axis %d: they differ at axis %d", xs[0].Shape(), i, s, axis, a)
			}
		}
		shape[axis] += s[axis]
		widths[i] = size(s[axis:])
	}
	f := &Family{
		Name: "concat", Attrs: attr("axis", axis),
		In:      args(xs, repeated(axis > 0, len(xs))...),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   size(shape[:axis]),
		compute: pick(dt, runConcat[float32](widths), runConcat[float64](widths)),
		lower: one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
			same := make([]hlo.Value, len(in))
			for i, x := range in {
				same[i] = b.Convert(x, hlo.Join(in...))
			}
			return b.Concat(axis, same...)
		}),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		grads, from := make(gorgonia.Nodes, len(in)), 0
		for i, x := range in {
			to := from + x.Shape()[axis]
			grads[i], from = Slice(grad, axis, from, to), to
		}
		return grads
	}
	return f.apply(0, xs...)
}

func repeated(v bool, n int) []bool {
	list := make([]bool, n)
	for i := range list {
		list[i] = v
	}
	return list
}

func runConcat[T kernel.Float](widths []int) func(*Call) {
	row := sum(widths)
	return func(c *Call) {
		y, from := out[T](c, 0), 0
		for i, w := range widths {
			x := in[T](c, i)
			for r := range len(y) / row {
				copy(y[r*row+from:r*row+from+w], x[r*w:])
			}
			from += w
		}
	}
}

func sum(list []int) (n int) {
	for _, v := range list {
		n += v
	}
	return n
}

// Slice returns elements [from, to) of one axis of x.
func Slice(x *Node, axis, from, to int) *Node {
	dt, s := floats("slice", x), x.Shape()
	if axis < 0 || axis >= len(s) || from < 0 || to <= from || to > s[axis] {
		fail("slice: x %v on axis %d: no elements [%d, %d)", s, axis, from, to)
	}
	if from == 0 && to == s[axis] {
		return x
	}
	shape := s.Clone()
	shape[axis] = to - from
	inner := size(s[axis+1:])
	p := window{row: s[axis] * inner, from: from * inner, to: to * inner}
	f := &Family{
		Name: "slice", Attrs: attr("axis", axis) + attr(",from", from),
		In:      args([]*Node{x}, axis > 0),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   size(s[:axis]),
		compute: pick(dt, runSlice[float32](p), runSlice[float64](p)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Slice(in[0], axis, from, to) }),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{unslice(grad, in[0].Shape(), axis, from)}
	}
	return f.apply(0, x)
}

// unslice puts x into zeros of the given shape, from the given element of an axis on.
func unslice(x *Node, shape tensor.Shape, axis, from int) *Node {
	dt := floats("unslice", x)
	inner := size(shape[axis+1:])
	to := from + x.Shape()[axis]
	p := window{row: shape[axis] * inner, from: from * inner, to: to * inner}
	f := &Family{
		Name: "unslice", Attrs: attr("axis", axis) + attr(",from", from),
		In:      args([]*Node{x}, axis > 0),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   size(shape[:axis]),
		compute: pick(dt, runUnslice[float32](p), runUnslice[float64](p)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Pad(in[0], axis, from, shape[axis]-to) }),
	}
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{Slice(grad, axis, from, to)}
	}
	return f.apply(0, x)
}

// window is elements [from, to) of each row.
type window struct{ row, from, to int }

func runSlice[T kernel.Float](p window) func(*Call) {
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		for w := p.to - p.from; len(y) > 0; x, y = x[p.row:], y[w:] {
			copy(y[:w], x[p.from:p.to])
		}
	}
}

func runUnslice[T kernel.Float](p window) func(*Call) {
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		for w := p.to - p.from; len(y) > 0; x, y = x[w:], y[p.row:] {
			clear(y[:p.from])
			copy(y[p.from:p.to], x[:w])
			clear(y[p.to:p.row])
		}
	}
}
