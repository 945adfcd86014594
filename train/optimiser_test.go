package train

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/policy"
)

func TestRateRisesThenFallsToItsEnd(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.Warmup, c.Rate, c.RateEnd = 110, 10, 2, 0.1
	for n, want := range map[int]float64{0: 0.2, 4: 1, 9: 2, 10: 2, 109: 0.2} {
		if got := c.rateAt(n); math.Abs(got-want) > 1e-12 {
			t.Errorf("step %d: %v, want %v", n, got, want)
		}
	}
	half := c.rateAt(10 + 99/2) // about the middle of the cosine
	if half < 1.0 || half > 1.2 {
		t.Errorf("in the middle %v, want about half the way between 2 and 0.2", half)
	}
	for n := 11; n < 110; n++ {
		if c.rateAt(n) >= c.rateAt(n-1) {
			t.Fatalf("the rate does not fall at step %d", n)
		}
	}
	if c.rateAt(500) != c.rateAt(109) {
		t.Error("the rate comes back after the planned steps")
	}
}

func TestEMADecayStartsShort(t *testing.T) {
	c := DefaultConfig()
	if c.emaAt(0) != 0.1 || c.emaAt(89) != 90.0/99 || c.emaAt(1_000_000) != c.EMAMax {
		t.Errorf("decays %v %v %v", c.emaAt(0), c.emaAt(89), c.emaAt(1_000_000))
	}
}

func tinyParams(t *testing.T) *policy.Params {
	t.Helper()
	s := policy.Spec{Preset: policy.PresetCustom, State: []policy.Input{{Feature: "q", Representation: policy.Absolute, SourceDim: 2}},
		Action: []policy.Output{{Name: "a", Feature: "q", Representation: policy.Absolute, SourceDim: 1}}, Horizon: 2, Stride: 1, FPS: 10, Prompt: policy.Prompt{MaxTokens: 4}}
	p, err := policy.NewParams(s, policy.Architectures["nano"], 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// The update against the paper's formulas (Loshchilov and Hutter 2019, algorithm 2) in float64, with clipping and average.
func TestUpdateFollowsThePaper(t *testing.T) {
	c := DefaultConfig()
	c.Steps, c.Warmup, c.Clip, c.Decay = 10, 2, 0.5, 0.1
	p := tinyParams(t)
	o := newOptimiser(c, p)
	n := len(p.Slab)
	x, m, v, ema := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range x {
		x[i], ema[i] = float64(p.Slab[i]), float64(p.Slab[i])
	}
	for step := range 4 {
		var grads [][]float32
		var flat []float64
		var decay []float64
		norm := 0.0
		for _, info := range p.Info {
			g := make([]float32, info.Len())
			for i := range g {
				g[i] = float32(math.Sin(float64(len(flat)*(step+1)))) / 50
				flat = append(flat, float64(g[i]))
				d := 0.0
				if info.Decay() {
					d = c.Decay
				}
				decay = append(decay, d)
				norm += float64(g[i]) * float64(g[i])
			}
			grads = append(grads, g)
		}
		norm = math.Sqrt(norm)
		if got := o.update(grads); math.Abs(got-norm) > 1e-6*norm || norm < c.Clip {
			t.Fatalf("norm %v, want %v (above the clip)", got, norm)
		}
		for i := range x {
			g := flat[i] * c.Clip / norm
			m[i] = c.Beta1*m[i] + (1-c.Beta1)*g
			v[i] = c.Beta2*v[i] + (1-c.Beta2)*g*g
			mh, vh := m[i]/(1-math.Pow(c.Beta1, float64(step+1))), v[i]/(1-math.Pow(c.Beta2, float64(step+1)))
			x[i] -= c.rateAt(step) * (mh/(math.Sqrt(vh)+c.Epsilon) + decay[i]*x[i])
			ema[i] = c.emaAt(step)*ema[i] + (1-c.emaAt(step))*x[i]
		}
	}
	for i := range x {
		if math.Abs(x[i]-float64(p.Slab[i])) > 1e-5 || math.Abs(ema[i]-float64(o.ema.Slab[i])) > 1e-5 {
			t.Fatalf("scalar %d: %v and average %v, want %v and %v", i, p.Slab[i], o.ema.Slab[i], x[i], ema[i])
		}
	}
}

func TestDecayTouchesMatricesOnly(t *testing.T) {
	for _, info := range tinyParams(t).Info {
		matrix := len(info.Shape) == 2 && info.Name[len(info.Name)-2:] == ".w" && info.Init == policy.InitMatrix
		if info.Decay() != matrix {
			t.Errorf("%s %v: decay %v", info.Name, info.Shape, info.Decay())
		}
	}
}

func TestANormThatIsNotFiniteChangesNothing(t *testing.T) {
	p := tinyParams(t)
	o := newOptimiser(DefaultConfig(), p)
	before := p.Clone()
	var grads [][]float32
	for _, info := range p.Info {
		grads = append(grads, make([]float32, info.Len()))
	}
	grads[3][0] = float32(math.Inf(1))
	if norm := o.update(grads); !math.IsInf(norm, 1) {
		t.Errorf("norm %v", norm)
	}
	for i := range p.Slab {
		if p.Slab[i] != before.Slab[i] {
			t.Fatal("a weight changed")
		}
	}
	if o.steps != 0 {
		t.Error("the step was counted")
	}
}
