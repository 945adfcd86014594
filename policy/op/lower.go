package op

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"gorgonia.org/tensor"
)

// lowering writes a family's computation as StableHLO and returns its results; those that want does not ask for may be left empty.
//
// Rule of precision: what comes in may be float32 or bfloat16 (an activation). An operation computes in b.Wide, matrix products read
// b.Narrow, and each result that stands beside an input (the same rows, a gradient of it) gets that input's element type. Gradients of
// parameters and losses stay float32.
type lowering func(b *hlo.Builder, in []hlo.Value, want []bool) []hlo.Value

// one makes a lowering of a function with one result.
func one(f func(b *hlo.Builder, in []hlo.Value) hlo.Value) lowering {
	return func(b *hlo.Builder, in []hlo.Value, _ []bool) []hlo.Value { return []hlo.Value{f(b, in)} }
}

// Lower writes the family's computation for the given inputs as StableHLO. want says which results are needed.
func (f *Family) Lower(b *hlo.Builder, in []hlo.Value, want []bool) ([]hlo.Value, error) {
	if f.lower == nil {
		return nil, fmt.Errorf("operation %s has no StableHLO form", f.Name)
	}
	return f.lower(b, in, want), nil
}

// HLOType returns the StableHLO name of an element type of nodes.
func HLOType(dt tensor.Dtype) (hlo.DType, error) {
	switch dt {
	case Float32:
		return hlo.F32, nil
	case Float64:
		return hlo.F64, nil
	case Int32:
		return hlo.I32, nil
	case Bool:
		return hlo.I1, nil
	}
	return "", fmt.Errorf("element type %v has no StableHLO name; want Float32, Float64, Int32 or Bool", dt)
}

// axesTo lists the first n axes: 0 to n−1.
func axesTo(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// row repeats a vector along the last axis of shape.
func row(b *hlo.Builder, v hlo.Value, shape []int) hlo.Value { return b.Spread(v, shape, len(shape)-1) }

// unary lowers a function of one argument that computes in wide numbers and keeps the element type.
func unary(f func(b *hlo.Builder, x hlo.Value) hlo.Value) lowering {
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		return b.Convert(f(b, b.Wide(in[0])), in[0].DType)
	})
}
