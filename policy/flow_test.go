package policy

import (
	"math"
	"math/rand/v2"
	"testing"
)

// For dx/dt = c x the exact flow from t = 1 to 0 is x e^-c; Euler with n steps gives x (1 - c/n)^n.
func TestIntegrateFollowsALinearField(t *testing.T) {
	const c = 0.7
	for _, steps := range []int{1, 10, 1000} {
		x := []float32{2, -3}
		err := integrate(x, steps, func(dst, x []float32, _ float64) error {
			for i := range x {
				dst[i] = c * x[i]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := math.Pow(1-c/float64(steps), float64(steps))
		if math.Abs(float64(x[0])-2*want) > 1e-4 || math.Abs(float64(x[1])+3*want) > 1e-4 {
			t.Errorf("%d steps: %v, want %v times the start", steps, x, want)
		}
		if steps == 1000 && math.Abs(float64(x[0])-2*math.Exp(-c)) > 1e-3 {
			t.Errorf("1000 steps: %v, the exact flow gives %v", x[0], 2*math.Exp(-c))
		}
	}
}

// For data that is one point a, the exact velocity at (x, t) is (x - a)/t, and every Euler path ends in a.
func TestTheExactVelocityOfOnePointLeadsToIt(t *testing.T) {
	a := []float32{0.3, -0.8, 1.2}
	rng := rand.New(rand.NewPCG(1, 2))
	x := []float32{float32(rng.NormFloat64()), float32(rng.NormFloat64()), float32(rng.NormFloat64())}
	last := 2.0
	err := integrate(x, 10, func(dst, x []float32, t float64) error {
		if t >= last {
			return errNotFalling
		}
		last = t
		for i := range x {
			dst[i] = (x[i] - a[i]) / float32(t)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range a {
		if math.Abs(float64(x[i]-a[i])) > 1e-5 {
			t.Errorf("ended at %v, want %v", x, a)
		}
	}
}

var errNotFalling = errTest("time does not fall from noise to data")

type errTest string

func (e errTest) Error() string { return string(e) }

// x(t) and the target must agree with the stated convention: x(1) is noise, x(0) is data, dx/dt = noise - data.
func TestNoisyChunkFollowsTheConvention(t *testing.T) {
	action := []float32{0.5, -1}
	draw := func(time float64) (noisy, target []float32) {
		noisy, target = make([]float32, 2), make([]float32, 2)
		noisyChunk(noisy, target, action, time, rand.New(rand.NewPCG(3, 4)))
		return
	}
	x0, v := draw(0)
	x1, _ := draw(1)
	xh, _ := draw(0.25)
	for i := range action {
		if x0[i] != action[i] {
			t.Errorf("x(0) = %v is not the action", x0)
		}
		if math.Abs(float64(x1[i]-x0[i]-v[i])) > 1e-6 || math.Abs(float64(xh[i]-(x0[i]+0.25*v[i]))) > 1e-6 {
			t.Errorf("x(t) is not x(0) + t v")
		}
	}
}

// The distribution function of b in t = 0.999 b + 0.001 is b^1.5; its mean is 0.6.
func TestFlowTimesAreBeta(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const n = 200_000
	sum, below := 0.0, 0
	for range n {
		b := (flowTime(rng.Float64()) - 0.001) / 0.999
		sum += b
		if b < 0.5 {
			below++
		}
	}
	if mean := sum / n; math.Abs(mean-0.6) > 0.003 {
		t.Errorf("mean %v, want 0.6", mean)
	}
	if p := float64(below) / n; math.Abs(p-math.Pow(0.5, 1.5)) > 0.004 {
		t.Errorf("share below a half %v, want %v", p, math.Pow(0.5, 1.5))
	}
	if lo, hi := flowTime(0), flowTime(math.Nextafter(1, 0)); lo != 0.001 || hi > 1 {
		t.Errorf("times reach from %v to %v", lo, hi)
	}
}

func TestTimeFeatures(t *testing.T) {
	f := make([]float32, 6)
	TimeFeatures(f, 1)
	// Periods 0.004, sqrt(0.004*4) = 0.126491, 4 (a quarter turn at t = 1).
	want := []float64{0, math.Sin(2 * math.Pi / math.Sqrt(0.016)), 1, 1, math.Cos(2 * math.Pi / math.Sqrt(0.016)), 0}
	for i := range want {
		if math.Abs(float64(f[i])-want[i]) > 1e-6 {
			t.Errorf("feature %d is %v, want %v", i, f[i], want[i])
		}
	}
}
