package frames

import (
	"math"

	"gonum.org/v1/gonum/spatial/r3"
)

// Twist is the logarithm of a pose: Linear (m) and Angular (rad, axis times angle), both in the axes of the moving body.
type Twist struct {
	Linear, Angular r3.Vec
}

// Scale multiplies both parts by f.
func (t Twist) Scale(f float64) Twist { return Twist{r3.Scale(f, t.Linear), r3.Scale(f, t.Angular)} }

// smallAngle is where the quotients below go over to their series; the first dropped term is of order 1e-20.
const smallAngle = 1e-5

// ExpSO3 is the rotation by |w| rad about w.
func ExpSO3(w r3.Vec) Quat {
	half := r3.Norm(w) / 2
	f := 0.5 - half*half/12 // sin(half) / (2 half)
	if half > smallAngle {
		f = math.Sin(half) / (2 * half)
	}
	return Quat{w.X * f, w.Y * f, w.Z * f, math.Cos(half)}.unit()
}

// Log is the rotation vector (rad) of q on the shorter way round: |Log| <= pi.
func (q Quat) Log() r3.Vec {
	q = q.Canonical()
	v := r3.Vec{X: q.X, Y: q.Y, Z: q.Z}
	n := r3.Norm(v)
	if n < smallAngle {
		return r3.Scale(2/q.W*(1-n*n/(3*q.W*q.W)), v)
	}
	return r3.Scale(2*math.Atan2(n, q.W)/n, v)
}

// Exp is the pose reached after moving one unit of time with the constant body twist t.
func (t Twist) Exp() Pose {
	w := t.Angular
	theta := r3.Norm(w)
	b, c := 0.5-theta*theta/24, 1.0/6-theta*theta/120
	if theta > smallAngle {
		s := math.Sin(theta / 2)
		b, c = 2*s*s/(theta*theta), (theta-math.Sin(theta))/(theta*theta*theta)
	}
	// V = I + b [w]x + c [w]x^2, the left Jacobian of SO(3).
	wv := r3.Cross(w, t.Linear)
	pos := r3.Add(t.Linear, r3.Add(r3.Scale(b, wv), r3.Scale(c, r3.Cross(w, wv))))
	return Pose{pos, ExpSO3(w)}
}

// Log is the constant body twist that reaches p in one unit of time, on the shorter way round.
func (p Pose) Log() Twist {
	w := p.Rot.Log()
	theta := r3.Norm(w)
	c := 1.0/12 + theta*theta/720
	if theta > smallAngle {
		h := theta / 2
		c = (1 - h*math.Cos(h)/math.Sin(h)) / (theta * theta)
	}
	// V^-1 = I - [w]x / 2 + c [w]x^2.
	wp := r3.Cross(w, p.Pos)
	return Twist{r3.Add(p.Pos, r3.Add(r3.Scale(-0.5, wp), r3.Scale(c, r3.Cross(w, wp)))), w}
}
