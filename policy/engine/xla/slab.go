package xla

// Parameters travel in slabs: flat vectors that hold several parameters one after another. A step then passes some dozen buffers instead of
// thousands, and updates them in a few large loops instead of one for each parameter.

// slab is a run of parameters that lie in one vector.
type slab struct {
	params []int // places in Training.Params
	size   int   // elements
	decays bool  // weight decay applies to all of them
}

// slabCount is about how many slabs the decaying parameters make: few buffers, yet a gradient is moved into its slab, and its own memory
// given back, while the backward pass goes on.
const slabCount = 24

// slabs divides the parameters: those that decay into about slabCount runs of equal size, in order, and the others into one.
func (t Training) slabs() []slab {
	total := 0
	for i, p := range t.Params {
		if t.Decays[i] {
			total += p.Shape().TotalSize()
		}
	}
	var list []slab
	rest, open := slab{}, slab{decays: true}
	for i, p := range t.Params {
		n := p.Shape().TotalSize()
		if !t.Decays[i] {
			rest.params, rest.size = append(rest.params, i), rest.size+n
			continue
		}
		open.params, open.size = append(open.params, i), open.size+n
		if open.size >= total/slabCount {
			list, open = append(list, open), slab{decays: true}
		}
	}
	for _, s := range []slab{open, rest} {
		if s.size > 0 {
			list = append(list, s)
		}
	}
	return list
}

// gather joins the parameters of a slab; nil where the state lacks the part.
func (s slab) gather(parts [][]float32) []float32 {
	if parts == nil {
		return nil
	}
	data := make([]float32, 0, s.size)
	for _, i := range s.params {
		data = append(data, parts[i]...)
	}
	return data
}

// scatter is the opposite of gather.
func (s slab) scatter(data []float32, parts [][]float32) {
	for _, i := range s.params {
		data = data[copy(parts[i], data):]
	}
}
