package stub

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The vendor's Python SDK enables the stub, streams servo targets, reads it back, and meets the speed guard.
func TestXArmSDKDrivesTheController(t *testing.T) {
	python := testpeer.Python(t, "xarm.wrapper")
	x, err := NewXArm(XArmOptions{IP: "127.0.0.62"})
	if err != nil {
		t.Skipf("the SDK wants port 502: %v", err)
	}
	defer x.Close()
	out, err := exec.Command(python, "testdata/xarm_peer.py", "127.0.0.62").Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s; controller: %q", err, ee.Stderr, x.Log())
		}
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var got struct {
		Connected                 bool
		Version                   string
		Enable, Mode, State, Jump int
		Q, Pose                   []float64
		Codes, Errors, AfterClean []int
		Moved, Reported           float64
	}
	if err := json.Unmarshal(lines[len(lines)-1], &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if !got.Connected || got.Enable != 0 || got.Mode != 0 || got.State != 0 {
		t.Errorf("set-up %+v; controller: %q", got, x.Log())
	}
	arm := robotmodel.XArm7()
	c := arm.Forward(arm.Rest)
	for j := range arm.Rest {
		if math.Abs(got.Q[j]-arm.Rest[j]) > 1e-5 {
			t.Errorf("joint %d is read as %v, is %v", j+1, got.Q[j], arm.Rest[j])
		}
	}
	for k := 0; k < 3; k++ {
		if math.Abs(got.Pose[k]-1000*c[7].P[k]) > 0.01 {
			t.Errorf("tool %v mm, want %v m", got.Pose, c[7].P)
		}
	}
	if len(got.Codes) != 1 || got.Codes[0] != 0 || math.Abs(got.Moved-0.12) > 1e-4 || math.Abs(got.Reported-0.12) > 1e-3 {
		t.Errorf("servo commands answered %v, moved %.4f (reported %.4f), want 0.12", got.Codes, got.Moved, got.Reported)
	}
	if len(got.Errors) < 1 || got.Errors[0] != 24 || len(got.AfterClean) < 2 || got.AfterClean[1] != 0 {
		t.Errorf("after a jump: %v, after cleaning %v", got.Errors, got.AfterClean)
	}
}
