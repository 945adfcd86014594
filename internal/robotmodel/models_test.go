package robotmodel

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// Flange positions at joint angles zero as the vendors state them: UR5e from the standard table, xArm from the home poses in the manuals
// (mm, tool pointing down).
func TestZeroPosesOfUnivRobotsAndXArm(t *testing.T) {
	ur, x6, x7 := UR("ur5e"), XArm6(), XArm7()
	for _, c := range []struct {
		arm *Arm
		p   Vec
		z   Vec
		tol float64
	}{
		{&ur, Vec{-0.8172, -0.2329, 0.0628}, Vec{0, -1, 0}, 1e-9},
		{&x6, Vec{0.207, 0, 0.112}, Vec{0, 0, -1}, 2e-7},
		{&x7, Vec{0.206, 0, 0.1205}, Vec{0, 0, -1}, 1e-9},
	} {
		chain := c.arm.Forward(Joints{})
		f := chain.Flange()
		z := Vec{f.R[2], f.R[5], f.R[8]}
		if d := Norm(Sub(f.P, c.p)); d > c.tol {
			t.Errorf("%s: flange at zero is %v, want %v", c.arm.Name, f.P, c.p)
		}
		if d := Norm(Sub(z, c.z)); d > 1e-9 {
			t.Errorf("%s: flange z at zero is %v, want %v", c.arm.Name, z, c.z)
		}
	}
}

// standardStep is one row of a standard Denavit-Hartenberg table: Rz(theta) Tz(d) Tx(a) Rx(alpha), the vendor's own convention.
func standardStep(theta, d, a, alpha float64) Transform {
	return axis(2, theta).Mul(Translation(0, 0, d)).Mul(Translation(a, 0, 0)).Mul(axis(0, alpha))
}

// The modified tables give the same flange as the vendors' standard tables, for any joints.
func TestModifiedTablesEqualStandardTables(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	alpha := [6]float64{math.Pi / 2, 0, 0, math.Pi / 2, -math.Pi / 2, 0}
	compare := func(arm Arm, d, a, al, off [6]float64) {
		for i := 0; i < 50; i++ {
			q := randomJoints(rng, &arm.Limits)
			want := Identity()
			for j := range d {
				want = want.Mul(standardStep(q[j]+off[j], d[j], a[j], al[j]))
			}
			c := arm.Forward(q)
			if e := Norm(Sub(c[7].P, want.P)) + Norm(RotationError(c[7], want)); e > 1e-9 {
				t.Fatalf("%s at %v: %v, standard table %v", arm.Name, q, c[7], want)
			}
		}
	}
	for name, s := range urSizes {
		compare(UR(name), [6]float64{s.d1, 0, 0, s.d4, s.d5, s.d6}, [6]float64{0, s.a2, s.a3}, alpha, [6]float64{})
	}
	tilt := math.Atan(284.5 / 53.5)
	compare(XArm6(), [6]float64{.267, 0, 0, .3425, 0, .097}, [6]float64{0, math.Hypot(.2845, .0535), .0775, 0, .076, 0},
		[6]float64{-math.Pi / 2, 0, -math.Pi / 2, math.Pi / 2, -math.Pi / 2, 0}, [6]float64{1: -tilt, 2: tilt})
}

// A joint that an arm lacks moves nothing and has no column; the others match finite differences.
func TestSixJointJacobian(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	const h = 1e-6
	for _, arm := range models() {
		for trial := 0; trial < 20; trial++ {
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
					lin, ang := (cp[7].P[k]-cm[7].P[k])/(2*h), w[k]/(2*h)
					if math.Abs(lin-jac[k][i]) > 1e-8 || math.Abs(ang-jac[k+3][i]) > 1e-8 {
						t.Fatalf("%s joint %d row %d: %v %v, finite differences %v %v", arm.Name, i+1, k, jac[k][i], jac[k+3][i], lin, ang)
					}
				}
				for k := range jac {
					if i >= arm.Joints() && jac[k][i] != 0 {
						t.Fatalf("%s: column of joint %d, which it lacks, is not zero", arm.Name, i+1)
					}
				}
			}
		}
	}
}

// Every rest posture is inside the limits with room, reaches forward, has the tool pointing down and moves in all directions.
func TestRestPostures(t *testing.T) {
	for _, arm := range models() {
		if j, ok := arm.Limits.Contains(arm.Rest, 0.05); !ok {
			t.Errorf("%s: rest posture has joint %d at its end", arm.Name, j+1)
		}
		c := arm.Forward(arm.Rest)
		f := c.Flange()
		if f.P[0] < 0.2 || f.P[2] < 0.2 || f.R[8] > -0.999 {
			t.Errorf("%s: rest flange is at %v, z axis %v", arm.Name, f.P, f.R[8])
		}
		jac := c.JacobianAt(f.P, 7)
		if d := gramDeterminant(jac); d < 1e-6 {
			t.Errorf("%s: rest posture is singular, det(JJᵀ) = %g", arm.Name, d)
		}
	}
}

// gramDeterminant is det(J Jᵀ) by elimination.
func gramDeterminant(j Jacobian) float64 {
	var a [6][6]float64
	for r := range a {
		for c := range a {
			for k := 0; k < 7; k++ {
				a[r][c] += j[r][k] * j[c][k]
			}
		}
	}
	det := 1.0
	for i := range a {
		p := i
		for r := i + 1; r < 6; r++ {
			if math.Abs(a[r][i]) > math.Abs(a[p][i]) {
				p = r
			}
		}
		if p != i {
			a[p], a[i] = a[i], a[p]
			det = -det
		}
		if a[i][i] == 0 {
			return 0
		}
		det *= a[i][i]
		for r := i + 1; r < 6; r++ {
			f := a[r][i] / a[i][i]
			for c := i; c < 6; c++ {
				a[r][c] -= f * a[i][c]
			}
		}
	}
	return det
}

func TestUnknownModelNamesTheKnownOnes(t *testing.T) {
	_, err := ByName("ur99")
	if err == nil || !strings.Contains(err.Error(), "fr3") || !strings.Contains(err.Error(), "ur5e") || !strings.Contains(err.Error(), "xarm7") {
		t.Errorf("error %v", err)
	}
}
