package deploy

import (
	"math"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// A row that puts the fingertips into the table is raised until they clear it; one that clears it, and one far below, stay.
func TestTableRise(t *testing.T) {
	h := FakeHello()
	p, _, err := newPair(&h, DefaultCell().Safety)
	if err != nil {
		t.Fatal(err)
	}
	down := frames.QuatFromAxisAngle(r3.Vec{Y: 1}, math.Pi/2) // +X of the hand, the fingers, points down
	lowest := func(z float64) float64 {
		pose := frames.Pose{Pos: r3.Vec{X: 0.4, Z: z}, Rot: down}
		low := math.Inf(1)
		for _, c := range p.arms[1].gripper.Capsules(0.2) {
			if c.Finger {
				low = math.Min(low, z-math.Max(c.A[0], c.B[0]))
			}
		}
		return low + p.tableRise(1, pose, 0.2)
	}
	reach := 0.3 - lowest(0.3) // from hand_root to the end of the fingers, no rise at this height
	want := p.safety.FingerClearanceM + 0.001
	for name, test := range map[string]struct{ tip, after float64 }{
		"clear of the table": {0.05, 0.05},
		"2 cm too deep":      {want - 0.02, want},
		"in the table":       {-0.03, want},
		"far below":          {-0.2, -0.2},
	} {
		if got := lowest(test.tip + reach); math.Abs(got-test.after) > 1e-9 {
			t.Errorf("%s: fingertips end at %.4f m, want %.4f", name, got, test.after)
		}
	}
}
