package frames

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"
)

// ErrNotFinite is returned, wrapped with the name of the value, for a pose or stamp that holds NaN or an infinity.
var ErrNotFinite = errors.New("not finite")

// ErrNotRotation is returned, wrapped, for numbers that are no rotation: a zero quaternion, a matrix that is not orthonormal.
var ErrNotRotation = errors.New("not a rotation")

// Quat is a rotation as a unit quaternion (Hamilton convention, components x, y, z, w). q and -q are the same rotation.
// The zero value is no rotation; use IdentityQuat.
type Quat struct {
	X, Y, Z, W float64
}

// IdentityQuat is the rotation by zero.
var IdentityQuat = Quat{W: 1}

// QuatFromAxisAngle is the rotation by angle (rad) about axis (any length but zero), right-hand rule.
// A zero axis gives the identity.
func QuatFromAxisAngle(axis r3.Vec, angle float64) Quat {
	n := r3.Norm(axis)
	if n == 0 {
		return IdentityQuat
	}
	s, c := math.Sincos(angle / 2)
	return Quat{axis.X / n * s, axis.Y / n * s, axis.Z / n * s, c}.Canonical()
}

// QuatFromRPY is the rotation by roll about X, then pitch about Y, then yaw about Z, all fixed axes, in rad:
// R = Rz(yaw) Ry(pitch) Rx(roll), the convention of URDF's rpy attribute.
func QuatFromRPY(roll, pitch, yaw float64) Quat {
	x := QuatFromAxisAngle(r3.Vec{X: 1}, roll)
	y := QuatFromAxisAngle(r3.Vec{Y: 1}, pitch)
	z := QuatFromAxisAngle(r3.Vec{Z: 1}, yaw)
	return z.Mul(y).Mul(x).Canonical()
}

// Mul is the rotation q after o: (q o) v = q (o v).
func (q Quat) Mul(o Quat) Quat {
	return Quat{
		X: q.W*o.X + q.X*o.W + q.Y*o.Z - q.Z*o.Y,
		Y: q.W*o.Y - q.X*o.Z + q.Y*o.W + q.Z*o.X,
		Z: q.W*o.Z + q.X*o.Y - q.Y*o.X + q.Z*o.W,
		W: q.W*o.W - q.X*o.X - q.Y*o.Y - q.Z*o.Z,
	}
}

// Inv is the inverse rotation (the conjugate, as q has unit length).
func (q Quat) Inv() Quat { return Quat{-q.X, -q.Y, -q.Z, q.W} }

// Neg is the antipode: the same rotation with all signs turned.
func (q Quat) Neg() Quat { return Quat{-q.X, -q.Y, -q.Z, -q.W} }

// Rotate turns v (any unit) by q.
func (q Quat) Rotate(v r3.Vec) r3.Vec {
	// v + 2w (u x v) + 2 u x (u x v): 15 multiplications less than q v q*.
	u := r3.Vec{X: q.X, Y: q.Y, Z: q.Z}
	t := r3.Scale(2, r3.Cross(u, v))
	return r3.Add(r3.Add(v, r3.Scale(q.W, t)), r3.Cross(u, t))
}

// Dot is the inner product of the four components; |Dot| of unit quaternions is the cosine of half the angle between them.
func (q Quat) Dot(o Quat) float64 { return q.X*o.X + q.Y*o.Y + q.Z*o.Z + q.W*o.W }

// Norm is the length of the four components, 1 for a rotation.
func (q Quat) Norm() float64 { return math.Sqrt(q.Dot(q)) }

// MinQuatNorm is the shortest quaternion that Normalize still takes for a rotation; the UMI Arena replay metric uses the
// same limit.
const MinQuatNorm = 1e-8

// Normalize scales q to unit length and gives it the canonical sign. The error wraps ErrNotFinite or ErrNotRotation.
func (q Quat) Normalize() (Quat, error) {
	n := q.Norm()
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return Quat{}, fmt.Errorf("quaternion (%v, %v, %v, %v): %w", q.X, q.Y, q.Z, q.W, ErrNotFinite)
	}
	if n < MinQuatNorm {
		return Quat{}, fmt.Errorf("quaternion (%v, %v, %v, %v) of length %.3g: %w", q.X, q.Y, q.Z, q.W, n, ErrNotRotation)
	}
	return q.scale(1 / n).Canonical(), nil
}

// Canonical picks, of q and -q, the one whose first non-zero component in the order w, x, y, z is positive.
func (q Quat) Canonical() Quat {
	for _, c := range [4]float64{q.W, q.X, q.Y, q.Z} {
		if c > 0 {
			return q
		}
		if c < 0 {
			return q.Neg()
		}
	}
	return q
}

// Angle is the rotation angle of q in [0, pi].
func (q Quat) Angle() float64 {
	return 2 * math.Atan2(math.Sqrt(q.X*q.X+q.Y*q.Y+q.Z*q.Z), math.Abs(q.W))
}

// AngleTo is the angle (rad, [0, pi]) of the rotation that leads from q to o.
func (q Quat) AngleTo(o Quat) float64 { return q.Inv().Mul(o).Angle() }

// Matrix is q as a rotation matrix, rows first: v' = M v.
func (q Quat) Matrix() [3][3]float64 {
	x, y, z, w := q.X, q.Y, q.Z, q.W
	return [3][3]float64{
		{1 - 2*(y*y+z*z), 2 * (x*y - z*w), 2 * (x*z + y*w)},
		{2 * (x*y + z*w), 1 - 2*(x*x+z*z), 2 * (y*z - x*w)},
		{2 * (x*z - y*w), 2 * (y*z + x*w), 1 - 2*(x*x+y*y)},
	}
}

// orthoTolerance is how far M M^T may be from the identity, per element, before a matrix is refused: float32 matrices of
// other programs are good to about 1e-6.
const orthoTolerance = 1e-5

// QuatFromMatrix is the rotation of matrix m (rows first). The error wraps ErrNotFinite or ErrNotRotation (not orthonormal,
// or a mirror).
func QuatFromMatrix(m [3][3]float64) (Quat, error) {
	if err := checkOrthonormal(m); err != nil {
		return Quat{}, err
	}
	// Of the four squared components take the largest as pivot, so that no small number is divided by (Shepperd 1978).
	pivots := [4]float64{
		1 + m[0][0] - m[1][1] - m[2][2], // 4 x^2
		1 - m[0][0] + m[1][1] - m[2][2], // 4 y^2
		1 - m[0][0] - m[1][1] + m[2][2], // 4 z^2
		1 + m[0][0] + m[1][1] + m[2][2], // 4 w^2
	}
	best := 0
	for i, p := range pivots {
		if p > pivots[best] {
			best = i
		}
	}
	p := pivots[best]
	var q Quat
	switch best {
	case 0:
		q = Quat{p, m[1][0] + m[0][1], m[2][0] + m[0][2], m[2][1] - m[1][2]}
	case 1:
		q = Quat{m[1][0] + m[0][1], p, m[2][1] + m[1][2], m[0][2] - m[2][0]}
	case 2:
		q = Quat{m[2][0] + m[0][2], m[2][1] + m[1][2], p, m[1][0] - m[0][1]}
	default:
		q = Quat{m[2][1] - m[1][2], m[0][2] - m[2][0], m[1][0] - m[0][1], p}
	}
	return q.Normalize()
}

func checkOrthonormal(m [3][3]float64) error {
	for i := range 3 {
		for j := range 3 {
			var dot, want float64
			for k := range 3 {
				dot += m[i][k] * m[j][k]
			}
			if i == j {
				want = 1
			}
			if math.IsNaN(dot) || math.IsInf(dot, 0) {
				return fmt.Errorf("rotation matrix row %d: %w", i, ErrNotFinite)
			}
			if math.Abs(dot-want) > orthoTolerance {
				return fmt.Errorf("matrix rows %d and %d have inner product %.6g instead of %g: %w", i, j, dot, want, ErrNotRotation)
			}
		}
	}
	det := m[0][0]*(m[1][1]*m[2][2]-m[1][2]*m[2][1]) - m[0][1]*(m[1][0]*m[2][2]-m[1][2]*m[2][0]) +
		m[0][2]*(m[1][0]*m[2][1]-m[1][1]*m[2][0])
	if det < 0 {
		return fmt.Errorf("matrix mirrors (determinant %.3g): %w", det, ErrNotRotation)
	}
	return nil
}

// Slerp is the rotation on the shorter great arc from a (t = 0) to b (t = 1), at constant angular speed. t outside [0, 1]
// goes on along the arc.
func Slerp(a, b Quat, t float64) Quat {
	step := a.Inv().Mul(b).Canonical().Log()
	return a.Mul(ExpSO3(r3.Scale(t, step))).unit()
}

func (q Quat) scale(f float64) Quat { return Quat{q.X * f, q.Y * f, q.Z * f, q.W * f} }

// unit takes the rounding of a product of unit quaternions out and gives the canonical sign.
func (q Quat) unit() Quat { return q.scale(1 / q.Norm()).Canonical() }

func (q Quat) finite() bool {
	s := q.X + q.Y + q.Z + q.W
	return !math.IsNaN(s) && !math.IsInf(s, 0)
}
