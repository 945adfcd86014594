package xla

import (
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
)

// update writes clipping, the optimiser's step and the running average. flat holds the gradients of the slabs that are not frozen.
func (w *trainingWriter) update(states [][statesPerParam]hlo.Value, hyper, loss hlo.Value, flat []hlo.Value) []result {
	b, t := w.b, w.t
	squares := b.Scalar(hlo.F32, 0)
	for _, g := range flat {
		squares = b.Add(squares, b.Sum(b.Mul(g, g), 0))
	}
	norm := b.Unary("sqrt", squares)
	clip := b.Scalar(hlo.F32, t.Clip)
	one := b.Scalar(hlo.F32, 1)
	u := updater{b: b, t: t, scale: b.Select(b.Compare("GT", norm, clip), b.Div(clip, norm), one), one: one}
	finite := b.Binary("and", b.Finite(norm), b.Finite(loss))
	u.number = func(place int) hlo.Value { return b.Reshape(b.Slice(hyper, 0, place, place+1)) }
	u.size, u.eps, u.decay, u.average = u.number(hyperSize), u.number(hyperEps), u.number(hyperDecay), u.number(hyperAverage)
	u.rest = b.Sub(one, u.average)

	var results []result
	at := 0
	for k, s := range w.slabs {
		cuts := s.cuts(w.o)
		if s.frozen() {
			for j, v := range states[k] {
				results = append(results, result{v, cuts[j]})
			}
			continue
		}
		old, g := states[k], flat[at]
		at++
		if s.cut && !cuts[0] { // each device updates its part of the weights
			old[0] = b.Constrain(old[0], true)
		}
		var updated [statesPerParam]hlo.Value
		if s.muon {
			updated = u.muon(s, old, g)
		} else {
			updated = u.adamW(s, old, g)
		}
		for j, v := range updated {
			v = b.Select(finite, v, old[j])
			if s.cut && !cuts[j] {
				v = b.Constrain(v, false)
			}
			results = append(results, result{v, cuts[j]})
		}
	}
	return append(results, result{b.Concat(0, b.Reshape(loss, 1), b.Reshape(norm, 1)), false})
}

// updater writes the update of one slab after another.
type updater struct {
	b                                           *hlo.Builder
	t                                           Training
	scale, one, size, eps, decay, average, rest hlo.Value
	number                                      func(place int) hlo.Value
}

// mean is the running average after weights p.
func (u updater) mean(e, p hlo.Value) hlo.Value {
	b := u.b
	return b.Add(b.Mul(e, b.Spread(u.average, e.Shape)), b.Mul(p, b.Spread(u.rest, e.Shape)))
}

// adamW is the step of policy/engine/kernel.AdamW.
func (u updater) adamW(s slab, state [statesPerParam]hlo.Value, g hlo.Value) [statesPerParam]hlo.Value {
	b := u.b
	all := func(x hlo.Value) hlo.Value { return b.Spread(x, g.Shape) }
	p, m, v, e := state[0], state[1], state[2], state[3]
	size, decay := u.size, u.decay
	if s.factor != 1 { // the rate, and with it the decay, is the factor times as large
		size = b.Scale(size, s.factor)
		decay = b.Sub(u.one, b.Scale(u.number(hyperShrink), s.factor))
	}
	d := b.Mul(g, all(u.scale))
	m1 := b.Add(b.Scale(m, u.t.Beta1), b.Scale(d, 1-u.t.Beta1))
	v1 := b.Add(b.Scale(v, u.t.Beta2), b.Mul(b.Scale(d, 1-u.t.Beta2), d))
	p1 := p
	if s.decays {
		p1 = b.Mul(p, all(decay))
	}
	p1 = b.Sub(p1, b.Div(b.Mul(m1, all(size)), b.Add(b.Unary("sqrt", v1), all(u.eps))))
	return [statesPerParam]hlo.Value{p1, m1, v1, u.mean(e, p1)}
}

// The quintic of the Newton-Schulz iteration, and how often it is applied. Source: Jordan et al. 2024, Muon, "The coefficients".
const (
	schulzA, schulzB, schulzC = 3.4445, -4.7750, 2.0315
	schulzSteps               = 5
)

// muon is the step of package train's Muon on all matrices of a slab at once: Nesterov momentum, then matrices of the same singular vectors
// with singular values about one. With bfloat16 activations the iteration multiplies in bfloat16, as its source does.
func (u updater) muon(s slab, state [statesPerParam]hlo.Value, g hlo.Value) [statesPerParam]hlo.Value {
	b := u.b
	p, m, v, e := state[0], state[1], state[2], state[3]
	mu := u.t.Momentum
	d := b.Mul(g, b.Spread(u.scale, g.Shape))
	m1 := b.Add(m, b.Scale(b.Sub(d, m), 1-mu))
	step := b.Add(d, b.Scale(b.Sub(m1, d), mu))
	step = u.orthogonal(step, s.in, s.out)
	size := b.Scale(u.number(hyperMuon), s.factor*math.Sqrt(math.Max(1, float64(s.out)/float64(s.in))))
	keep := b.Sub(u.one, b.Scale(u.number(hyperMuonShrink), s.factor))
	p1 := b.Sub(b.Mul(p, b.Spread(keep, p.Shape)), b.Mul(step, b.Spread(size, p.Shape)))
	return [statesPerParam]hlo.Value{p1, m1, v, u.mean(e, p1)}
}

// orthogonal is the Newton-Schulz iteration on each of the matrices [in, out] that lie one after another in x.
func (u updater) orthogonal(x hlo.Value, in, out int) hlo.Value {
	b, count := u.b, x.Size()/(in*out)
	x = b.Reshape(x, count, in, out)
	tall := in > out
	if tall { // the products are of the smaller side
		x = b.Transpose(x, 0, 2, 1)
		in, out = out, in
	}
	norm := b.Shift(b.Unary("sqrt", b.Sum(b.Mul(x, x), 1, 2)), 1e-7)
	x = b.Div(x, b.Spread(norm, x.Shape, 0))
	one := []int{0}
	dot := func(y, z hlo.Value, sumY, sumZ int) hlo.Value {
		return b.Dot(b.Narrow(y), b.Narrow(z), one, one, []int{sumY}, []int{sumZ}, hlo.F32)
	}
	for range schulzSteps { // x = a x + (b A + c A A) x with A = x x^T
		a := dot(x, x, 2, 2)
		a = b.Add(b.Scale(a, schulzB), b.Scale(dot(a, a, 2, 1), schulzC))
		x = b.Add(b.Scale(x, schulzA), dot(a, x, 2, 1))
	}
	if tall {
		x = b.Transpose(x, 0, 2, 1)
	}
	return b.Reshape(x, count*in*out)
}
