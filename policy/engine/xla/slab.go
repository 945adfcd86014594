package xla

import "slices"

// Parameters travel in slabs: flat vectors that hold several parameters one after another. A step then passes some dozen buffers instead of
// thousands, and updates them in a few large loops instead of one for each parameter.

// slab is a run of parameters of one kind that lie in one vector.
type slab struct {
	kind
	params []int // places in Training.Params
	size   int   // elements of the parameters
	stored int   // elements of the vector: size, or more where the vector is cut over devices
	cut    bool  // each device keeps its part of what the optimiser remembers
}

// kind is what all parameters of a slab have in common.
type kind struct {
	decays  bool    // weight decay applies
	factor  float64 // of the learning rate; 0 is frozen
	muon    bool
	in, out int // of Muon's matrices, which all have one shape; else 0
}

// slabCount is about how many slabs the decaying parameters make: few buffers, yet a gradient is moved into its slab, and its own memory
// given back, while the backward pass goes on.
const slabCount = 24

// kindOf is the kind of parameter i.
func (t Training) kindOf(i int) kind {
	k := kind{decays: t.Decays[i], factor: 1}
	if t.Factors != nil {
		k.factor = t.Factors[i]
	}
	if t.Muon != nil && t.Muon[i] && k.factor != 0 {
		k.muon, k.in, k.out = true, t.Params[i].Shape()[0], t.Params[i].Shape()[1]
	}
	return k
}

// slabs divides the parameters by kind: those that decay into runs of about a slabCount-th of them, in order, the others into one slab of each
// kind.
func (t Training) slabs(o Options) []slab {
	total := 0
	for i, p := range t.Params {
		if t.Decays[i] {
			total += p.Shape().TotalSize()
		}
	}
	var list []slab
	var open []*slab // in the order in which their kinds were met
	for i, p := range t.Params {
		k := t.kindOf(i)
		at := slices.IndexFunc(open, func(s *slab) bool { return s.kind == k })
		if at < 0 {
			at, open = len(open), append(open, &slab{kind: k})
		}
		s := open[at]
		s.params, s.size = append(s.params, i), s.size+p.Shape().TotalSize()
		if k.decays && s.size >= total/slabCount {
			list, open = append(list, *s), slices.Delete(open, at, at+1)
		}
	}
	for _, decays := range []bool{true, false} {
		for _, s := range open {
			if s.decays == decays {
				list = append(list, *s)
			}
		}
	}
	for i := range list {
		s := &list[i]
		s.stored = s.size
		// Muon needs its matrices whole on each device.
		if s.cut = o.Shard != ShardNothing && o.Devices > 1 && !s.muon; s.cut {
			s.stored = (s.size + o.Devices - 1) / o.Devices * o.Devices
		}
	}
	return list
}

// frozen says that the slab's parameters stay as they are.
func (s slab) frozen() bool { return s.factor == 0 }

// cuts tells which of weights, both moments and average each device keeps a part of.
func (s slab) cuts(o Options) [statesPerParam]bool {
	return [statesPerParam]bool{s.cut && o.Shard == ShardWeights, s.cut, s.cut, s.cut}
}

// gather joins the parameters of a slab; nil where the state lacks the part. What is stored beyond the parameters is zero.
func (s slab) gather(parts [][]float32) []float32 {
	if parts == nil {
		return nil
	}
	data := make([]float32, 0, s.stored)
	for _, i := range s.params {
		data = append(data, parts[i]...)
	}
	return data[:s.stored]
}

// scatter is the opposite of gather.
func (s slab) scatter(data []float32, parts [][]float32) {
	for _, i := range s.params {
		data = data[copy(parts[i], data):]
	}
}
