package op

import (
	"fmt"
	"sync"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// This file lets gorgonia's own machines, the slow twins of our engine, run an Op: each result alone, in one part.

var workers = sync.Pool{New: func() any { return new(kernel.Worker) }}

// Do implements gorgonia.Op.
func (o Op) Do(inputs ...gorgonia.Value) (gorgonia.Value, error) {
	r := o.Out[o.Index]
	if len(r.Shape) == 0 {
		return o.UsePreallocDo(nil, inputs...)
	}
	return o.UsePreallocDo(tensor.New(tensor.Of(r.Dtype), tensor.WithShape(r.Shape...)), inputs...)
}

// UsePreallocDo implements gorgonia.UsePreallocDoer. Bare scalars come back as new values.
func (o Op) UsePreallocDo(prealloc gorgonia.Value, inputs ...gorgonia.Value) (gorgonia.Value, error) {
	r := o.Out[o.Index]
	var result kernel.Buffer
	var err error
	switch {
	case len(r.Shape) > 0:
		if result, err = BufferOf(prealloc); err != nil {
			return nil, fmt.Errorf("%v: output: %w", o, err)
		}
	case r.Dtype == Float64:
		result = kernel.Of(make([]float64, 1))
	default:
		result = kernel.Of(make([]float32, 1))
	}
	if result.Len() != size(r.Shape) {
		return nil, fmt.Errorf("%v: output has %d elements, not shape %v", o, result.Len(), r.Shape)
	}
	if r.Reduce {
		Clear(result, r.Dtype)
	}

	w := workers.Get().(*kernel.Worker)
	defer workers.Put(w)
	c := Call{Worker: w, In: make([]kernel.Buffer, len(inputs)), Out: make([]kernel.Buffer, len(o.Out)), Count: o.Units, Units: o.Units}
	for i, v := range inputs {
		if c.In[i], err = BufferOf(v); err != nil {
			return nil, fmt.Errorf("%v: input %d: %w", o, i, err)
		}
		if c.In[i].Len() != size(o.In[i].Shape) {
			return nil, fmt.Errorf("%v: input %d has %d elements, not shape %v", o, i, c.In[i].Len(), o.In[i].Shape)
		}
	}
	c.Out[o.Index] = result
	o.Compute(&c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	switch {
	case len(r.Shape) > 0:
		return prealloc, nil
	case r.Dtype == Float64:
		return gorgonia.NewF64(kernel.View[float64](result)[0]), nil
	default:
		return gorgonia.NewF32(kernel.View[float32](result)[0]), nil
	}
}

// BufferOf returns the memory of a value: a dense row-major tensor is shared, a bare scalar copied.
func BufferOf(v gorgonia.Value) (kernel.Buffer, error) {
	if t, ok := v.(*tensor.Dense); ok && (t.RequiresIterator() || t.DataOrder().IsColMajor()) {
		v = t.Materialize().(gorgonia.Value)
	}
	switch data := v.Data().(type) {
	case []float32:
		return kernel.Of(data), nil
	case []float64:
		return kernel.Of(data), nil
	case []int32:
		return kernel.Of(data), nil
	case []bool:
		return kernel.Of(data), nil
	case float32:
		return kernel.Of([]float32{data}), nil
	case float64:
		return kernel.Of([]float64{data}), nil
	case int32:
		return kernel.Of([]int32{data}), nil
	case bool:
		return kernel.Of([]bool{data}), nil
	default:
		return kernel.Buffer{}, fmt.Errorf("no kernel works on values of type %T", data)
	}
}

// Clear sets every element of a floating buffer to zero.
func Clear(b kernel.Buffer, dt tensor.Dtype) {
	if dt == Float64 {
		clear(kernel.View[float64](b))
		return
	}
	clear(kernel.View[float32](b))
}
