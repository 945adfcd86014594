package deploy

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// mostCorrectionM is the largest correction of a place that is taken for one: more is another mount, or another place.
const mostCorrectionM = 0.2

func (c *CalibrationConfig) check() error {
	for _, k := range []struct {
		key string
		v   []float64
		n   int
	}{{"calibration.left_tip_m", c.LeftTipM, 3}, {"calibration.right_tip_m", c.RightTipM, 3}, {"calibration.right_base_m_rad", c.RightBaseMRad, 6}} {
		if len(k.v) != 0 && len(k.v) != k.n {
			return fmt.Errorf("%s: %d numbers, want %d", k.key, len(k.v), k.n)
		}
		for i, v := range k.v {
			if !finite(v) || i < 3 && math.Abs(v) > mostCorrectionM || math.Abs(v) > math.Pi {
				return fmt.Errorf("%s: %v is no small correction", k.key, v)
			}
		}
	}
	return nil
}

// apply corrects the places that arm processes state; the Hello itself is left alone.
func (c *CalibrationConfig) apply(h armlink.Hello) (armlink.Hello, error) {
	h.Arms = slices.Clone(h.Arms)
	for i := range h.Arms {
		a := &h.Arms[i]
		tip := c.LeftTipM
		if a.Name == Hands[1] {
			tip = c.RightTipM
		}
		if len(tip) == 3 {
			mount, err := frames.PoseFromXYZXYZW(a.FlangeFromHand)
			if err != nil {
				return h, fmt.Errorf("%s arm: flange_from_hand: %w", a.Name, err)
			}
			moved := frames.Pose{Pos: r3.Vec{X: tip[0], Y: tip[1], Z: tip[2]}, Rot: frames.Identity.Rot}
			a.FlangeFromHand = mount.Mul(moved).ArrayXYZXYZW()
		}
		if b := c.RightBaseMRad; len(b) == 6 && a.Name == Hands[1] {
			base, err := frames.PoseFromXYZXYZW(a.WorldFromBase)
			if err != nil {
				return h, fmt.Errorf("%s arm: world_from_base: %w", a.Name, err)
			}
			moved := frames.Pose{Pos: r3.Vec{X: b[0], Y: b[1], Z: b[2]}, Rot: frames.ExpSO3(r3.Vec{X: b[3], Y: b[4], Z: b[5]})}
			a.WorldFromBase = moved.Mul(base).ArrayXYZXYZW()
		}
	}
	return h, nil
}

// cameraOffset is how late the stamps of a hand's wrist camera are, ns.
func (c *ControlConfig) cameraOffset(hand int) int64 {
	return int64([2]float64{c.LeftCameraOffsetMS, c.RightCameraOffsetMS}[hand] * 1e6)
}
