package sim

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Every place the task can need is in comfortable reach: the solution's forward kinematics gives the pose back, and joints stay a
// tenth of a radian inside their limits.
func TestSolveArmOverTheWorkspace(t *testing.T) {
	arm := robotmodel.FR3()
	check := func(s Side, p frames.Pose) {
		t.Helper()
		q, err := SolveArm(s, p)
		if err != nil {
			t.Error(err)
			return
		}
		if joint, ok := arm.Limits.Contains(q, 0.1); !ok {
			t.Errorf("%s hand at %v: joint %d at %v is near its limit", s, p.Pos, joint+1, q[joint])
		}
		chain := arm.Forward(q)
		got := CellFromBase(s).Mul(poseOf(chain.Flange())).Mul(poseOf(robotmodel.FlangeFromHand()))
		if d, a := got.Distance(p); d > 1e-7 || a > 1e-7 {
			t.Errorf("%s hand at %v: forward kinematics is %v m, %v rad off", s, p.Pos, d, a)
		}
	}
	for _, x := range []float64{PickCentreX - 0.12, PickCentreX, PickCentreX + 0.12} {
		for _, y := range []float64{PickCentreY - 0.12, PickCentreY, trayCentreY + 0.06} {
			for _, z := range []float64{0.10, 0.30} {
				for _, yaw := range []float64{-math.Pi/4 - handYawVary, 0, math.Pi/4 + handYawVary} {
					check(Right, HandStart{X: x, Y: y, Z: z, Yaw: yaw}.Pose())
				}
			}
		}
	}
	for i := range 60 {
		check(Left, NewCondition(Eval, i).Left.Pose())
		check(Right, NewCondition(Eval, i).Right.Pose())
	}
	if _, err := SolveArm(Left, HandStart{X: 0.69, Y: -0.7, Z: 0.3}.Pose()); err == nil {
		t.Error("a pose 1.5 m from the base was solved")
	}
}
