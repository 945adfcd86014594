package cpu

import (
	"slices"

	"github.com/pinch-robotics/pinch/policy/engine/kernel"
)

// segment is a run of steps between two meetings of the workers.
type segment struct {
	steps   []*step
	units   int // parts into which all its steps are cut
	block   int // parts that run through all steps at a time
	workers int // how many share the parts

	localBytes   int      // block memory of each worker
	partialBytes int      // memory for sums of each worker but the first
	reduced      []*value // sums over the parts
	shares       []share  // one per worker
}

// place gives every value its room.
func (p *Program) place(blockBytes int) {
	p.markLives()
	for _, v := range p.values {
		switch {
		case v.producer == nil || v.output:
		case v.alias == nil && v.firstSegment == v.lastSegment && !v.reduce:
			v.place = local
		default:
			v.place = shared
		}
	}
	p.placeShared()
	for i, s := range p.segments {
		p.placeLocal(i, s, blockBytes)
		s.placePartials()
		p.stats.Operations += len(s.steps)
		p.stats.BlockBytes = max(p.stats.BlockBytes, s.localBytes)
	}
	p.stats.Segments = len(p.segments)
	for _, v := range p.values {
		if v.producer != nil && v.alias == nil {
			p.stats.NaiveBytes += v.room(v.elems)
		}
	}
}

// markLives finds out which values are views of others, and where each is made and last read.
func (p *Program) markLives() {
	for i, s := range p.segments {
		for _, t := range s.steps {
			if t.family.View && !t.out[0].output {
				t.out[0].alias = t.in[0]
			}
			for _, v := range t.out {
				if v != nil {
					v.firstSegment, v.lastSegment, v.firstStep, v.lastStep = i, i, t.at, t.at
				}
			}
			for _, v := range t.in {
				r := v.root()
				r.lastSegment, r.lastStep = max(r.lastSegment, i), max(r.lastStep, t.at)
			}
		}
		s.steps = slices.DeleteFunc(s.steps, func(t *step) bool { return t.out[0] != nil && t.out[0].alias != nil })
	}
	p.segments = slices.DeleteFunc(p.segments, func(s *segment) bool { return len(s.steps) == 0 })
}

// placeShared finds room in the arena for the values that pass from one segment to another. Inside a segment nothing is reused, since
// the workers go through it at their own pace.
func (p *Program) placeShared() {
	var list []extent
	for _, v := range p.values {
		if v.place == shared && v.alias == nil {
			list = append(list, extent{v: v, from: v.firstSegment, to: v.lastSegment, bytes: v.room(v.elems)})
		}
	}
	p.stats.ArenaBytes = pack(list)
	p.arena = kernel.Aligned(p.stats.ArenaBytes)
	for _, e := range list {
		e.v.buffer = kernel.At(p.arena, e.v.offset, e.v.elems, e.v.width())
	}
}

// placeLocal chooses the block of a segment and finds room in the workers' block memory for the values that live inside it.
func (p *Program) placeLocal(index int, s *segment, blockBytes int) {
	var list []extent
	perUnit := 0
	elems := 0
	for _, t := range s.steps {
		for _, v := range t.out {
			if v == nil {
				continue
			}
			elems += v.elems
			if v.place == local {
				list = append(list, extent{v: v, from: v.firstStep, to: v.lastStep, bytes: v.room(v.elems / s.units)})
			}
		}
		for _, v := range t.in {
			elems += v.elems
		}
	}
	s.workers = min(p.threads, s.units)
	if elems < minShared {
		s.workers = 1
	}
	perUnit = max(1, pack(list))
	share := (s.units + s.workers - 1) / s.workers
	s.block = max(1, min(blockBytes/perUnit, share))
	// Blocks of equal size rather than a small last one.
	blocks := (share + s.block - 1) / s.block
	s.block = (share + blocks - 1) / blocks
	for i := range list {
		list[i].bytes = list[i].v.room(s.block * (list[i].v.elems / s.units))
	}
	s.localBytes = pack(list)
	if len(s.steps) > p.stats.LargestSegment {
		p.stats.LargestSegment, p.stats.LargestBlock = len(s.steps), s.block
	}
}

// minShared is the number of elements read and written below which waking a second worker costs more than it saves.
const minShared = 1 << 14

// placePartials finds room for the sums of the workers after the first, which adds into the value itself.
func (s *segment) placePartials() {
	for _, t := range s.steps {
		for _, v := range t.out {
			if v != nil && v.reduce {
				v.partial = s.partialBytes
				s.partialBytes += v.room(v.elems)
				s.reduced = append(s.reduced, v)
			}
		}
	}
}

// extent is a value's room over the time it is needed.
type extent struct {
	v        *value
	from, to int // both included
	bytes    int
}

// pack gives each extent an offset such that no two that live at the same time overlap, the largest first, each as low as possible, and
// returns the end of the highest.
func pack(list []extent) (total int) {
	slices.SortFunc(list, func(a, b extent) int {
		if a.bytes != b.bytes {
			return b.bytes - a.bytes
		}
		if a.from != b.from {
			return a.from - b.from
		}
		return int(a.v.node.ID() - b.v.node.ID())
	})
	var near []extent // placed already and alive at the same time, by offset
	for i, e := range list {
		near = near[:0]
		for _, o := range list[:i] {
			if o.from <= e.to && e.from <= o.to {
				near = append(near, o)
			}
		}
		slices.SortFunc(near, func(a, b extent) int { return a.v.offset - b.v.offset })
		at := 0
		for _, o := range near {
			if at+e.bytes <= o.v.offset {
				break
			}
			at = max(at, o.v.offset+o.bytes)
		}
		e.v.offset = at
		total = max(total, at+e.bytes)
	}
	return total
}
