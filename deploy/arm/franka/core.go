package franka

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// tickNS is the arm's cycle.
const tickNS = 1_000_000

// phase is how far a motion is.
type phase int

const (
	phaseNone phase = iota
	phaseStarting
	phaseRunning
	phaseFinishing
)

// CoreConfig is what a Core drives.
type CoreConfig struct {
	Limits  robotmodel.Limits
	Gripper robotmodel.Gripper
	// TestTicks is how long the link is judged at the start of a motion, in ms; 0: not at all.
	TestTicks int
	// FollowingRad stops the motion when a joint is measured this far from its desired position; default 0.15.
	FollowingRad float64
}

// Command answers one state.
type Command struct {
	Send     bool // a datagram is due
	Q        fci.Joints
	Finished bool // it ends the motion
}

// Core is the brain of the loop. It belongs to one goroutine and does not allocate in State, Plan included.
type Core struct {
	cfg   CoreConfig
	rt    *armrt.Runtime
	phase phase
	fault string // why the arm ended the last motion; empty: it did not
	rest  bool   // nothing moves although no motion runs
	note  string // why no motion runs, when it is no fault
	begun int    // motions

	last     uint64 // message id of the last state
	seen     bool
	sent     uint64 // message id of the last state that was answered in a running motion
	accepted motion // what the arm holds for its last command
	wanted   motion // what the last answer asked for
	gripper  float64
	test     linkTest
	poor     int // states in a row with a poor success rate
	Stats    LinkStats
}

// motion is a joint motion in full precision.
type motion struct{ q, dq, ddq fci.Joints }

// coast is the motion one tick later with constant acceleration, as the arm goes on without a command.
func (m motion) coast() motion {
	for j := range m.q {
		m.dq[j] += m.ddq[j] * 1e-3
		m.q[j] += m.dq[j] * 1e-3
	}
	return m
}

// NewCore makes a Core for an arm that stands at q (rad) with its fingers at gripperRad.
func NewCore(cfg CoreConfig, q fci.Joints, gripperRad float64) (*Core, error) {
	if cfg.FollowingRad == 0 {
		cfg.FollowingRad = 0.15
	}
	rt, err := armrt.New(armrt.Config{Limits: cfg.Limits, Gripper: cfg.Gripper, CoastTicks: maxCoast}, q, gripperRad)
	if err != nil {
		return nil, err
	}
	return &Core{cfg: cfg, rt: rt, gripper: gripperRad, rest: true, note: "no motion runs yet", accepted: motion{q: q}, wanted: motion{q: q}}, nil
}

// maxCoast is how many lost commands in a row the arm bridges; the next one stops it.
const maxCoast = 19

// maxGap is how many states in a row may be missing for a motion to go on; the arm has stopped long before.
const maxGap = 100

// State takes the arm's newest state and returns the answer to it.
func (c *Core) State(s *fci.State) Command {
	gap := uint64(0)
	if c.seen && s.MessageID > c.last {
		gap = s.MessageID - c.last - 1
	}
	c.last, c.seen = s.MessageID, true
	switch c.phase {
	case phaseStarting:
		return c.begin(s)
	case phaseRunning:
		return c.run(s, gap)
	case phaseFinishing:
		if s.Motion == fci.MotionIdle {
			c.end("the motion has ended")
			break
		}
		return Command{Send: true, Q: c.wanted.q, Finished: true}
	}
	c.standing(s)
	return Command{}
}

// standing watches an arm without a motion.
func (c *Core) standing(s *fci.State) {
	if c.fault == "" {
		if why := ailment(s); why != "" {
			c.fault = why
		}
	}
	c.accepted = motion{s.QD, s.DQD, s.DDQD}
	c.wanted = c.accepted
	c.rest = atRest(s)
}

// atRest reports whether neither the desired nor the measured joints move.
func atRest(s *fci.State) bool {
	for j := range s.DQ {
		if math.Abs(s.DQD[j]) > 1e-3 || math.Abs(s.DQ[j]) > 0.03 {
			return false
		}
	}
	return true
}

// ailment says in an operator's words why an arm would not take a motion; empty when it would.
func ailment(s *fci.State) string {
	switch s.Mode {
	case fci.RobotIdle, fci.RobotMove:
		return ""
	case fci.RobotUserStopped:
		return "the user stop is pressed; release it, then acknowledge"
	case fci.RobotGuiding:
		return "the arm is being guided by hand"
	case fci.RobotReflex:
		if errs := s.Errors | s.LastErrors; errs != 0 {
			return "the arm stopped itself: " + errs.String()
		}
		return "the arm stopped itself"
	}
	return fmt.Sprintf("the arm is in mode %q; see Desk", s.Mode)
}

// Begin tells that the arm has started a joint position motion.
func (c *Core) Begin() {
	c.phase, c.fault, c.note = phaseStarting, "", "the motion starts"
	c.begun++
}

// Finish ends the motion in an orderly way; the arm has to stand (ModeIdle, ModeStopped).
func (c *Core) Finish() {
	if c.phase == phaseRunning {
		c.phase = phaseFinishing
	}
}

// Lost tells that no states come any more, or the connection ended.
func (c *Core) Lost(why string) {
	c.broken(why)
	c.rest = true // nothing is known; nothing is commanded
}

// begin waits until the states show the motion, then answers with the desired position itself.
func (c *Core) begin(s *fci.State) Command {
	if why := ailment(s); why != "" {
		c.broken(why)
		return Command{}
	}
	if s.Motion != fci.MotionJointPosition || s.Controller != fci.ControllerJointImpedance {
		return Command{}
	}
	start := c.startAt(s)
	c.gripper = math.Min(math.Max(c.gripper, c.cfg.Gripper.ClosedRad), c.cfg.Gripper.OpenRad)
	if err := c.rt.Place(start, c.gripper); err != nil {
		c.broken(err.Error())
		c.phase = phaseFinishing
		c.wanted = motion{q: start}
		return Command{Send: true, Q: start, Finished: true}
	}
	c.phase, c.note, c.poor = phaseRunning, "", 0
	c.accepted, c.wanted = motion{q: start}, motion{q: start}
	c.test = linkTest{left: c.cfg.TestTicks}
	c.sent = s.MessageID
	return Command{Send: true, Q: start}
}

// startAt is the desired position of the state, from which a motion has to start. Where it came as float32 it may be off by half a unit in the last
// place, a step of 1e-4 rad/s; near an end of the range, where the arm allows no speed outward, it is taken one unit further inside.
func (c *Core) startAt(s *fci.State) fci.Joints {
	q := s.QD
	if s.FloatingStateOf != 4 {
		return q
	}
	const rounding = 1e-3 // rad/s
	for j := range q {
		if c.cfg.Limits.VelocityUp(j, q[j]) < rounding {
			q[j] = float64(math.Nextafter32(float32(q[j]), float32(math.Inf(-1))))
		}
		if c.cfg.Limits.VelocityLow(j, q[j]) > -rounding {
			q[j] = float64(math.Nextafter32(float32(q[j]), float32(math.Inf(1))))
		}
	}
	return q
}

// run answers a state of the running motion.
func (c *Core) run(s *fci.State, gap uint64) Command {
	if why := ailment(s); why != "" || s.Motion != fci.MotionJointPosition {
		if why == "" {
			why = "the arm ended the motion"
			if s.LastErrors != 0 {
				why = "the arm ended the motion: " + s.LastErrors.String()
			}
		}
		c.broken(why)
		c.standing(s)
		return Command{}
	}
	if gap > maxGap {
		c.broken(fmt.Sprintf("%d states in a row did not arrive", gap))
		c.standing(s)
		return Command{}
	}
	c.Stats.note(gap, s.SuccessRate)
	c.reconcile(s, gap)
	c.watch(s)
	out := c.rt.Step(int64(s.MessageID+1) * tickNS)
	c.gripper = out.GripperRad
	c.wanted = motion{out.Q, out.DQ, out.DDQ}
	c.sent = s.MessageID
	return Command{Send: true, Q: out.Q}
}

// reconcile finds out what the arm holds for its last command. Either it took ours, or it went on with constant acceleration for as many ticks as
// commands were lost; then path time has gone on as well. Speeds and accelerations tell the two apart and positions, which version 10 rounds to
// float32, are continued in full precision. Anything else is taken as the arm says it.
func (c *Core) reconcile(s *fci.State, gap uint64) {
	for i := gap; i > 0; i-- { // the path goes on without commands
		c.rt.Step(int64(s.MessageID-i+1) * tickNS)
	}
	if gap == 0 && c.wanted.equals(s) {
		c.accepted = c.wanted
		return
	}
	m := c.accepted
	for i := uint64(0); i <= gap; i++ {
		m = m.coast()
	}
	took, coasted := gap == 0 && c.wanted.near(s), m.near(s)
	switch {
	case took && !(coasted && m.apart(s) < c.wanted.apart(s)):
		m = c.wanted
		if m.apart(s) < roundingApart { // the start's rounding; else the arm reports no derivatives, and ours follow from its positions
			c.Stats.Adopted++
			m.dq, m.ddq = s.DQD, s.DDQD
		}
	case coasted:
		c.Stats.Lost += int(gap) + 1
		if !m.equals(s) && m.apart(s) < roundingApart {
			m.dq, m.ddq = s.DQD, s.DDQD
		}
	default:
		c.Stats.Lost += int(gap) + 1
		c.Stats.Adopted++
		m = motion{s.QD, s.DQD, s.DDQD}
	}
	c.accepted = m
	c.rt.Accepted(m.q, m.dq, m.ddq)
}

// roundingApart bounds what rounding a start to float32 does to an acceleration, in rad/s².
const roundingApart = 1.0

// apart is the largest difference to the state's acceleration, rad/s².
func (m *motion) apart(s *fci.State) (worst float64) {
	for j := range m.ddq {
		worst = math.Max(worst, math.Abs(m.ddq[j]-s.DDQD[j]))
	}
	return worst
}

// equals reports whether m is what the state says within the precision of its numbers: float32 has half a unit in the last place of 1.2e-7 at 4 rad
// and 3e-7 at 10 rad/s².
func (m *motion) equals(s *fci.State) bool {
	for j := range m.dq {
		if math.Abs(m.dq[j]-s.DQD[j]) > 1e-6 || math.Abs(m.ddq[j]-s.DDQD[j]) > 1e-4 {
			return false
		}
	}
	return m.near(s)
}

// near compares positions alone.
func (m *motion) near(s *fci.State) bool {
	tolerance := 1e-9
	if s.FloatingStateOf == 4 {
		tolerance = 3e-7
	}
	for j := range m.q {
		if math.Abs(m.q[j]-s.QD[j]) > tolerance {
			return false
		}
	}
	return true
}

// watch stops the motion along its path for reasons that are not the arm's.
func (c *Core) watch(s *fci.State) {
	now := int64(s.MessageID) * tickNS
	if c.test.left > 0 {
		if verdict := c.test.take(s.SuccessRate); verdict != "" {
			c.rt.Stop(now, verdict)
		}
	}
	for j := range s.Q {
		if d := math.Abs(s.Q[j] - s.QD[j]); d > c.cfg.FollowingRad {
			c.rt.Stop(now, fmt.Sprintf("joint %d is %.3f rad from its desired position: something holds the arm", j+1, d))
			break
		}
	}
	c.poor++
	if s.SuccessRate >= poorRate || s.SuccessRate == 0 {
		c.poor = 0
	}
	if c.poor == poorTicks {
		c.rt.Stop(now, fmt.Sprintf("for %d ms less than %.0f %% of the commands reached the arm in time", poorTicks, 100*poorRate))
	}
}

// broken drops the plan and everything that waits.
func (c *Core) broken(why string) {
	c.rt.Reflex(why)
	c.phase, c.fault, c.rest = phaseNone, why, false
}

// end notes that the motion ended as wished.
func (c *Core) end(note string) {
	c.phase, c.note, c.rest = phaseNone, note, true
}

// Plan takes the knots of a segment; their times are the arm's clock, message id times a millisecond. It is refused while no motion is ready.
func (c *Core) Plan(knots []armlink.Knot) error {
	if c.phase != phaseRunning || c.test.left > 0 {
		_, reason := c.Mode()
		return fmt.Errorf("plan segment: %w; %s", armrt.ErrNotReady, reason)
	}
	return c.rt.Plan(int64(c.last)*tickNS, knots)
}

// Stop ramps the motion down; it needs Acknowledge afterwards.
func (c *Core) Stop(reason string) {
	if c.phase == phaseRunning {
		c.rt.Stop(int64(c.last)*tickNS, reason)
	}
}

// Acknowledge makes an arm that was stopped along its path ready again. The error says that it moves, or that a new motion has to be begun.
func (c *Core) Acknowledge() error {
	if c.phase != phaseRunning {
		return errNoMotion
	}
	return c.rt.Recover()
}

// errNoMotion says that a motion has to be begun.
var errNoMotion = fmt.Errorf("no motion runs")

// Mode is what the executor is shown.
func (c *Core) Mode() (armlink.Mode, string) {
	switch {
	case c.phase == phaseRunning && c.test.left > 0:
		return armlink.ModeStopped, "the link to the arm is being judged"
	case c.phase == phaseRunning:
		return c.rt.Mode()
	case c.phase == phaseStarting || c.phase == phaseFinishing:
		return armlink.ModeStopped, c.note
	case c.fault != "" && !c.rest:
		return armlink.ModeRamp, c.fault
	case c.fault != "":
		return armlink.ModeReflex, c.fault
	}
	return armlink.ModeStopped, c.note
}

// Commanded is the last command with its speed, and the wanted finger angle.
func (c *Core) Commanded() (q, dq fci.Joints, gripperRad float64) {
	return c.wanted.q, c.wanted.dq, c.gripper
}
