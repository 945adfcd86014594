package robotmodel

import "math"

// Chain is every link frame of an arm at one joint vector: Chain[i] = baseFromLink(i+1) for i < 7, Chain[7] = baseFromFlange.
type Chain [8]Transform

// Flange returns baseFromFlange.
func (c *Chain) Flange() Transform { return c[7] }

// Forward computes all link frames at q. Source: Franka robot specifications, DH parameters (Craig).
func (a *Arm) Forward(q Joints) Chain {
	var c Chain
	t := Identity()
	for i, d := range a.Table {
		if i >= a.Joints() {
			c[i] = Transform{P: t.P}
			continue
		}
		t = t.Mul(dhStep(d, q[i]+a.Offset[i]))
		c[i] = t
	}
	c[7] = t.Mul(Translation(0, 0, a.FlangeD))
	return c
}

// dhStep is Rx(alpha) Tx(a) Rz(theta) Tz(d), multiplied out.
func dhStep(d DH, theta float64) Transform {
	st, ct := math.Sincos(theta)
	sa, ca := math.Sincos(d.Alpha)
	return Transform{
		R: [9]float64{ct, -st, 0, st * ca, ct * ca, -sa, st * sa, ct * sa, ca},
		P: Vec{d.A, -d.D * sa, d.D * ca},
	}
}

// Jacobian is the geometric Jacobian in the base frame: rows 0-2 the linear velocity of a point (m/s), rows 3-5 the angular velocity
// (rad/s), one column per joint (rad/s).
type Jacobian [6][7]float64

// JacobianAt returns the Jacobian of the point p (base frame, m) that moves with the link of joint last (1..7; 7 for flange and tool).
// Columns of joints beyond it are zero.
func (c *Chain) JacobianAt(p Vec, last int) Jacobian {
	var j Jacobian
	for i := 0; i < last; i++ {
		z := Vec{c[i].R[2], c[i].R[5], c[i].R[8]}
		v := Cross(z, Sub(p, c[i].P))
		for k := 0; k < 3; k++ {
			j[k][i] = v[k]
			j[k+3][i] = z[k]
		}
	}
	return j
}
