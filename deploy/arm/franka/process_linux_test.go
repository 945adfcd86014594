package franka

import (
	"context"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinch-robotics/pinch/internal/sim/fciserve"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// served is a simulated arm with its process and an executor's connection.
type served struct {
	t     *testing.T
	robot *fciserve.Robot // nil: a peer's
	conn  *armlink.Conn
	hello armlink.Hello
	state armlink.State
	fault string

	orders chan func(*fciserve.Robot)
}

// serve starts both and greets; everything ends with the test.
func serve(t *testing.T, lockStep bool, ro fciserve.RobotOptions) *served {
	t.Helper()
	robot, err := fciserve.NewRobot(ro)
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, robot: robot, orders: make(chan func(*fciserve.Robot), 8)}
	robotEnd, addrs := make(chan error, 1), make(chan []string, 1)
	robotCtx, robotCancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		robotCancel()
		if err := <-robotEnd; err != nil {
			t.Errorf("simulated arm: %v", err)
		}
	})
	go func() {
		robotEnd <- fciserve.Serve(robotCtx, fciserve.Options{LockStep: lockStep, Arms: []fciserve.ArmOptions{{Robot: robot, Listen: "127.0.0.1:0"}},
			Ready: func(a []string) { addrs <- a }, Control: func(_ int, r *fciserve.Robot) {
				select {
				case f := <-s.orders:
					f(r)
				default:
				}
			}})
	}()
	s.greet((<-addrs)[0], lockStep)
	return s
}

// greet starts the process of the arm at addr and takes its Hello.
func (s *served) greet(addr string, lockStep bool) {
	t := s.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	armEnd, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		armEnd <- Serve(ctx, Options{Name: "left", Address: addr, LockStep: lockStep, Realtime: RealtimeOff, LinkTest: 300 * time.Millisecond, CPU: -1,
			Ready: func(a string) { ready <- a }})
	}()
	t.Cleanup(func() {
		if s.conn != nil {
			_ = s.conn.Close()
		}
		cancel()
		if err := <-armEnd; err != nil {
			t.Errorf("arm process: %v", err)
		}
	})
	select {
	case a := <-ready:
		var err error
		if s.conn, err = armlink.Dial(ctx, a); err != nil {
			t.Fatal(err)
		}
	case err := <-armEnd:
		armEnd <- nil
		t.Fatalf("arm process: %v", err)
	}
	h, ok := s.read().(*armlink.Hello)
	if !ok {
		t.Fatal("the first message is no Hello")
	}
	s.hello = *h
}

func (s *served) read() armlink.Message {
	s.t.Helper()
	m, err := s.conn.Read()
	if err != nil {
		s.t.Fatal(err)
	}
	return m
}

func (s *served) send(m armlink.Message) {
	s.t.Helper()
	if err := s.conn.Write(m); err != nil {
		s.t.Fatal(err)
	}
}

// next lets one period pass.
func (s *served) next() {
	s.t.Helper()
	until := s.state.TNS + s.hello.PeriodNS
	if s.hello.Clock == armlink.LockStep {
		if s.state.TNS == 0 {
			until = s.hello.StartNS + s.hello.PeriodNS
		}
		s.send(&armlink.Advance{UntilNS: until})
	}
	for {
		switch m := s.read().(type) {
		case *armlink.State:
			s.state = *m
			if s.hello.Clock != armlink.LockStep || m.TNS >= until {
				return
			}
		case *armlink.Fault:
			s.fault = m.Text
		}
	}
}

func (s *served) arm() *armlink.ArmState { return &s.state.Arms[0] }

// until waits for a mode.
func (s *served) until(want armlink.Mode, periods int) {
	s.t.Helper()
	for i := 0; i < periods; i++ {
		if s.next(); s.arm().Mode == want {
			return
		}
	}
	s.t.Fatalf("mode %s (%s) after %d periods, want %s; refused: %s", s.arm().Mode, s.arm().Reason, periods, want, s.fault)
}

// drive sends the next 300 ms of a motion.
func (s *served) drive(from armlink.Joints, began int64) {
	s.t.Helper()
	seg := &armlink.Segment{Arm: "left"}
	for at := (s.state.TNS/10_000_000 + 3) * 10_000_000; at <= s.state.TNS+300*tickNS; at += 10_000_000 {
		x := float64(at-began) * 1e-9
		k := armlink.Knot{TNS: at, Q: from, GripperRad: 0.3}
		for j := range k.Q {
			k.Q[j] += 0.15 * (1 - math.Exp(-2*x*x)) * math.Sin((2+0.3*float64(j))*x)
		}
		seg.Knots = append(seg.Knots, k)
	}
	s.send(seg)
}

// order does something to the simulated arm on its own goroutine and waits until it is done.
func (s *served) order(f func(*fciserve.Robot)) {
	s.t.Helper()
	done := make(chan struct{})
	s.orders <- func(r *fciserve.Robot) { f(r); close(done) }
	for {
		select {
		case <-done:
			return
		default:
			s.next()
		}
	}
}

// In lock-step an executor drives, loses the arm to the user stop, acknowledges too early, then in time, drives on, and leaves; the arm objects to nothing.
func TestProcessInLockStep(t *testing.T) {
	for _, version := range []int{5, 9, 10} {
		s := serve(t, true, fciserve.RobotOptions{Version: version})
		s.until(armlink.ModeIdle, 3)
		from, began := s.arm().QCmd, s.state.TNS
		for i := 0; i < 100; i++ {
			s.drive(from, began)
			s.next()
		}
		if s.arm().Mode != armlink.ModeMoving || math.Abs(s.arm().DQCmd[0])+math.Abs(s.arm().DQCmd[3]) < 0.05 {
			t.Fatalf("version %d: mode %s (%s) at %v; %s", version, s.arm().Mode, s.arm().Reason, s.arm().DQCmd, s.fault)
		}
		s.order(func(r *fciserve.Robot) { r.UserStop(true) })
		s.until(armlink.ModeReflex, 60)
		if !strings.Contains(s.arm().Reason, "user stop") {
			t.Errorf("version %d: the reason is %q", version, s.arm().Reason)
		}
		s.drive(s.arm().Q, s.state.TNS)
		for s.fault == "" {
			s.next()
		}
		if !strings.Contains(s.fault, "acknowledgement") {
			t.Errorf("version %d: a segment for a stopped arm was refused with %q", version, s.fault)
		}
		s.fault = ""
		s.send(&armlink.Recover{})
		for s.fault == "" {
			s.next()
		}
		if !strings.Contains(s.fault, "release it") {
			t.Errorf("version %d: recover with the stop pressed was refused with %q", version, s.fault)
		}
		s.order(func(r *fciserve.Robot) { r.UserStop(false) })
		s.send(&armlink.Recover{})
		s.until(armlink.ModeIdle, 2000)
		from, began = s.arm().QCmd, s.state.TNS
		for i := 0; i < 50; i++ {
			s.drive(from, began)
			s.next()
		}
		s.order(func(r *fciserve.Robot) {
			if r.Stats.Violations > 0 || r.Stats.Lost > 0 || r.Stats.Motions != 2 {
				t.Errorf("version %d: %+v", version, r.Stats)
			}
		})
	}
}

// The collector stops the world while the loop waits for a state: it must not have to wait for that state, which may be for another goroutine to send.
func TestTheLoopLetsTheCollectorRun(t *testing.T) {
	for _, lockStep := range []bool{false, true} {
		fd, _, err := listenUDP()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		l := newLoop(fd, 10*time.Millisecond, lockStep, nil)
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			runtime.LockOSThread()
			for {
				select {
				case <-stop:
					return
				default:
					l.receive()
				}
			}
		}()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 60 {
				runtime.GC()
			}
		}()
		select {
		case <-done:
		case <-time.After(60 * time.Second): // they took several seconds each
			t.Fatal("60 collections took more than a minute")
		}
		close(stop)
		<-stopped
	}
}
