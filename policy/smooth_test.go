package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// A smoother is a projection: it keeps every polynomial of its degree without a constant, and applying it twice changes nothing.
func TestSmootherProjects(t *testing.T) {
	for degree := 1; degree <= 5; degree++ {
		s := smoother(16, degree)
		var twice mat.Dense
		twice.Mul(s, s)
		if !mat.EqualApprox(s, &twice, 1e-12) {
			t.Errorf("degree %d: applying the smoother twice differs", degree)
		}
		for d := 1; d <= degree+1; d++ {
			x := mat.NewVecDense(16, nil)
			for k := range 16 {
				x.SetVec(k, math.Pow(float64(k+1), float64(d)))
			}
			var y, diff mat.VecDense
			y.MulVec(s, x)
			diff.SubVec(&y, x)
			if off := mat.Norm(&diff, 2) / mat.Norm(x, 2); (off < 1e-9) != (d <= degree) {
				t.Errorf("degree %d moves the power %d by %v of its size", degree, d, off)
			}
		}
	}
	if s := smoother(2, 5); !mat.EqualApprox(s, mat.NewDense(2, 2, []float64{1, 0, 0, 1}), 1e-12) {
		t.Error("two steps hold no noise to take out")
	}
}

// Noise on a smooth motion shrinks as theory says, sqrt(parameters/steps), and other outputs stay as they were.
func TestSmoothChunkTakesNoiseOut(t *testing.T) {
	s, err := Preset(PresetUMI, umiFeatures, 30, PresetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	const noise = 0.05
	var before, after float64
	for range 200 {
		chunk, want := make([]float64, s.Horizon*s.ActionDim()), make([]frames.Quat, s.Horizon)
		for k := range s.Horizon {
			row := chunk[k*s.ActionDim():][:s.ActionDim()]
			u := float64(k+1) / float64(s.Horizon)
			want[k] = frames.ExpSO3(r3.Vec{X: 0.6*u - 0.2*u*u, Y: 0.1 * u, Z: 0.1 * u * u * u})
			shaken := want[k].Mul(frames.ExpSO3(r3.Vec{X: noise * rng.NormFloat64(), Y: noise * rng.NormFloat64(), Z: noise * rng.NormFloat64()}))
			putPose(row, frames.Pose{Rot: shaken})
			putPose(row[rot6dPoseDim:], frames.Pose{Pos: r3.Vec{X: u, Y: u * u, Z: -u}, Rot: frames.Identity.Rot})
			row[18], row[19] = 0.3, u
			before += shaken.AngleTo(want[k])
		}
		if err := s.smoothChunk(chunk); err != nil {
			t.Fatal(err)
		}
		for k := range s.Horizon {
			row, u := chunk[k*s.ActionDim():], float64(k+1)/float64(s.Horizon)
			first, err := poseFromNetwork(row)
			if err != nil {
				t.Fatal(err)
			}
			after += first.Rot.AngleTo(want[k])
			if math.Abs(row[9]-u) > 1e-9 || math.Abs(row[10]-u*u) > 1e-9 || row[18] != 0.3 || row[19] != u {
				t.Fatalf("step %d: a smooth path or the fingers changed: %v", k, row[9:20])
			}
		}
	}
	if ratio := after / before; math.Abs(ratio-math.Sqrt(3.0/16)) > 0.05 {
		t.Errorf("noise shrank to %.3f of itself, want about %.3f", ratio, math.Sqrt(3.0/16))
	}
}
