package armrt

import (
	"math"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Shares of the limits that the tracker uses. The rest covers the rounding of a command that travels as q alone and is differentiated
// twice by the receiver, and keeps braking (which needs a little more than cruising) possible.
const (
	velocityShare     = 0.98
	accelerationShare = 0.95
	jerkShare         = 0.90
	positionMargin    = 2e-3 // rad
)

// axis is one degree of freedom with the bounds the tracker keeps, in rad, rad/s, rad/s², rad/s³.
type axis struct {
	qMin, qMax     float64
	dq, ddq, dddq  float64
	offset, decel  float64 // position-dependent velocity as in robotmodel.Limits; decel 0: none
	unwind         float64 // 1/s: acceleration is released in proportion to the velocity left, a = -unwind v, within the jerk limit
	brakeAllowance float64 // s: reaction and release of a brake, for the quick check
	coast          int     // ticks for which the receiver may go on with constant acceleration before the next command reaches it
}

func axesOf(l robotmodel.Limits, g robotmodel.Gripper, coast int) (axes [8]axis) {
	for j := 0; j < 7; j++ {
		axes[j] = newAxis(l.QMin[j]+positionMargin, l.QMax[j]-positionMargin, l.DQ[j], l.DDQ[j], l.DDDQ[j], l.DQOffset[j], l.DDQDec[j])
		axes[j].coast = coast
	}
	axes[7] = newAxis(g.ClosedRad-positionMargin, g.OpenRad+positionMargin, g.MaxRate, g.MaxAcceleration, g.MaxJerk, 0, 0)
	return axes
}

func newAxis(qMin, qMax, dq, ddq, dddq, offset, decel float64) axis {
	a := axis{qMin: qMin, qMax: qMax, dq: dq * velocityShare, ddq: ddq * accelerationShare, dddq: dddq * jerkShare, offset: offset, decel: decel}
	// One tick of release changes the acceleration by unwind*dt*|a|, which must stay within dddq*dt at |a| = ddq.
	a.unwind = math.Min(a.dddq/a.ddq, 0.5/dt)
	a.brakeAllowance = 2*a.ddq/a.dddq + 3*dt + 2/a.unwind
	return a
}

// up is the highest velocity at q, low the lowest. They never let an axis move past its ends.
func (a *axis) up(q float64) float64  { return a.bound(a.qMax - q) }
func (a *axis) low(q float64) float64 { return -a.bound(q - a.qMin) }

func (a *axis) bound(room float64) float64 {
	if room <= 0 {
		return 0
	}
	if a.decel == 0 {
		return math.Min(a.dq, math.Sqrt(a.ddq*room)) // half of the acceleration is kept for tracking
	}
	return math.Min(a.dq, math.Max(0, velocityShare*(-a.offset+math.Sqrt(2*a.decel*room))))
}

// motion is the state of one axis: last command and its backward differences.
type motion struct{ q, v, a float64 }

// after is the state one tick later under acceleration acc.
func (m motion) after(acc float64) motion {
	v := m.v + acc*dt
	return motion{m.q + v*dt, v, acc}
}

// brake is the acceleration of the next tick when stopping as fast as the limits allow.
func (x *axis) brake(m motion) float64 {
	want := clamp(-x.unwind*m.v, -x.ddq, x.ddq)
	return clamp(want, m.a-x.dddq*dt, m.a+x.dddq*dt)
}

// slack lets a velocity that the bounds left behind by rounding pass; 1e-9 rad/s is far below what a controller resolves.
const slack = 1e-9

// inside reports whether m keeps the limits. An arm that stands in the margin before an end, or was left there, may stay or move away from it.
func (x *axis) inside(m motion) bool {
	return m.v <= x.up(m.q)+slack && m.v >= x.low(m.q)-slack && (m.q <= x.qMax+slack || m.v <= 0) && (m.q >= x.qMin-slack || m.v >= 0)
}

// safe reports whether m is inside the limits and braking from it stays inside, at once or after the receiver has gone on with constant
// acceleration because commands were lost.
func (x *axis) safe(m motion) bool {
	if !x.inside(m) {
		return false
	}
	if x.clearlySafe(m) {
		return true
	}
	if !x.brakesInside(m) {
		return false
	}
	for i := 0; i < x.coast; i++ {
		if m = m.after(m.a); !x.inside(m) {
			return false
		}
	}
	return x.coast == 0 || x.brakesInside(m)
}

func (x *axis) brakesInside(m motion) bool {
	// The longest brake takes dq/ddq plus reaction: 0.6 s for the fastest joint.
	for i := 0; i < 4000; i++ {
		if math.Abs(m.v) < 1e-7 && math.Abs(m.a) < 1e-4 {
			return true
		}
		m = m.after(x.brake(m))
		if !x.inside(m) {
			return false
		}
	}
	return false
}

// clearlySafe is a cheap sufficient test: far from both ends, whatever the brake does in detail.
func (x *axis) clearlySafe(m motion) bool {
	swing := math.Abs(m.a) * (math.Abs(m.a)/x.dddq + 2*dt) // velocity still gained before the brake bites, or lost after it
	coast := float64(x.coast) * dt
	v := math.Abs(m.v) + math.Abs(m.a)*coast + swing
	reach := v*v/(2*x.ddq) + v*(x.brakeAllowance+coast)
	return v <= x.up(m.q+reach) && -v >= x.low(m.q-reach)
}

func clamp(v, lo, hi float64) float64 { return math.Min(math.Max(v, lo), hi) }
