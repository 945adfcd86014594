package sim

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// limits are the bounds of one movement.
type limits struct {
	speed float64 // m/s, horizontal
	up    float64 // m/s, vertical
	turn  float64 // rad/s
	gain  float64 // 1/s, how fast a small error shrinks
}

// The hand's accelerations, m/s^2 and rad/s^2.
const (
	handAccel = 1.2
	turnAccel = 6.0
)

// mover is a wanted hand pose that moves with limited speed and acceleration.
type mover struct {
	pose frames.Pose
	vel  r3Vec // m/s, cell frame
	spin r3Vec // rad/s, cell frame
}

// toward moves for dt toward a pose. disturb is added to the wanted velocity.
func (m *mover) toward(want frames.Pose, l limits, disturb r3Vec, dt float64) {
	gap := sub(want.Pos, m.pose.Pos)
	v := scale(l.gain, gap)
	flat := math.Hypot(v.X, v.Y)
	if flat > l.speed {
		v.X, v.Y = v.X*l.speed/flat, v.Y*l.speed/flat
	}
	v.Z = max(-l.up, min(l.up, v.Z))
	m.vel = add(m.vel, clip(sub(add(v, disturb), m.vel), handAccel*dt))
	m.pose.Pos = add(m.pose.Pos, scale(dt, m.vel))
	turn := want.Rot.Mul(m.pose.Rot.Inv()).Log()
	m.spin = add(m.spin, clip(sub(clip(scale(l.gain, turn), l.turn), m.spin), turnAccel*dt))
	m.pose.Rot = frames.ExpSO3(scale(dt, m.spin)).Mul(m.pose.Rot).Canonical()
}

// clip shortens a vector to a length.
func clip(v r3Vec, length float64) r3Vec {
	if n := r3.Norm(v); n > length {
		return scale(length/n, v)
	}
	return v
}

// approach moves x toward want by at most step.
func approach(x, want, step float64) float64 {
	return x + max(-step, min(step, want-x))
}

// sway is slow random unrest: three Ornstein-Uhlenbeck processes of unit variance.
type sway struct{ x r3Vec }

// swayTime is how long a sway lasts, s.
const swayTime = 0.5

func (s *sway) step(rng *rand.Rand, dt float64) {
	keep := math.Exp(-dt / swayTime)
	kick := math.Sqrt(1 - keep*keep)
	s.x = add(scale(keep, s.x), scale(kick, vec(rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64())))
}

func (s *sway) scaled(f float64) r3Vec { return scale(f, s.x) }
