package score

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

func handsAt(x, yaw, finger float64) Hands {
	p := frames.Pose{Pos: r3.Vec{X: x}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: 1}, yaw)}
	return Hands{Pose: [2]frames.Pose{p, p}, Finger: [2]float64{finger, finger}}
}

// An error of exactly one scale in all six channels gives normalised error 1; of two scales, mean square 4. The numbers are
// the definition's own: 2 cm, 5 degrees, 0.05 rad.
func TestReplayErrorsInScales(t *testing.T) {
	for _, scales := range []float64{0, 1, 2} {
		var s ReplayScorer
		off := handsAt(0.02*scales, 5*scales*math.Pi/180, 0.05*scales)
		if err := s.Add(handsAt(0, 0, 0), []Hands{off, off}, []Hands{handsAt(0, 0, 0), handsAt(0, 0, 0)}, 0.1); err != nil {
			t.Fatal(err)
		}
		got, err := s.Result()
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.NormalizedMSE-scales*scales) > 1e-9 || math.Abs(got.NormalizedRMSE-scales) > 1e-9 {
			t.Errorf("%v scales: mse %v rmse %v", scales, got.NormalizedMSE, got.NormalizedRMSE)
		}
		if scales > 1 && got.Within != 0 || scales == 0 && got.Within != 1 {
			t.Errorf("%v scales: within tolerance %v", scales, got.Within)
		}
		if got.MovingRows != 0 || got.WithinMoving != 0 {
			t.Errorf("recorded hands rest, but %d rows move", got.MovingRows)
		}
	}
}

// One bad channel of six, by hand: position errors 1 cm and 3 cm on the left hand only.
func TestReplaySumsOneChannel(t *testing.T) {
	var s ReplayScorer
	left := func(x float64) Hands {
		h := handsAt(0, 0, 0)
		h.Pose[0].Pos.X = x
		return h
	}
	recorded := []Hands{left(0.1), left(0.2)}
	if err := s.Add(left(0), []Hands{left(0.11), left(0.23)}, recorded, 1); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Result()
	c := got.Channels[0]
	if math.Abs(c.Mean-2) > 1e-9 || math.Abs(c.RMSE-math.Sqrt(5)) > 1e-9 || math.Abs(c.P95-2.9) > 1e-9 {
		t.Errorf("mean %v rmse %v p95 %v, want 2, sqrt 5, 2.9", c.Mean, c.RMSE, c.P95)
	}
	if want := 5.0 / 4 / 6; math.Abs(got.NormalizedMSE-want) > 1e-9 {
		t.Errorf("normalised mse %v, want %v", got.NormalizedMSE, want)
	}
	if got.Rows != 2 || got.MovingRows != 2 || got.Within != 0.5 || got.WithinMoving != 0.5 {
		t.Errorf("%+v", got)
	}
}

// Moving needs more than 5 mm/s or 2 deg/s; the times decide, not the distances.
func TestMovingDependsOnSpeed(t *testing.T) {
	a, b := handsAt(0, 0, 0), handsAt(0.001, 0, 0)
	if !moves(a, b, 0.1) || moves(a, b, 0.3) {
		t.Error("1 mm in 0.1 s is 10 mm/s and moves; in 0.3 s it is 3.3 mm/s and rests")
	}
	c := handsAt(0, 1*math.Pi/180, 0)
	if !moves(a, c, 0.4) || moves(a, c, 0.6) {
		t.Error("1 degree in 0.4 s is 2.5 deg/s and moves; in 0.6 s it is 1.7 deg/s and rests")
	}
}

// Integrate against gonum's dense matrices: the product of homogeneous matrices is an independent composition.
func TestIntegrateAgainstMatrices(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func() []float64 {
		v := make([]float64, 16)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		return v
	}
	anchor := handsAt(0.3, 0.4, 0)
	m := dense(anchor.Pose[1])
	var rows []Row
	for range 16 {
		v := random()
		r, err := ParseRow(v)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
		var next mat.Dense
		next.Mul(m, denseFrom(v[7:14]))
		m = &next
	}
	got := Integrate(anchor, rows)[15]
	want := got.Pose[1].Mat4()
	for i := range 4 {
		for j := range 4 {
			if math.Abs(m.At(i, j)-want[i][j]) > 1e-9 {
				t.Errorf("entry %d %d: matrices %v, Integrate %v", i, j, m.At(i, j), want[i][j])
			}
		}
	}
	if got.Finger[0] != rows[15].Finger[0] {
		t.Error("finger angles are absolute")
	}
}

func dense(p frames.Pose) *mat.Dense {
	m := p.Mat4()
	d := mat.NewDense(4, 4, nil)
	for i := range 4 {
		d.SetRow(i, m[i][:])
	}
	return d
}

// denseFrom writes the rotation matrix of an unnormalised quaternion out by its textbook formula.
func denseFrom(v []float64) *mat.Dense {
	x, y, z, w := v[3], v[4], v[5], v[6]
	n := x*x + y*y + z*z + w*w
	s := 2 / n
	return mat.NewDense(4, 4, []float64{
		1 - s*(y*y+z*z), s * (x*y - z*w), s * (x*z + y*w), v[0],
		s * (x*y + z*w), 1 - s*(x*x+z*z), s * (y*z - x*w), v[1],
		s * (x*z - y*w), s * (y*z + x*w), 1 - s*(x*x+y*y), v[2],
		0, 0, 0, 1,
	})
}

func TestBadRowsAreRefused(t *testing.T) {
	ok := func() []float64 { v := make([]float64, 16); v[6], v[13] = 1, 1; return v }
	if _, err := ParseRow(ok()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func([]float64) []float64{
		"15 columns":      func(v []float64) []float64 { return v[:15] },
		"NaN position":    func(v []float64) []float64 { v[0] = math.NaN(); return v },
		"no rotation":     func(v []float64) []float64 { v[13] = 0; return v },
		"infinite finger": func(v []float64) []float64 { v[15] = math.Inf(1); return v },
	} {
		if _, err := ParseRow(spoil(ok())); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	var s ReplayScorer
	bad := handsAt(math.NaN(), 0, 0)
	if err := s.Add(handsAt(0, 0, 0), []Hands{bad}, []Hands{handsAt(0, 0, 0)}, 1); err == nil {
		t.Error("NaN prediction: no error")
	}
	if _, err := s.Result(); err == nil {
		t.Error("a refused window must not count, and no rows is an error")
	}
}
