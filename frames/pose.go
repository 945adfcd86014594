package frames

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"
)

// Pose is parent-from-child: a point p of the child frame is Apply(p) in the parent frame.
// Pos is the child's origin in the parent (m), Rot turns child axes into parent axes (unit quaternion).
// The zero value is no pose; use Identity.
type Pose struct {
	Pos r3.Vec
	Rot Quat
}

// Identity is the pose of a frame in itself.
var Identity = Pose{Rot: IdentityQuat}

// NewPose makes a pose from a position (m) and a quaternion of any length but zero; it normalises and checks.
func NewPose(pos r3.Vec, rot Quat) (Pose, error) {
	return Pose{pos, rot}.Normalize()
}

// Translation is the pose of a frame that is moved by v (m) and not turned.
func Translation(v r3.Vec) Pose { return Pose{v, IdentityQuat} }

// Mul composes: aFromC = aFromB.Mul(bFromC). The result has unit length and canonical sign.
func (p Pose) Mul(o Pose) Pose {
	return Pose{r3.Add(p.Pos, p.Rot.Rotate(o.Pos)), p.Rot.Mul(o.Rot).unit()}
}

// Inv turns parent-from-child into child-from-parent.
func (p Pose) Inv() Pose {
	inv := p.Rot.Inv()
	return Pose{r3.Scale(-1, inv.Rotate(p.Pos)), inv.unit()}
}

// Apply maps a point of the child frame (m) into the parent frame.
func (p Pose) Apply(point r3.Vec) r3.Vec { return r3.Add(p.Pos, p.Rot.Rotate(point)) }

// Normalize gives the quaternion unit length and canonical sign. The error wraps ErrNotFinite or ErrNotRotation and
// prints the numbers; callers add the record's name.
func (p Pose) Normalize() (Pose, error) {
	if s := p.Pos.X + p.Pos.Y + p.Pos.Z; math.IsNaN(s) || math.IsInf(s, 0) {
		return Pose{}, fmt.Errorf("position (%v, %v, %v): %w", p.Pos.X, p.Pos.Y, p.Pos.Z, ErrNotFinite)
	}
	rot, err := p.Rot.Normalize()
	if err != nil {
		return Pose{}, err
	}
	return Pose{p.Pos, rot}, nil
}

// Finite tells whether all seven numbers are finite.
func (p Pose) Finite() bool {
	s := p.Pos.X + p.Pos.Y + p.Pos.Z
	return !math.IsNaN(s) && !math.IsInf(s, 0) && p.Rot.finite()
}

// Distance is how far apart two poses of one parent are: metres between the origins and radians between the axes.
func (p Pose) Distance(o Pose) (metres, radians float64) {
	return r3.Norm(r3.Sub(o.Pos, p.Pos)), p.Rot.AngleTo(o.Rot)
}

// ArrayXYZXYZW is the pose as seven numbers x y z (m) qx qy qz qw, the order of every pose column of a dataset and of the
// wire. The quaternion has the canonical sign.
func (p Pose) ArrayXYZXYZW() [7]float64 {
	q := p.Rot.Canonical()
	return [7]float64{p.Pos.X, p.Pos.Y, p.Pos.Z, q.X, q.Y, q.Z, q.W}
}

// PoseFromXYZXYZW reads seven numbers x y z (m) qx qy qz qw (any length but zero). The error wraps ErrNotFinite or
// ErrNotRotation.
func PoseFromXYZXYZW(a [7]float64) (Pose, error) {
	return NewPose(r3.Vec{X: a[0], Y: a[1], Z: a[2]}, Quat{a[3], a[4], a[5], a[6]})
}

// Mat4 is the pose as a homogeneous matrix, rows first.
func (p Pose) Mat4() [4][4]float64 {
	r := p.Rot.Matrix()
	return [4][4]float64{
		{r[0][0], r[0][1], r[0][2], p.Pos.X},
		{r[1][0], r[1][1], r[1][2], p.Pos.Y},
		{r[2][0], r[2][1], r[2][2], p.Pos.Z},
		{0, 0, 0, 1},
	}
}

// PoseFromMat4 reads a homogeneous matrix, rows first. The error wraps ErrNotFinite or ErrNotRotation (also for a last row
// other than 0 0 0 1).
func PoseFromMat4(m [4][4]float64) (Pose, error) {
	if m[3] != [4]float64{0, 0, 0, 1} {
		return Pose{}, fmt.Errorf("last matrix row %v is not 0 0 0 1: %w", m[3], ErrNotRotation)
	}
	var r [3][3]float64
	for i := range 3 {
		copy(r[i][:], m[i][:3])
	}
	rot, err := QuatFromMatrix(r)
	if err != nil {
		return Pose{}, err
	}
	return NewPose(r3.Vec{X: m[0][3], Y: m[1][3], Z: m[2][3]}, rot)
}

// Interpolate goes from a (t = 0) to b (t = 1): the origin on the straight line, the axes on the shorter arc.
func Interpolate(a, b Pose, t float64) Pose {
	return Pose{r3.Add(a.Pos, r3.Scale(t, r3.Sub(b.Pos, a.Pos))), Slerp(a.Rot, b.Rot, t)}
}

// InterpolateScrew goes from a to b with a constant body twist, so the origin runs on a screw line.
func InterpolateScrew(a, b Pose, t float64) Pose {
	return a.Mul(a.Inv().Mul(b).Log().Scale(t).Exp())
}
