package ur

import (
	"context"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/internal/sim/stub"
)

// bench is a controller that waits for a busy test machine, and the options to reach it.
func bench(t *testing.T, o stub.UROptions) (*stub.UR, Options) {
	t.Helper()
	if o.Patience == 0 {
		o.Patience = 50 * time.Millisecond
	}
	u, err := stub.NewUR(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.Close)
	return u, Options{Model: "ur5e", RTDEAddr: u.RTDE(), ScriptAddr: u.Script(), DashboardAddr: u.Dashboard(), SilenceMS: 3000}
}

func driver(t *testing.T, o Options) *Driver {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	u, o := bench(t, stub.UROptions{})
	armtest.Arm(t, armtest.ArmCase{
		New:     func(t *testing.T) arm.Driver { return driver(t, o) },
		Joints:  u.Joints,
		Now:     u.Now,
		Stop:    u.EmergencyStop,
		Release: u.Release,
		Die:     u.Cut,
		Peaks:   u.Peaks,
		Refused: func() []string { return refused(u) },
		// servoj lags by its lookahead time; stopj brakes 0.5 rad/s with 4 rad/s², 0.031 rad, after the lookahead has caught up with the target.
		Lag: 0.03, Coast: 0.04, Accel: 40,
	})
}

// refused are the entries of the controller's log that a good client does not cause.
func refused(u *stub.UR) (out []string) {
	for _, l := range u.Log() {
		if !strings.HasPrefix(l, "textmsg") {
			out = append(out, l)
		}
	}
	return out
}

// The dead-man's switch: a client that is silent, but whose connection stands (SIGSTOP), is stopped after its own time-out.
func TestSilentClientIsStopped(t *testing.T) {
	u, o := bench(t, stub.UROptions{Patience: time.Millisecond})
	o.DeadManMS = 60
	d := driver(t, o)
	if _, err := d.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for end := time.Now().Add(10 * time.Second); u.Running(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the program still runs")
		}
	}
	for {
		m, err := d.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if m.Fault != "" {
			if !strings.Contains(m.Fault, "has ended") {
				t.Errorf("fault %q", m.Fault)
			}
			break
		}
	}
	said := strings.Join(u.Log(), "\n")
	if !strings.Contains(said, "no command in time") {
		t.Errorf("the controller's log: %s", said)
	}
}

// A protective stop is unlocked through the dashboard by Recover; the speed slider and reduced speed hold motion.
func TestProtectiveStopAndSlider(t *testing.T) {
	u, o := bench(t, stub.UROptions{})
	d := driver(t, o)
	m, err := d.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	u.SetSlider(0.6)
	for i := 0; m.Hold == "" && i < 2000; i++ {
		if m, err = d.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(m.Hold, "60 %") {
		t.Errorf("hold %q", m.Hold)
	}
	u.ProtectiveStop("test")
	for i := 0; m.Fault == "" && i < 2000; i++ {
		if m, err = d.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(m.Fault, "protective stop") {
		t.Errorf("fault %q", m.Fault)
	}
	if _, err = d.Recover(context.Background()); err == nil || !strings.Contains(err.Error(), "speed slider") {
		t.Errorf("recover with the slider down: %v", err)
	}
	u.SetSlider(1)
	if m, err = d.Recover(context.Background()); err != nil || m.Fault != "" {
		t.Errorf("recover: %+v, %v", m, err)
	}
	if !u.Running() {
		t.Error("the program does not run after Recover")
	}
}

// A target that jumps ends the program instead of moving the arm.
func TestJumpEndsTheProgram(t *testing.T) {
	u, o := bench(t, stub.UROptions{})
	d := driver(t, o)
	m, err := d.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	q0 := m.Q
	var far [6]float64
	copy(far[:], q0[:6])
	far[2] += 0.5
	if err := d.send(far, modeFollow); err != nil {
		t.Fatal(err)
	}
	for i := 0; m.Fault == "" && i < 2000; i++ {
		if m, err = d.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	q, _ := u.Joints()
	if diff := q[2] - q0[2]; diff > 1e-6 || diff < -1e-6 {
		t.Errorf("the arm moved by %v", diff)
	}
	if said := strings.Join(u.Log(), "\n"); !strings.Contains(said, "a target jumps") {
		t.Errorf("the controller's log: %s", said)
	}
}

// What keeps an arm from starting is said with what to do about it.
func TestNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		stub stub.UROptions
		do   func(*stub.UR)
		with func(*Options)
		want string
	}{
		"emergency stop":   {do: (*stub.UR).EmergencyStop, want: "emergency stop"},
		"safeguard":        {do: (*stub.UR).Safeguard, want: "release it at the teach pendant"},
		"slider":           {do: func(u *stub.UR) { u.SetSlider(0.5) }, want: "speed slider is at 50 %"},
		"other kinematics": {stub: stub.UROptions{ErrorM: 0.004}, want: "4.0 mm apart"},
		"wrong model":      {with: func(o *Options) { o.Model = "ur10e" }, want: "is the model right"},
		"CB3 model":        {with: func(o *Options) { o.Model = "ur5" }, want: "not that of model ur5"},
	} {
		u, o := bench(t, c.stub)
		if c.do != nil {
			c.do(u)
		}
		if c.with != nil {
			c.with(&o)
		}
		d := driver(t, o)
		if _, err := d.Start(context.Background()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
		_ = d.Close()
	}
	d := driver(t, Options{Model: "ur5e", RTDEAddr: "127.0.0.1:1", ScriptAddr: "127.0.0.1:1"})
	if _, err := d.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "is the robot on") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestOptionsNameTheKey(t *testing.T) {
	for key, o := range map[string]Options{
		"model": {Model: "fr3", Host: "x"}, "host": {Model: "ur5e"}, "lookahead_ms": {Model: "ur5e", Host: "x", LookaheadMS: 5},
		"gain": {Model: "ur5e", Host: "x", Gain: 5}, "dead_man_ms": {Model: "ur5e", Host: "x", DeadManMS: 5000},
		"kinematics_tolerance_m": {Model: "ur5e", Host: "x", KinematicsToleranceM: 1},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}

// The bytes of a command as the vendor's reverse interface lays them out: read time-out, six targets in millionths, mode.
func TestMessageBytes(t *testing.T) {
	got := hex.EncodeToString(message(nil, 20, [6]float64{1, -1, 0.5, 0, 3.141593, -0.000001}, modeFollow))
	want := "00000014" + "000f4240" + "fff0bdc0" + "0007a120" + "00000000" + "002fefd9" + "ffffffff" + "00000001"
	if got != want {
		t.Errorf("bytes %s, want %s", got, want)
	}
}
