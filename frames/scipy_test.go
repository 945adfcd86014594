package frames

import (
	"encoding/json"
	"os"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"
)

// Vectors of testdata/scipy_vectors.py: SciPy's rotations, an independent implementation with the same component order.
func TestAgainstSciPy(t *testing.T) {
	b, err := os.ReadFile("testdata/scipy_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		A, B, Product, Slerp [4]float64
		FromRPY              [4]float64 `json:"from_rpy"`
		Matrix               [3][3]float64
		Rotvec, V, Rotated   [3]float64
		RPY                  [3]float64
		T                    float64
	}
	if err := json.Unmarshal(b, &cases); err != nil || len(cases) != 40 {
		t.Fatal(len(cases), err)
	}
	quat := func(a [4]float64) Quat { return Quat{a[0], a[1], a[2], a[3]} }
	vec := func(a [3]float64) r3.Vec { return r3.Vec{X: a[0], Y: a[1], Z: a[2]} }
	for _, c := range cases {
		a := quat(c.A)
		m := a.Matrix()
		for i := range 3 {
			nearMat(t, "matrix", mat.NewVecDense(3, m[i][:]), mat.NewVecDense(3, c.Matrix[i][:]))
		}
		back, err := QuatFromMatrix(c.Matrix)
		if err != nil {
			t.Fatal(err)
		}
		nearQuat(t, "from matrix", back, a)
		nearVec(t, "log", a.Log(), vec(c.Rotvec))
		nearQuat(t, "exp", ExpSO3(vec(c.Rotvec)), a)
		nearQuat(t, "product", a.Mul(quat(c.B)), quat(c.Product))
		nearVec(t, "rotated", a.Rotate(vec(c.V)), vec(c.Rotated))
		nearQuat(t, "slerp", Slerp(a, quat(c.B), c.T), quat(c.Slerp))
		nearQuat(t, "rpy", QuatFromRPY(c.RPY[0], c.RPY[1], c.RPY[2]), quat(c.FromRPY))
	}
}
