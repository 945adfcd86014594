package deploy

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// executor turns chunks into knots. It has no clock, no goroutine and no I/O: times and chunks come in, knots and verdicts go out.
//
// Policy time is how far the motion asked for has been consumed. It runs with the cell's clock while the arms move at full speed, slower
// while they start or come to the end of what is known, and stands while they stand. Rows of a chunk are stamped in policy time, so the rows
// skipped at a switch are the rows really consumed: none for the first chunk, none for time spent waiting.
//
// A chunk is anchored where the arms were commanded to be when the observation was taken (one action latency before it, because measured
// motion lags commands by that). Anchoring to the measured pose instead would pull back by the tracking lag at every chunk.
type executor struct {
	pair       *pair
	solver     solver
	ctl        ControlConfig
	safety     SafetyConfig
	contract   Contract
	period     int64   // ns, distance of knots
	dt         float64 // the same in s
	latency    int64   // ns, by which measured motion lags commands
	fingerLead float64 // s, by which fingers are commanded ahead of hands, because they lag more

	commits   []commit // what was sent, oldest first; the last may lie lead ahead of now
	path      *path
	finishing bool
	off       int        // commits in a row whose hands missed their targets
	unsent    int        // commits at the end that extend has not returned yet
	short     int        // rows of the newest chunk that can be reached, 0: all
	raised    [2]float64 // m, by which rows of the newest chunk were raised at most (see pair.tableRise)
}

// commit is one knot of both arms with where it stands in policy time.
type commit struct {
	t    int64   // ns
	tau  float64 // policy time, s
	rate float64 // of policy time, 0..1
	q    [2]armlink.Joints
	hands
}

// Verdicts of the executor. A rejected chunk changes nothing, motion that was lost ends at rest, a stop ends the run.
var (
	// ErrRejected marks a chunk that was refused before motion.
	ErrRejected = errors.New("chunk rejected")
	// errLost marks a path that the arms could not follow: it was cut, and they come to rest where they are.
	errLost = errors.New("the arms come to rest")
	// ErrStop marks a fault after which both arms must ramp down.
	ErrStop = errors.New("arms must stop")
)

// missedCommits is how many knots in a row may miss their targets (joint limits, distances) before the path is cut: 100 ms at 10 ms.
const missedCommits = 10

// minReachedRows is how many of a chunk's rows must be reachable for a part of it to be worth following.
const minReachedRows = 3

// keepNS is how much of the past the executor remembers: the oldest observation a chunk may answer, and its latency.
const keepNS = 4e9

func newExecutor(p *pair, c Cell, contract Contract, periodNS int64, latency time.Duration) *executor {
	e := &executor{latency: int64(latency), pair: p, ctl: c.Control, safety: c.Safety, contract: contract, period: periodNS, dt: float64(periodNS) * 1e-9}
	if c.Control.GripperLatencyMS >= 0 {
		e.fingerLead = c.Control.GripperLatencyMS/1000 - latency.Seconds()
	}
	e.solver = solver{pair: p, gain: c.Control.PostureGain}
	return e
}

// begin starts at rest: joints and finger angles as last commanded. The posture there is the one the null space keeps.
func (e *executor) begin(t int64, q [2]armlink.Joints, finger [2]float64) {
	e.solver.rest = q
	h := hands{finger: finger}
	for i := range q {
		h.pose[i] = e.pair.arms[i].handPose(q[i])
	}
	e.commits = append(e.commits[:0], commit{t: t, q: q, hands: h})
	e.path = standing(h, 0, e.dt)
	e.finishing, e.off, e.unsent = false, 0, 0
}

// policyTime is the policy time at t, which may lie before the first or after the last commit.
func (e *executor) policyTime(t int64) float64 {
	i := e.commitAt(t)
	c := e.commits[i]
	if t <= c.t || i == len(e.commits)-1 {
		return c.tau
	}
	next := e.commits[i+1]
	return c.tau + (next.tau-c.tau)*float64(t-c.t)/float64(next.t-c.t)
}

// commandedAt is where the hands are commanded to be at t.
func (e *executor) commandedAt(t int64) hands {
	i := e.commitAt(t)
	c := e.commits[i]
	if t <= c.t || i == len(e.commits)-1 {
		return c.hands
	}
	next := e.commits[i+1]
	return mix(c.hands, next.hands, float64(t-c.t)/float64(next.t-c.t))
}

// commitAt is the index of the last commit at or before t, 0 when all are later.
func (e *executor) commitAt(t int64) int {
	i := len(e.commits) - 1
	for i > 0 && e.commits[i].t > t {
		i--
	}
	return i
}

// consumedRows is how many rows of the newest chunk are consumed at t.
func (e *executor) consumedRows(t int64) float64 {
	if e.path.rows == 0 {
		return math.Inf(1)
	}
	return (e.policyTime(t) - e.path.origin) / e.path.rowStep
}

// takeOver lets a chunk that answers the observation at tObs take over from now on, as far as its rows can be reached: e.short tells how many
// where it is not all. An error wraps ErrRejected (the old motion goes on) or ErrStop.
func (e *executor) takeOver(now, tObs int64, c Chunk) error {
	if err := c.Check(); err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	if speed, rate, at := impliedSpeed(c, e.contract.RateHz); speed > e.safety.HandSpeedMPS || rate > e.safety.HandRateRadPS {
		return fmt.Errorf("row %d implies hand motion up to %.2f m/s and %.2f rad/s, allowed %.2f and %.2f: %w",
			at, speed, rate, e.safety.HandSpeedMPS, e.safety.HandRateRadPS, ErrRejected)
	}
	e.raised = [2]float64{}
	curve, origin, err := e.place(tObs, c)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrRejected, err)
	}
	i := e.switchCommit(now)
	from := e.commits[i]
	rowStep := 1 / e.contract.RateHz
	if left := curve.end() - from.tau; left < 2*rowStep {
		return fmt.Errorf("the answer came too late: %.1f of its %d rows are left: %w", math.Max(0, left/rowStep), c.Rows, ErrRejected)
	}
	if err := e.seamGate(curve, from.tau); err != nil {
		return err
	}
	reached, err := e.reachable(curve, from, rowStep)
	if err != nil && reached < minReachedRows {
		return err
	}
	if e.short = 0; err != nil {
		e.short = reached
		curve = curve.until(from.tau + float64(reached)*rowStep)
	}
	e.path = e.path.blend(curve, from.tau, e.ctl.BlendMS/1000, c.Rows, origin, rowStep)
	e.commits = e.commits[:i+1]
	e.off = 0
	return nil
}

// place makes the curve of a chunk in policy time.
func (e *executor) place(tObs int64, c Chunk) (*curve, float64, error) {
	at := tObs - e.latency
	step := 1 / e.contract.RateHz
	origin := e.policyTime(at)
	base, baseT, poseT := e.commandedAt(at), origin, origin+step
	if e.contract.PoseTiming == TimingPrevious {
		base = e.commandedAt(at - int64(step*1e9))
		baseT, poseT = origin-step, origin
	}
	rows, err := absolute(c, base.pose, e.contract.PoseReference)
	if err != nil {
		return nil, 0, err
	}
	for k := range rows {
		for h := range rows[k].finger {
			g := &e.pair.arms[h].gripper
			rows[k].finger[h] = math.Min(math.Max(rows[k].finger[h], g.ClosedRad), g.OpenRad)
			rise := e.pair.tableRise(h, rows[k].pose[h], rows[k].finger[h])
			rows[k].pose[h].Pos.Z += rise
			e.raised[h] = math.Max(e.raised[h], rise)
		}
	}
	// A finger label is the angle one step later in both timings.
	return newCurve(base.pose, baseT, rows, poseT, origin+step, step), origin, nil
}

// switchCommit is the commit at which new motion may begin: the first at least SwitchLeadMS from now. Standing arms get one there.
func (e *executor) switchCommit(now int64) int {
	at := now + int64(ms(e.ctl.SwitchLeadMS))
	for i, c := range e.commits {
		if c.t >= at {
			return i
		}
	}
	last := e.commits[len(e.commits)-1]
	last.t += (at - last.t + e.period - 1) / e.period * e.period
	last.rate = 0
	e.commits = append(e.commits, last)
	return len(e.commits) - 1
}

// seamGate compares old and new motion where the switch happens.
func (e *executor) seamGate(c *curve, tau float64) error {
	old, fresh := e.path.at(tau), c.at(tau)
	for h := range old.pose {
		m, rad := old.pose[h].Distance(fresh.pose[h])
		if m > e.safety.SeamGateM || rad > e.safety.SeamGateRad {
			return fmt.Errorf("new chunk puts the %s hand %.3f m and %.2f rad away from its path, allowed %.3f and %.2f: %w",
				Hands[h], m, rad, e.safety.SeamGateM, e.safety.SeamGateRad, ErrStop)
		}
	}
	return nil
}

// reachable walks the rows that will be executed with the inverse kinematics, before anything moves. It returns how many rows from the
// switch on can be reached; the error says why not more.
func (e *executor) reachable(c *curve, from commit, rowStep float64) (rows int, err error) {
	q := from.q
	const perRow = 3
	until := math.Min(c.end(), from.tau+float64(MinRows)*rowStep)
	for k := 1; ; k++ {
		tau := from.tau + float64(k)*rowStep
		if tau > until+1e-9 {
			return k - 1, nil
		}
		want := c.at(tau)
		var r ikResult
		for i := 0; i < perRow; i++ {
			r = e.solver.step(q, want.finger, transforms(want), rowStep)
			q = r.q
		}
		if !e.solver.arrived(&r) {
			return k - 1, fmt.Errorf("row %d can not be reached: %s: %w", k, e.describe(&r), ErrRejected)
		}
	}
}

func (e *executor) describe(r *ikResult) string {
	h := 0
	if r.position[1]+0.2*r.rotation[1] > r.position[0]+0.2*r.rotation[0] {
		h = 1
	}
	why := "a joint limit or a singularity"
	if r.minRoom < 0.01 {
		why = "a clearance to the table or between the arms"
	} else if r.saturated {
		why = "a joint limit"
	}
	return fmt.Sprintf("%s hand misses by %.3f m and %.2f rad (%s)", Hands[h], r.position[h], r.rotation[h], why)
}

// finish brings the arms to rest along the path, from the earliest moment on.
func (e *executor) finish(now int64) {
	if e.finishing {
		return
	}
	e.finishing = true
	e.commits = e.commits[:e.switchCommit(now)+1]
}

// yieldMS is how soon an arm that met something is led back, ms.
const yieldMS = 80.0

// giveWay leads an arm that something holds back to where its joints are: a command that ran on would only press harder, and one that went
// back with the hand alone could go on pressing with the elbow. What is left of the path starts from there, so what the chunk wants
// besides, the other hand and the fingers, goes on. Both arms pause meanwhile.
func (e *executor) giveWay(now int64, pressed [2]bool, measured [2]armlink.Joints) {
	i := e.switchCommit(now)
	from, before := e.commits[i], e.commits[max(i-1, 0)]
	told := e.jointsAt(now - e.latency)
	e.commits = e.commits[:i+1]
	n := math.Ceil(yieldMS * 1e6 / float64(e.period))
	for k := 1.0; k <= n; k++ {
		c, s := from, k/n
		c.t, c.rate = from.t+int64(k)*e.period, 0
		for h := range c.q {
			for j := range c.q[h] {
				c.q[h][j] += (from.q[h][j] - before.q[h][j]) * n * (s - s*s/2) // the motion so far runs out
				if pressed[h] {
					c.q[h][j] += smooth(s) * (measured[h][j] - told[h][j])
				}
			}
			c.pose[h] = e.pair.arms[h].handPose(c.q[h])
		}
		e.commits = append(e.commits, c)
	}
	e.unsent, e.off = int(n), 0
	e.path = e.path.moved(from.tau, e.commits[len(e.commits)-1].pose)
}

// jointsAt is what the arms are told at t.
func (e *executor) jointsAt(t int64) (q [2]armlink.Joints) {
	i := e.commitAt(t)
	c, next := e.commits[i], e.commits[min(i+1, len(e.commits)-1)]
	q = c.q
	if t > c.t && next.t > c.t {
		f := float64(t-c.t) / float64(next.t-c.t)
		for h := range q {
			for j := range q[h] {
				q[h][j] += f * (next.q[h][j] - c.q[h][j])
			}
		}
	}
	return q
}

// cut ends the path that the arms could not follow: the motion they really make fades to rest.
func (e *executor) cut() {
	n := len(e.commits)
	last, before := e.commits[n-1], e.commits[max(n-2, 0)]
	fade := e.ctl.StartRampMS / 1000 * last.rate
	e.path = coasting(before.hands, before.tau, last.hands, last.tau, e.dt, fade)
	e.off = 0
}

// extend commits knots up to the lead ahead of now. It returns the index of the first new commit. When hands keep missing their targets the
// path is cut and the error wraps errLost.
func (e *executor) extend(now int64) (first int, err error) {
	e.forget(now)
	first = len(e.commits) - e.unsent
	e.unsent = 0
	until := now + int64(ms(e.ctl.LeadMS))
	for e.commits[len(e.commits)-1].t < until {
		c, moved, err := e.next(e.commits[len(e.commits)-1])
		if err != nil {
			e.cut()
			return first, err
		}
		if !moved {
			break
		}
		e.commits = append(e.commits, c)
	}
	return first, nil
}

// next is the commit after last; moved is false when the arms stand and nothing is to be sent.
func (e *executor) next(last commit) (c commit, moved bool, err error) {
	c = last
	c.t += e.period
	c.rate = e.nextRate(last)
	if c.rate == 0 {
		// One more knot at the same joints tells the arm runtime that the motion ends at rest.
		return c, last.rate > 0, nil
	}
	c.tau = math.Min(last.tau+c.rate*e.dt, e.path.end())
	want := e.path.at(c.tau)
	r := e.solver.step(last.q, last.finger, transforms(want), e.dt)
	c.q, c.finger = r.q, want.finger
	if e.fingerLead != 0 {
		c.finger = e.path.at(c.tau + e.fingerLead*c.rate).finger
	}
	const close = 0.05 // m of room, more than fingers move in one step
	if r.minRoom < close {
		c.finger = e.solver.fingers(c.q, last.finger, c.finger)
	}
	for h := range c.pose {
		c.pose[h] = e.pair.arms[h].handPose(c.q[h])
	}
	if e.solver.arrived(&r) {
		e.off = 0
	} else if e.off++; e.off >= missedCommits {
		return c, false, fmt.Errorf("%s: %w", e.describe(&r), errLost)
	}
	return c, true, nil
}

// nextRate lets the rate of policy time rise and fall within StartRampMS, so that it reaches zero at the end of the path.
func (e *executor) nextRate(last commit) float64 {
	slope := 1000 / e.ctl.StartRampMS // 1/s
	left := e.path.end() - last.tau
	if left < 1e-9 {
		return 0
	}
	want := 1.0
	if e.finishing {
		want = 0
	}
	// From rate r, braking takes r²/(2 slope) of policy time; one step is taken at the new rate already.
	brake := slope * e.dt
	want = math.Min(want, math.Max(brake/2, math.Sqrt(brake*brake/4+2*slope*left)-brake/2))
	rate := math.Min(math.Max(want, last.rate-brake), last.rate+brake)
	if e.finishing && rate < brake/2 {
		return 0
	}
	return rate
}

// forget drops commits that no observation can refer to any more.
func (e *executor) forget(now int64) {
	i := e.commitAt(now - keepNS)
	if i > 256 {
		e.commits = append(e.commits[:0], e.commits[i:]...)
	}
}

// resting reports whether everything that was sent ends at rest at or before t.
func (e *executor) resting(t int64) bool {
	last := e.commits[len(e.commits)-1]
	return last.rate == 0 && last.t <= t
}

// knots gives the commits from index first on as segments of both hands; nil when there are none.
func (e *executor) knots(first int) [2][]armlink.Knot {
	var out [2][]armlink.Knot
	for _, c := range e.commits[min(first, len(e.commits)):] {
		for h := range out {
			out[h] = append(out[h], armlink.Knot{TNS: c.t, Q: c.q[h], GripperRad: c.finger[h]})
		}
	}
	return out
}

func transforms(h hands) [2]robotmodel.Transform {
	return [2]robotmodel.Transform{robotmodel.FromPose(h.pose[0]), robotmodel.FromPose(h.pose[1])}
}

// relative is the right hand in the left, as policies see it.
func relative(pose [2]frames.Pose) frames.Pose { return pose[0].Inv().Mul(pose[1]) }
