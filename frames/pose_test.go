package frames

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/num/quat"
	"gonum.org/v1/gonum/spatial/r3"
)

func TestGroupAxioms(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		a, b, c := randPose(r), randPose(r), randPose(r)
		nearPose(t, "associative", a.Mul(b).Mul(c), a.Mul(b.Mul(c)))
		nearPose(t, "left identity", Identity.Mul(a), a)
		nearPose(t, "right identity", a.Mul(Identity), a)
		nearPose(t, "left inverse", a.Inv().Mul(a), Identity)
		nearPose(t, "right inverse", a.Mul(a.Inv()), Identity)
		nearPose(t, "inverse of a product", a.Mul(b).Inv(), b.Inv().Mul(a.Inv()))
		v := randVec(r, 1)
		nearVec(t, "action", a.Mul(b).Apply(v), a.Apply(b.Apply(v)))
	}
}

func TestAgainstGonumMatrices(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		a, b := randPose(r), randPose(r)
		var want mat.Dense
		want.Mul(dense(a), dense(b))
		nearMat(t, "Mul", dense(a.Mul(b)), &want)
		if err := want.Inverse(dense(a)); err != nil {
			t.Fatal(err)
		}
		nearMat(t, "Inv", dense(a.Inv()), &want)
		v := randVec(r, 1)
		hv := mat.NewVecDense(4, []float64{v.X, v.Y, v.Z, 1})
		var hw mat.VecDense
		hw.MulVec(dense(a), hv)
		nearVec(t, "Apply", a.Apply(v), r3.Vec{X: hw.AtVec(0), Y: hw.AtVec(1), Z: hw.AtVec(2)})
	}
}

func TestQuatAgainstGonumQuat(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 3))
	for range 500 {
		a, b := randQuat(r), randQuat(r)
		n := quat.Mul(quat.Number{Real: a.W, Imag: a.X, Jmag: a.Y, Kmag: a.Z}, quat.Number{Real: b.W, Imag: b.X, Jmag: b.Y, Kmag: b.Z})
		nearQuat(t, "Mul", a.Mul(b), Quat{n.Imag, n.Jmag, n.Kmag, n.Real})
		l := quat.Log(quat.Number{Real: a.Canonical().W, Imag: a.Canonical().X, Jmag: a.Canonical().Y, Kmag: a.Canonical().Z})
		nearVec(t, "Log", a.Log(), r3.Vec{X: 2 * l.Imag, Y: 2 * l.Jmag, Z: 2 * l.Kmag})
		v := randVec(r, 1)
		nearVec(t, "Rotate", a.Rotate(v), r3.NewRotation(2*math.Acos(clamp(a.W)), r3.Vec{X: a.X, Y: a.Y, Z: a.Z}).Rotate(v))
	}
}

func clamp(x float64) float64 { return math.Max(-1, math.Min(1, x)) }

func TestAntipodalQuaternionsAreOneRotation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	for range 300 {
		p, o := randPose(r), randPose(r)
		n := Pose{p.Pos, p.Rot.Neg()}
		if p.ArrayXYZXYZW() != n.ArrayXYZXYZW() {
			t.Fatalf("arrays of q and -q differ: %v, %v", p.ArrayXYZXYZW(), n.ArrayXYZXYZW())
		}
		nearMat(t, "matrix", dense(n), dense(p))
		if p.Mul(o) != n.Mul(o) || p.Inv().Rot != n.Inv().Rot {
			t.Fatal("products or inverses of q and -q differ")
		}
		nearVec(t, "log", n.Rot.Log(), p.Rot.Log())
		nearQuat(t, "slerp", Slerp(n.Rot, o.Rot, 0.3), Slerp(p.Rot, o.Rot, 0.3))
		if a := p.Rot.AngleTo(p.Rot.Neg()); a > tol {
			t.Fatalf("angle from q to -q is %g", a)
		}
	}
	for _, q := range []Quat{{W: -1}, {X: -1}, {Y: -1}, {Z: -1}} {
		if c := q.Canonical(); c.W+c.X+c.Y+c.Z != 1 {
			t.Errorf("canonical of %v is %v", q, c)
		}
	}
}

func TestArrayAndMatrixRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 5))
	for range 300 {
		p := randPose(r)
		fromArray, err := PoseFromXYZXYZW(p.ArrayXYZXYZW())
		if err != nil {
			t.Fatal(err)
		}
		nearPose(t, "array", fromArray, p)
		fromMat, err := PoseFromMat4(p.Mat4())
		if err != nil {
			t.Fatal(err)
		}
		nearPose(t, "matrix", fromMat, p)
	}
	// Half turns put w at 0, where a naive trace formula divides by zero.
	for _, axis := range []r3.Vec{{X: 1}, {Y: 1}, {Z: 1}, {X: 1, Y: 1}, {X: -1, Z: 2}} {
		q := QuatFromAxisAngle(axis, math.Pi)
		back, err := QuatFromMatrix(q.Matrix())
		if err != nil {
			t.Fatal(err)
		}
		nearQuat(t, "half turn", back, q)
	}
}

// The order of an array is x y z qx qy qz qw: a quarter turn about Z is (0, 0, sqrt(1/2), sqrt(1/2)) and takes +X to +Y.
func TestArrayOrder(t *testing.T) {
	p := Pose{r3.Vec{X: 1, Y: 2, Z: 3}, QuatFromAxisAngle(r3.Vec{Z: 1}, math.Pi/2)}
	a := p.ArrayXYZXYZW()
	for i, want := range [7]float64{1, 2, 3, 0, 0, math.Sqrt2 / 2, math.Sqrt2 / 2} {
		if math.Abs(a[i]-want) > tol {
			t.Fatalf("element %d is %g, want %g (%v)", i, a[i], want, a)
		}
	}
	nearVec(t, "quarter turn", p.Apply(r3.Vec{X: 1}), r3.Vec{X: 1, Y: 3, Z: 3})
}

// URDF's rpy is Rz(yaw) Ry(pitch) Rx(roll): checked against the product of gonum matrices.
func TestRPY(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 6))
	for range 100 {
		a, b, c := r.Float64()*6-3, r.Float64()*6-3, r.Float64()*6-3
		sa, ca := math.Sincos(a)
		sb, cb := math.Sincos(b)
		sc, cc := math.Sincos(c)
		x := mat.NewDense(3, 3, []float64{1, 0, 0, 0, ca, -sa, 0, sa, ca})
		y := mat.NewDense(3, 3, []float64{cb, 0, sb, 0, 1, 0, -sb, 0, cb})
		z := mat.NewDense(3, 3, []float64{cc, -sc, 0, sc, cc, 0, 0, 0, 1})
		var want mat.Dense
		want.Product(z, y, x)
		m := QuatFromRPY(a, b, c).Matrix()
		got := mat.NewDense(3, 3, nil)
		for i := range 3 {
			got.SetRow(i, m[i][:])
		}
		nearMat(t, "rpy", got, &want)
	}
}

func TestBadPosesAreRefused(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, tc := range []struct {
		name string
		pose Pose
		want error
	}{
		{"NaN position", Pose{r3.Vec{Y: nan}, IdentityQuat}, ErrNotFinite},
		{"infinite position", Pose{r3.Vec{X: inf, Y: -inf}, IdentityQuat}, ErrNotFinite},
		{"NaN rotation", Pose{Rot: Quat{W: nan}}, ErrNotFinite},
		{"infinite rotation", Pose{Rot: Quat{W: 1, X: inf}}, ErrNotFinite},
		{"zero rotation", Pose{}, ErrNotRotation},
	} {
		if _, err := tc.pose.Normalize(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
	skew := Identity.Mat4()
	skew[0][1] = 0.1
	mirror := Identity.Mat4()
	mirror[2][2] = -1
	last := Identity.Mat4()
	last[3][0] = 1
	for _, m := range [][4][4]float64{skew, mirror, last} {
		if _, err := PoseFromMat4(m); !errors.Is(err, ErrNotRotation) {
			t.Errorf("matrix %v: %v, want ErrNotRotation", m, err)
		}
	}
}

// Angles by definition: that of an axis and angle is the angle, that between two rotations is the one whose cosine the trace of
// their matrices' product gives.
func TestAngles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	for range 300 {
		want := r.Float64() * math.Pi
		q := QuatFromAxisAngle(randVec(r, 1), want)
		if math.Abs(q.Angle()-want) > tol || math.Abs(q.Neg().Angle()-want) > tol {
			t.Fatalf("angle %v and, of -q, %v; want %v", q.Angle(), q.Neg().Angle(), want)
		}
		a, b := randQuat(r), randQuat(r)
		ma, mb := a.Matrix(), b.Matrix()
		trace := 0.0
		for i := range 3 {
			for j := range 3 {
				trace += ma[i][j] * mb[i][j]
			}
		}
		if got, want := a.AngleTo(b), math.Acos(clamp((trace-1)/2)); math.Abs(got-want) > 1e-7 { // acos is that coarse near its ends
			t.Fatalf("angle between %v and %v: %v, want %v", a, b, got, want)
		}
	}
	d, rad := (Pose{r3.Vec{X: 1, Y: 1}, QuatFromAxisAngle(r3.Vec{Z: 1}, 0.3)}).Distance(Pose{r3.Vec{X: 4, Y: 5}, QuatFromAxisAngle(r3.Vec{Z: 1}, -0.4)})
	if math.Abs(d-5) > tol || math.Abs(rad-0.7) > tol {
		t.Errorf("distance %v m and %v rad, want 5 and 0.7", d, rad)
	}
}

func TestFinite(t *testing.T) {
	if !(Pose{r3.Vec{X: -1e9}, Quat{X: 3}}).Finite() {
		t.Error("finite numbers are called not finite")
	}
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for _, p := range []Pose{{r3.Vec{Y: bad}, IdentityQuat}, {r3.Vec{}, Quat{Z: bad, W: 1}}, {r3.Vec{X: bad, Z: -bad}, IdentityQuat}} {
			if p.Finite() {
				t.Errorf("%v is called finite", p)
			}
		}
	}
}

func TestSlerp(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 300 {
		a, b := randQuat(r), randQuat(r)
		nearQuat(t, "start", Slerp(a, b, 0), a)
		nearQuat(t, "end", Slerp(a, b, 1), b)
		s := r.Float64()
		if got, want := a.AngleTo(Slerp(a, b, s)), s*a.AngleTo(b); math.Abs(got-want) > 1e-11 {
			t.Fatalf("slerp %g turned by %g, want %g", s, got, want)
		}
		// Shoemake's formula, an independent one, away from the ends where it divides by small numbers.
		c := b
		if a.Dot(c) < 0 {
			c = c.Neg()
		}
		if th := math.Acos(a.Dot(c)); th > 0.1 {
			fa, fc := math.Sin((1-s)*th)/math.Sin(th), math.Sin(s*th)/math.Sin(th)
			nearQuat(t, "shoemake", Slerp(a, b, s),
				Quat{fa*a.X + fc*c.X, fa*a.Y + fc*c.Y, fa*a.Z + fc*c.Z, fa*a.W + fc*c.W})
		}
	}
	mid := Interpolate(Translation(r3.Vec{X: 1}), Pose{r3.Vec{X: 3}, QuatFromAxisAngle(r3.Vec{Z: 1}, 1)}, 0.5)
	nearPose(t, "interpolate", mid, Pose{r3.Vec{X: 2}, QuatFromAxisAngle(r3.Vec{Z: 1}, 0.5)})
}
