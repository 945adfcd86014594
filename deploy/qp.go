package deploy

import "math"

const dof = 14 // both arms

// row is the half-space a·x <= b.
type row struct {
	a [dof]float64
	b float64
}

// blocks is a symmetric matrix of two 7 x 7 blocks.
type blocks [2][7][7]float64

func (m *blocks) mul(v *[dof]float64) (x [dof]float64) {
	for h := range m {
		for i := range m[h] {
			for j := range m[h][i] {
				x[7*h+i] += m[h][i][j] * v[7*h+j]
			}
		}
	}
	return x
}

func dot(a, b *[dof]float64) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

const (
	qpSweeps    = 300
	qpTolerance = 1e-10 // rad
)

// boxQP minimises ½ xᵀ H x - gᵀ x over lo <= x <= hi and the rows, H given by its inverse. It solves the dual by coordinate ascent
// (Hildreth 1957), which needs no feasible start and can stop at any sweep. The result is clamped to the box, so it is always inside that;
// rows that can not all hold are met as well as the sweeps allow, and the caller checks.
func boxQP(inv *blocks, g, lo, hi *[dof]float64, rows []row) [dof]float64 {
	x := inv.mul(g)
	if feasible(&x, lo, hi, rows) {
		return x
	}
	var box [dof]float64 // multiplier of each coordinate's box: positive at hi, negative at lo
	lambda := make([]float64, len(rows))
	y := make([][dof]float64, len(rows))
	s := make([]float64, len(rows))
	for k := range rows {
		y[k] = inv.mul(&rows[k].a)
		s[k] = dot(&rows[k].a, &y[k])
	}
	for sweep := 0; sweep < qpSweeps; sweep++ {
		change := 0.0
		for i := range x {
			h, c := i/7, i%7
			d := inv[h][c][c]
			free := x[i] + box[i]*d // where the coordinate would be without its own box
			want := 0.0
			if free > hi[i] {
				want = (free - hi[i]) / d
			} else if free < lo[i] {
				want = (free - lo[i]) / d
			}
			if step := want - box[i]; step != 0 {
				box[i] = want
				for j := 0; j < 7; j++ {
					x[7*h+j] -= step * inv[h][j][c]
				}
				change = math.Max(change, math.Abs(step)*d)
			}
		}
		for k := range rows {
			if s[k] < 1e-12 {
				continue
			}
			step := math.Max(-lambda[k], (dot(&rows[k].a, &x)-rows[k].b)/s[k])
			if step != 0 {
				lambda[k] += step
				for i := range x {
					x[i] -= step * y[k][i]
				}
				change = math.Max(change, math.Abs(step)*s[k])
			}
		}
		if change < qpTolerance {
			break
		}
	}
	for i := range x {
		x[i] = math.Min(math.Max(x[i], lo[i]), hi[i])
	}
	return x
}

func feasible(x, lo, hi *[dof]float64, rows []row) bool {
	for i := range x {
		if x[i] < lo[i] || x[i] > hi[i] {
			return false
		}
	}
	for k := range rows {
		if dot(&rows[k].a, x) > rows[k].b {
			return false
		}
	}
	return true
}

// solve7 solves a x = b for a symmetric positive definite a by Cholesky.
func solve7(a *[7][7]float64, b, x []float64) {
	var l [7][7]float64
	for i := 0; i < 7; i++ {
		s := b[i]
		for j := 0; j < i; j++ {
			v := a[i][j]
			for k := 0; k < j; k++ {
				v -= l[i][k] * l[j][k]
			}
			l[i][j] = v / l[j][j]
			s -= l[i][j] * x[j]
		}
		v := a[i][i]
		for k := 0; k < i; k++ {
			v -= l[i][k] * l[i][k]
		}
		l[i][i] = math.Sqrt(math.Max(v, 1e-18))
		x[i] = s / l[i][i]
	}
	for i := 6; i >= 0; i-- {
		for k := i + 1; k < 7; k++ {
			x[i] -= l[k][i] * x[k]
		}
		x[i] /= l[i][i]
	}
}

// invert7 inverts a symmetric positive definite matrix by Cholesky. The damping of its caller guarantees that it is.
func invert7(a *[7][7]float64) (inv [7][7]float64) {
	var l [7][7]float64
	for i := 0; i < 7; i++ {
		for j := 0; j <= i; j++ {
			s := a[i][j]
			for k := 0; k < j; k++ {
				s -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(math.Max(s, 1e-18))
			} else {
				l[i][j] = s / l[j][j]
			}
		}
	}
	for c := 0; c < 7; c++ {
		var y [7]float64
		for i := 0; i < 7; i++ {
			s := 0.0
			if i == c {
				s = 1
			}
			for k := 0; k < i; k++ {
				s -= l[i][k] * y[k]
			}
			y[i] = s / l[i][i]
		}
		for i := 6; i >= 0; i-- {
			s := y[i]
			for k := i + 1; k < 7; k++ {
				s -= l[k][i] * inv[k][c]
			}
			inv[i][c] = s / l[i][i]
		}
	}
	return inv
}
