package deploy

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// hands is where both hands are and how far their fingers are open.
type hands struct {
	pose   [2]frames.Pose // cellFromHandRoot
	finger [2]float64     // rad
}

// absolute integrates a chunk from the base poses: poses[k] is where the hands are after row k. The deltas are true per-row motions, so each
// starts from the row before; quaternions come un-normalised from networks and are normalised here.
func absolute(c Chunk, base [2]frames.Pose, ref Reference) ([]hands, error) {
	out := make([]hands, c.Rows)
	at := base
	for k := range out {
		for h := range at {
			var a [7]float64
			for i := range a {
				a[i] = float64(c.At(k, 7*h+i))
			}
			step, err := frames.PoseFromXYZXYZW(a)
			if err != nil {
				return nil, fmt.Errorf("actions row %d, %s hand: %w", k, Hands[h], err)
			}
			if ref == ReferenceWorld {
				at[h] = frames.Pose{Pos: r3.Add(at[h].Pos, step.Pos), Rot: frames.Pose{Rot: at[h].Rot}.Mul(frames.Pose{Rot: step.Rot}).Rot}
			} else {
				at[h] = at[h].Mul(step)
			}
			out[k].pose[h] = at[h]
			out[k].finger[h] = float64(c.At(k, 14+h))
		}
	}
	return out, nil
}

// impliedSpeed is the largest speed (m/s) and rate (rad/s) that rows at rateHz ask for, and the row that does. Incoherent answers (wrong
// image composition, wrong normalisation) show here before anything moves.
func impliedSpeed(c Chunk, rateHz float64) (speed, rate float64, at int) {
	worst := 0.0
	for k := 0; k < c.Rows; k++ {
		for h := 0; h < 2; h++ {
			o := 7 * h
			v := rateHz * length(float64(c.At(k, o)), float64(c.At(k, o+1)), float64(c.At(k, o+2)))
			q := frames.Quat{X: float64(c.At(k, o+3)), Y: float64(c.At(k, o+4)), Z: float64(c.At(k, o+5)), W: float64(c.At(k, o+6))}
			w := rateHz * q.Angle() // Angle uses a ratio, so the length does not matter
			speed, rate = math.Max(speed, v), math.Max(rate, w)
			if m := v + 0.2*w; m > worst {
				worst, at = m, k
			}
		}
	}
	return speed, rate, at
}

// curve is a smooth motion of both hands through poses at strictly increasing times (s of policy time). Positions and rotations go
// through quintic pieces whose end velocities and accelerations come from the parabola through each knot and its neighbours; rotations do so in
// the tangent space of each piece's first knot, on the shorter arc. Fingers go linearly between their own times.
type curve struct {
	t    []float64
	pose [2][]frames.Pose

	fingerT []float64
	finger  [2][]float64
}

// newCurve puts base at time baseT in front of the rows. poseT and fingerT are the times of row 0 of poses and fingers, step the row period.
func newCurve(base [2]frames.Pose, baseT float64, rows []hands, poseT, fingerT, step float64) *curve {
	c := &curve{}
	add := func(t float64, p [2]frames.Pose) {
		c.t = append(c.t, t)
		for h := range p {
			c.pose[h] = append(c.pose[h], p[h])
		}
	}
	add(baseT, base)
	for k, r := range rows {
		add(poseT+float64(k)*step, r.pose)
		c.fingerT = append(c.fingerT, fingerT+float64(k)*step)
		for h := range r.finger {
			c.finger[h] = append(c.finger[h], r.finger[h])
		}
	}
	return c
}

// until is the curve up to its last knot at or before t.
func (c *curve) until(t float64) *curve {
	n := segment(append(c.t, math.Inf(1)), t+1e-9) + 1
	out := &curve{t: c.t[:n], fingerT: c.fingerT, finger: c.finger}
	for h := range c.pose {
		out.pose[h] = c.pose[h][:n]
	}
	return out
}

func (c *curve) end() float64 { return c.t[len(c.t)-1] }

// at gives the hands at policy time t; before the first and after the last knot they stand.
func (c *curve) at(t float64) (o hands) {
	for h := range o.pose {
		o.pose[h] = c.poseAt(h, t)
		o.finger[h] = linear(c.fingerT, c.finger[h], t)
	}
	return o
}

func (c *curve) poseAt(h int, t float64) frames.Pose {
	p, last := c.pose[h], len(c.t)-1
	if t <= c.t[0] {
		return p[0]
	}
	if t >= c.t[last] {
		return p[last]
	}
	i := segment(c.t, t)
	dt := c.t[i+1] - c.t[i]
	s := (t - c.t[i]) / dt
	v0, a0 := c.motionAt(h, i)
	v1, a1 := c.motionAt(h, i+1)
	pos := hermite(p[i].Pos, v0.Linear, a0.Linear, p[i+1].Pos, v1.Linear, a1.Linear, dt, s)
	// Rotation vector from knot i: it starts at zero and ends at log; the angular velocity of the end knot is turned into its rate.
	log := p[i].Rot.Inv().Mul(p[i+1].Rot).Log()
	phi := hermite(r3.Vec{}, v0.Angular, a0.Angular, log, rotvecRate(log, v1.Angular), a1.Angular, dt, s)
	return frames.Pose{Pos: pos, Rot: p[i].Rot.Mul(frames.ExpSO3(phi))}
}

// motionAt estimates velocity and acceleration at knot i: linear in the cell frame, angular in the axes of the knot.
func (c *curve) motionAt(h, i int) (v, a frames.Twist) {
	p, last := c.pose[h], len(c.t)-1
	if i == 0 || i == last {
		// The ends stand for what comes before and after: one-sided velocity, no acceleration.
		j, k := max(i-1, 0), min(i+1, last)
		dt := c.t[k] - c.t[j]
		v.Linear = r3.Scale(1/dt, r3.Sub(p[k].Pos, p[j].Pos))
		v.Angular = r3.Scale(1/dt, p[j].Rot.Inv().Mul(p[k].Rot).Log())
		return v, a
	}
	h0, h1 := c.t[i]-c.t[i-1], c.t[i+1]-c.t[i]
	mix := func(d0, d1 r3.Vec) (r3.Vec, r3.Vec) {
		return r3.Scale(1/(h0+h1), r3.Add(r3.Scale(h1, d0), r3.Scale(h0, d1))), r3.Scale(2/(h0+h1), r3.Sub(d1, d0))
	}
	v.Linear, a.Linear = mix(r3.Scale(1/h0, r3.Sub(p[i].Pos, p[i-1].Pos)), r3.Scale(1/h1, r3.Sub(p[i+1].Pos, p[i].Pos)))
	back := r3.Scale(-1, p[i].Rot.Inv().Mul(p[i-1].Rot).Log()) // in the axes of knot i
	v.Angular, a.Angular = mix(r3.Scale(1/h0, back), r3.Scale(1/h1, p[i].Rot.Inv().Mul(p[i+1].Rot).Log()))
	return v, a
}

// rotvecRate is the rate of a rotation vector phi whose rotation turns with body angular velocity w: the inverse right Jacobian of SO(3).
func rotvecRate(phi, w r3.Vec) r3.Vec {
	theta := r3.Norm(phi)
	k := 1.0/12 + theta*theta/720
	if theta > 1e-4 {
		k = (1 - theta/2*math.Cos(theta/2)/math.Sin(theta/2)) / (theta * theta)
	}
	x := r3.Cross(phi, w)
	return r3.Add(w, r3.Add(r3.Scale(0.5, x), r3.Scale(k, r3.Cross(phi, x))))
}

// hermite is the quintic with position, velocity and acceleration given at both ends of a piece of dt seconds, at s in 0..1.
func hermite(p0, v0, a0, p1, v1, a1 r3.Vec, dt, s float64) r3.Vec {
	d := r3.Sub(p1, r3.Add(p0, r3.Add(r3.Scale(dt, v0), r3.Scale(dt*dt/2, a0))))
	dv := r3.Scale(dt, r3.Sub(v1, r3.Add(v0, r3.Scale(dt, a0))))
	da := r3.Scale(dt*dt, r3.Sub(a1, a0))
	c3 := r3.Add(r3.Scale(10, d), r3.Add(r3.Scale(-4, dv), r3.Scale(0.5, da)))
	c4 := r3.Add(r3.Scale(-15, d), r3.Add(r3.Scale(7, dv), r3.Scale(-1, da)))
	c5 := r3.Add(r3.Scale(6, d), r3.Add(r3.Scale(-3, dv), r3.Scale(0.5, da)))
	out := r3.Add(p0, r3.Add(r3.Scale(s*dt, v0), r3.Scale(s*s*dt*dt/2, a0)))
	return r3.Add(out, r3.Scale(s*s*s, r3.Add(c3, r3.Add(r3.Scale(s, c4), r3.Scale(s*s, c5)))))
}

// segment is the index i with t[i] <= x < t[i+1], for x inside.
func segment(t []float64, x float64) int {
	lo, hi := 0, len(t)-1
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; t[mid] <= x {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

func linear(t, v []float64, x float64) float64 {
	last := len(t) - 1
	if x <= t[0] {
		return v[0]
	}
	if x >= t[last] {
		return v[last]
	}
	i := segment(t, x)
	f := (x - t[i]) / (t[i+1] - t[i])
	return v[i] + f*(v[i+1]-v[i])
}
