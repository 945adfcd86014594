package sim

import (
	"fmt"

	"gonum.org/v1/gonum/mat"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// SolveArm finds joints (rad) that put a hand at cellFromHandRoot, near the arm's rest posture turned toward the hand. It serves
// Reset; motion has the executor's own kinematics. The error names a pose out of reach.
func SolveArm(s Side, cellFromHand frames.Pose) ([7]float64, error) {
	return SolveArmFrom(s, cellFromHand, robotmodel.FR3().Rest)
}

// SolveArmFrom is SolveArm from a given posture, which is also the posture it stays near.
func SolveArmFrom(s Side, cellFromHand frames.Pose, rest [7]float64) ([7]float64, error) {
	arm := robotmodel.FR3()
	base := transformOf(CellFromBase(s).Inv().Mul(cellFromHand))
	want := base.Mul(robotmodel.FlangeFromHand().Inverse()) // baseFromFlange
	q := rest
	for range 200 {
		chain := arm.Forward(q)
		at := chain.Flange()
		dp, dr := robotmodel.Sub(want.P, at.P), robotmodel.RotationError(at, want)
		if robotmodel.Norm(dp) < 1e-8 && robotmodel.Norm(dr) < 1e-8 {
			if joint, ok := arm.Limits.Contains(q, 0); !ok {
				return q, fmt.Errorf("%s hand at %s: joint %d would be at %.3f rad, beyond its limit", s, text(cellFromHand.Pos), joint+1, q[joint])
			}
			return q, nil
		}
		step := dampedStep(chain.JacobianAt(at.P, 7), [6]float64{dp[0], dp[1], dp[2], dr[0], dr[1], dr[2]}, q, rest)
		for i := range q {
			q[i] = min(max(q[i]+step[i], arm.Limits.QMin[i]), arm.Limits.QMax[i])
		}
	}
	return q, fmt.Errorf("%s hand at %s is out of the arm's reach", s, text(cellFromHand.Pos))
}

// dampedStep is one step of damped least squares, J^T (J J^T + l^2 I)^-1 e, plus a pull to the rest posture in its null space.
func dampedStep(jac robotmodel.Jacobian, e [6]float64, q, rest [7]float64) [7]float64 {
	const damping, pull, cap = 1e-5, 0.05, 0.3
	j := mat.NewDense(6, 7, nil)
	for r := range 6 {
		j.SetRow(r, jac[r][:])
	}
	var a mat.Dense
	a.Mul(j, j.T())
	for i := range 6 {
		a.Set(i, i, a.At(i, i)+damping*damping)
	}
	// Solve for the error and, in the same go, for the part of the pull that the null space projector takes away.
	back := mat.NewVecDense(7, nil)
	for i := range q {
		back.SetVec(i, pull*(rest[i]-q[i]))
	}
	var rhs, x, out mat.VecDense
	rhs.MulVec(j, back)
	rhs.SubVec(mat.NewVecDense(6, e[:]), &rhs)
	if err := x.SolveVec(&a, &rhs); err != nil {
		return [7]float64{}
	}
	out.MulVec(j.T(), &x)
	out.AddVec(&out, back)
	var step [7]float64
	for i := range step {
		step[i] = min(max(out.AtVec(i), -cap), cap)
	}
	return step
}
