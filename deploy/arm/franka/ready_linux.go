package franka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// makeReady brings the arm from whatever it is in to a running motion that takes segments. It runs as a job beside run. clearErrors is the operator's
// word: without it an arm in error stays there.
func (p *process) makeReady(ctx context.Context, clearErrors bool) error {
	var err error
	if e := p.call(func(l *loop) { err = l.core.Acknowledge() }); e != nil {
		return e
	}
	if !errors.Is(err, errNoMotion) {
		return err // it stood ready, or still moves
	}
	if err := p.reconnect(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	if err := p.await(ctx, "come to rest", 5*time.Second, func(r Report) (bool, error) { return r.Mode != armlink.ModeRamp, nil }); err != nil {
		return err
	}
	switch r := p.now(); r.Robot {
	case fci.RobotReflex, fci.RobotOther:
		if !clearErrors {
			return fmt.Errorf("the arm has to be acknowledged first: %s", r.Reason)
		}
		if err := p.clear(ctx, s); err != nil {
			return err
		}
	case fci.RobotUserStopped:
		return errors.New("the user stop is pressed; release it, then acknowledge")
	}
	if err := p.await(ctx, "become idle", 10*time.Second, func(r Report) (bool, error) { return r.Robot == fci.RobotIdle, nil }); err != nil {
		return err
	}
	return p.start(ctx, s)
}

// clear asks the arm to clear its errors, not too often.
func (p *process) clear(ctx context.Context, s *fci.Session) error {
	since := p.elapsed() - p.lastTry
	if since > calmTime || p.tryAfter == 0 {
		p.tryAfter = recoveryPause
	}
	if left := p.tryAfter - since; left > 0 && p.tried {
		return fmt.Errorf("errors were cleared %.1f s ago; look for what the arm runs into, then try again in %.1f s", since.Seconds(), left.Seconds())
	}
	if since < calmTime && p.tried {
		p.tryAfter = min(2*p.tryAfter, p.pauseMax)
	}
	p.tried, p.lastTry = true, p.elapsed()
	p.log.Info("errors are cleared", "were", p.now().Errors.String())
	return s.Recover(ctx)
}

// start asks for a motion and waits until its link has been judged.
func (p *process) start(ctx context.Context, s *fci.Session) error {
	m, err := s.MoveJoints(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.motion = m
	p.mu.Unlock()
	go func() {
		status, err := m.Wait(context.WithoutCancel(ctx))
		select {
		case p.ended <- &motionEnd{m, status, err}:
		case <-p.loop.done:
		}
	}()
	begun := 0
	if err := p.call(func(l *loop) { l.core.Begin(); begun = l.core.begun }); err != nil {
		return err
	}
	err = p.await(ctx, "start the motion", 5*time.Second, func(r Report) (bool, error) {
		switch {
		case r.Begun < begun: // an older report
			return false, nil
		case r.Running:
			return true, nil
		case r.Mode == armlink.ModeReflex || r.Mode == armlink.ModeRamp:
			return false, errors.New(r.Reason)
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	return p.await(ctx, "judge its link", p.LinkTest+5*time.Second, func(r Report) (bool, error) {
		switch {
		case r.Running && r.Mode == armlink.ModeIdle:
			return true, nil
		case r.Judging:
			return false, nil
		case r.Mode == armlink.ModeReflex || r.Mode == armlink.ModeStopped:
			return false, errors.New(r.Reason)
		}
		return false, nil
	})
}

// reconnect opens a new session when the old one has ended.
func (p *process) reconnect(ctx context.Context) error {
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	if s.Err() == nil {
		return nil
	}
	fresh, err := fci.Dial(ctx, p.Address, p.udpPort, p.LockStep)
	if err != nil {
		return err
	}
	if err := p.settings(ctx, fresh); err != nil {
		_ = fresh.Close()
		return err
	}
	p.mu.Lock()
	p.session = fresh
	p.mu.Unlock()
	if err := p.call(func(l *loop) { l.attach(fresh.Version(), fresh.RemoteIP()) }); err != nil {
		return err
	}
	was := p.now().TNS
	p.log.Info("connected anew", "version", fresh.Version())
	return p.await(ctx, "send states", 2*time.Second, func(r Report) (bool, error) { return r.TNS > was, nil })
}

// finish ends a running motion in order, so that the arm is free for others.
func (p *process) finish(ctx context.Context) {
	p.mu.Lock()
	s, m := p.session, p.motion
	p.mu.Unlock()
	if m == nil || s.Err() != nil {
		return
	}
	_ = p.call(func(l *loop) { l.core.Finish() })
	err := p.await(ctx, "end the motion", time.Second, func(r Report) (bool, error) { return !r.Running && r.Robot != fci.RobotMove, nil })
	if err != nil {
		p.log.Warn("the motion is broken off", "err", err)
		_ = s.StopMove(ctx)
	}
}
