//go:build mujoco && cgo

package sim

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// repeat lets the arms follow a demonstration as it happens; it returns how far the arms' scene came, the largest distance of the
// right hand from its model (m), and the largest share of a joint's speed limit.
func repeat(t *testing.T, hand, robot *Cell, cond Condition) (p Progress, worst, speed float64) {
	t.Helper()
	for _, c := range []*Cell{hand, robot} {
		if err := c.Reset(cond); err != nil {
			t.Fatal(err)
		}
	}
	const dt = 0.002
	limits := robotmodel.FR3().Limits
	person := NewDemonstrator(cond, false)
	var q [2][7]float64
	for _, s := range Sides {
		q[s], _ = robot.Joints(s)
	}
	for step := 0; ; step++ {
		cmd := person.Next(hand.View(), dt)
		for _, s := range Sides {
			hand.SetHand(s, cmd.Hands[s])
			hand.SetGripper(s, cmd.FingerRad[s])
		}
		if err := hand.Advance(hand.Now() + 2*TickNS); err != nil {
			t.Fatal(err)
		}
		for _, s := range Sides {
			next, err := SolveArmFrom(s, hand.HandPose(s), q[s])
			if err != nil {
				t.Fatal(err)
			}
			var dq [7]float64
			for j := range dq {
				dq[j] = (next[j] - q[s][j]) / dt
				speed = max(speed, math.Abs(dq[j])/limits.DQ[j])
			}
			robot.SetJoints(s, next, dq)
			robot.SetGripper(s, hand.GripperAngle(s))
			q[s] = next
		}
		if err := robot.Advance(robot.Now() + 2*TickNS); err != nil {
			t.Fatal(err)
		}
		gap, _ := robot.HandPose(Right).Distance(hand.HandPose(Right))
		worst = max(worst, gap)
		if step%5 == 0 {
			p.Update(robot.Truth())
		}
		if cmd.Done {
			return p, worst, speed
		}
	}
}
