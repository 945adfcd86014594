package stub

import (
	"encoding/json"
	"math"
	"os/exec"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The vendor's own Python package drives the stub: it pings, sets the servo up, moves it with sync writes and reads it back with sync reads,
// and sees the refusals, stuffing and the watchdog.
func TestDynamixelSDKDrivesTheServo(t *testing.T) {
	python := testpeer.Python(t, "dynamixel_sdk", "serial")
	pty, err := OpenPTY()
	if err != nil {
		t.Fatal(err)
	}
	servo := NewServo(1, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		servo.Serve(pty.Master)
	}()
	defer func() {
		_ = pty.Close()
		<-done
	}()
	cmd := exec.Command(python, "testdata/dynamixel_peer.py", pty.Path)
	out, err := cmd.Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s", err, ee.Stderr)
		}
		t.Fatal(err)
	}
	var got struct {
		Model, ModeLocked, LimitRefused, Moved, Negative, Tripped, AfterTrip, Cleared, Final int
		Sync                                                                                 bool
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got.Model != 1020 {
		t.Errorf("model %d, want 1020", got.Model)
	}
	if got.ModeLocked != 7 || got.LimitRefused != 6 {
		t.Errorf("refusals: mode with torque on %d, want 7; current beyond the limit %d, want 6", got.ModeLocked, got.LimitRefused)
	}
	if math.Abs(float64(got.Moved-1600)) > 1 || !got.Sync {
		t.Errorf("sync write moved it to %d, want 1600; sync read available %v", got.Moved, got.Sync)
	}
	if math.Abs(float64(got.Negative+300)) > 1 {
		t.Errorf("position %d, want -300", got.Negative)
	}
	if got.Tripped != 255 || got.AfterTrip != 4 || got.Cleared != 0 {
		t.Errorf("watchdog reads %d, want 255; a goal then answers %d, want 4; clearing it answers %d", got.Tripped, got.AfterTrip, got.Cleared)
	}
	time.Sleep(10 * time.Millisecond)
	if d := math.Abs(servo.Position() - float64(got.Final)); d > 1 {
		t.Errorf("the peer read %d, the servo is at %.1f", got.Final, servo.Position())
	}
}
