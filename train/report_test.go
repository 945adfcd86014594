package train

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/policy"
	"gonum.org/v1/gonum/spatial/r3"
)

// handSpec has one hand (three metres, six rotation numbers) and two finger angles, so rows of 11 numbers.
func handSpec() policy.Spec {
	return policy.Spec{Horizon: 2, Stride: 1, FPS: 10, Action: []policy.Output{
		{Name: "right", Feature: "hand", Representation: policy.ChunkPoseRot6D, SourceDim: 7},
		{Name: "gripper", Feature: "joints", Representation: policy.Absolute, SourceDim: 2, Unit: "rad"},
	}}
}

func handRow(x, y, z float64, q frames.Quat, fingers ...float64) []float64 {
	rot := q.Rot6DRows()
	return append(append([]float64{x, y, z}, rot[:]...), fingers...)
}

// Errors in the units people read: a 3-4-0 mm step is 5 mm, a quarter turn 90 degrees, finger errors are averaged.
func TestErrorsAreDistancesAnglesAndMeans(t *testing.T) {
	turned := frames.QuatFromAxisAngle(r3.Vec{Z: 1}, math.Pi/2)
	want := append(handRow(0, 0, 0, frames.IdentityQuat, 0, 0), handRow(9, 9, 9, frames.IdentityQuat, 9, 9)...)
	got := append(handRow(0.003, 0.004, 0, turned, 0.3, 0.4), handRow(0, 0, 0, turned, 0, 0)...)
	sums := newErrorSums(handSpec())
	sums.add(want, []bool{true, false}, got, nil, want) // step 1 lies outside the episode
	r := sums.report()
	for i, c := range []struct {
		name, unit string
		err        float64
	}{{"right position", "mm", 5}, {"right rotation", "deg", 90}, {"gripper", "rad", math.Sqrt((0.09 + 0.16) / 2)}} {
		ch := r.Channels[i]
		if ch.Name != c.name || ch.Unit != c.unit || len(ch.Policy) != 1 || math.Abs(ch.Policy[0]-c.err) > 1e-9 {
			t.Errorf("channel %d is %+v, want %+v at one step", i, ch, c)
		}
		if ch.Hold != nil || len(ch.Mean) != 1 || ch.Mean[0] != 0 {
			t.Errorf("baselines of %s: hold %v, mean %v; want none and 0", ch.Name, ch.Hold, ch.Mean)
		}
	}
}

// A network may answer six numbers that are no rotation; the report must still be a number that JSON can hold.
func TestNoRotationCountsAsHalfATurn(t *testing.T) {
	want := append(handRow(0, 0, 0, frames.IdentityQuat, 0, 0), handRow(0, 0, 0, frames.IdentityQuat, 0, 0)...)
	got := make([]float64, len(want))
	sums := newErrorSums(handSpec())
	sums.add(want, []bool{true, true}, got, got, got)
	r := sums.report()
	if e := Total(r.Channels[1].Policy); math.Abs(e-180) > 1e-9 {
		t.Errorf("rotation error %v, want 180 deg", e)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}
