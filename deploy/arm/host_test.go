package arm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

func device(t *testing.T, model string) *armtest.Device {
	t.Helper()
	d, err := armtest.NewDevice(model)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestHostOnAPlainDevice(t *testing.T) {
	d := device(t, "ur5e")
	armtest.Arm(t, armtest.ArmCase{
		New: func(*testing.T) arm.Driver { return d.Driver() }, Joints: d.Joints, Now: d.Now, Stop: d.Stop, Release: d.Release,
		Die: d.Die, Peaks: d.Peaks, Refused: func() []string { return nil }, Lag: 0.01, Coast: 1e-9, Accel: 21,
	})
}

// hand is a gripper in memory.
type hand struct {
	mu    sync.Mutex
	rad   float64
	alarm error
}

func (h *hand) Start(context.Context) (arm.HandState, error) { return arm.HandState{Rad: h.rad}, nil }
func (h *hand) Exchange(_ context.Context, goal float64) (arm.HandState, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.alarm == nil {
		h.rad = goal
	}
	return arm.HandState{Rad: h.rad}, h.alarm
}
func (h *hand) Recover(context.Context) error { return nil }
func (h *hand) Period() time.Duration         { return 5 * time.Millisecond }
func (h *hand) Range() (float64, float64)     { return 0, 0.9 }
func (h *hand) Close() error                  { return nil }
func (h *hand) set(err error) {
	h.mu.Lock()
	h.alarm = err
	h.mu.Unlock()
}

// bench is a served arm with one executor.
type bench struct {
	t    *testing.T
	conn *armlink.Conn
	addr string
	done chan error

	mu    sync.Mutex
	state *armlink.State
	fault []string
}

func serve(t *testing.T, d *armtest.Device, h arm.Hand) *bench {
	t.Helper()
	b := &bench{t: t, done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan string, 1)
	go func() {
		b.done <- arm.Serve(ctx, d.Driver(), h, arm.Options{Name: "right", Listen: "unix:" + filepath.Join(t.TempDir(), "a"), WorldFromBase: robotmodel.Identity(),
			FlangeFromHand: robotmodel.FlangeFromHand(), Now: d.Now, Ready: func(a string) { ready <- a }})
	}()
	b.addr = <-ready
	conn, err := armlink.Dial(context.Background(), b.addr)
	if err != nil {
		t.Fatal(err)
	}
	b.conn = conn
	go func() {
		for {
			m, err := conn.Read()
			if err != nil {
				return
			}
			b.mu.Lock()
			switch m := m.(type) {
			case *armlink.State:
				b.state = m
			case *armlink.Fault:
				b.fault = append(b.fault, m.Text)
			}
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		<-b.done
	})
	b.until(func(armlink.ArmState) bool { return true })
	return b
}

func (b *bench) until(ok func(armlink.ArmState) bool) armlink.ArmState {
	b.t.Helper()
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		b.mu.Lock()
		st := b.state
		b.mu.Unlock()
		if st != nil && ok(st.Arms[0]) {
			return st.Arms[0]
		}
	}
	b.t.Fatalf("does not happen; last state %+v, refused %q", b.state, b.fault)
	return armlink.ArmState{}
}

// push sends a motion of joint 1 with a constant speed after a soft start, and the fingers' angle.
func (b *bench) push(speed, finger float64) {
	b.mu.Lock()
	st := b.state
	b.mu.Unlock()
	seg := &armlink.Segment{Arm: "right"}
	for i := 0; i < 100; i++ {
		s := float64(i) * 0.02
		k := armlink.Knot{TNS: st.TNS + 60e6 + int64(i)*20e6, Q: st.Arms[0].QCmd, GripperRad: finger}
		k.Q[0] += speed * math.Min(s*s/0.8, s-0.2)
		if s < 0.4 {
			k.Q[0] = st.Arms[0].QCmd[0] + speed*s*s/0.8
		}
		seg.Knots = append(seg.Knots, k)
	}
	_ = b.conn.Write(seg)
}

func stopped(a armlink.ArmState) bool { return a.Mode == armlink.ModeStopped }

// What stops an arm that could go on: each has its reason.
func TestReasonsToStop(t *testing.T) {
	for want, c := range map[string]struct {
		speed float64
		do    func(*armtest.Device, *hand)
	}{
		"the slider was moved":      {0.4, func(d *armtest.Device, _ *hand) { d.Hold("the slider was moved") }},
		"gripper alarm: overload":   {0.4, func(_ *armtest.Device, h *hand) { h.set(fmt.Errorf("%w: overload", arm.ErrHandAlarm)) }},
		"the gripper: bus is dead":  {0.2, func(_ *armtest.Device, h *hand) { h.set(errors.New("bus is dead")) }},
		"control loop was held up":  {0.4, func(d *armtest.Device, _ *hand) { d.Skip(300 * time.Millisecond) }},
		"something holds the arm":   {0.4, func(d *armtest.Device, _ *hand) { d.Stick(true) }},
		"the flange moves with 0.9": {2.5, func(*armtest.Device, *hand) {}}, // xarm7: 0.9 m/s
	} {
		t.Run(want, func(t *testing.T) {
			d, h := device(t, "xarm7"), &hand{}
			b := serve(t, d, h)
			b.push(c.speed, 0.5)
			b.until(func(a armlink.ArmState) bool { return a.Mode == armlink.ModeMoving && math.Abs(a.DQCmd[0]) > 0.15 })
			c.do(d, h)
			a := b.until(func(a armlink.ArmState) bool { return stopped(a) || a.Mode == armlink.ModeReflex })
			if !strings.Contains(a.Reason, want) {
				t.Errorf("reason %q, want %q", a.Reason, want)
			}
			finger := a.GripperCmdRad
			time.Sleep(50 * time.Millisecond)
			if a = b.until(func(armlink.ArmState) bool { return true }); math.Abs(a.GripperCmdRad-finger) > 1e-3 {
				t.Errorf("the fingers do not hold: %.3f, then %.3f", finger, a.GripperCmdRad)
			}
		})
	}
}

// The gripper follows the segments' finger angle, and Recover after an alarm waits until it answers again.
func TestGripperFollowsAndRecovers(t *testing.T) {
	d, h := device(t, "fr3"), &hand{}
	b := serve(t, d, h)
	b.push(0.1, 0.6)
	b.until(func(a armlink.ArmState) bool { return math.Abs(a.GripperRad-0.6) < 1e-3 })
	h.set(arm.ErrHandAlarm)
	b.until(stopped)
	_ = b.conn.Write(&armlink.Recover{})
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b.mu.Lock()
		n := len(b.fault)
		b.mu.Unlock()
		if n > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("Recover with a gripper in alarm is not refused")
		}
	}
	h.set(nil)
	_ = b.conn.Write(&armlink.Recover{})
	b.until(func(a armlink.ArmState) bool { return a.Mode == armlink.ModeIdle })
}

// One executor at a time; one that does not read its states is dropped and its motion stopped.
func TestExecutors(t *testing.T) {
	d := device(t, "fr3")
	b := serve(t, d, nil)
	second, err := armlink.Dial(context.Background(), b.addr)
	if err != nil {
		t.Fatal(err)
	}
	m, err := second.Read()
	if f, ok := m.(*armlink.Fault); !ok || !strings.Contains(f.Text, "another executor") {
		t.Errorf("a second executor gets %+v, %v", m, err)
	}
	_ = second.Close()
	_ = b.conn.Write(&armlink.Advance{UntilNS: 1})
	_ = b.conn.Write(&armlink.Segment{Arm: "left", Knots: []armlink.Knot{{TNS: 1}}})
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		f := append([]string(nil), b.fault...)
		b.mu.Unlock()
		if len(f) == 2 {
			if !strings.Contains(f[0], "simulated") || !strings.Contains(f[1], `"left"`) {
				t.Errorf("faults %q", f)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatalf("faults %q", f)
		}
	}
}
