package robotmodel

import (
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Vec is a vector in metres (or a direction, or an angular velocity).
type Vec = [3]float64

// Transform is a rigid motion: R is a rotation matrix in row-major order, P a translation in metres. The zero value is not a transform; use
// Identity.
type Transform struct {
	R [9]float64
	P Vec
}

// Identity returns the transform that changes nothing.
func Identity() Transform { return Transform{R: [9]float64{1, 0, 0, 0, 1, 0, 0, 0, 1}} }

// Mul composes: (aFromB).Mul(bFromC) = aFromC.
func (t Transform) Mul(u Transform) Transform {
	var o Transform
	for i := 0; i < 3; i++ {
		a, b, c := t.R[3*i], t.R[3*i+1], t.R[3*i+2]
		o.R[3*i] = a*u.R[0] + b*u.R[3] + c*u.R[6]
		o.R[3*i+1] = a*u.R[1] + b*u.R[4] + c*u.R[7]
		o.R[3*i+2] = a*u.R[2] + b*u.R[5] + c*u.R[8]
		o.P[i] = a*u.P[0] + b*u.P[1] + c*u.P[2] + t.P[i]
	}
	return o
}

// Inverse returns the inverse motion.
func (t Transform) Inverse() Transform {
	r := t.R
	o := Transform{R: [9]float64{r[0], r[3], r[6], r[1], r[4], r[7], r[2], r[5], r[8]}}
	o.P = o.Rotate(Vec{-t.P[0], -t.P[1], -t.P[2]})
	return o
}

// Apply maps a point.
func (t Transform) Apply(p Vec) Vec {
	v := t.Rotate(p)
	return Vec{v[0] + t.P[0], v[1] + t.P[1], v[2] + t.P[2]}
}

// Rotate maps a direction.
func (t Transform) Rotate(p Vec) Vec {
	return Vec{
		t.R[0]*p[0] + t.R[1]*p[1] + t.R[2]*p[2],
		t.R[3]*p[0] + t.R[4]*p[1] + t.R[5]*p[2],
		t.R[6]*p[0] + t.R[7]*p[1] + t.R[8]*p[2],
	}
}

// FromQuat builds a transform from a translation (m) and a unit quaternion x y z w, which is normalised first.
func FromQuat(p Vec, q [4]float64) Transform {
	n := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	x, y, z, w := q[0]/n, q[1]/n, q[2]/n, q[3]/n
	return Transform{P: p, R: [9]float64{
		1 - 2*(y*y+z*z), 2 * (x*y - z*w), 2 * (x*z + y*w),
		2 * (x*y + z*w), 1 - 2*(x*x+z*z), 2 * (y*z - x*w),
		2 * (x*z - y*w), 2 * (y*z + x*w), 1 - 2*(x*x+y*y),
	}}
}

// Quat returns the rotation as a unit quaternion x y z w with w >= 0.
func (t Transform) Quat() [4]float64 {
	r := t.R
	// The largest of the four squared components is at least 1/4, so the division is well conditioned.
	c := [4]float64{1 + r[0] - r[4] - r[8], 1 - r[0] + r[4] - r[8], 1 - r[0] - r[4] + r[8], 1 + r[0] + r[4] + r[8]}
	best := 3
	for i := 0; i < 3; i++ {
		if c[i] > c[best] {
			best = i
		}
	}
	var q [4]float64
	switch best {
	case 0:
		q = [4]float64{c[0], r[1] + r[3], r[2] + r[6], r[7] - r[5]}
	case 1:
		q = [4]float64{r[1] + r[3], c[1], r[5] + r[7], r[2] - r[6]}
	case 2:
		q = [4]float64{r[2] + r[6], r[5] + r[7], c[2], r[3] - r[1]}
	default:
		q = [4]float64{r[7] - r[5], r[2] - r[6], r[3] - r[1], c[3]}
	}
	n := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2] + q[3]*q[3])
	if q[3] < 0 {
		n = -n
	}
	for i := range q {
		q[i] /= n
	}
	return q
}

// Translation returns a pure translation in metres.
func Translation(x, y, z float64) Transform {
	t := Identity()
	t.P = Vec{x, y, z}
	return t
}

func axis(k int, a float64) Transform {
	s, c := math.Sincos(a)
	t := Identity()
	i, j := (k+1)%3, (k+2)%3
	t.R[3*i+i], t.R[3*i+j], t.R[3*j+i], t.R[3*j+j] = c, -s, s, c
	return t
}

// Sub returns a - b.
func Sub(a, b Vec) Vec { return Vec{a[0] - b[0], a[1] - b[1], a[2] - b[2]} }

// Dot returns the inner product.
func Dot(a, b Vec) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

// Cross returns the vector product.
func Cross(a, b Vec) Vec {
	return Vec{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

// Norm returns the Euclidean length.
func Norm(a Vec) float64 { return math.Sqrt(Dot(a, a)) }

// RotationError returns the rotation vector (rad, in the outer frame) that turns t's rotation into u's: log(Ru Rtᵀ), the shortest way.
func RotationError(t, u Transform) Vec {
	d := u.Mul(Transform{R: [9]float64{t.R[0], t.R[3], t.R[6], t.R[1], t.R[4], t.R[7], t.R[2], t.R[5], t.R[8]}})
	q := d.Quat()
	s := math.Sqrt(q[0]*q[0] + q[1]*q[1] + q[2]*q[2])
	k := 2.0
	if s > 1e-12 {
		k = 2 * math.Atan2(s, q[3]) / s
	}
	return Vec{k * q[0], k * q[1], k * q[2]}
}

// FromPose converts a pose of package frames.
func FromPose(p frames.Pose) Transform {
	return FromQuat(Vec{p.Pos.X, p.Pos.Y, p.Pos.Z}, [4]float64{p.Rot.X, p.Rot.Y, p.Rot.Z, p.Rot.W})
}

// Pose converts to a pose of package frames (unit quaternion, canonical sign).
func (t Transform) Pose() frames.Pose {
	q := t.Quat()
	return frames.Pose{Pos: r3.Vec{X: t.P[0], Y: t.P[1], Z: t.P[2]}, Rot: frames.Quat{X: q[0], Y: q[1], Z: q[2], W: q[3]}.Canonical()}
}
