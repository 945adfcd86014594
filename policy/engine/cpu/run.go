package cpu

import (
	"fmt"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"github.com/pinch-robotics/pinch/policy/op"
)

// worker is what one thread has of its own.
type worker struct {
	scratch kernel.Worker
	block   []float64 // values inside a segment
	sums    []float64 // partial sums; the first worker has none
	wait    sync.WaitGroup
}

// share is one worker's part of a segment.
type share struct {
	worker   *worker
	from, to int // parts
	calls    []call
	sums     []kernel.Buffer // of segment.reduced
	work     func()
	err      error
}

// call is one step of a share.
type call struct {
	family  *op.Family
	in, out []ref
	args    op.Call
}

// ref finds the elements of a value that a block needs.
type ref struct {
	buffer  kernel.Buffer
	perUnit int  // elements of one part; 0 for the whole value
	local   bool // the buffer holds one block, not all parts
	width   int  // bytes of an element
}

func (r *ref) part(first, count int) kernel.Buffer {
	if r.perUnit == 0 {
		return r.buffer
	}
	if r.local {
		first = 0
	}
	return r.buffer.Part(first*r.perUnit, (first+count)*r.perUnit, r.width)
}

// prepare makes the workers and the calls, without buffers.
func (p *Program) prepare() {
	block, sums := 0, 0
	for _, s := range p.segments {
		block, sums = max(block, s.localBytes), max(sums, s.partialBytes)
	}
	for w := range p.threads {
		k := &worker{block: kernel.Aligned(block)}
		if w > 0 {
			k.sums = kernel.Aligned(sums)
		}
		p.workers = append(p.workers, k)
	}
	for _, s := range p.segments {
		s.shares = make([]share, s.workers)
		for w := range s.shares {
			h := &s.shares[w]
			h.worker, h.from, h.to = p.workers[w], s.units*w/s.workers, s.units*(w+1)/s.workers
			h.sums = make([]kernel.Buffer, len(s.reduced))
			h.calls = make([]call, len(s.steps))
			for i, t := range s.steps {
				h.calls[i] = newCall(t, s, h.worker)
			}
			h.work = func() {
				h.run(s)
				h.worker.wait.Done()
			}
		}
	}
}

func newCall(t *step, s *segment, w *worker) call {
	return call{
		family: t.family,
		in:     make([]ref, len(t.in)),
		out:    make([]ref, len(t.out)),
		args: op.Call{
			Worker: &w.scratch,
			In:     make([]kernel.Buffer, len(t.in)),
			Out:    make([]kernel.Buffer, len(t.out)),
			Units:  s.units,
		},
	}
}

// link writes the buffers into the calls.
func (p *Program) link() {
	for _, s := range p.segments {
		for w := range s.shares {
			h := &s.shares[w]
			for i, v := range s.reduced {
				h.sums[i] = v.buffer
				if w > 0 {
					h.sums[i] = kernel.At(h.worker.sums, v.partial, v.elems, v.width())
				}
			}
			for i, t := range s.steps {
				h.calls[i].link(t, s, h)
			}
		}
	}
	p.linked = true
}

func (c *call) link(t *step, s *segment, h *share) {
	for i, v := range t.in {
		c.in[i] = h.ref(v, s, t.family.In[i].Split)
	}
	for i, v := range t.out {
		switch {
		case v == nil:
		case v.reduce:
			c.out[i] = ref{buffer: h.sums[slices.Index(s.reduced, v)]}
		default:
			c.out[i] = h.ref(v, s, true)
		}
	}
}

func (h *share) ref(v *value, s *segment, split bool) ref {
	r := ref{width: v.width()}
	if split {
		r.perUnit = v.elems / s.units
	}
	switch root := v.root(); root.place {
	case local:
		r.buffer, r.local = kernel.At(h.worker.block, root.offset, s.block*r.perUnit, r.width), true
	default:
		r.buffer = root.buffer
	}
	return r
}

// Run computes the outputs from the inputs. Every input must have been set or bound. An error of an operation, such as an id outside its
// table, leaves the outputs undefined.
func (p *Program) Run() error {
	if !p.linked {
		for _, v := range p.values {
			if v.producer == nil && !v.constant && !v.given {
				return fmt.Errorf("run: input %q was never set", v.node.Name())
			}
		}
		p.link()
	}
	for _, s := range p.segments {
		if err := s.run(); err != nil {
			return fmt.Errorf("run: %w", err)
		}
	}
	return nil
}

func (s *segment) run() error {
	for w := 1; w < len(s.shares); w++ {
		s.shares[w].worker.wait.Add(1)
		go s.shares[w].work()
	}
	first := &s.shares[0]
	first.run(s)
	for w := 1; w < len(s.shares); w++ {
		s.shares[w].worker.wait.Wait()
	}
	for w := range s.shares {
		if err := s.shares[w].err; err != nil {
			return err
		}
	}
	for w := 1; w < len(s.shares); w++ {
		for i, v := range s.reduced {
			add(v, first.sums[i], s.shares[w].sums[i])
		}
	}
	return nil
}

// run takes the share's parts through all steps, block by block.
func (h *share) run(s *segment) {
	h.err = nil
	for i, v := range s.reduced {
		op.Clear(h.sums[i], v.dtype)
	}
	for first := h.from; first < h.to; first += s.block {
		count := min(s.block, h.to-first)
		for i := range h.calls {
			c := &h.calls[i]
			for j := range c.in {
				c.args.In[j] = c.in[j].part(first, count)
			}
			for j := range c.out {
				c.args.Out[j] = c.out[j].part(first, count)
			}
			c.args.First, c.args.Count = first, count
			c.family.Compute(&c.args)
			if err := c.args.Err(); err != nil {
				h.err = err
				return
			}
		}
	}
}

// add adds one worker's sum to the first worker's.
func add(v *value, to, from kernel.Buffer) {
	if v.dtype == op.Float64 {
		kernel.SumTo(kernel.View[float64](to), 0, 1, kernel.View[float64](from), 1, v.elems)
		return
	}
	kernel.SumTo(kernel.View[float32](to), 0, 1, kernel.View[float32](from), 1, v.elems)
}
