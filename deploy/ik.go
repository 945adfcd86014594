package deploy

import (
	"math"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Weights of the inverse kinematics' least squares: a metre of position error weighs as ten radians of rotation error. Damping keeps the
// system solvable at singularities, and grows with the error (Levenberg-Marquardt) so that far targets are approached calmly. posture is
// the weight of the pull toward the rest posture, small enough that the hands do not feel it.
const (
	rotationWeight = 0.1
	ikDamping      = 1e-7
	ikLevenberg    = 1e-2
	postureWeight  = 1e-4
	postureFade    = 0.25 // of that weight from one iteration to the next, where nothing is near
	ikIterations   = 8
	ikDone         = 1e-6 // m and rad
	detectGapM     = 0.08 // surfaces nearer than clearance plus this become constraints
	gapGain        = 0.5  // share of the remaining room one step may use
)

// ikResult is where a step came out.
type ikResult struct {
	q         [2]armlink.Joints
	position  [2]float64 // residual, m
	rotation  [2]float64 // residual, rad
	distance  float64    // between the arms' surfaces, m
	minRoom   float64    // of all gaps beyond their clearances, m; +Inf when nothing is near
	saturated bool       // a joint is at its velocity or position bound
}

// solver moves both arms toward target hand poses, one control step at a time.
type solver struct {
	pair *pair
	rest [2]armlink.Joints // posture the null space is pulled to
	gain float64           // of that pull, 1/s

	scene   scene
	gaps    []gap
	nearest float64 // between the arms' surfaces, as minRoomAt found it
	rows    []row
}

// step starts at the last commanded joints q and returns joints at most dt seconds of allowed joint velocity away whose hands are as near
// to the targets (cellFromHandRoot) as limits and distances permit. It never clips silently: residuals are in the result.
func (s *solver) step(q [2]armlink.Joints, finger [2]float64, targets [2]robotmodel.Transform, dt float64) ikResult {
	var lo, hi [dof]float64
	for h := range q {
		l := &s.pair.arms[h].limits
		for j := range q[h] {
			i := 7*h + j
			lo[i] = math.Max(l.VelocityLow(j, q[h][j])*dt, math.Min(0, l.QMin[j]-q[h][j]))
			hi[i] = math.Min(l.VelocityUp(j, q[h][j])*dt, math.Max(0, l.QMax[j]-q[h][j]))
		}
	}
	s.pair.scene(q, finger, &s.scene)
	var distance float64
	if s.gaps, distance = s.pair.gaps(&s.scene, detectGapM, s.gaps); len(s.gaps) == 0 {
		// Nothing is near: solve without distances and look once where that leads.
		if r := s.free(q, targets, &lo, &hi, dt); s.minRoomAt(r.q, finger) >= 0 {
			return s.judge(r)
		}
		s.pair.scene(q, finger, &s.scene)
		s.gaps = s.gaps[:0]
	}
	r := ikResult{q: q, distance: distance}
	var moved [dof]float64
	for it := 0; it < ikIterations; it++ {
		var inv blocks
		var g [dof]float64
		done := true
		for h := range q {
			jac, e := s.error(h, targets[h])
			r.position[h], r.rotation[h] = length(e[0], e[1], e[2]), length(e[3], e[4], e[5])/rotationWeight
			done = done && r.position[h] < ikDone && r.rotation[h] < ikDone
			posture := armlink.Joints{}
			if it == 0 {
				for j := range posture {
					posture[j] = s.gain * dt * (s.rest[h][j] - q[h][j])
				}
			}
			a := normal(&jac, e, posture, postureWeight, g[7*h:7*h+7])
			inv[h] = invert7(&a)
		}
		if done && it > 0 {
			break
		}
		s.constraints(gapGain)
		var stepLo, stepHi [dof]float64
		for i := range lo {
			stepLo[i], stepHi[i] = lo[i]-moved[i], hi[i]-moved[i]
		}
		d := boxQP(&inv, &g, &stepLo, &stepHi, s.rows)
		for i, v := range d {
			moved[i] += v
			r.q[i/7][i%7] = q[i/7][i%7] + moved[i]
		}
		s.pair.scene(r.q, finger, &s.scene)
		s.gaps, r.distance = s.pair.gaps(&s.scene, detectGapM, s.gaps)
	}
	return s.settle(q, finger, targets, r, &moved, &lo, &hi)
}

// free is step where nothing is near; only the scene's poses are kept up to date.
//
// The weight that pulls toward the rest posture also damps; it fades from one iteration to the next, so that hands arrive near singular postures too.
func (s *solver) free(q [2]armlink.Joints, targets [2]robotmodel.Transform, lo, hi *[dof]float64, dt float64) ikResult {
	r := ikResult{q: q}
	var moved [dof]float64
	for it := 0; it < ikIterations; it++ {
		var a blocks
		var g, stepLo, stepHi, d [dof]float64
		done, weight := true, postureWeight*math.Pow(postureFade, float64(it))
		for h := range q {
			jac, e := s.error(h, targets[h])
			r.position[h], r.rotation[h] = length(e[0], e[1], e[2]), length(e[3], e[4], e[5])/rotationWeight
			done = done && r.position[h] < ikDone && r.rotation[h] < ikDone
			posture := armlink.Joints{}
			if it == 0 {
				for j := range posture {
					posture[j] = s.gain * dt * (s.rest[h][j] - q[h][j])
				}
			}
			a[h] = normal(&jac, e, posture, weight, g[7*h:7*h+7])
			solve7(&a[h], g[7*h:7*h+7], d[7*h:7*h+7])
		}
		if done && it > 0 {
			break
		}
		for i := range lo {
			stepLo[i], stepHi[i] = lo[i]-moved[i], hi[i]-moved[i]
		}
		if !feasible(&d, &stepLo, &stepHi, nil) {
			inv := blocks{invert7(&a[0]), invert7(&a[1])}
			d = boxQP(&inv, &g, &stepLo, &stepHi, nil)
		}
		for i, v := range d {
			moved[i] += v
			r.q[i/7][i%7] = q[i/7][i%7] + moved[i]
		}
		for h := range q {
			s.scene.posed[h] = s.pair.arms[h].at(r.q[h])
		}
	}
	for h := range q {
		_, e := s.error(h, targets[h])
		r.position[h], r.rotation[h] = length(e[0], e[1], e[2]), length(e[3], e[4], e[5])/rotationWeight
	}
	for i := range moved {
		r.saturated = r.saturated || moved[i] <= lo[i]+1e-12 || moved[i] >= hi[i]-1e-12
	}
	return r
}

// judge fills in what minRoomAt found.
func (s *solver) judge(r ikResult) ikResult {
	r.minRoom, r.distance = math.Inf(1), s.nearest
	for _, g := range s.gaps {
		r.minRoom = math.Min(r.minRoom, g.room)
	}
	return r
}

// settle makes sure that distances hold after all (the rows are linear, arms are not) and fills in the residuals.
func (s *solver) settle(q [2]armlink.Joints, finger [2]float64, targets [2]robotmodel.Transform, r ikResult, moved, lo, hi *[dof]float64) ikResult {
	start := s.minRoomAt(q, finger)
	for try := 0; ; try++ {
		room := s.minRoomAt(r.q, finger)
		r.minRoom = room
		if room >= 0 || room >= start-1e-6 || try == 6 {
			break
		}
		for i := range moved {
			moved[i] /= 2
			if try == 5 {
				moved[i] = 0
			}
			r.q[i/7][i%7] = q[i/7][i%7] + moved[i]
		}
	}
	_, r.distance = s.pair.gaps(&s.scene, detectGapM, s.gaps)
	for h := range q {
		_, e := s.error(h, targets[h])
		r.position[h], r.rotation[h] = length(e[0], e[1], e[2]), length(e[3], e[4], e[5])/rotationWeight
	}
	for i := range moved {
		r.saturated = r.saturated || moved[i] <= lo[i]+1e-12 || moved[i] >= hi[i]-1e-12
	}
	return r
}

func (s *solver) minRoomAt(q [2]armlink.Joints, finger [2]float64) float64 {
	s.pair.scene(q, finger, &s.scene)
	s.gaps, s.nearest = s.pair.gaps(&s.scene, detectGapM, s.gaps)
	room := math.Inf(1)
	for _, g := range s.gaps {
		room = math.Min(room, g.room)
	}
	return room
}

// fingers is how far fingers may go from their angles toward others with the arms at q: they hold where they would open into the other arm's clearance.
func (s *solver) fingers(q [2]armlink.Joints, from, want [2]float64) [2]float64 {
	if want == from || s.armRoom(q, want) >= 0 {
		return want
	}
	before := s.armRoom(q, from)
	for _, some := range [][2]float64{want, {want[0], from[1]}, {from[0], want[1]}} {
		if room := s.armRoom(q, some); room >= 0 || room >= before-1e-9 {
			return some
		}
	}
	return from
}

// armRoom is the smallest distance between the two arms beyond their clearance, infinite when none is near.
func (s *solver) armRoom(q [2]armlink.Joints, finger [2]float64) float64 {
	s.minRoomAt(q, finger)
	room := math.Inf(1)
	for _, g := range s.gaps {
		if g.hand2 >= 0 {
			room = math.Min(room, g.room)
		}
	}
	return room
}

// error gives the Jacobian of hand_root in the cell frame and the weighted error to the target, both with rotation rows scaled.
func (s *solver) error(h int, target robotmodel.Transform) (robotmodel.Jacobian, [6]float64) {
	p := &s.scene.posed[h]
	jac := p.chain.JacobianAt(p.hand.P, 7)
	w := robotmodel.RotationError(p.hand, target)
	var e [6]float64
	for k := 0; k < 3; k++ {
		e[k] = target.P[k] - p.hand.P[k]
		e[k+3] = rotationWeight * w[k]
		for j := range jac[k+3] {
			jac[k+3][j] *= rotationWeight
		}
	}
	return jac, e
}

// normal builds JᵀJ + damping and the right side Jᵀe + weight posture.
func normal(jac *robotmodel.Jacobian, e [6]float64, posture armlink.Joints, weight float64, g []float64) (a [7][7]float64) {
	e2 := 0.0
	for k := range e {
		e2 += e[k] * e[k]
	}
	for i := 0; i < 7; i++ {
		for j := 0; j <= i; j++ {
			for k := 0; k < 6; k++ {
				a[i][j] += jac[k][i] * jac[k][j]
			}
			a[j][i] = a[i][j]
		}
		a[i][i] += ikDamping + ikLevenberg*e2 + weight
		g[i] = weight * posture[i]
		for k := 0; k < 6; k++ {
			g[i] += jac[k][i] * e[k]
		}
	}
	return a
}

// constraints turns the gaps into rows: a step may use at most share of the room that is left; a gap below its clearance may not shrink.
func (s *solver) constraints(share float64) {
	s.rows = s.rows[:0]
	for _, g := range s.gaps {
		var r row
		for j, v := range s.scene.along(g.hand1, g.link1, g.p1, g.normal) {
			r.a[7*g.hand1+j] -= v
		}
		if g.hand2 >= 0 {
			for j, v := range s.scene.along(g.hand2, g.link2, g.p2, g.normal) {
				r.a[7*g.hand2+j] += v
			}
		}
		r.b = share * math.Max(0, g.room)
		s.rows = append(s.rows, r)
	}
}

// reach iterates steps without a time limit from q until the hands are at the targets or nothing improves: the inverse kinematics of a pose
// that may be far away. ok tells whether both hands arrived within the safety gates.
func (s *solver) reach(q [2]armlink.Joints, finger [2]float64, targets [2]robotmodel.Transform) (ikResult, bool) {
	r := ikResult{q: q}
	for i := 0; i < 400; i++ {
		r = s.step(r.q, finger, targets, 0.05)
		if math.Max(r.position[0], r.position[1]) < 1e-6 && math.Max(r.rotation[0], r.rotation[1]) < 1e-5 {
			break
		}
	}
	return r, s.arrived(&r)
}

func (s *solver) arrived(r *ikResult) bool {
	for h := range r.position {
		if r.position[h] > s.pair.safety.ReachErrorM || r.rotation[h] > s.pair.safety.ReachErrorRad {
			return false
		}
	}
	return true
}

func length(x, y, z float64) float64 { return math.Sqrt(x*x + y*y + z*z) }
