package frames

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"
)

// Rot6DRows is a rotation as the first two rows of its matrix: r00 r01 r02 r10 r11 r12. Networks of pinch use this one.
// Source: UMI's umi/common/pose_util.py and PyTorch3D.
type Rot6DRows [6]float64

// Rot6DColumns is a rotation as the first two columns of its matrix: r00 r10 r20 r01 r11 r21.
// Source: Zhou et al. 2019, "On the Continuity of Rotation Representations in Neural Networks", section 4.2.
type Rot6DColumns [6]float64

// Rot6DRows gives the first two rows of q's matrix.
func (q Quat) Rot6DRows() Rot6DRows {
	m := q.Matrix()
	return Rot6DRows{m[0][0], m[0][1], m[0][2], m[1][0], m[1][1], m[1][2]}
}

// Rot6DColumns gives the first two columns of q's matrix.
func (q Quat) Rot6DColumns() Rot6DColumns {
	m := q.Matrix()
	return Rot6DColumns{m[0][0], m[1][0], m[2][0], m[0][1], m[1][1], m[2][1]}
}

// Quat is the rotation whose first two rows come nearest to d by Gram-Schmidt: any six numbers will do unless the rows are
// zero or parallel (ErrNotRotation) or not finite (ErrNotFinite).
func (d Rot6DRows) Quat() (Quat, error) {
	a, b, c, err := gramSchmidt(d)
	if err != nil {
		return Quat{}, err
	}
	return QuatFromMatrix([3][3]float64{{a.X, a.Y, a.Z}, {b.X, b.Y, b.Z}, {c.X, c.Y, c.Z}})
}

// Quat is the rotation whose first two columns come nearest to d by Gram-Schmidt; errors as for Rot6DRows.
func (d Rot6DColumns) Quat() (Quat, error) {
	a, b, c, err := gramSchmidt(d)
	if err != nil {
		return Quat{}, err
	}
	return QuatFromMatrix([3][3]float64{{a.X, b.X, c.X}, {a.Y, b.Y, c.Y}, {a.Z, b.Z, c.Z}})
}

// Columns is the same rotation in Zhou's convention; errors as for Quat.
func (d Rot6DRows) Columns() (Rot6DColumns, error) {
	q, err := d.Quat()
	return q.Rot6DColumns(), err
}

// Rows is the same rotation in UMI's convention; errors as for Quat.
func (d Rot6DColumns) Rows() (Rot6DRows, error) {
	q, err := d.Quat()
	return q.Rot6DRows(), err
}

// gramSchmidt makes three orthonormal right-handed vectors of the first and second half of d.
func gramSchmidt(d [6]float64) (a, b, c r3.Vec, err error) {
	for _, v := range d {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return a, b, c, fmt.Errorf("rotation in six numbers %v: %w", d, ErrNotFinite)
		}
	}
	a = r3.Vec{X: d[0], Y: d[1], Z: d[2]}
	b = r3.Vec{X: d[3], Y: d[4], Z: d[5]}
	na, nb := r3.Norm(a), r3.Norm(b)
	if na < MinQuatNorm || nb < MinQuatNorm {
		return a, b, c, fmt.Errorf("rotation in six numbers %v has a zero half: %w", d, ErrNotRotation)
	}
	a = r3.Scale(1/na, a)
	b = r3.Scale(1/nb, b)
	b = r3.Sub(b, r3.Scale(r3.Dot(a, b), a))
	if nb = r3.Norm(b); nb < MinQuatNorm {
		return a, b, c, fmt.Errorf("rotation in six numbers %v has parallel halves: %w", d, ErrNotRotation)
	}
	b = r3.Scale(1/nb, b)
	return a, b, r3.Cross(a, b), nil
}
