package frames

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"
)

func randPoses(seed uint64, n int) []Pose {
	r := rand.New(rand.NewPCG(4, seed))
	out := make([]Pose, n)
	for i := range out {
		out[i] = randPose(r)
	}
	return out
}

// A body delta is inverse(A) B as matrices; a world delta keeps the rotation and takes the translation in parent axes.
func TestBetweenAgainstMatrices(t *testing.T) {
	ps := randPoses(1, 100)
	for i := 1; i < len(ps); i++ {
		a, b := ps[i-1], ps[i]
		var inv, want mat.Dense
		if err := inv.Inverse(dense(a)); err != nil {
			t.Fatal(err)
		}
		want.Mul(&inv, dense(b))
		d := Between(a, b, BodyPrevious, Next)
		nearMat(t, "body", dense(Pose{d.Trans, d.Rot}), &want)
		w := Between(a, b, World, Next)
		nearVec(t, "world translation", w.Trans, r3.Sub(b.Pos, a.Pos))
		nearQuat(t, "world rotation", w.Rot, d.Rot)
		for _, ref := range []Reference{BodyPrevious, BodyObservation, World} {
			nearPose(t, ref.String(), Between(a, b, ref, Next).From(a), b)
		}
	}
}

func TestRowDeltasIntegrateBack(t *testing.T) {
	ps := randPoses(2, 20)
	for _, ref := range []Reference{BodyPrevious, World} {
		prev := RowDeltas(ps, ref, Previous)
		next := RowDeltas(ps, ref, Next)
		if prev[0].Rot != IdentityQuat || r3.Norm(prev[0].Trans) != 0 || next[19].Rot != IdentityQuat || r3.Norm(next[19].Trans) != 0 {
			t.Fatalf("%v: first previous %v or last next %v is not the identity", ref, prev[0], next[19])
		}
		nearPoses(t, "previous", Integrate(ps[0], prev[1:]), ps[1:])
		nearPoses(t, "next", Integrate(ps[0], next[:19]), ps[1:])
		// Previous is next, one row later.
		for i := range 19 {
			if prev[i+1].Trans != next[i].Trans || prev[i+1].Rot != next[i].Rot {
				t.Fatalf("row %d: next is not the following row's previous", i)
			}
		}
	}
	var chunk []Delta
	for _, p := range ps[1:] {
		chunk = append(chunk, Between(ps[0], p, BodyObservation, Next))
	}
	nearPoses(t, "body at the observation", Integrate(ps[0], chunk), ps[1:])
}

func nearPoses(t *testing.T, what string, got, want []Pose) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d poses, want %d", what, len(got), len(want))
	}
	for i := range got {
		nearPose(t, what, got[i], want[i])
	}
}

// The array of a motion is dx dy dz dqx dqy dqz dqw, and reading it gives the motion back, whatever the quaternion's length.
func TestDeltaArrays(t *testing.T) {
	d := Delta{r3.Vec{X: 1, Y: 2, Z: 3}, QuatFromAxisAngle(r3.Vec{X: 1}, math.Pi/2), World, Previous}
	half := math.Sqrt2 / 2
	for i, want := range [7]float64{1, 2, 3, half, 0, 0, half} {
		if got := d.ArrayXYZXYZW()[i]; math.Abs(got-want) > tol {
			t.Errorf("element %d is %v, want %v", i, got, want)
		}
	}
	back, err := DeltaFromXYZXYZW([7]float64{1, 2, 3, 5 * half, 0, 0, 5 * half}, World, Previous)
	if err != nil || back.Ref != World || back.Timing != Previous {
		t.Fatalf("read %+v, %v", back, err)
	}
	nearPose(t, "array", Pose{back.Trans, back.Rot}, Pose{d.Trans, d.Rot})
	if _, err := DeltaFromXYZXYZW([7]float64{}, World, Previous); !errors.Is(err, ErrNotRotation) {
		t.Errorf("a zero quaternion: %v, want ErrNotRotation", err)
	}
}

// A hand that looks along +Y of the world and moves forward by 0.1 m has a body motion along its own +X.
func TestDeltaAxes(t *testing.T) {
	a := Pose{r3.Vec{X: 1}, QuatFromAxisAngle(r3.Vec{Z: 1}, math.Pi/2)}
	b := Pose{r3.Vec{X: 1, Y: 0.1}, a.Rot}
	nearVec(t, "body", Between(a, b, BodyPrevious, Next).Trans, r3.Vec{X: 0.1})
	nearVec(t, "world", Between(a, b, World, Next).Trans, r3.Vec{Y: 0.1})
}

func TestNamesOfReferencesAndTimings(t *testing.T) {
	for _, r := range []Reference{BodyPrevious, BodyObservation, World} {
		if back, err := ParseReference(r.String()); err != nil || back != r {
			t.Errorf("%v parses to %v, %v", r, back, err)
		}
	}
	for _, x := range []Timing{Previous, Next} {
		if back, err := ParseTiming(x.String()); err != nil || back != x {
			t.Errorf("%v parses to %v, %v", x, back, err)
		}
	}
	if _, err := ParseReference("bodyy"); err == nil {
		t.Error("a wrong reference parses")
	}
	if _, err := ParseTiming(""); err == nil {
		t.Error("an empty timing parses")
	}
}
