package xarm

import (
	"context"
	"encoding/hex"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/sim/stub"
	wire "github.com/pinch-robotics/pinch/internal/wire/xarm"
)

func bench(t *testing.T, o stub.XArmOptions) (*stub.XArm, Options) {
	t.Helper()
	o.Patience = 50 * time.Millisecond
	x, err := stub.NewXArm(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	model := o.Model
	if model == "" {
		model = "xarm7"
	}
	return x, Options{Model: model, ControlAddr: x.Control(), ReportAddr: x.Reports(), SilenceMS: 3000}
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
	for _, model := range []string{"xarm6", "xarm7"} {
		t.Run(model, func(t *testing.T) {
			if os.Getenv("PINCH_SOAK") == "" && model == "xarm6" {
				t.Skip("the second model runs with PINCH_SOAK=1")
			}
			x, o := bench(t, stub.XArmOptions{Model: model})
			var cycles atomic.Int64
			begin := time.Now()
			armtest.Arm(t, armtest.ArmCase{
				New:     func(t *testing.T) arm.Driver { return counted{driver(t, o), &cycles} },
				Joints:  x.Joints,
				Now:     func() time.Time { return begin.Add(time.Duration(cycles.Load()) * cycle) },
				Stop:    x.EmergencyStop,
				Release: x.Release,
				Die:     x.Cut,
				Peaks:   x.Peaks,
				Refused: x.Log,
				// Reports are up to 12 ms old; a stop by the controller itself is at once.
				Lag: 0.03, Coast: 0.01, Accel: 40,
			})
		})
	}
}

// counted counts control cycles, so that a busy test machine can be given a clock that runs with them.
type counted struct {
	*Driver
	cycles *atomic.Int64
}

func (c counted) Next(ctx context.Context) (arm.Measured, error) {
	c.cycles.Add(1)
	return c.Driver.Next(ctx)
}

// The controller's own guards: a jump is refused with C24, a stretched arm with C60, and both are told by their names.
func TestGuardsOfServoMode(t *testing.T) {
	for name, c := range map[string]struct {
		joint int
		step  float64
		want  string
	}{"joint speed": {6, 0.05, "C24"}, "tool speed": {0, 0.0, "C60"}} {
		o := stub.XArmOptions{}
		if c.step == 0 {
			o.Q = [7]float64{0, 1.2, 0, 2.7, 0, 1.4, 0} // stretched out
			c.step = 0.012                              // 3 rad/s, at 0.5 m and more
		}
		x, opts := bench(t, o)
		d := driver(t, opts)
		m, err := d.Start(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q := m.Q
		q[c.joint] += c.step
		if err := d.Command(armrt.Command{Q: q}); err != nil {
			t.Fatal(err)
		}
		for i := 0; m.Fault == "" && i < 500; i++ {
			if m, err = d.Next(context.Background()); err != nil {
				t.Fatal(err)
			}
			if m.Fault == "" {
				_ = d.Command(armrt.Command{Q: q})
			}
		}
		if !strings.Contains(m.Fault, c.want) {
			t.Errorf("%s: fault %q, want %s", name, m.Fault, c.want)
		}
		if m, err = d.Recover(context.Background()); err != nil || m.Fault != "" {
			t.Errorf("%s: recover: %+v, %v", name, m, err)
		}
		_ = d.Close()
		x.Close()
	}
}

// Another program that stops or takes over the arm is seen in the reports.
func TestAnotherProgramStopsTheArm(t *testing.T) {
	x, o := bench(t, stub.XArmOptions{})
	d := driver(t, o)
	m, err := d.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	x.SetState(wire.StatePaused)
	for i := 0; m.Fault == "" && i < 500; i++ {
		if m, err = d.Next(context.Background()); err != nil {
			t.Fatal(err)
		}
		_ = d.Command(armrt.Command{Q: m.Q})
	}
	if !strings.Contains(m.Fault, "paused") {
		t.Errorf("fault %q", m.Fault)
	}
}

func TestNotReady(t *testing.T) {
	x, o := bench(t, stub.XArmOptions{})
	x.EmergencyStop()
	d := driver(t, o)
	if _, err := d.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "C2, emergency stop input") {
		t.Errorf("emergency stop: %v", err)
	}
	_ = d.Close()
	_, o = bench(t, stub.XArmOptions{ErrorM: 0.005})
	d = driver(t, o)
	if _, err := d.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "5.0 mm apart") {
		t.Errorf("other kinematics: %v", err)
	}
	_ = d.Close()
	d = driver(t, Options{Model: "xarm7", ControlAddr: "127.0.0.1:1", ReportAddr: "127.0.0.1:1"})
	if _, err := d.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "is the control box on") {
		t.Errorf("nobody there: %v", err)
	}
	_ = d.Close()
	for key, o := range map[string]Options{"model": {Host: "x"}, "host": {Model: "xarm7"}, "silence_ms": {Model: "xarm7", Host: "x", SilenceMS: 1}} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// The bytes of the first requests, as the vendor's SDK sends them.
func TestRequestBytes(t *testing.T) {
	for want, got := range map[string][]byte{
		"0001" + "0002" + "0001" + "01":                  wire.Append(nil, wire.Frame{Transaction: 1, Protocol: 2, Function: wire.GetVersion, Payload: nil}),
		"0002" + "0002" + "0003" + "0b" + "08" + "01":    wire.Append(nil, wire.Frame{Transaction: 2, Protocol: 2, Function: wire.MotionOn, Payload: []byte{8, 1}}),
		"0003" + "0002" + "0002" + "13" + "01":           wire.Append(nil, wire.Frame{Transaction: 3, Protocol: 2, Function: wire.SetMode, Payload: []byte{1}}),
		"0004" + "0002" + "0005" + "1d" + "0000c03f"[:8]: wire.Append(nil, wire.Frame{Transaction: 4, Protocol: 2, Function: wire.ServoJoint, Payload: wire.AppendFloats(nil, 1.5)}),
	} {
		if h := hex.EncodeToString(got); h != want {
			t.Errorf("bytes %s, want %s", h, want)
		}
	}
}
