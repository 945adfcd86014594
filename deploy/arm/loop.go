package arm

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// process is the control loop's state. One goroutine owns it.
type process struct {
	opts   Options
	driver Driver
	grip   *gripper
	model  robotmodel.Arm
	limits robotmodel.Limits
	rt     *armrt.Runtime
	clock  clock
	log    *slog.Logger

	client *client
	m      Measured
	last   armrt.Command
	lag    time.Duration // for which a joint has been far from its command
	sentNS int64         // grid time of the last state
}

func newProcess(d Driver, g *gripper, model robotmodel.Arm, o Options, m Measured) (*process, error) {
	p := &process{opts: o, driver: d, grip: g, model: model, log: o.Logger.With("component", "arm", "arm", o.Name),
		limits: model.Limits.Scaled(o.Velocity, o.Acceleration, o.Jerk, 0)}
	p.clock = newClock(o.Now().UnixNano())
	gripper := robotmodel.YUBI()
	if g.hand != nil {
		gripper.ClosedRad, gripper.OpenRad = g.hand.Range()
	}
	st, _ := g.now()
	p.m = p.own(m)
	q, finger := inside(p.m.Q, p.limits), clamp(st.Rad, gripper.ClosedRad, gripper.OpenRad)
	rt, err := armrt.New(armrt.Config{Limits: p.limits, Gripper: gripper}, q, finger)
	if err != nil {
		return nil, fmt.Errorf("%s arm: %w", o.Name, err)
	}
	for j := range q {
		if d := math.Abs(q[j] - p.m.Q[j]); d > 0.05 {
			return nil, fmt.Errorf("%s arm: joint %d stands at %.3f rad, outside its range by %.3f; move it back by hand guiding", o.Name, j+1, p.m.Q[j], d)
		}
	}
	p.rt, p.last = rt, armrt.Command{Q: q, GripperRad: finger, Mode: armlink.ModeIdle}
	return p, nil
}

// own fills the joints that the arm lacks with their commands.
func (p *process) own(m Measured) Measured {
	for j := p.model.Joints(); j < len(m.Q); j++ {
		m.Q[j], m.DQ[j] = p.last.Q[j], 0
	}
	return m
}

// inside pulls measured joints, which may lie a hair beyond an end, to where a command may be.
func inside(q robotmodel.Joints, l robotmodel.Limits) robotmodel.Joints {
	const margin = 0.003 // rad; the runtime keeps 0.002 from each end
	for j := range q {
		q[j] = clamp(q[j], l.QMin[j]+margin, l.QMax[j]-margin)
	}
	return q
}

func clamp(v, lo, hi float64) float64 { return min(max(v, lo), hi) }

// run is the loop: one pass per control cycle of the arm. After ctx ends it goes on until the arm stands.
func (p *process) run(ctx context.Context, clients <-chan *client) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer p.leave()
	for {
		m, err := p.driver.Next(life)
		if err != nil {
			p.announce(fmt.Sprintf("the arm's controller is gone: %v", err))
			return fmt.Errorf("%s arm: %w", p.opts.Name, err)
		}
		p.m = p.own(m)
		if ctx.Err() != nil {
			p.rt.Stop(p.clock.armNS, "the arm process was told to end")
			if mode, _ := p.rt.Mode(); mode == armlink.ModeStopped || mode == armlink.ModeReflex {
				return nil
			}
		} else {
			p.take(life, clients)
		}
		p.watch()
		if err := p.command(); err != nil {
			p.announce(fmt.Sprintf("the arm's controller is gone: %v", err))
			return fmt.Errorf("%s arm: %w", p.opts.Name, err)
		}
		p.report()
	}
}

// take accepts a client and the messages that have arrived.
func (p *process) take(ctx context.Context, clients <-chan *client) {
	select {
	case c := <-clients:
		p.greet(c)
	default:
	}
	for p.client != nil {
		select {
		case m, open := <-p.client.in:
			if !open {
				p.log.Info("the executor left")
				p.abandon("the executor left")
				return
			}
			if err := p.handle(ctx, m); err != nil {
				p.log.Warn("a message was refused", "err", err)
				p.send(&armlink.Fault{Of: m.Kind(), Text: fmt.Sprintf("%s arm: %v", p.opts.Name, err)})
			}
		default:
			return
		}
	}
}

// greet makes c the executor, unless there is one.
func (p *process) greet(c *client) {
	if p.client != nil {
		_ = c.send(&armlink.Fault{Text: fmt.Sprintf("%s arm: another executor is connected", p.opts.Name)})
		go func() { // its goroutines take a moment to send that
			time.Sleep(100 * time.Millisecond)
			c.close()
		}()
		return
	}
	p.client = c
	p.log.Info("an executor is connected")
	p.send(p.hello())
	p.send(p.state())
}

func (p *process) hello() *armlink.Hello {
	closed, open := robotmodel.YUBI().ClosedRad, robotmodel.YUBI().OpenRad
	if p.grip.hand != nil {
		closed, open = p.grip.hand.Range()
	}
	return &armlink.Hello{Version: armlink.Version, Clock: armlink.RealTime, PeriodNS: int64(p.opts.Period), StartNS: p.clock.host(),
		ActionLatencyNS: int64(p.opts.ActionLatency),
		Arms: []armlink.ArmInfo{{Name: p.opts.Name, Model: p.model.Name, WorldFromBase: wirePose(p.opts.WorldFromBase),
			FlangeFromHand: wirePose(p.opts.FlangeFromHand), GripperRad: [2]float64{closed, open}}}}
}

func wirePose(t robotmodel.Transform) armlink.Pose {
	q := t.Quat()
	return armlink.Pose{t.P[0], t.P[1], t.P[2], q[0], q[1], q[2], q[3]}
}

// handle acts on one message; a refused one changes nothing.
func (p *process) handle(ctx context.Context, m armlink.Message) error {
	switch m := m.(type) {
	case *armlink.Segment:
		if m.Arm != p.opts.Name {
			return fmt.Errorf("segment for arm %q", m.Arm)
		}
		knots := append([]armlink.Knot(nil), m.Knots...)
		for i := range knots {
			knots[i].TNS = p.clock.toArm(knots[i].TNS)
		}
		return p.rt.Plan(p.clock.armNS, knots)
	case *armlink.Stop:
		p.stop(m.Reason)
	case *armlink.Recover:
		return p.recover(ctx)
	default:
		return fmt.Errorf("%T is for simulated cells", m)
	}
	return nil
}

func (p *process) stop(reason string) { p.rt.Stop(p.clock.armNS, reason) }

// abandon drops the client and stops an arm that moves; one at rest stays ready for the next client.
func (p *process) abandon(reason string) {
	if p.client != nil {
		p.client.close()
		p.client = nil
	}
	if mode, _ := p.rt.Mode(); mode == armlink.ModeMoving {
		p.stop(reason)
	}
}

func (p *process) leave() {
	if p.client != nil {
		p.client.close()
	}
}

// recover acknowledges a stop. Where the arm stopped by itself, the command starts again from where it stands.
func (p *process) recover(ctx context.Context) error {
	mode, reason := p.rt.Mode()
	if mode == armlink.ModeRamp {
		return fmt.Errorf("recover: the arm still moves (%s)", reason)
	}
	if err := p.recoverGripper(ctx); err != nil {
		return err
	}
	if p.m.Fault != "" {
		m, err := p.driver.Recover(ctx)
		if err != nil {
			return fmt.Errorf("recover: %w", err)
		}
		p.m = p.own(m)
		if m.Fault != "" {
			return fmt.Errorf("recover: %s", m.Fault)
		}
	}
	if mode == armlink.ModeReflex {
		st, _ := p.grip.now()
		finger := p.last.GripperRad
		if p.grip.hand != nil {
			closed, open := p.grip.hand.Range()
			finger = clamp(st.Rad, closed, open)
		}
		if err := p.rt.Place(inside(p.m.Q, p.limits), finger); err != nil {
			return fmt.Errorf("recover: %w", err)
		}
		p.last.Q = inside(p.m.Q, p.limits)
	} else if err := p.rt.Recover(); err != nil {
		return err
	}
	p.clock.set(p.opts.Now().UnixNano())
	p.lag = 0
	p.log.Info("acknowledged", "was", reason)
	return nil
}

// recoverGripper waits until the gripper answers again. The arm stands meanwhile; its controller's watchdog keeps being fed.
func (p *process) recoverGripper(ctx context.Context) error {
	_, err := p.grip.now()
	if err == nil {
		return nil
	}
	p.grip.recover()
	for end := p.opts.Now().Add(time.Second); p.opts.Now().Before(end); {
		m, dead := p.driver.Next(ctx)
		if dead != nil {
			return dead
		}
		if p.m = p.own(m); p.m.Fault == "" {
			if dead := p.driver.Command(p.last); dead != nil {
				return dead
			}
		}
		if _, err = p.grip.now(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("recover: the gripper: %w", err)
}

// watch turns what was measured into a reflex or a stop.
func (p *process) watch() {
	mode, _ := p.rt.Mode()
	if p.m.Fault != "" && mode != armlink.ModeReflex {
		p.rt.Reflex(p.m.Fault)
		p.log.Warn("the arm stopped by itself", "reason", p.m.Fault)
	}
	if p.m.Hold != "" && mode == armlink.ModeMoving {
		p.stop(p.m.Hold)
	}
	if _, err := p.grip.now(); err != nil && mode == armlink.ModeMoving {
		p.stop(fmt.Sprintf("the gripper: %v", err))
	}
	if v := p.flangeSpeed(); v > p.model.FlangeSpeed && mode == armlink.ModeMoving {
		p.stop(fmt.Sprintf("the flange moves with %.2f m/s, allowed are %.2f", v, p.model.FlangeSpeed))
	}
	far, worst := 0.0, 0
	for j := 0; j < p.model.Joints(); j++ {
		if d := math.Abs(p.last.Q[j] - p.m.Q[j]); d > far {
			far, worst = d, j
		}
	}
	if far <= p.opts.FollowingRad || p.m.Fault != "" {
		p.lag = 0
	} else if p.lag += p.driver.Cycle(); p.lag > followTime && mode != armlink.ModeReflex {
		p.rt.Reflex(fmt.Sprintf("joint %d is %.2f rad from its command: something holds the arm or it does not follow", worst+1, far))
	}
}

// flangeSpeed is how fast the command moves the flange, m/s.
func (p *process) flangeSpeed() float64 {
	c := p.model.Forward(p.last.Q)
	j := c.JacobianAt(c.Flange().P, 7)
	var v robotmodel.Vec
	for k := range v {
		for i := range p.last.DQ {
			v[k] += j[k][i] * p.last.DQ[i]
		}
	}
	return robotmodel.Norm(v)
}

// command steps the runtime through one cycle and sends its last command.
func (p *process) command() error {
	for t := time.Duration(0); t < p.driver.Cycle(); t += armrt.Tick {
		p.clock.tick(armrt.Tick)
		p.last = p.rt.Step(p.clock.armNS)
	}
	now := p.opts.Now().UnixNano()
	if behind, ok := p.clock.follow(now, p.driver.Cycle()); !ok {
		if mode, _ := p.rt.Mode(); mode == armlink.ModeMoving {
			p.stop(fmt.Sprintf("the control loop was held up, or the clock was set, by %v", behind.Round(time.Millisecond)))
		} else if mode != armlink.ModeRamp {
			p.clock.set(now)
		}
	}
	p.grip.set(p.last.GripperRad)
	if p.opts.Observe != nil {
		st, _ := p.grip.now()
		p.opts.Observe(Observation{TNS: p.clock.host(), Command: p.last, Measured: p.m, Hand: st})
	}
	if p.m.Fault != "" {
		return nil
	}
	return p.driver.Command(p.last)
}

// report sends a state each period.
func (p *process) report() {
	if grid := p.clock.armNS / int64(p.opts.Period); grid != p.sentNS {
		p.sentNS = grid
		p.send(p.state())
	}
}

func (p *process) state() *armlink.State {
	st, _ := p.grip.now()
	mode, reason := p.rt.Mode()
	return &armlink.State{TNS: p.clock.host(), Arms: []armlink.ArmState{{Q: p.m.Q, DQ: p.m.DQ, QCmd: p.last.Q, DQCmd: p.last.DQ,
		GripperRad: st.Rad, GripperCmdRad: p.last.GripperRad, Mode: mode, Reason: reason}}}
}

// announce tells the executor why there will be no more states.
func (p *process) announce(reason string) {
	if p.client == nil {
		return
	}
	p.rt.Reflex(reason)
	st := p.state()
	st.Arms[0].Mode, st.Arms[0].Reason = armlink.ModeReflex, reason
	p.send(st)
	time.Sleep(20 * time.Millisecond) // until its goroutine has sent it; the arm is gone, nothing waits for this loop
}

func (p *process) send(m armlink.Message) {
	if p.client == nil {
		return
	}
	if err := p.client.send(m); err != nil {
		p.log.Warn("the executor is dropped", "err", err)
		p.abandon(err.Error())
	}
}
