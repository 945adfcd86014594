package frames

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"
)

// hat is the 4x4 matrix whose exponential is the twist's pose.
func hat(t Twist) *mat.Dense {
	w, v := t.Angular, t.Linear
	return mat.NewDense(4, 4, []float64{
		0, -w.Z, w.Y, v.X,
		w.Z, 0, -w.X, v.Y,
		-w.Y, w.X, 0, v.Z,
		0, 0, 0, 0,
	})
}

func randTwist(r *rand.Rand, angle float64) Twist {
	return Twist{randVec(r, 1), r3.Scale(angle, r3.Unit(randVec(r, 1)))}
}

func TestExpAgainstGonumExponential(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	for _, angle := range []float64{0, 1e-12, 1e-9, 9e-6, 1.1e-5, 1e-3, 0.1, 1, 3, math.Pi, 5} {
		for range 20 {
			tw := randTwist(r, angle)
			var want mat.Dense
			want.Exp(hat(tw))
			nearMat(t, "exp", dense(tw.Exp()), &want)
		}
	}
}

func TestLogExpRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, angle := range []float64{0, 1e-12, 1e-9, 9e-6, 1.1e-5, 1e-3, 0.1, 1, 3, 3.1415} {
		for range 20 {
			tw := randTwist(r, angle)
			back := tw.Exp().Log()
			nearVec(t, "linear", back.Linear, tw.Linear)
			nearVec(t, "angular", back.Angular, tw.Angular)
		}
	}
	for range 300 {
		p := randPose(r)
		nearPose(t, "exp of log", p.Log().Exp(), p)
		nearQuat(t, "SO(3) exp of log", ExpSO3(p.Rot.Log()), p.Rot)
		if r3.Norm(p.Rot.Log()) > math.Pi+tol {
			t.Fatal("log goes the longer way round")
		}
	}
	half := QuatFromAxisAngle(r3.Vec{Y: 1}, math.Pi)
	nearVec(t, "log of a half turn", half.Log(), r3.Vec{Y: math.Pi})
}

func TestScrewInterpolation(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 3))
	for range 100 {
		a, b := randPose(r), randPose(r)
		nearPose(t, "start", InterpolateScrew(a, b, 0), a)
		nearPose(t, "end", InterpolateScrew(a, b, 1), b)
		// Two halves of a screw motion are the same body motion.
		mid := InterpolateScrew(a, b, 0.5)
		nearPose(t, "halves", a.Inv().Mul(mid), mid.Inv().Mul(b))
	}
}
