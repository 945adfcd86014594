package armrt

// knot is one point of the path, eight axes. fixed says that velocity and acceleration are given, not estimated from the neighbours.
type knot struct {
	t     int64 // ns
	q     [8]float64
	v, a  [8]float64
	fixed bool
}

// path is a C2 curve through knots: a quintic between two knots whose velocities and accelerations come from the parabola through each
// knot and its neighbours.
type path struct {
	knots []knot
	rest  bool // the knots end at rest
	spare []knot

	piece int // index of the knot that starts the cached piece, -1: none
	coef  [8][6]float64
}

func (p *path) reset() {
	p.knots = p.knots[:0]
	p.piece = -1
	p.rest = false
}

func (p *path) empty() bool { return len(p.knots) == 0 }

func (p *path) end() int64 { return p.knots[len(p.knots)-1].t }

// replace puts knots (after now) in place of everything from their first time on. ref is the reference now; when the piece under way would
// change, the path starts anew from it, so the reference stays C2.
func (p *path) replace(now int64, ref knot, knots []knot) {
	from := knots[0].t
	keep := len(p.knots)
	for keep > 0 && p.knots[keep-1].t >= from {
		keep--
	}
	// A piece depends on one knot on either side of it.
	if keep == 0 || keep < p.under(now)+3 {
		ref.t, ref.fixed = now, true
		first := min(p.under(now)+1, keep)
		p.spare = append(append(p.spare[:0], ref), p.knots[first:keep]...)
		p.knots, p.spare = p.spare, p.knots
	} else {
		p.knots = p.knots[:keep]
	}
	p.knots = append(p.knots, knots...)
	p.rest = endsAtRest(p.knots)
	p.piece = -1
	p.forget(now)
}

// under is the index of the last knot at or before t, -1 when there is none.
func (p *path) under(t int64) int {
	i := len(p.knots) - 1
	for i >= 0 && p.knots[i].t > t {
		i--
	}
	return i
}

// forget drops knots that no piece from now on needs.
func (p *path) forget(now int64) {
	if i := p.under(now) - 1; i > 0 {
		p.knots = append(p.knots[:0], p.knots[i:]...)
		p.piece = -1
	}
}

func endsAtRest(k []knot) bool {
	n := len(k)
	return n >= 2 && k[n-1].q == k[n-2].q
}

// at evaluates the path at t (ns, fractional part in frac ns): position and velocity (1/s). Beyond the end it goes on straight.
func (p *path) at(t int64, frac float64) (q, v [8]float64) {
	last := len(p.knots) - 1
	i := p.under(t)
	switch {
	case i < 0:
		return p.knots[0].q, v
	case i >= last:
		q, v, _ = p.derivatives(last)
		s := (float64(t-p.knots[last].t) + frac) * 1e-9
		for j := range q {
			q[j] += v[j] * s
		}
		return q, v
	}
	if i != p.piece {
		p.load(i)
	}
	s := (float64(t-p.knots[i].t) + frac) * 1e-9
	for j := range q {
		c := &p.coef[j]
		q[j] = c[0] + s*(c[1]+s*(c[2]+s*(c[3]+s*(c[4]+s*c[5]))))
		v[j] = c[1] + s*(2*c[2]+s*(3*c[3]+s*(4*c[4]+s*5*c[5])))
	}
	return q, v
}

func (p *path) load(i int) {
	q0, v0, a0 := p.derivatives(i)
	q1, v1, a1 := p.derivatives(i + 1)
	h := float64(p.knots[i+1].t-p.knots[i].t) * 1e-9
	for j := range q0 {
		p.coef[j] = quintic(q0[j], v0[j], a0[j], q1[j], v1[j], a1[j], h)
	}
	p.piece = i
}

// derivatives gives position, velocity and acceleration of knot i.
func (p *path) derivatives(i int) (q, v, a [8]float64) {
	k := &p.knots[i]
	q = k.q
	last := len(p.knots) - 1
	switch {
	case k.fixed:
		return q, k.v, k.a
	case p.rest && i >= last-1:
		return q, v, a
	case i == 0 && last == 0:
		return q, v, a
	case i == 0:
		h := float64(p.knots[1].t-k.t) * 1e-9
		for j := range q {
			v[j] = (p.knots[1].q[j] - q[j]) / h
		}
		return q, v, a
	case i == last:
		h := float64(k.t-p.knots[i-1].t) * 1e-9
		for j := range q {
			v[j] = (q[j] - p.knots[i-1].q[j]) / h
		}
		return q, v, a
	}
	h0 := float64(k.t-p.knots[i-1].t) * 1e-9
	h1 := float64(p.knots[i+1].t-k.t) * 1e-9
	for j := range q {
		d0 := (q[j] - p.knots[i-1].q[j]) / h0
		d1 := (p.knots[i+1].q[j] - q[j]) / h1
		v[j] = (d0*h1 + d1*h0) / (h0 + h1)
		a[j] = 2 * (d1 - d0) / (h0 + h1)
	}
	return q, v, a
}

// quintic gives the coefficients of the polynomial in s that meets position, velocity and acceleration at s = 0 and s = h.
func quintic(q0, v0, a0, q1, v1, a1, h float64) [6]float64 {
	d := q1 - q0 - v0*h - a0*h*h/2
	dv := (v1 - v0 - a0*h) * h
	da := (a1 - a0) * h * h
	h3 := h * h * h
	return [6]float64{
		q0, v0, a0 / 2,
		(10*d - 4*dv + da/2) / h3,
		(-15*d + 7*dv - da) / (h3 * h),
		(6*d - 3*dv + da/2) / (h3 * h * h),
	}
}
