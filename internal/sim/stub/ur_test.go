package stub

import (
	"encoding/json"
	"math"
	"os/exec"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// ur_rtde, the widely used C++ client, reads the controller's state, sets an input, and is refused an input that another client has.
func TestURRTDEReadsTheController(t *testing.T) {
	python := testpeer.Python(t, "rtde_receive", "rtde_io")
	u, err := NewUR(UROptions{IP: "127.0.0.61"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	out, err := exec.Command(python, "testdata/ur_peer.py", "127.0.0.61").Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v: %s; controller: %q", err, ee.Stderr, u.Log())
		}
		t.Fatal(err)
	}
	var got struct {
		Q, Pose                        []float64
		RobotMode, SafetyMode, Runtime int
		T0, T1, Slider                 float64
		Connected                      bool
		Second                         string
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	q, _ := u.Joints()
	for j := range got.Q {
		if got.Q[j] != q[j] {
			t.Errorf("joint %d is read as %v, is %v", j+1, got.Q[j], q[j])
		}
	}
	arm := robotmodel.UR("ur5e")
	c := arm.Forward(q)
	tool := c.Flange().Mul(robotmodel.Translation(0, 0, 0.2))
	w := robotmodel.RotationError(robotmodel.Identity(), tool)
	for k := 0; k < 3; k++ {
		if math.Abs(got.Pose[k]-tool.P[k]) > 1e-12 || math.Abs(got.Pose[3+k]-w[k]) > 1e-12 {
			t.Errorf("tool pose %v, want %v %v", got.Pose, tool.P, w)
		}
	}
	if got.RobotMode != 7 || got.SafetyMode != 1 || got.Runtime != 1 || !got.Connected {
		t.Errorf("modes %+v", got)
	}
	if got.Slider != 0.5 || got.T1 <= got.T0 {
		t.Errorf("slider %v, times %v to %v", got.Slider, got.T0, got.T1)
	}
	if got.Second == "accepted" {
		t.Error("a second client got an input that is in use")
	}
}
