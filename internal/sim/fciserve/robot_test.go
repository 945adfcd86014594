package fciserve

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// client plays a program of the robot by hand: bytes as published, no codec.
type client struct {
	t     *testing.T
	r     *Robot
	v     int
	calls uint32
	state []byte
	ends  [][]byte
}

func newClient(t *testing.T, o RobotOptions) *client {
	t.Helper()
	r, err := NewRobot(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, r: r, v: r.o.Version}
	answer, port, err := r.Connect(c.frame(0, []byte{byte(c.v), 0, 0x39, 0x30}))
	if err != nil || port != 12345 || len(answer) != 15 || answer[12] != 0 || answer[13] != byte(c.v) {
		t.Fatalf("connect: % x, port %d, %v", answer, port, err)
	}
	c.open()
	return c
}

func (c *client) frame(number uint32, payload []byte) []byte {
	c.calls++
	f := binary.LittleEndian.AppendUint32(nil, number)
	f = binary.LittleEndian.AppendUint32(f, c.calls)
	f = binary.LittleEndian.AppendUint32(f, uint32(12+len(payload)))
	return append(f, payload...)
}

func (c *client) open() {
	s, a := c.r.Open()
	c.state = append(c.state[:0], s...)
	for _, m := range a {
		c.ends = append(c.ends, append([]byte(nil), m...))
	}
}

// request sends one and returns the status of the answer that comes with the next state.
func (c *client) request(number uint32, payload []byte) byte {
	c.t.Helper()
	c.ends = nil
	if err := c.r.Request(c.frame(number, payload)); err != nil {
		c.t.Fatal(err)
	}
	c.r.Close()
	c.open()
	if len(c.ends) == 0 {
		c.t.Fatalf("request %d has no answer", number)
	}
	return c.ends[len(c.ends)-1][12]
}

func (c *client) move() byte {
	n := 56
	if c.v >= 10 {
		n = 113
	}
	return c.request(1, make([]byte, n))
}

// send answers the present state with a position and lets the cycle pass.
func (c *client) send(q [7]float64, finished bool) {
	n := 371
	if c.v < 7 {
		n = 370
	}
	b := make([]byte, n)
	copy(b, c.state[:8])
	for j := range q {
		binary.LittleEndian.PutUint64(b[8+8*j:], math.Float64bits(q[j]))
	}
	if finished {
		b[313] = 1
	}
	c.r.Command(b)
	c.r.Close()
	c.open()
}

// Each way to break a rule raises the published flag, stops the arm, ends the move with "reflex", and is cleared by a recovery; joint 2 throughout.
func TestEveryRuleHasItsFlag(t *testing.T) {
	l := robotmodel.FR3().Limits
	for name, c := range map[string]struct {
		start float64                                  // of joint 2, rad; 0: the rest
		drive func(c *client, q [7]float64) [7]float64 // breaks the rule at last
		flag  int
	}{
		"start far off":               {drive: func(c *client, q [7]float64) [7]float64 { q[1] += 0.11; c.send(q, false); return q }, flag: errStartPose},
		"a step of 1e-5 at the start": {drive: func(c *client, q [7]float64) [7]float64 { q[1] += 1e-5 * 1.1; c.send(q, false); return q }, flag: errVelocityDiscontinuity},
		"jerk": {drive: func(c *client, q [7]float64) [7]float64 {
			c.send(q, false)
			q[1] += 5.2e-6
			c.send(q, false)
			return q
		}, flag: errAccelerationDiscontinue},
		"speed": {drive: func(c *client, q [7]float64) [7]float64 {
			v, a := 0.0, 0.0
			for i := 0; i < 400 && c.r.Stats.Violations == 0; i++ {
				a = math.Min(a+4.9, 9.9)
				v += a * dt
				q[1] += v * dt
				c.send(q, false)
			}
			return q
		}, flag: errVelocityLimits},
		"twenty missing": {drive: func(c *client, q [7]float64) [7]float64 {
			c.send(q, false)
			for i := 0; i < 20; i++ {
				if c.state[s10RobotMode] != modeMove {
					c.t.Errorf("the arm stopped after %d missing commands", i)
				}
				c.r.Close()
				c.open()
			}
			return q
		}, flag: errCommunication},
		"ends in motion": {drive: func(c *client, q [7]float64) [7]float64 {
			v, a := 0.0, 0.0
			for i := 0; i < 100; i++ {
				a = math.Min(a+4, 8)
				v += a * dt
				q[1] += v * dt
				c.send(q, i == 99)
			}
			return q
		}, flag: errVelocityDiscontinuity},
	} {
		t.Run(name, func(t *testing.T) {
			cl := newClient(t, RobotOptions{})
			if cl.move() != moveStarted {
				t.Fatal("the move did not start")
			}
			q, _, _ := cl.r.Desired()
			cl.ends = nil
			c.drive(cl, q)
			cl.r.Close()
			cl.open()
			if cl.state[s10Errors+c.flag] != 1 || cl.state[s10Reflex+c.flag] != 1 || cl.state[s10RobotMode] != modeReflex {
				t.Fatalf("flag %d is not set; mode %d, %s", c.flag, cl.state[s10RobotMode], cl.r.Stats.LastViolation)
			}
			if len(cl.ends) != 1 || cl.ends[0][12] != moveReflexAborted {
				t.Errorf("the move ended with % x", cl.ends)
			}
			if cl.move() != moveNotPossible {
				t.Error("an arm in reflex started a move")
			}
			for i := 0; i < 400 && cl.r.Moving(); i++ {
				if _, _, a := cl.r.Desired(); math.Abs(a[1]) > l.DDQ[1]*1.001 {
					t.Fatalf("the arm brakes with %v rad/s²", a[1])
				}
				cl.r.Close()
				cl.open()
			}
			cl.ends = nil
			if err := cl.r.Request(cl.frame(10, nil)); err != nil {
				t.Fatal(err)
			}
			for i := 0; i < recoveryTicks+2; i++ {
				cl.r.Close()
				cl.open()
			}
			if len(cl.ends) != 1 || cl.ends[0][12] != 0 || cl.state[s10RobotMode] != modeIdle || cl.state[s10Errors+c.flag] != 0 {
				t.Errorf("the recovery: % x, mode %d", cl.ends, cl.state[s10RobotMode])
			}
			if cl.move() != moveStarted {
				t.Error("no move after the recovery")
			}
		})
	}
}

// The user stop brakes at once and refuses moves and recoveries until it is released; contact trips a reflex; a lost connection breaks the motion off.
func TestStopsThatAreNotTheClients(t *testing.T) {
	plant := &Kinematic{}
	c := newClient(t, RobotOptions{Plant: plant})
	c.move()
	q, _, _ := c.r.Desired()
	c.send(q, false)
	c.ends = nil
	c.r.UserStop(true)
	c.r.Close()
	c.open()
	if c.state[s10RobotMode] != modeUserStopped || len(c.ends) != 1 || c.ends[0][12] != moveEmergencyAborted {
		t.Errorf("user stop: mode %d, % x", c.state[s10RobotMode], c.ends)
	}
	if c.move() != moveNotPossible || c.request(10, nil) != 1 {
		t.Error("the stopped arm took a move or a recovery")
	}
	c.r.UserStop(false)
	if c.move() != moveStarted {
		t.Error("no move after the release")
	}
	c.send(q, false)
	plant.Push([7]float64{0, 0, 0, 25})
	c.r.Close()
	c.open()
	c.r.Close()
	c.open()
	if c.state[s10RobotMode] != modeReflex || c.state[s10Reflex+errJointReflex] != 1 || !strings.Contains(c.r.Stats.LastViolation, "joint 4 feels 25.0 Nm") {
		t.Errorf("contact: mode %d, %s", c.state[s10RobotMode], c.r.Stats.LastViolation)
	}
	other := newClient(t, RobotOptions{Version: 6})
	other.move()
	other.send(q, false)
	other.r.Disconnect()
	if other.r.Stats.Stops != 1 || other.r.Mode() == modeMove {
		t.Errorf("a lost connection: %+v", other.r.Stats)
	}
}

// What a robot refuses: settings while it moves, numbers out of range, Cartesian and torque motions, requests of the wrong length.
func TestRefusals(t *testing.T) {
	c := newClient(t, RobotOptions{})
	stiff := make([]byte, 56)
	binary.LittleEndian.PutUint64(stiff, math.Float64bits(20000))
	if s := c.request(4, stiff); s != 2 {
		t.Errorf("a stiffness of 20000: status %d", s)
	}
	cartesian := make([]byte, 113)
	cartesian[4] = 2
	torque := make([]byte, 113)
	torque[0], torque[4] = 2, 4
	async := make([]byte, 113)
	async[56] = 1
	wrong := make([]byte, 113)
	wrong[0] = 9
	for name, m := range map[string]struct {
		b    []byte
		want byte
	}{"cartesian": {cartesian, moveNotPossible}, "torque": {torque, moveNotPossible}, "asynchronous": {async, moveNotPossible}, "unknown": {wrong, moveInvalidArgument}} {
		if s := c.request(1, m.b); s != m.want {
			t.Errorf("%s move: status %d, want %d", name, s, m.want)
		}
	}
	c.move()
	if s := c.request(4, make([]byte, 56)); s != 1 {
		t.Errorf("a setting during a motion: status %d", s)
	}
	if err := c.r.Request(c.frame(4, make([]byte, 55))); err == nil {
		t.Error("a request of the wrong length was taken")
	}
	if err := c.r.Request(c.frame(99, nil)); err == nil {
		t.Error("an unknown request was taken")
	}
	r, _ := NewRobot(RobotOptions{Version: 9})
	if a, port, err := r.Connect(c.frame(0, []byte{10, 0, 1, 1})); err != nil || port != 0 || a[12] != 1 || a[13] != 9 {
		t.Errorf("a client of version 10 at an arm of version 9: % x, %v", a, err)
	}
}

// A late answer counts as missing and is dropped; the arm meanwhile goes on with constant acceleration, which it reports.
func TestConstantAccelerationWithoutCommands(t *testing.T) {
	c := newClient(t, RobotOptions{Version: 9})
	c.move()
	q, _, _ := c.r.Desired()
	v, a := 0.0, 0.0
	for i := 0; i < 50; i++ {
		a = math.Min(a+2, 5)
		v += a * dt
		q[0] += v * dt
		c.send(q, false)
	}
	old := append([]byte(nil), c.state...)
	for i := 1; i <= 10; i++ {
		c.r.Close()
		c.open()
		v += a * dt
		q[0] += v * dt
		got := math.Float64frombits(binary.LittleEndian.Uint64(c.state[8+2*(s10QD-8):]))
		if math.Abs(got-q[0]) > 1e-12 {
			t.Fatalf("after %d missing commands joint 1 is at %.9f, want %.9f", i, got, q[0])
		}
	}
	b := make([]byte, 371)
	copy(b, old[:8])
	c.r.Command(b)
	if c.r.Stats.Late != 1 || c.r.cmd != nil {
		t.Errorf("a late answer: %+v", c.r.Stats)
	}
	rate := math.Float64frombits(binary.LittleEndian.Uint64(c.state[s5Modes+85:]))
	if math.Abs(rate-50.0/60) > 1e-9 {
		t.Errorf("success rate %v, want 50 of 60", rate)
	}
}
