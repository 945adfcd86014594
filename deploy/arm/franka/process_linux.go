package franka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// Serve connects to the arm and serves executors, one after the other, until ctx ends; then it stops the arm along its path, ends the motion in order
// and returns nil. Nothing moves before an executor sends segments. Losing the arm's connection is no error: the executor is told, and its
// acknowledgement connects anew.
func Serve(ctx context.Context, o Options) error {
	o, err := o.withDefaults()
	if err != nil {
		return err
	}
	p := &process{Options: o, log: o.Logger.With("component", "arm", "arm", o.Name), ended: make(chan *motionEnd, 4), jobDone: make(chan error, 1), began: time.Now()}
	if err := p.open(ctx); err != nil {
		return fmt.Errorf("%s arm: %w", o.Name, err)
	}
	defer p.close()
	listener, err := armlink.Listen(o.Listen)
	if err != nil {
		return err
	}
	clients := make(chan *client)
	accepting, stop := context.WithCancel(ctx)
	defer stop()
	go accept(accepting, listener, clients)
	if o.Ready != nil {
		o.Ready(listener.Addr().Network() + ":" + listener.Addr().String())
	}
	return p.run(ctx, clients)
}

// process is everything of an arm process that may wait. run's goroutine owns it; session and latest are shared with the job.
type process struct {
	Options
	log     *slog.Logger
	loop    *loop
	udpPort int
	limits  robotmodel.Limits
	model   robotmodel.Arm
	gripper robotmodel.Gripper
	hand    *hand
	client  *client

	mu      sync.Mutex // guards session, motion and latest
	session *fci.Session
	motion  *fci.Motion
	latest  Report

	ended    chan *motionEnd
	job      bool // a recovery is under way
	jobDone  chan error
	began    time.Time
	tried    bool          // an error recovery has been tried
	lastTry  time.Duration // when, by elapsed
	tryAfter time.Duration
}

// elapsed is the time that limits and pauses are measured in: this machine's, in lock-step the arm's own. There nothing may depend on how fast anybody
// is; what never comes is waited for until the executor, the arm or the operator ends it.
func (p *process) elapsed() time.Duration {
	if p.LockStep {
		return time.Duration(p.now().TNS)
	}
	return time.Since(p.began)
}

// motionEnd is the arm's word on a motion.
type motionEnd struct {
	motion *fci.Motion
	status fci.MoveStatus
	err    error
}

// open connects, checks the arm and starts the loop.
func (p *process) open(ctx context.Context) error {
	if p.Realtime != RealtimeOff {
		if err := prepareProcess(p.Priority); err != nil {
			if p.Realtime == RealtimeRequire {
				return fmt.Errorf("this machine is not ready to drive an arm (--realtime=%s runs all the same): %w", RealtimeTry, err)
			}
			p.log.Warn("no real-time guarantees", "err", err)
		}
	}
	fd, port, err := listenUDP()
	if err != nil {
		return err
	}
	p.udpPort = port
	p.loop = newLoop(fd, p.Period, p.LockStep, p.log)
	first, err := p.connect(ctx)
	if err == nil {
		err = p.check(ctx, first)
	}
	if err == nil {
		err = p.startHand(ctx)
	}
	if err == nil {
		finger := p.gripper.ClosedRad
		if p.hand != nil {
			finger = p.hand.measured()
		}
		p.loop.core, err = NewCore(CoreConfig{Limits: p.limits, Gripper: p.gripper, TestTicks: int(p.LinkTest / time.Millisecond),
			FollowingRad: p.FollowingRad}, first.QD, finger)
	}
	if err != nil {
		p.closeHand()
		if p.session != nil {
			_ = p.session.Close()
		}
		unix.Close(fd)
		return err
	}
	p.latest = Report{Robot: first.Mode, Mode: armlink.ModeStopped, Errors: first.Errors | first.LastErrors, Reason: ailment(first)}
	priority := p.Priority
	if p.Realtime == RealtimeOff {
		priority = 0
	}
	go p.loop.run(priority, p.CPU)
	return nil
}

// firstStateTime is how long the first state may take.
const firstStateTime = 5 * time.Second

// connect opens the session, waits for the first state and applies the settings. Before the loop runs it reads the socket itself.
func (p *process) connect(ctx context.Context) (*fci.State, error) {
	s, err := fci.Dial(ctx, p.Address, p.udpPort, p.LockStep)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.session = s
	p.mu.Unlock()
	p.loop.attach(s.Version(), s.RemoteIP())
	var st fci.State
	for end := time.Now().Add(firstStateTime); ; {
		n, errno := p.loop.recv(p.loop.rx, 0)
		if errno == 0 {
			s.SetStateBytes(n)
			if err := fci.DecodeState(s.Version(), p.loop.rx[:n], &st); err != nil {
				_ = s.Close()
				return nil, err
			}
			break
		}
		if err := errors.Join(ctx.Err(), s.Err()); err != nil {
			_ = s.Close()
			return nil, err
		}
		if !p.LockStep && time.Now().After(end) { // arms that share a world begin together
			_ = s.Close()
			return nil, fmt.Errorf("the arm accepted the connection but no state came within %v: UDP from %s to port %d of this machine is blocked", firstStateTime, s.RemoteIP(), p.udpPort)
		}
	}
	if err := p.settings(ctx, s); err != nil {
		_ = s.Close()
		return nil, err
	}
	p.log.Info("connected", "version", s.Version(), "system", s.Version().System())
	return &st, nil
}

func (p *process) settings(ctx context.Context, s *fci.Session) error {
	if p.Collision != nil {
		if err := s.SetCollisionBehavior(ctx, *p.Collision); err != nil {
			return err
		}
	}
	if p.Stiffness != nil {
		if err := s.SetJointImpedance(ctx, *p.Stiffness); err != nil {
			return err
		}
	}
	if p.LoadKG > 0 {
		// The load's own inertia: that of a ball as large as the gripper's palm.
		i := 0.4 * p.LoadKG * p.gripper.PalmRadius * p.gripper.PalmRadius
		return s.SetLoad(ctx, p.LoadKG, p.LoadXYZ, [9]float64{0: i, 4: i, 8: i})
	}
	return nil
}

// check finds out the arm's model and limits and compares its kinematics with ours.
func (p *process) check(ctx context.Context, st *fci.State) error {
	name := p.Model
	if name == "" {
		name = "fr3"
		if p.session.Version() == 5 {
			name = "fer"
		}
	}
	var err error
	if p.model, err = robotmodel.ByName(name); err != nil {
		return err
	}
	p.limits = p.model.Limits
	if urdf, err := p.session.RobotModel(ctx); err != nil {
		p.log.Info("the arm sends no description; the published limits count", "err", err)
	} else if p.limits, err = fci.LimitsFromURDF(urdf, p.limits); err != nil {
		return err
	}
	p.limits = p.limits.Scaled(p.Velocity, p.Acceleration, p.Jerk, 0)
	c := p.model.Forward(st.Q)
	flange := c.Flange().Mul(columns(st.FTEE))
	for k := 0; k < 3; k++ {
		if d := math.Abs(flange.P[k] - st.OTEE[12+k]); d > p.ModelErrorM {
			return fmt.Errorf("the arm says that its end effector is %.1f mm from where the model %s puts it: the model or the arm's calibration differs", 1000*d, name)
		}
	}
	return nil
}

// columns makes a transform of a column-major matrix.
func columns(m [16]float64) (t robotmodel.Transform) {
	for row := 0; row < 3; row++ {
		for col := 0; col < 3; col++ {
			t.R[3*row+col] = m[4*col+row]
		}
		t.P[row] = m[12+row]
	}
	return t
}

// call runs f on the loop and waits for it.
func (p *process) call(f func(*loop)) error {
	done := make(chan struct{})
	select {
	case p.loop.calls <- func(l *loop) { f(l); close(done) }:
	case <-p.loop.done:
		return errors.New("the loop has ended")
	}
	var late <-chan time.Time
	if !p.LockStep {
		late = time.After(5 * time.Second)
	}
	select {
	case <-done:
		return nil
	case <-p.loop.done:
		return errors.New("the loop has ended")
	case <-late:
		return errors.New("the loop does not answer")
	}
}

// now is the loop's last report.
func (p *process) now() Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest
}

// await waits until the loop reports what ok wants.
func (p *process) await(ctx context.Context, what string, limit time.Duration, ok func(Report) (bool, error)) error {
	for end := p.elapsed() + limit; ; {
		done, err := ok(p.now())
		if done || err != nil {
			return err
		}
		if err := p.sessionErr(); p.LockStep && err != nil { // no time will pass
			return err
		}
		if p.elapsed() > end {
			return fmt.Errorf("the arm did not %s within %v; it is in mode %q (%s)", what, limit, p.now().Robot, p.now().Reason)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// sessionErr is why the connection to the arm ended, nil while it lives.
func (p *process) sessionErr() error {
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	return s.Err()
}

// close ends loop, connection and hand.
func (p *process) close() {
	close(p.loop.stop)
	<-p.loop.done
	p.mu.Lock()
	s := p.session
	p.mu.Unlock()
	if s != nil {
		_ = s.Close()
	}
	unix.Close(p.loop.fd)
	p.closeHand()
	if p.Timing != nil {
		t := p.loop.timing
		t.Link = p.loop.core.Stats
		p.Timing(t)
	}
}
