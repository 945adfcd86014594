package armrt

import (
	"errors"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Config is what a Runtime drives.
type Config struct {
	Limits  robotmodel.Limits
	Gripper robotmodel.Gripper
	// MaxLagRad stops the arm when the limits hold a command back from the path by more than this; default 0.3.
	MaxLagRad float64
	// StartGapRad is how far the first knot after standing may be from the command; default 0.1.
	StartGapRad float64
	// CoastTicks is for how many ticks the arm goes on with constant acceleration when commands are lost; commands are kept so far from the
	// limits that it stays inside them all the same. Default 0: nothing is lost.
	CoastTicks int
}

// Command is the output of one tick.
type Command struct {
	Q, DQ, DDQ  armlink.Joints // rad, rad/s, rad/s²
	GripperRad  float64
	GripperRate float64 // rad/s
	Mode        armlink.Mode
	Reason      string // why it ramps or stopped
}

// Runtime is one arm with its gripper. Not safe for concurrent use: one goroutine owns it.
type Runtime struct {
	cfg    Config
	axes   [8]tracker
	path   path
	mode   armlink.Mode
	reason string
	reflex bool // the ramp under way is the brake after a Reflex and ends in ModeReflex

	// While ramping, path time falls behind the clock: pathT + pathFrac ns, running at rate (0..1) that changes by rateDot per second.
	pathT    int64
	pathFrac float64
	rate     float64
	rateDot  float64
	hold     float64 // finger angle kept while ramping or stopped
	fresh    []knot  // of the segment being planned
}

// ErrNotReady is wrapped by Plan when the arm waits for Recover.
var ErrNotReady = errors.New("the arm waits for an acknowledgement (recover)")

// New makes a runtime at rest in q with the fingers at gripperRad. The error names a joint outside its limits.
func New(cfg Config, q armlink.Joints, gripperRad float64) (*Runtime, error) {
	if cfg.MaxLagRad == 0 {
		cfg.MaxLagRad = 0.3
	}
	if cfg.StartGapRad == 0 {
		cfg.StartGapRad = 0.1
	}
	r := &Runtime{cfg: cfg, mode: armlink.ModeIdle}
	for j, a := range axesOf(cfg.Limits, cfg.Gripper, cfg.CoastTicks) {
		r.axes[j].axis = a
	}
	if err := r.Place(q, gripperRad); err != nil {
		return nil, err
	}
	return r, nil
}

// Place puts the arm at rest somewhere else without motion and forgets path and stop: a simulator's reset.
func (r *Runtime) Place(q armlink.Joints, gripperRad float64) error {
	if j, ok := r.cfg.Limits.Contains(q, 0); !ok {
		return fmt.Errorf("place arm: joint %d at %.4f rad is outside %.4f to %.4f", j+1, q[j], r.cfg.Limits.QMin[j], r.cfg.Limits.QMax[j])
	}
	if x := &r.axes[7]; !(gripperRad >= x.qMin && gripperRad <= x.qMax) {
		return fmt.Errorf("place arm: finger angle %.4f rad is outside %.4f to %.4f", gripperRad, x.qMin, x.qMax)
	}
	for j := 0; j < 7; j++ {
		r.axes[j].place(q[j])
	}
	r.axes[7].place(gripperRad)
	r.path.reset()
	r.mode, r.reason, r.reflex = armlink.ModeIdle, "", false
	return nil
}

// Plan takes the knots of a segment at time now (ns of the clock that stamps the knots). Knots at or before now are dropped; the others
// replace the path from the first of them on. An error leaves the path as it was.
func (r *Runtime) Plan(now int64, knots []armlink.Knot) error {
	if r.mode.NeedsRecover() {
		return fmt.Errorf("plan segment: %w; stopped because: %s", ErrNotReady, r.reason)
	}
	if err := (&armlink.Segment{Knots: knots}).Validate(); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	fresh := r.fresh[:0]
	for i := range knots {
		if knots[i].TNS <= now {
			continue
		}
		k := knot{t: knots[i].TNS}
		copy(k.q[:7], knots[i].Q[:])
		k.q[7] = clamp(knots[i].GripperRad, r.axes[7].qMin, r.axes[7].qMax)
		for j := 0; j < 7; j++ {
			if x := &r.axes[j]; !(k.q[j] >= x.qMin-positionMargin && k.q[j] <= x.qMax+positionMargin) {
				return fmt.Errorf("plan segment: knot %d joint %d at %.4f rad is outside %.4f to %.4f", i, j+1, k.q[j], x.qMin, x.qMax)
			}
		}
		fresh = append(fresh, k)
	}
	r.fresh = fresh // keeps what it grew to
	if len(fresh) == 0 {
		return fmt.Errorf("plan segment: all %d knots are %.1f ms or more in the past", len(knots), float64(now-knots[len(knots)-1].TNS)*1e-6)
	}
	if r.mode == armlink.ModeIdle {
		for j := 0; j < 7; j++ {
			if gap := math.Abs(fresh[0].q[j] - r.axes[j].m.q); gap > r.cfg.StartGapRad {
				return fmt.Errorf("plan segment: first knot is %.3f rad from joint %d where the arm stands, more than %.3f", gap, j+1, r.cfg.StartGapRad)
			}
		}
	}
	r.path.replace(now, r.reference(), fresh)
	r.mode, r.reason = armlink.ModeMoving, ""
	return nil
}

// reference is the reference of the last tick, with derivatives.
func (r *Runtime) reference() (k knot) {
	for j := range r.axes {
		k.q[j], k.v[j] = r.axes[j].r, r.axes[j].rv
		k.a[j] = clamp(r.axes[j].ra, -r.axes[j].ddq, r.axes[j].ddq)
	}
	return k
}

// Stop ramps the arm down along its path; it needs Recover afterwards. Stopping a stopped arm keeps the first reason.
func (r *Runtime) Stop(now int64, reason string) {
	if r.mode.NeedsRecover() {
		return
	}
	if r.path.empty() {
		r.mode, r.reason, r.hold = armlink.ModeStopped, reason, r.axes[7].r
		return
	}
	r.beginRamp(now, reason)
}

// Reflex marks the arm as stopped by itself (contact, user stop): the path is dropped at once and the command brakes to rest. While it still
// moves the mode is ModeRamp, at rest ModeReflex; so whoever waits for the ramp to end may Recover at once. A second Reflex changes nothing.
func (r *Runtime) Reflex(reason string) {
	if r.reflex || r.mode == armlink.ModeReflex {
		return
	}
	r.path.reset()
	r.hold = r.axes[7].r
	for j := range r.axes[:7] {
		x := &r.axes[j]
		x.r = x.m.q + x.m.v*math.Abs(x.m.v)/(2*correctionShare*x.ddq) // where braking ends
		x.rv = 0
	}
	r.mode, r.reason, r.reflex = armlink.ModeRamp, reason, true
}

// Recover acknowledges a stop: with the arm at rest it becomes idle. The error tells that it still moves.
func (r *Runtime) Recover() error {
	if !r.mode.NeedsRecover() {
		return nil
	}
	if r.mode == armlink.ModeRamp {
		return fmt.Errorf("recover: the arm still moves (%s)", r.reason)
	}
	r.path.reset()
	r.mode, r.reason = armlink.ModeIdle, ""
	return nil
}

// Accepted tells what the arm itself holds for its last command (rad, rad/s, rad/s²) where that differs from what Step returned: commands were
// lost and it went on without. The next command continues from there. The caller still calls Step once for each lost tick.
func (r *Runtime) Accepted(q, dq, ddq armlink.Joints) {
	for j := range q {
		r.axes[j].m = motion{q[j], dq[j], ddq[j]}
	}
}

// Mode is the present mode and its reason.
func (r *Runtime) Mode() (armlink.Mode, string) { return r.mode, r.reason }

func (r *Runtime) beginRamp(now int64, reason string) {
	r.mode, r.reason = armlink.ModeRamp, reason
	r.pathT, r.pathFrac, r.rate, r.rateDot = now, 0, 1, 0
	r.hold = r.axes[7].r
}

// Step computes the command for time now. Call it once per Tick with now advancing by exactly that.
func (r *Runtime) Step(now int64) Command {
	var target [8]float64
	switch {
	case r.mode == armlink.ModeMoving:
		target = r.follow(now)
	case r.mode == armlink.ModeRamp && !r.reflex:
		target = r.rampDown()
	default:
		for j := range target {
			target[j] = r.axes[j].r
		}
	}
	if r.mode.NeedsRecover() {
		target[7] = r.hold
	}
	c := Command{}
	lag, worst := 0.0, 0
	for j := range r.axes {
		m := r.axes[j].step(target[j])
		if j < 7 {
			c.Q[j], c.DQ[j], c.DDQ[j] = m.q, m.v, m.a
			if d := math.Abs(target[j] - m.q); d > lag {
				lag, worst = d, j
			}
		} else {
			c.GripperRad, c.GripperRate = m.q, m.v
		}
	}
	if lag > r.cfg.MaxLagRad && r.mode == armlink.ModeMoving {
		r.beginRamp(now, fmt.Sprintf("limits of joint %d hold the command %.2f rad behind the path", worst+1, lag))
	}
	if r.reflex && r.still() {
		r.mode, r.reflex = armlink.ModeReflex, false
	}
	c.Mode, c.Reason = r.mode, r.reason
	return c
}

// follow evaluates the path at now and watches its end.
func (r *Runtime) follow(now int64) [8]float64 {
	q, v := r.path.at(now, 0)
	left := float64(r.path.end()-now) * 1e-9
	if r.path.rest {
		if left <= 0 && r.still() {
			q = r.path.knots[len(r.path.knots)-1].q
			r.path.reset()
			r.mode = armlink.ModeIdle
		}
		return q
	}
	// A ramp from full rate with deceleration d consumes 1/(2d) of path.
	if left <= 0.5/r.rampDecel(v)+2*dt {
		r.beginRamp(now, "no segment followed in time (starvation)")
	}
	return q
}

// Ramp shape: path rate falls with rampDecel (1/s²), reached within rampOnset seconds and released in proportion to the rate left.
const (
	rampShare   = 0.7  // of the acceleration limit goes to the ramp
	rampMax     = 20.0 // 1/s: never faster than a stop within 50 ms
	rampOnset   = 0.01 // s
	rampRelease = 60.0 // 1/s
)

func (r *Runtime) rampDecel(v [8]float64) float64 {
	d := rampMax
	for j := 0; j < 7; j++ {
		if speed := math.Abs(v[j]); speed > 1e-6 {
			d = math.Min(d, rampShare*r.axes[j].ddq/speed)
		}
	}
	return math.Max(d, 1)
}

// rampDown moves path time on at a falling rate; at rest the arm is stopped.
func (r *Runtime) rampDown() [8]float64 {
	q, v := r.path.at(r.pathT, r.pathFrac)
	d := r.rampDecel(v)
	want := -math.Min(d, rampRelease*r.rate)
	r.rateDot = math.Max(want, r.rateDot-d/rampOnset*dt)
	r.rate = math.Max(0, r.rate+r.rateDot*dt)
	if r.rate < 1e-4 {
		r.rate = 0
		if r.still() {
			r.path.reset()
			r.mode = armlink.ModeStopped
			for j := range q {
				q[j] = r.axes[j].r
			}
			return q
		}
	}
	step := r.rate*dt*1e9 + r.pathFrac
	whole := math.Floor(step)
	r.pathT += int64(whole)
	r.pathFrac = step - whole
	q, _ = r.path.at(r.pathT, r.pathFrac)
	return q
}

// still reports whether the command stands at its reference.
func (r *Runtime) still() bool {
	for j := range r.axes {
		x := &r.axes[j]
		if math.Abs(x.m.v) > 1e-3 || math.Abs(x.rv) > 1e-3 || math.Abs(x.m.a) > 0.1 {
			return false
		}
	}
	return true
}
