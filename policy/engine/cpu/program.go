// Package cpu executes a graph of policy/op operations on the processor.
//
// Compile plans the run once: it orders the operations, finds out how long each value lives, and gives all values that pass between
// operations room in reused memory, so that a run allocates nothing. Operations that follow one another sample by sample (a whole
// forward and backward pass, usually) form a segment. A segment runs block by block of samples, so that what one operation leaves is
// still in the cache when the next one reads it; each worker thread takes its own share of the samples, and sums over samples (the
// gradients of the parameters) are added up per worker and then in the order of the workers. Results are therefore the same from run to
// run for a fixed number of threads.
//
//	prog, err := cpu.Compile(g, append(gorgonia.Nodes{loss}, grads...), cpu.Options{Threads: 2})
//	err = prog.Bind(w, weights) // shared with the optimiser
//	err = prog.Set(x, pixels)
//	err = prog.Run()
//	fmt.Println(prog.Scalar(loss), prog.Float32(grads[0]))
package cpu

import (
	"fmt"
	"runtime"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Options of a program.
type Options struct {
	// Threads is the number of worker threads; 0 means runtime.GOMAXPROCS. It decides the order of sums, so runs that must agree to the
	// bit need the same number.
	Threads int
	// BlockBytes is the memory that the values of one block of samples should take at most; the block has one sample at least. 0 means
	// DefaultBlockBytes.
	BlockBytes int
}

// DefaultBlockBytes is the default size of a block: larger blocks make better matrix products, smaller
// ones stay in the cache. Measured on a policy of 0.5 million parameters, 32 MiB is no better and 4 MiB a tenth slower.
const DefaultBlockBytes = 16 << 20

// Program is a planned graph. It is not safe for concurrent use.
type Program struct {
	threads  int
	values   map[int64]*value // by node id
	segments []*segment
	arena    []float64
	workers  []*worker
	linked   bool // the calls hold the buffers that are bound now
	stats    Stats
}

// Stats describes a plan.
type Stats struct {
	Operations     int // kernels called for a block
	Segments       int // runs of operations without a meeting of the workers
	ArenaBytes     int // memory of values that pass from one segment to another
	BlockBytes     int // memory of values inside a segment, per worker, the largest segment
	NaiveBytes     int // what all computed values would take if each had memory of its own
	LargestSegment int // operations of the largest segment
	LargestBlock   int // parts (samples) of its blocks
}

// Compile plans the computation of the output nodes. The graph may consist of operations of package op, of scalar constants and of the
// additions that gorgonia's Grad inserts; anything else is an error.
func Compile(g *gorgonia.ExprGraph, outputs gorgonia.Nodes, o Options) (*Program, error) {
	if o.Threads <= 0 {
		o.Threads = runtime.GOMAXPROCS(0)
	}
	if o.BlockBytes <= 0 {
		o.BlockBytes = DefaultBlockBytes
	}
	p := &Program{threads: o.Threads, values: map[int64]*value{}}
	steps, err := p.collect(g, outputs)
	if err != nil {
		return nil, fmt.Errorf("compile graph: %w", err)
	}
	order(steps)
	p.segments = cut(steps, o.Threads)
	p.place(o.BlockBytes)
	p.prepare()
	return p, nil
}

// Stats returns the numbers of the plan.
func (p *Program) Stats() Stats { return p.stats }

// Set copies data into an input. data is a slice of the input's element type, a number for a bare scalar, or a tensor; its length must be
// the input's.
func (p *Program) Set(n *gorgonia.Node, data any) error {
	v, err := p.input(n)
	if err != nil {
		return err
	}
	if err := v.set(data); err != nil {
		return fmt.Errorf("set %q: %w", n.Name(), err)
	}
	v.given = true
	return nil
}

// Bind makes data the storage of a Float32 input: the program reads it at each run and never writes it. An optimiser that updates data
// in place, and other programs bound to it, share it.
func (p *Program) Bind(n *gorgonia.Node, data []float32) error {
	v, err := p.input(n)
	if err != nil {
		return err
	}
	if v.dtype != op.Float32 || len(data) != v.elems {
		return fmt.Errorf("bind %q of %v %v: %d float32 given", n.Name(), v.dtype, v.shape, len(data))
	}
	v.buffer, v.given = kernel.Of(data), true
	p.linked = false
	return nil
}

func (p *Program) input(n *gorgonia.Node) (*value, error) {
	v := p.values[n.ID()]
	if v == nil {
		return nil, fmt.Errorf("input %q: no output of this program depends on it", n.Name())
	}
	if v.producer != nil || v.constant {
		return nil, fmt.Errorf("input %q: the node is computed, not an input", n.Name())
	}
	return v, nil
}

// Uses reports whether an output of the program depends on the node; Set and Bind fail for inputs that no output depends on.
func (p *Program) Uses(n *gorgonia.Node) bool { return p.values[n.ID()] != nil }

// Float32 returns the storage of a Float32 input or output: a view that the next Run overwrites for outputs, and that the caller may
// write for inputs. It panics for other nodes, whose memory is reused while the program runs.
func (p *Program) Float32(n *gorgonia.Node) []float32 { return view[float32](p, n, op.Float32) }

// Float64 is Float32 for Float64 nodes.
func (p *Program) Float64(n *gorgonia.Node) []float64 { return view[float64](p, n, op.Float64) }

func view[T any](p *Program, n *gorgonia.Node, dt tensor.Dtype) []T {
	v := p.values[n.ID()]
	if v == nil || v.place != persistent || v.dtype != dt {
		panic(fmt.Sprintf("cpu: node %v of type %v is no %v input or output of this program", n.Name(), n.Type(), dt))
	}
	if v.producer == nil {
		v.given = true
	}
	return kernel.View[T](v.buffer)
}

// Scalar returns a bare scalar output.
func (p *Program) Scalar(n *gorgonia.Node) float64 {
	if n.Dtype() == op.Float64 {
		return p.Float64(n)[0]
	}
	return float64(p.Float32(n)[0])
}

// Value returns a copy of an input or output. A bare scalar becomes a scalar tensor.
func (p *Program) Value(n *gorgonia.Node) tensor.Tensor {
	v := p.values[n.ID()]
	if v == nil || v.place != persistent {
		panic(fmt.Sprintf("cpu: node %v is no input or output of this program", n.Name()))
	}
	return v.tensor()
}

// Read is Float32 with an error for other nodes.
func (p *Program) Read(n *gorgonia.Node) ([]float32, error) {
	v := p.values[n.ID()]
	if v == nil || v.place != persistent || v.dtype != op.Float32 {
		return nil, fmt.Errorf("read %q: it is no Float32 input or output of this program", n.Name())
	}
	return p.Float32(n), nil
}

// Refresh does nothing: bound storage is read at each run.
func (p *Program) Refresh() error { return nil }

// Close does nothing: the garbage collector takes the memory.
func (p *Program) Close() error { return nil }
