package robotmodel

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Flange poses at three joint vectors, computed independently from the DH table by the vendor's published convention (six digits).
var flangeVectors = []struct {
	q Joints
	p Vec
	r [9]float64
}{
	{Joints{0, -math.Pi / 4, 0, -3 * math.Pi / 4, 0, math.Pi / 2, math.Pi / 4}, Vec{0.306891, 0, 0.590282},
		[9]float64{.70711, -.70711, 0, -.70711, -.70711, 0, 0, 0, -1}},
	{Joints{}, Vec{0.088, 0, 0.926}, [9]float64{1, 0, 0, 0, -1, 0, 0, 0, -1}},
	{Joints{.1, .2, .3, -1.4, .5, 1.6, .7}, Vec{0.555626, 0.267810, 0.611174},
		[9]float64{.91429, -.35599, -.19325, -.22300, -.84064, .49356, -.33816, -.40816, -.84797}},
}

func TestForwardMatchesPublishedVectors(t *testing.T) {
	arm := FR3()
	for _, v := range flangeVectors {
		c := arm.Forward(v.q)
		f := c.Flange()
		for i := range v.p {
			if math.Abs(f.P[i]-v.p[i]) > 1e-6 {
				t.Errorf("q %v: p[%d] = %.7f, want %.6f", v.q, i, f.P[i], v.p[i])
			}
		}
		for i := range v.r {
			if math.Abs(f.R[i]-v.r[i]) > 6e-6 { // the vectors carry five digits
				t.Errorf("q %v: R[%d] = %.6f, want %.5f", v.q, i, f.R[i], v.r[i])
			}
		}
	}
}

func TestVelocityBoundMatchesPublishedVector(t *testing.T) {
	l := FR3().Limits
	q := Joints{0, -math.Pi / 4, 0, -3 * math.Pi / 4, 0, math.Pi / 2, math.Pi / 4}
	low := Joints{-2.62, -2.0790, -2.62, -2.0480, -5.26, -3.0394, -5.26}
	for j := range q {
		if up := l.VelocityUp(j, q[j]); up != l.DQ[j] {
			t.Errorf("joint %d: upper bound %v, want %v", j+1, up, l.DQ[j])
		}
		if got := l.VelocityLow(j, q[j]); math.Abs(got-low[j]) > 5e-5 {
			t.Errorf("joint %d: lower bound %.5f, want %.4f", j+1, got, low[j])
		}
		if got := l.VelocityUp(j, l.QMax[j]); got != 0 {
			t.Errorf("joint %d: upper bound at the end is %v, want 0", j+1, got)
		}
	}
}

func TestJacobianMatchesFiniteDifferences(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	arm := FR3()
	const h = 1e-6
	for trial := 0; trial < 50; trial++ {
		q := randomJoints(rng, &arm.Limits)
		c := arm.Forward(q)
		jac := c.JacobianAt(c.Flange().P, 7)
		for i := range q {
			qp, qm := q, q
			qp[i] += h
			qm[i] -= h
			cp, cm := arm.Forward(qp), arm.Forward(qm)
			w := RotationError(cm.Flange(), cp.Flange())
			for k := 0; k < 3; k++ {
				if lin := (cp[7].P[k] - cm[7].P[k]) / (2 * h); math.Abs(lin-jac[k][i]) > 1e-8 {
					t.Fatalf("trial %d: linear row %d joint %d: %v, finite difference %v", trial, k, i+1, jac[k][i], lin)
				}
				if ang := w[k] / (2 * h); math.Abs(ang-jac[k+3][i]) > 1e-8 {
					t.Fatalf("trial %d: angular row %d joint %d: %v, finite difference %v", trial, k, i+1, jac[k+3][i], ang)
				}
			}
		}
	}
}

func TestTransformLaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := 0; trial < 200; trial++ {
		a, b := randomTransform(rng), randomTransform(rng)
		p := Vec{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		if d := Norm(Sub(a.Mul(b).Apply(p), a.Apply(b.Apply(p)))); d > 1e-12 {
			t.Fatalf("composition differs from application by %v", d)
		}
		if d := Norm(Sub(a.Inverse().Apply(a.Apply(p)), p)); d > 1e-12 {
			t.Fatalf("inverse differs by %v", d)
		}
		back := FromQuat(a.P, a.Quat())
		for i := range a.R {
			if math.Abs(back.R[i]-a.R[i]) > 1e-12 {
				t.Fatalf("quaternion round trip differs: %v, %v", a.R, back.R)
			}
		}
	}
}

func TestMountPointsFingersDownAtRest(t *testing.T) {
	arm := FR3()
	c := arm.Forward(arm.Rest)
	hand := c.Flange().Mul(FlangeFromHand())
	for _, w := range []struct {
		axis, want Vec
		name       string
	}{{Vec{1, 0, 0}, Vec{0, 0, -1}, "fingers"}, {Vec{0, 1, 0}, Vec{0, 1, 0}, "left jaw"}, {Vec{0, 0, 1}, Vec{1, 0, 0}, "camera"}} {
		if got := hand.Rotate(w.axis); Norm(Sub(got, w.want)) > 1e-9 {
			t.Errorf("%s point along %v at rest, want %v", w.name, got, w.want)
		}
	}
}

func TestFingersOpenOutwardsAndMirror(t *testing.T) {
	g := YUBI()
	last := -1.0
	for a := 0.0; a <= g.OpenRad; a += 0.1 {
		r, l := g.Tips(a)
		if r[0] != l[0] || r[1] != -l[1] || r[2] != l[2] {
			t.Fatalf("angle %v: tips %v and %v are not mirrored", a, r, l)
		}
		if gap := l[1] - r[1]; gap <= last {
			t.Fatalf("angle %v: gap %v does not grow", a, gap)
		} else {
			last = gap
		}
	}
}

// Tips worked by hand from the URDF's numbers: pivot (-0.016, -0.015), tip (0.10943, -0.014) from it, turned about -Z.
func TestFingerTipsByHand(t *testing.T) {
	g := YUBI()
	if g.ClosedRad != 0 || g.OpenRad != 0.94 {
		t.Errorf("finger range %v to %v, want 0 to 0.94", g.ClosedRad, g.OpenRad)
	}
	for angle, want := range map[float64]Vec{0: {0.09343, -0.029, 0}, math.Pi / 2: {-0.030, -0.12443, 0}} {
		right, left := g.Tips(angle)
		if Norm(Sub(right, want)) > 1e-12 || Norm(Sub(left, Vec{want[0], -want[1], want[2]})) > 1e-12 {
			t.Errorf("angle %v: tips at %v and %v, want the right one at %v", angle, right, left, want)
		}
	}
}

func TestVectorsByHand(t *testing.T) {
	if d := Norm(Vec{3, 4, 12}); d != 13 {
		t.Errorf("length of (3, 4, 12) is %v", d)
	}
	if d := Dot(Vec{1, 2, 3}, Vec{4, -5, 6}); d != 12 {
		t.Errorf("inner product %v, want 12", d)
	}
}

// A transform made of a pose of package frames moves points as the pose does, and becomes the pose again.
func TestTransformIsThePose(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100 {
		pose, err := frames.NewPose(r3.Vec{X: rng.NormFloat64(), Y: rng.NormFloat64(), Z: rng.NormFloat64()},
			frames.Quat{X: rng.NormFloat64(), Y: rng.NormFloat64(), Z: rng.NormFloat64(), W: rng.NormFloat64()})
		if err != nil {
			t.Fatal(err)
		}
		p := Vec{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}
		got, want := FromPose(pose).Apply(p), pose.Apply(r3.Vec{X: p[0], Y: p[1], Z: p[2]})
		if math.Abs(got[0]-want.X)+math.Abs(got[1]-want.Y)+math.Abs(got[2]-want.Z) > 1e-12 {
			t.Fatalf("point %v, want %v", got, want)
		}
		a, b := FromPose(pose).Pose().ArrayXYZXYZW(), pose.ArrayXYZXYZW()
		for i := range a {
			if math.Abs(a[i]-b[i]) > 1e-12 {
				t.Fatalf("pose %v came back as %v", b, a)
			}
		}
	}
}

func randomJoints(rng *rand.Rand, l *Limits) (q Joints) {
	for j := range q {
		q[j] = l.QMin[j] + rng.Float64()*(l.QMax[j]-l.QMin[j])
	}
	return q
}

func randomTransform(rng *rand.Rand) Transform {
	return FromQuat(Vec{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()},
		[4]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()})
}
