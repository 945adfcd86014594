package armrt

import "math"

// tracker follows a reference with one axis. With no error and a feasible reference the command equals the reference.
type tracker struct {
	axis
	m         motion
	r, rv, ra float64 // reference of the last tick and its backward differences
}

// bandwidth of the tracker in rad/s: errors fade with 1/bandwidth, ten ticks; faster would amplify jerk, slower would lag.
const bandwidth = 100.0

// correctionShare of the acceleration is planned for closing an error, the rest stays for the reference's own acceleration.
const correctionShare = 0.6

func (t *tracker) place(q float64) {
	t.m = motion{q: q}
	t.r, t.rv, t.ra = q, 0, 0
}

// step moves one tick toward the reference r and returns the new command.
func (t *tracker) step(r float64) motion {
	rv := (r - t.r) / dt
	ra := (rv - t.rv) / dt
	e, ev := t.r-t.m.q, t.rv-t.m.v
	// The correcting velocity follows the braking curve of the error, so that a large error is closed without overshoot.
	corr := math.Copysign(math.Min(bandwidth/2*math.Abs(e), math.Sqrt(2*correctionShare*t.ddq*math.Abs(e))), e)
	corr = clamp(t.rv+corr, t.low(t.m.q), t.up(t.m.q)) - t.rv
	want := ra + 2*bandwidth*(corr+ev)
	t.r, t.rv, t.ra = r, rv, ra
	t.m = t.m.after(t.admissible(want))
	return t.m
}

// admissible returns the acceleration nearest to want that keeps the invariant.
func (t *tracker) admissible(want float64) float64 {
	lo := math.Max(-t.ddq, t.m.a-t.dddq*dt)
	hi := math.Min(t.ddq, t.m.a+t.dddq*dt)
	want = clamp(want, lo, hi)
	if t.safe(t.m.after(want)) {
		return want
	}
	// The brake's first tick is safe, because the state before was; look for the point nearest to want between the two.
	good := t.brake(t.m)
	bad := want
	for i := 0; i < 8; i++ {
		mid := (good + bad) / 2
		if t.safe(t.m.after(mid)) {
			good = mid
		} else {
			bad = mid
		}
	}
	return good
}
