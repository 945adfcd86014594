package op_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// array is a dense row-major array, the currency of the reference implementations.
type array struct {
	shape []int
	data  []float64
}

func (a array) at(index ...int) float64 {
	o := 0
	for i, n := range a.shape {
		o = o*n + index[i]
	}
	return a.data[o]
}

// each calls f with every index of a shape in memory order.
func each(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	var walk func(axis int)
	walk = func(axis int) {
		if axis == len(shape) {
			f(index)
			return
		}
		for index[axis] = 0; index[axis] < shape[axis]; index[axis]++ {
			walk(axis + 1)
		}
	}
	walk(0)
}

func fill(shape []int, f func(index []int) float64) array {
	a := array{shape: slices.Clone(shape)}
	each(shape, func(index []int) { a.data = append(a.data, f(index)) })
	return a
}

func random(rng *rand.Rand, shape ...int) array {
	return fill(shape, func([]int) float64 { return rng.NormFloat64() })
}

// value turns an array into a value of a node's type.
func (a array) value(dt tensor.Dtype) gorgonia.Value {
	if len(a.shape) == 0 {
		if dt == op.Float32 {
			return gorgonia.NewF32(float32(a.data[0]))
		}
		return gorgonia.NewF64(a.data[0])
	}
	var backing any
	switch dt {
	case op.Float64:
		backing = slices.Clone(a.data)
	case op.Float32:
		backing = convert(a.data, func(v float64) float32 { return float32(v) })
	case op.Int32:
		backing = convert(a.data, func(v float64) int32 { return int32(v) })
	case op.Bool:
		backing = convert(a.data, func(v float64) bool { return v != 0 })
	}
	return tensor.New(tensor.WithShape(a.shape...), tensor.WithBacking(backing))
}

func convert[T any](in []float64, f func(float64) T) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

// eval computes a node from the values of the inputs by calling each op once: no machine, no sharing of memory.
type eval map[*gorgonia.Node]gorgonia.Value

func (e eval) of(t *testing.T, n *gorgonia.Node) gorgonia.Value {
	t.Helper()
	if v, ok := e[n]; ok {
		return v
	}
	var in []gorgonia.Value
	for children := n.Graph().From(n.ID()); children.Next(); {
		in = append(in, e.of(t, children.Node().(*gorgonia.Node)))
	}
	v, err := n.Op().Do(in...)
	if err != nil {
		t.Fatalf("%v: %v", n, err)
	}
	e[n] = v
	return v
}

// floatsOf returns the elements of a value as float64.
func floatsOf(v gorgonia.Value) []float64 {
	switch d := v.Data().(type) {
	case []float64:
		return d
	case []float32:
		out := make([]float64, len(d))
		for i, x := range d {
			out[i] = float64(x)
		}
		return out
	case float64:
		return []float64{d}
	case float32:
		return []float64{float64(d)}
	}
	panic("no floats")
}

// off is the distance between two numbers relative to their size, at least 1; a NaN differs from all but a NaN.
func off(a, b float64) float64 {
	if math.IsNaN(a) || math.IsNaN(b) {
		if math.IsNaN(a) && math.IsNaN(b) {
			return 0
		}
		return math.Inf(1)
	}
	if a == b {
		return 0
	}
	return math.Abs(a-b) / max(1, math.Abs(a), math.Abs(b))
}

func compare(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	for i := range got {
		if off(got[i], want[i]) > tolerance {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
