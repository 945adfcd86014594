package deploy

import (
	"math"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Bounds of one attempt to reach a pose far away: iterations, the longest step of a joint (rad), and how long an attempt may get no nearer.
const (
	reachIterations = 80
	reachStep       = 0.6
	reachPatience   = 12
)

// An attempt that gets no nearer is good enough within these: near singular postures the last hundredths of a millimetre take long.
const (
	nearM   = 5e-5
	nearRad = 5e-4
)

// reach is joints with which one arm's hand is at a pose (cellFromHandRoot), by damped Gauss-Newton steps from a posture, inside the limits; distances to other things
// are the caller's. ok is false when this attempt ends somewhere else.
func (a *arm) reach(from armlink.Joints, target robotmodel.Transform) (q armlink.Joints, ok bool) {
	q = from
	best, since := math.Inf(1), 0
	for range reachIterations {
		p := a.at(q)
		jac := p.chain.JacobianAt(p.hand.P, 7)
		w := robotmodel.RotationError(p.hand, target)
		var e [6]float64
		for k := range 3 {
			e[k], e[k+3] = target.P[k]-p.hand.P[k], rotationWeight*w[k]
			for j := range jac[k+3] {
				jac[k+3][j] *= rotationWeight
			}
		}
		position, rotation := length(e[0], e[1], e[2]), length(e[3], e[4], e[5])/rotationWeight
		if position < 1e-6 && rotation < 1e-5 {
			return q, true
		}
		ok = position < nearM && rotation < nearRad
		if size := position + rotationWeight*rotation; size < 0.98*best {
			best, since = size, 0
		} else if since++; since > reachPatience {
			break
		}
		a.toward(&q, &jac, e)
	}
	return q, ok
}

// toward makes one step. A joint that would leave its range stays at the end of it and the others share what it can not do.
func (a *arm) toward(q *armlink.Joints, jac *robotmodel.Jacobian, e [6]float64) {
	var held [7]bool
	for range held {
		var g, d [7]float64
		m := normal(jac, e, armlink.Joints{}, 1e-6, g[:])
		for j := range held {
			if held[j] {
				for k := range m[j] {
					m[j][k], m[k][j] = 0, 0
				}
				m[j][j], g[j] = 1, 0
			}
		}
		solve7(&m, g[:], d[:])
		most := 0.0
		for _, v := range d {
			most = math.Max(most, math.Abs(v))
		}
		scale, free := math.Min(1, reachStep/math.Max(most, 1e-12)), true
		for j := range d {
			// At an end and pushing outward.
			if !held[j] && (q[j] <= a.limits.QMin[j] && d[j] < 0 || q[j] >= a.limits.QMax[j] && d[j] > 0) {
				held[j], free = true, false
			}
		}
		if free {
			for j := range d {
				q[j] = math.Min(math.Max(q[j]+scale*d[j], a.limits.QMin[j]), a.limits.QMax[j])
			}
			return
		}
	}
}

// anywhere is a random posture inside the limits; joints that the arm lacks stay at zero.
func (a *arm) anywhere(rng *rand.Rand) (q armlink.Joints) {
	for j := range a.model.Joints() {
		q[j] = a.limits.QMin[j] + rng.Float64()*(a.limits.QMax[j]-a.limits.QMin[j])
	}
	return q
}

// goalTries is how many postures an attempt begins from; goalKeep how many answers of each arm are tried with the other's.
const (
	goalTries = 120
	goalKeep  = 6
)

// reachGoal solves both starts: from the rest posture, which has all its freedom left, then from the present one, then from random ones, always the same. The first pair that
// keeps all distances counts.
func (p *planner) reachGoal(q [2]armlink.Joints, want [2]robotmodel.Transform) ([2]armlink.Joints, bool) {
	rng := rand.New(rand.NewPCG(1, 2))
	var found [2][]armlink.Joints
	for try := range goalTries {
		for h := range want {
			a := &p.pair.arms[h]
			if len(found[h]) == goalKeep || len(found[h]) > len(found[1-h])+1 {
				continue
			}
			from := a.model.Rest
			switch {
			case try == 1:
				from = q[h]
			case try > 1:
				from = a.anywhere(rng)
			}
			r, ok := a.reach(from, want[h])
			if !ok {
				continue
			}
			found[h] = append(found[h], r)
			for _, other := range found[1-h] {
				both := [2]armlink.Joints{r, other}
				if h == 1 {
					both = [2]armlink.Joints{other, r}
				}
				if p.clear(both) {
					return both, true
				}
			}
		}
	}
	return q, false
}
