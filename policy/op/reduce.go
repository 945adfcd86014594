package op

import (
	"slices"

	"gorgonia.org/tensor"
)

// Sum returns the sum of x over the given axes, which disappear from its shape. Without axes, or when none is left, the result is a bare
// scalar.
func Sum(x *Node, axes ...int) *Node {
	shape := x.Shape()
	kept, left := slices.Clone(shape), tensor.Shape{}
	for _, axis := range axes {
		if axis < 0 || axis >= len(shape) {
			fail("sum: x %v has no axis %d", shape, axis)
		}
		kept[axis] = 1
	}
	for axis, n := range shape {
		if !slices.Contains(axes, axis) {
			left = append(left, n)
		}
	}
	if len(axes) == 0 || len(left) == 0 {
		return sumTo(x, tensor.Shape{})
	}
	return Reshape(sumTo(x, kept), left...)
}

// Mean returns the mean of x over the given axes, with Sum's rules for the shape.
func Mean(x *Node, axes ...int) *Node {
	s := Sum(x, axes...)
	return Scale(s, float64(size(s.Shape()))/float64(size(x.Shape())))
}
