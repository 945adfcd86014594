package cpu

import (
	"fmt"
	"slices"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// place says where a value lives.
type place int

const (
	persistent place = iota // its own buffer: inputs, constants, outputs
	shared                  // the arena: read by a later segment, or whole
	local                   // each worker's block memory: made and used up inside one segment
)

// value is what one node stands for.
type value struct {
	node     *gorgonia.Node
	dtype    tensor.Dtype
	shape    tensor.Shape // empty for a bare scalar
	elems    int
	producer *step // nil for inputs and constants
	reduce   bool  // the producer's parts add up to it
	constant bool
	output   bool
	given    bool // an input that has been set

	alias   *value // a view: the value whose memory this is
	place   place
	buffer  kernel.Buffer // of persistent and shared values
	offset  int           // bytes into the arena or the block memory
	partial int           // bytes into each further worker's memory for sums, where reduced

	// Where it is made and where it or a view of it is last read: the segment, and the step by its place in the order.
	firstSegment, lastSegment int
	firstStep, lastStep       int
}

// root follows views to the value that owns the memory.
func (v *value) root() *value {
	for v.alias != nil {
		v = v.alias
	}
	return v
}

func (v *value) width() int { return int(v.dtype.Size()) }

// room is the number of bytes that n elements take, in whole cache lines.
func (v *value) room(n int) int { return (n*v.width() + 63) &^ 63 }

func newValue(n *gorgonia.Node) *value {
	v := &value{node: n, dtype: n.Dtype(), elems: 1}
	if !n.IsScalar() {
		v.shape = n.Shape()
		v.elems = v.shape.TotalSize()
	}
	return v
}

// own gives the value a buffer of its own.
func (v *value) own() error {
	v.place = persistent
	switch v.dtype {
	case op.Float32:
		v.buffer = kernel.Of(make([]float32, v.elems))
	case op.Float64:
		v.buffer = kernel.Of(make([]float64, v.elems))
	case op.Int32:
		v.buffer = kernel.Of(make([]int32, v.elems))
	case op.Bool:
		v.buffer = kernel.Of(make([]bool, v.elems))
	default:
		return fmt.Errorf("node %q has element type %v; want Float32, Float64, Int32 or Bool", v.node.Name(), v.dtype)
	}
	return nil
}

func (v *value) set(data any) error {
	if t, ok := data.(tensor.Tensor); ok {
		if !slices.Equal(t.Shape(), v.shape) {
			return fmt.Errorf("tensor of shape %v given, want %v", t.Shape(), v.shape)
		}
	}
	if value, ok := data.(gorgonia.Value); ok {
		b, err := op.BufferOf(value)
		if err != nil {
			return err
		}
		if value.Dtype() != v.dtype {
			return fmt.Errorf("element type %v given, want %v", value.Dtype(), v.dtype)
		}
		return v.copyFrom(b)
	}
	var b kernel.Buffer
	var dt tensor.Dtype
	switch d := data.(type) {
	case []float32:
		b, dt = kernel.Of(d), op.Float32
	case []float64:
		b, dt = kernel.Of(d), op.Float64
	case []int32:
		b, dt = kernel.Of(d), op.Int32
	case []bool:
		b, dt = kernel.Of(d), op.Bool
	case float32:
		b, dt = kernel.Of([]float32{d}), op.Float32
	case float64:
		b, dt = kernel.Of([]float64{d}), op.Float64
	default:
		return fmt.Errorf("data of type %T given, want a slice of %v", data, v.dtype)
	}
	if dt != v.dtype {
		return fmt.Errorf("element type %v given, want %v", dt, v.dtype)
	}
	return v.copyFrom(b)
}

func (v *value) copyFrom(b kernel.Buffer) error {
	if b.Len() != v.elems {
		return fmt.Errorf("%d elements given, want %d of shape %v", b.Len(), v.elems, v.shape)
	}
	switch v.dtype {
	case op.Float32:
		copy(kernel.View[float32](v.buffer), kernel.View[float32](b))
	case op.Float64:
		copy(kernel.View[float64](v.buffer), kernel.View[float64](b))
	case op.Int32:
		copy(kernel.View[int32](v.buffer), kernel.View[int32](b))
	case op.Bool:
		copy(kernel.View[bool](v.buffer), kernel.View[bool](b))
	}
	return nil
}

func (v *value) tensor() tensor.Tensor {
	var backing any
	switch v.dtype {
	case op.Float32:
		backing = slices.Clone(kernel.View[float32](v.buffer))
	case op.Float64:
		backing = slices.Clone(kernel.View[float64](v.buffer))
	case op.Int32:
		backing = slices.Clone(kernel.View[int32](v.buffer))
	default:
		backing = slices.Clone(kernel.View[bool](v.buffer))
	}
	if len(v.shape) == 0 {
		t := tensor.New(tensor.WithShape(1), tensor.WithBacking(backing))
		return tensor.New(tensor.FromScalar(t.Get(0)))
	}
	return tensor.New(tensor.WithShape(v.shape...), tensor.WithBacking(backing))
}
