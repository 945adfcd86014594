package frames

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"
)

const tol = 1e-12

func randVec(r *rand.Rand, scale float64) r3.Vec {
	return r3.Vec{X: scale * r.NormFloat64(), Y: scale * r.NormFloat64(), Z: scale * r.NormFloat64()}
}

// randQuat is uniform on the rotations (four normals, normalised) and of either sign.
func randQuat(r *rand.Rand) Quat {
	q := Quat{r.NormFloat64(), r.NormFloat64(), r.NormFloat64(), r.NormFloat64()}
	return q.scale(1 / q.Norm())
}

func randPose(r *rand.Rand) Pose { return Pose{randVec(r, 1), randQuat(r)} }

func dense(p Pose) *mat.Dense {
	m := p.Mat4()
	d := mat.NewDense(4, 4, nil)
	for i := range 4 {
		d.SetRow(i, m[i][:])
	}
	return d
}

func nearMat(t *testing.T, what string, got, want mat.Matrix) {
	t.Helper()
	if !mat.EqualApprox(got, want, tol) {
		t.Fatalf("%s:\n%v\nwant\n%v", what, mat.Formatted(got), mat.Formatted(want))
	}
}

// nearPose compares rotations up to sign and positions, each component to 1e-12.
func nearPose(t *testing.T, what string, got, want Pose) {
	t.Helper()
	nearVec(t, what, got.Pos, want.Pos)
	nearQuat(t, what, got.Rot, want.Rot)
}

func nearVec(t *testing.T, what string, got, want r3.Vec) {
	t.Helper()
	if !(r3.Norm(r3.Sub(got, want)) <= tol) { // NaN is not near anything
		t.Fatalf("%s: vector %v, want %v", what, got, want)
	}
}

func nearQuat(t *testing.T, what string, got, want Quat) {
	t.Helper()
	if got.Dot(want) < 0 {
		want = want.Neg()
	}
	d := Quat{got.X - want.X, got.Y - want.Y, got.Z - want.Z, got.W - want.W}
	if d.Norm() > tol || math.IsNaN(d.Norm()) {
		t.Fatalf("%s: rotation %v, want %v", what, got, want)
	}
}
