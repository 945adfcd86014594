package frames

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/spatial/r3"
)

// A turn by the angle a about Z has rows (c, -s, 0), (s, c, 0) and columns (c, s, 0), (-s, c, 0).
func TestRot6DConventions(t *testing.T) {
	s, c := math.Sincos(0.3)
	q := QuatFromAxisAngle(r3.Vec{Z: 1}, 0.3)
	rows, cols := q.Rot6DRows(), q.Rot6DColumns()
	wantRows, wantCols := Rot6DRows{c, -s, 0, s, c, 0}, Rot6DColumns{c, s, 0, -s, c, 0}
	for i := range 6 {
		if math.Abs(rows[i]-wantRows[i]) > tol || math.Abs(cols[i]-wantCols[i]) > tol {
			t.Fatalf("rows %v want %v, columns %v want %v", rows, wantRows, cols, wantCols)
		}
	}
}

func TestRot6DRoundTrips(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for range 300 {
		q := randQuat(r)
		fromRows, err1 := q.Rot6DRows().Quat()
		fromCols, err2 := q.Rot6DColumns().Quat()
		cols, err3 := q.Rot6DRows().Columns()
		rows, err4 := q.Rot6DColumns().Rows()
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		nearQuat(t, "rows", fromRows, q)
		nearQuat(t, "columns", fromCols, q)
		for i := range 6 {
			if math.Abs(cols[i]-q.Rot6DColumns()[i]) > tol || math.Abs(rows[i]-q.Rot6DRows()[i]) > tol {
				t.Fatal("conversion between the conventions is off")
			}
		}
		// The rows of R are the columns of its inverse.
		if inv := q.Inv().Rot6DColumns(); math.Abs(inv[3]-q.Rot6DRows()[3]) > tol {
			t.Fatal("rows of R are not the columns of R's inverse")
		}
	}
}

// Network outputs are neither of unit length nor orthogonal: scaling each half and leaning the second on the first
// changes nothing.
func TestRot6DGramSchmidt(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for range 300 {
		q := randQuat(r)
		d := q.Rot6DRows()
		f, g, h := 0.1+r.Float64(), 0.1+r.Float64(), r.NormFloat64()
		for i := range 3 {
			d[i], d[3+i] = f*d[i], g*d[3+i]+h*d[i]
		}
		got, err := d.Quat()
		if err != nil {
			t.Fatal(err)
		}
		if a := got.AngleTo(q); a > 1e-11 {
			t.Fatalf("off by %g rad", a)
		}
	}
	for name, tc := range map[string]struct {
		d    Rot6DRows
		want error
	}{
		"zero":     {Rot6DRows{}, ErrNotRotation},
		"parallel": {Rot6DRows{1, 0, 0, 2, 0, 0}, ErrNotRotation},
		"NaN":      {Rot6DRows{1, 0, 0, math.NaN(), 1, 0}, ErrNotFinite},
	} {
		if _, err := tc.d.Quat(); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}
