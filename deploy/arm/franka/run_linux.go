package franka

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// run serves executors until ctx ends.
func (p *process) run(ctx context.Context, clients <-chan *client) error {
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var messages <-chan armlink.Message
	for {
		messages = nil
		if p.client != nil {
			messages = p.client.in
		}
		select {
		case <-ctx.Done():
			p.wind(life)
			return nil
		case c := <-clients:
			p.greet(life, c)
		case r := <-p.loop.reports:
			p.take(life, r)
		case m, open := <-messages:
			if !open {
				p.log.Info("the executor left")
				p.leave("the executor left")
				break
			}
			if err := p.handle(life, m); err != nil {
				p.refuse(m.Kind(), err)
			}
		case err := <-p.jobDone:
			p.job = false
			if p.client != nil && !p.client.greeted {
				p.hello()
			}
			if err != nil {
				p.refuse(armlink.KindRecover, err)
			}
		case e := <-p.ended:
			p.noteEnd(e)
		}
	}
}

// noteEnd notes how a motion ended; the states say the same to the loop.
func (p *process) noteEnd(e *motionEnd) {
	p.mu.Lock()
	if p.motion == e.motion {
		p.motion = nil
	}
	p.mu.Unlock()
	if e.err == nil && e.status == 0 {
		return
	}
	why := fmt.Sprintf("the motion was %s", e.status)
	if e.err != nil {
		why = fmt.Sprintf("the connection to the arm ended: %v", e.err)
		_ = p.call(func(l *loop) { l.core.Lost(why) })
	}
	p.log.Warn("the arm stopped", "reason", why)
}

// greet takes an executor, unless there is one, and makes the arm ready for it; Hello follows when it is, or when it is clear why it is not.
func (p *process) greet(ctx context.Context, c *client) {
	if p.client != nil {
		c.refuse(fmt.Sprintf("%s arm: another executor is connected", p.Name))
		return
	}
	p.client = c
	p.log.Info("an executor is connected")
	if !p.start1(ctx, false) {
		p.hello()
	}
}

// start1 begins the one job, unless it runs.
func (p *process) start1(ctx context.Context, clearErrors bool) bool {
	if p.job {
		return false
	}
	p.job = true
	go func() { p.jobDone <- p.makeReady(ctx, clearErrors) }()
	return true
}

// hello greets the executor; in lock-step time stands from here on until it is granted.
func (p *process) hello() {
	var r Report
	_ = p.call(func(l *loop) { l.held, l.grant = l.lockStep, int64(l.state.MessageID)*tickNS })
	for len(p.loop.reports) > 0 { // older than the greeting
		p.note(<-p.loop.reports)
	}
	_ = p.call(func(l *loop) {
		l.report(false)
		r.TNS = l.shown
	})
	p.client.greeted = true
	closed, open := p.gripper.ClosedRad, p.gripper.OpenRad
	p.send(&armlink.Hello{Version: armlink.Version, Clock: p.clock(), PeriodNS: int64(p.Period), StartNS: r.TNS, ActionLatencyNS: int64(p.ActionLatency),
		Arms: []armlink.ArmInfo{{Name: p.Name, Model: p.model.Name, WorldFromBase: wirePose(p.WorldFromBase), FlangeFromHand: wirePose(p.FlangeFromHand),
			GripperRad: [2]float64{closed, open}}}})
}

func wirePose(t robotmodel.Transform) armlink.Pose {
	q := t.Quat()
	return armlink.Pose{t.P[0], t.P[1], t.P[2], q[0], q[1], q[2], q[3]}
}

// note keeps a report.
func (p *process) note(r Report) {
	p.mu.Lock()
	idle := p.latest.Running && !r.Running
	p.latest = r
	p.mu.Unlock()
	if idle {
		runtime.GC() // the collector is off while the arm moves
	}
}

// take notes a report and passes it on.
func (p *process) take(ctx context.Context, r Report) {
	p.note(r)
	finger := r.FingerC
	if p.hand != nil {
		p.hand.set(r.FingerC)
		if p.LockStep {
			p.hand.exchange(ctx)
		}
		finger = p.hand.measured()
		if err := p.hand.fault(); err != nil && r.Mode == armlink.ModeMoving {
			p.stop(fmt.Sprintf("the gripper: %v", err))
		}
	}
	if p.client == nil || !p.client.greeted {
		return
	}
	p.send(&armlink.State{TNS: r.TNS, Arms: []armlink.ArmState{{Q: r.Q, DQ: r.DQ, QCmd: r.QC, DQCmd: r.DQC, GripperRad: finger, GripperCmdRad: r.FingerC,
		Mode: r.Mode, Reason: r.Reason}}})
}

// handle acts on one message; a refused one changes nothing.
func (p *process) handle(ctx context.Context, m armlink.Message) error {
	switch m := m.(type) {
	case *armlink.Segment:
		if m.Arm != p.Name {
			return fmt.Errorf("segment for arm %q", m.Arm)
		}
		if err := m.Validate(); err != nil {
			return err
		}
		var err error
		if e := p.call(func(l *loop) {
			for i := range m.Knots {
				m.Knots[i].TNS -= l.offset
			}
			err = l.core.Plan(m.Knots)
		}); e != nil {
			return e
		}
		return err
	case *armlink.Stop:
		p.stop(m.Reason)
	case *armlink.Recover:
		if p.now().Mode == armlink.ModeIdle {
			return nil
		}
		if !p.start1(ctx, true) {
			return fmt.Errorf("recover: one is under way")
		}
	case *armlink.Advance:
		if !p.LockStep {
			return fmt.Errorf("advance: the clock of this arm is %s", p.clock())
		}
		return p.call(func(l *loop) {
			l.grant = m.UntilNS
			if int64(l.state.MessageID)*tickNS >= l.grant {
				l.report(false) // no tick will pass
			}
		})
	default:
		return fmt.Errorf("%T is for simulated cells", m)
	}
	return nil
}

func (p *process) stop(reason string) {
	_ = p.call(func(l *loop) { l.core.Stop(reason) })
}

// leave drops the executor: the arm stops along its path, then its motion ends in order.
func (p *process) leave(reason string) {
	if p.client == nil {
		return
	}
	p.client.close()
	p.client = nil
	_ = p.call(func(l *loop) {
		l.held = false
		if mode, _ := l.core.Mode(); mode == armlink.ModeMoving {
			l.core.Stop(reason)
		}
	})
}

// windTime is how long the end of the process may take; another arm of a world in lock-step may hold its time.
const windTime = 6 * time.Second

// wind stops the arm and ends its motion before the process ends.
func (p *process) wind(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, windTime)
	defer cancel()
	p.stop("the arm process was told to end")
	p.leave("the arm process was told to end")
	pump := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case r := <-p.loop.reports:
				p.mu.Lock()
				p.latest = r
				p.mu.Unlock()
			case <-p.jobDone:
			case <-p.ended:
			case <-pump:
				return
			}
		}
	}()
	_ = p.await(ctx, "come to rest", 5*time.Second, func(r Report) (bool, error) { return r.Mode != armlink.ModeRamp && r.Mode != armlink.ModeMoving, nil })
	p.finish(ctx)
	close(pump)
	<-done
}

func (p *process) refuse(kind armlink.Kind, err error) {
	p.log.Warn("a message was refused", "err", err)
	p.send(&armlink.Fault{Of: kind, Text: fmt.Sprintf("%s arm: %v", p.Name, err)})
}

func (p *process) send(m armlink.Message) {
	if p.client == nil {
		return
	}
	if err := p.client.send(m, p.LockStep); err != nil {
		p.log.Warn("the executor is dropped", "err", err)
		p.leave(err.Error())
	}
}
