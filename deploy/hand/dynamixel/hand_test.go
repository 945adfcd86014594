package dynamixel

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/armtest"
	"github.com/pinch-robotics/pinch/deploy/hand"
	"github.com/pinch-robotics/pinch/internal/sim/stub"
	wire "github.com/pinch-robotics/pinch/internal/wire/dynamixel"
)

// bench is a servo on a pseudo terminal with the options to reach it.
func bench(t *testing.T, position float64) (*stub.Servo, Options) {
	t.Helper()
	pty, err := stub.OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	servo := stub.NewServo(1, position)
	done := make(chan struct{})
	go func() {
		defer close(done)
		servo.Serve(pty.Master)
	}()
	t.Cleanup(func() {
		_ = pty.Close()
		<-done
	})
	return servo, Options{Port: pty.Path, Baud: 1_000_000, PeriodMS: 10, AnswerMS: 300, WatchdogMS: 600}
}

func TestConformance(t *testing.T) {
	servo, o := bench(t, 2300)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	armtest.Hand(t, armtest.HandCase{
		New:     func(*testing.T) arm.Hand { return h },
		Angle:   func() float64 { return h.scale.Rad(servo.Position() + h.turns) },
		Object:  func(rad float64) { servo.PutObject(objectCount(h, rad)) },
		Cut:     servo.Cut,
		Alarm:   func() { servo.SetTemperature(85) },
		Refused: servo.Refused,
		Coast:   700 * time.Millisecond, Tolerance: 0.01, Lag: 0.15,
	})
}

func objectCount(h *Hand, rad float64) float64 {
	if math.IsNaN(rad) {
		return rad
	}
	return h.scale.Count(rad) - h.turns
}

// A servo that stands whole turns away from its calibration (it keeps counting while torque is off) is driven by the same turns.
func TestWholeTurnsAreTakenOut(t *testing.T) {
	servo, o := bench(t, 2300-3*4096)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	st, err := h.Start(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if want := (2300 - 2048) * wire.RadPerCount; math.Abs(st.Rad-want) > 2e-3 {
		t.Errorf("angle %.4f, want %.4f", st.Rad, want)
	}
	for i := 0; i < 60; i++ {
		if st, err = h.Exchange(context.Background(), 0.6); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	if math.Abs(st.Rad-0.6) > 2e-3 || servo.Position() > -8000 {
		t.Errorf("angle %.4f at %.0f counts", st.Rad, servo.Position())
	}
}

// Start leaves the servo in current-based position mode with force cap and watchdog, and refuses what it can not make safe.
func TestSetUp(t *testing.T) {
	servo, o := bench(t, 2100)
	o.GripCurrentA, o.WatchdogMS = 0.4, 90
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    wire.Register
		want int64
	}{{wire.OperatingMode, 5}, {wire.TorqueEnable, 1}, {wire.GoalCurrent, 149}, {wire.BusWatchdog, 5}, {wire.GoalPosition, 2100}} {
		if got := servo.Register(c.r); got != c.want {
			t.Errorf("%s is %d, want %d", c.r.Name, got, c.want)
		}
	}
	_ = h.Close()

	far, o2 := bench(t, 3900)
	if h, err = New(o2); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "calibrate the gripper") {
		t.Errorf("outside the calibration: %v", err)
	}
	_ = h.Close()
	far.ShutDown(0x20)
	if h, err = New(o2); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(context.Background()); err == nil || !strings.Contains(err.Error(), "overload") || !strings.Contains(err.Error(), "pinch hand reset") {
		t.Errorf("after a shutdown: %v", err)
	}
	_ = h.Close()
	if err := Reset(o2); err != nil {
		t.Errorf("reset: %v", err)
	}
	if far.Register(wire.HardwareError) != 0 {
		t.Error("the servo is still shut down after Reset")
	}
}

// Power that comes back leaves a servo without torque: that is an alarm, not a finger that silently does nothing.
func TestLostTorqueAndHeatAreAlarms(t *testing.T) {
	servo, o := bench(t, 2100)
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	servo.SetTemperature(75)
	if _, err := h.Exchange(context.Background(), 0.1); !errors.Is(err, arm.ErrHandAlarm) || !strings.Contains(err.Error(), "75 °C") {
		t.Errorf("hot servo: %v", err)
	}
	servo.SetTemperature(30)
	servo.ShutDown(0)
	if _, err := h.Exchange(context.Background(), 0.1); !errors.Is(err, arm.ErrHandAlarm) || !strings.Contains(err.Error(), "lost its torque") {
		t.Errorf("no torque: %v", err)
	}
}

func TestNobodyOnTheBus(t *testing.T) {
	_, o := bench(t, 2100)
	o.ID = 9
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Start(context.Background())
	if !errors.Is(err, wire.ErrSilent) || !strings.Contains(err.Error(), "servo 9") || !strings.Contains(err.Error(), o.Port) {
		t.Errorf("error %v", err)
	}
	_ = h.Close()
}

func TestOptionsNameTheKey(t *testing.T) {
	for key, o := range map[string]Options{
		"baud": {Baud: 300}, "id": {ID: 253}, "grip_current_a": {GripCurrentA: 9}, "watchdog_ms": {WatchdogMS: 9000},
		"period_ms": {PeriodMS: 500}, "watchdog_ms: 30": {WatchdogMS: 30}, "points": {Points: []hand.Point{{Rad: 0, Count: 1}}}, "max_temperature_c": {MaxTemperatureC: 99},
	} {
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error %v", key, err)
		}
	}
}
