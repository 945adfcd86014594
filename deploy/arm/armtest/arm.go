package armtest

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// ArmCase is one arm with its device.
type ArmCase struct {
	New     func(t *testing.T) arm.Driver        // a fresh driver for the device
	Joints  func() (q, dq robotmodel.Joints)     // where the device truly is
	Now     func() time.Time                     // the device's clock, which the arm process takes for the host's; nil: time.Now
	Stop    func()                               // somebody presses the device's stop
	Release func()                               // and an operator releases it
	Die     func()                               // the process dies: its connections end without a word
	Refused func() []string                      // what the device refused so far; a good driver causes none
	Peaks   func() (stepRad, accelRadS2 float64) // of the device's motion since the last call
	Lag     float64                              // how far the device may be behind its command, rad
	// Coast is how far a joint that moves with 0.5 rad/s may go on after the process died, rad.
	Coast float64
	// Accel is the largest acceleration that following and stopping may cause, rad/s².
	Accel float64
}

// session is an arm process under test with its executor.
type session struct {
	t    *testing.T
	c    ArmCase
	conn *armlink.Conn
	done chan error // of Serve
	stop context.CancelFunc
	addr string

	mu     sync.Mutex
	state  armlink.State
	states int
	faults []string
	lag    float64 // largest command minus measured, any joint
	gone   bool
}

// open starts an arm process and connects.
func open(t *testing.T, c ArmCase) *session {
	t.Helper()
	s := &session{t: t, c: c, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	ready := make(chan string, 1)
	o := arm.Options{Name: "left", Listen: "unix:" + filepath.Join(t.TempDir(), "arm"), WorldFromBase: robotmodel.Identity(),
		FlangeFromHand: robotmodel.FlangeFromHand(), Now: c.Now, Ready: func(addr string) { ready <- addr }, Observe: s.observe}
	d := c.New(t)
	go func() { s.done <- arm.Serve(ctx, d, nil, o) }()
	select {
	case s.addr = <-ready:
	case err := <-s.done:
		t.Fatalf("serve: %v", err)
	case <-time.After(20 * time.Second):
		t.Fatal("the arm process does not start")
	}
	s.connect()
	t.Cleanup(s.close)
	return s
}

func (s *session) connect() {
	s.t.Helper()
	conn, err := armlink.Dial(context.Background(), s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.conn = conn
	m, err := conn.Read()
	if h, ok := m.(*armlink.Hello); !ok || h.Clock != armlink.RealTime || len(h.Arms) != 1 || h.Arms[0].Name != "left" {
		s.t.Fatalf("the arm process began with %+v, %v", m, err)
	}
	s.mu.Lock()
	s.states, s.gone = 0, false
	s.mu.Unlock()
	go s.read(conn)
	s.until("a state", func(armlink.ArmState) bool { return true })
}

func (s *session) read(conn *armlink.Conn) {
	for {
		m, err := conn.Read()
		s.mu.Lock()
		switch m := m.(type) {
		case *armlink.State:
			s.state = *m
			s.states++
		case *armlink.Fault:
			s.faults = append(s.faults, m.Text)
		}
		if err != nil {
			s.gone = true
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
	}
}

func (s *session) observe(o arm.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for j := range o.Command.Q {
		s.lag = math.Max(s.lag, math.Abs(o.Command.Q[j]-o.Measured.Q[j]))
	}
}

func (s *session) now() (armlink.State, []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, append([]string(nil), s.faults...)
}

// until waits until a state meets ok.
func (s *session) until(what string, ok func(armlink.ArmState) bool) armlink.ArmState {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n, st := s.states, s.state
		s.mu.Unlock()
		if n > 0 && ok(st.Arms[0]) {
			return st.Arms[0]
		}
	}
	st, faults := s.now()
	s.t.Fatalf("no %s: last state %+v, refused %q", what, st, faults)
	return armlink.ArmState{}
}

func (s *session) mode(m armlink.Mode) armlink.ArmState {
	s.t.Helper()
	return s.until("mode "+string(m), func(a armlink.ArmState) bool { return a.Mode == m })
}

func (s *session) send(m armlink.Message) {
	s.t.Helper()
	if err := s.conn.Write(m); err != nil {
		s.t.Fatal(err)
	}
}

// swing sends one smooth motion from where the command stands: two joints go out by amp and come back over seconds; rest ends it at rest.
func (s *session) swing(amp, seconds float64, rest bool) {
	s.t.Helper()
	st, _ := s.now()
	start, q0 := st.TNS+60e6, st.Arms[0].QCmd
	seg := &armlink.Segment{Arm: "left"}
	const step = 20e6
	n := int(seconds * 1e9 / step)
	for i := 0; i <= n; i++ {
		f := 0.5 - 0.5*math.Cos(2*math.Pi*float64(i)/float64(n))
		if !rest {
			f = math.Min(1, float64(i)*step/1e9/0.5) * float64(i) * step / 1e9 // speeds up, then goes on
		}
		k := armlink.Knot{TNS: start + int64(i)*step, Q: q0}
		k.Q[0] += amp * f
		k.Q[3] -= amp * f
		seg.Knots = append(seg.Knots, k)
	}
	if rest {
		last := seg.Knots[len(seg.Knots)-1]
		last.TNS += step
		seg.Knots = append(seg.Knots, last)
	}
	s.send(seg)
}

// moving waits until the device truly moves.
func (s *session) moving() {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if _, dq := s.c.Joints(); math.Abs(dq[0]) > 0.2 {
			return
		}
	}
	st, faults := s.now()
	s.t.Fatalf("the device does not move: %+v, refused %q", st, faults)
}

// still checks that the device stands and stays.
func (s *session) still(d time.Duration, tol float64) {
	s.t.Helper()
	q0, _ := s.c.Joints()
	time.Sleep(d)
	q1, _ := s.c.Joints()
	if moved := distance(q0, q1); moved > tol {
		s.t.Errorf("the device moved by %.4f rad where it should stand", moved)
	}
}

func distance(a, b robotmodel.Joints) (d float64) {
	for j := range a {
		d = math.Max(d, math.Abs(a[j]-b[j]))
	}
	return d
}

// close ends the process as an operator does and expects a clean end.
func (s *session) close() {
	_ = s.conn.Close()
	s.stop()
	select {
	case <-s.done:
	case <-time.After(20 * time.Second):
		s.t.Error("the arm process does not end")
	}
}

func (s *session) peaks(what string) {
	s.t.Helper()
	if _, a := s.c.Peaks(); a > s.c.Accel {
		s.t.Errorf("%s: a joint accelerates with %.1f rad/s², allowed %.1f", what, a, s.c.Accel)
	}
}

// Arm runs the suite. Each part starts its own arm process on the same device.
func Arm(t *testing.T, c ArmCase) {
	t.Run("follows a segment to its end", func(t *testing.T) { followsSegment(t, c) })
	t.Run("segments that do not follow end in a ramp", func(t *testing.T) { starves(t, c) })
	t.Run("a stop holds until it is acknowledged", func(t *testing.T) { stopsAndRecovers(t, c) })
	t.Run("an executor that leaves stops the arm", func(t *testing.T) { executorLeaves(t, c) })
	t.Run("the device's own stop is a reflex; nothing stays queued", func(t *testing.T) { userStop(t, c) })
	t.Run("an interrupt ends at rest", func(t *testing.T) { interrupted(t, c) })
	t.Run("the device stops by itself when the process dies", func(t *testing.T) { processDies(t, c) })
	for _, r := range c.Refused() {
		t.Errorf("the device refused: %s", r)
	}
}

func followsSegment(t *testing.T, c ArmCase) {
	q0, _ := c.Joints()
	s := open(t, c)
	s.still(100*time.Millisecond, 1e-4)
	if q, _ := c.Joints(); distance(q, q0) > 1e-3 {
		t.Errorf("starting moved the device by %.4f rad", distance(q, q0))
	}
	c.Peaks()
	s.swing(0.15, 1.5, true)
	s.moving()
	s.mode(armlink.ModeIdle)
	time.Sleep(100 * time.Millisecond)
	if q, _ := c.Joints(); distance(q, q0) > 2e-3 {
		t.Errorf("after the motion out and back the device is %.4f rad from its start", distance(q, q0))
	}
	s.mu.Lock()
	lag := s.lag
	s.mu.Unlock()
	if lag > c.Lag {
		t.Errorf("the device is up to %.4f rad behind its command, allowed %.4f", lag, c.Lag)
	}
	s.peaks("following")
	if _, faults := s.now(); len(faults) > 0 {
		t.Errorf("refused: %q", faults)
	}
}

func starves(t *testing.T, c ArmCase) {
	s := open(t, c)
	c.Peaks()
	s.swing(0.5, 0.9, false)
	s.moving()
	a := s.mode(armlink.ModeStopped)
	if !strings.Contains(a.Reason, "starvation") {
		t.Errorf("reason %q", a.Reason)
	}
	time.Sleep(150 * time.Millisecond)
	s.still(150*time.Millisecond, 1e-3)
	s.peaks("starving")
	s.send(&armlink.Recover{})
	s.mode(armlink.ModeIdle)
	s.home()
}

// home brings the swinging joints back where the next part has room.
func (s *session) home() {
	s.t.Helper()
	st, _ := s.now()
	seg := &armlink.Segment{Arm: "left"}
	const n = 60
	from := st.Arms[0].QCmd
	model := s.c.New(s.t).Model()
	m, err := robotmodel.ByName(model)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i <= n+1; i++ {
		f := math.Min(1, float64(i)/n)
		f = f * f * f * (10 - 15*f + 6*f*f)
		k := armlink.Knot{TNS: st.TNS + 60e6 + int64(i)*20e6, Q: from}
		for j := range k.Q {
			k.Q[j] += f * (m.Rest[j] - from[j])
		}
		seg.Knots = append(seg.Knots, k)
	}
	s.send(seg)
	s.mode(armlink.ModeMoving)
	s.mode(armlink.ModeIdle)
}

func stopsAndRecovers(t *testing.T, c ArmCase) {
	s := open(t, c)
	c.Peaks()
	s.swing(0.3, 2, true)
	s.moving()
	s.send(&armlink.Stop{Reason: "the operator says stop"})
	a := s.mode(armlink.ModeStopped)
	if !strings.Contains(a.Reason, "the operator says stop") {
		t.Errorf("reason %q", a.Reason)
	}
	s.peaks("stopping")
	time.Sleep(100 * time.Millisecond)
	s.swing(0.1, 1, true)
	s.still(200*time.Millisecond, 1e-3)
	if _, faults := s.now(); len(faults) != 1 || !strings.Contains(faults[0], "acknowledgement") {
		t.Errorf("a segment to a stopped arm is answered with %q", faults)
	}
	s.send(&armlink.Recover{})
	s.mode(armlink.ModeIdle)
	s.still(150*time.Millisecond, 1e-3)
	s.home()
}

func executorLeaves(t *testing.T, c ArmCase) {
	s := open(t, c)
	s.swing(0.3, 2, true)
	s.moving()
	_ = s.conn.Close()
	time.Sleep(800 * time.Millisecond)
	s.still(150*time.Millisecond, 1e-3)
	s.connect()
	if a := s.mode(armlink.ModeStopped); !strings.Contains(a.Reason, "left") {
		t.Errorf("reason %q", a.Reason)
	}
	s.send(&armlink.Recover{})
	s.mode(armlink.ModeIdle)
	s.home()
}

func userStop(t *testing.T, c ArmCase) {
	s := open(t, c)
	s.swing(0.3, 2, true)
	s.moving()
	c.Stop()
	a := s.mode(armlink.ModeReflex)
	if a.Reason == "" {
		t.Error("the reflex has no reason")
	}
	time.Sleep(200 * time.Millisecond)
	s.send(&armlink.Recover{}) // the button is still pressed
	s.still(200*time.Millisecond, 1e-3)
	if _, faults := s.now(); len(faults) != 1 || !strings.Contains(faults[0], "recover") {
		t.Errorf("Recover with the stop still pressed is answered with %q", faults)
	}
	c.Release()
	s.still(200*time.Millisecond, 1e-3) // nothing was queued
	s.send(&armlink.Recover{})
	a = s.mode(armlink.ModeIdle)
	if d := distance(a.Q, a.QCmd); d > 5e-3 {
		t.Errorf("after Recover the command is %.4f rad from the arm", d)
	}
	s.still(200*time.Millisecond, 2e-3)
	s.home()
}

func interrupted(t *testing.T, c ArmCase) {
	s := open(t, c)
	c.Peaks()
	s.swing(0.3, 2, true)
	s.moving()
	s.stop()
	err := <-s.done
	s.done <- err
	if err != nil {
		t.Errorf("the process ended with %v", err)
	}
	time.Sleep(150 * time.Millisecond)
	s.still(150*time.Millisecond, 1e-3)
	s.peaks("interrupting")
}

func processDies(t *testing.T, c ArmCase) {
	s := open(t, c)
	s.swing(0.5, 0.9, false)
	s.moving()
	q0, dq0 := c.Joints()
	c.Die()
	err := <-s.done
	s.done <- err
	if err == nil {
		t.Error("the process whose controller is gone ended without an error")
	}
	time.Sleep(700 * time.Millisecond)
	s.still(150*time.Millisecond, 1e-4)
	q1, _ := c.Joints()
	speed := math.Max(0.5, math.Abs(dq0[0]))
	if d := distance(q0, q1); d > c.Coast*speed/0.5 {
		t.Errorf("the device went on by %.4f rad from %.2f rad/s, allowed %.4f", d, dq0[0], c.Coast*speed/0.5)
	}
	fresh := open(t, c)
	fresh.home()
}
