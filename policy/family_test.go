package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
)

// expertNano has everything the large sizes have, at nano's widths.
func expertNano() Architecture {
	a := Architectures["nano"]
	a.Merge, a.TokenTime, a.TextTokens, a.OwnModulation, a.HeadNorm, a.Rotary, a.Depth = 2, true, true, true, true, true, 2
	a.VisionTokens, a.VisionPreNorm, a.VisionHidden, a.VisionEps = 2, true, 24, 1e-6
	return a
}

func framedSpec(t testing.TB) Spec {
	s := smallSpec(t)
	s.Frames, s.FrameStride = 2, 3
	s.Prompt.Vocabulary = 300
	return s
}

func fillFamily(t testing.TB, b *Batch, s Spec, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	pix := make([]byte, 16*16*3)
	for i := range b.Samples {
		for c := range s.Cameras {
			for f := range s.frames() {
				for j := range pix {
					pix[j] = byte(rng.IntN(256))
				}
				if err := b.SetFrame(i, c, f, pix); err != nil {
					t.Fatal(err)
				}
			}
		}
		for f := range s.frames() {
			for j := range b.StateFrame(i, f) {
				b.StateFrame(i, f)[j] = float32(rng.NormFloat64())
			}
		}
		chunk, valid := make([]float32, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
		for j := range chunk {
			chunk[j] = float32(rng.NormFloat64())
		}
		for k := range valid {
			valid[k] = k < s.Horizon-i%2
		}
		if err := b.SetPrompt(i, []string{"pick it", "go"}[i%2]); err != nil {
			t.Fatal(err)
		}
		b.SetChunk(i, chunk, valid, rng)
	}
}

// Every parameter of the full-featured network has the gradient of finite differences along a random direction, and a gradient at all.
func TestFamilyGradients(t *testing.T) {
	s, a := framedSpec(t), expertNano()
	p := awake(t, s, a)
	r := newRig(t, s, a, p, 2, 2, func(g *Training) []*op.Node { return g.Outputs() })
	fillFamily(t, r.batch, s, 4)
	feed := func() float64 {
		for _, f := range r.Feeds(r.batch) {
			if err := r.program.Set(f.Node, f.Value); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.program.Run(); err != nil {
			t.Fatal(err)
		}
		return r.program.Scalar(r.Loss)
	}
	feed()
	grads := map[string][]float32{}
	for i, info := range p.Info {
		grads[info.Name] = slices.Clone(r.program.Float32(r.Gradients[i]))
	}
	rng := rand.New(rand.NewPCG(3, 3))
	for _, info := range p.Info {
		v, g := p.View(info.Name), grads[info.Name]
		along, zero := 0.0, true
		dir := make([]float32, len(v))
		for j := range v {
			dir[j] = float32(rng.NormFloat64())
			along += float64(dir[j]) * float64(g[j])
			zero = zero && g[j] == 0
		}
		if zero {
			t.Errorf("%s has no gradient", info.Name)
		}
		step := 6e-3 / math.Sqrt(float64(len(v)))
		old := slices.Clone(v)
		move := func(h float64) float64 {
			for j := range v {
				v[j] = old[j] + float32(h)*dir[j]
			}
			return feed()
		}
		numeric := (move(step) - move(-step)) / (2 * step)
		copy(v, old)
		if d := math.Abs(numeric - along); d > 2e-2*math.Abs(along)+1.5e-3 {
			t.Errorf("%s: along a direction %g, finite differences %g", info.Name, along, numeric)
		}
	}
}

// Tokens that pad the prompt, and steps after the episode's end, change neither the prediction at valid steps nor the loss.
func TestFamilyIgnoresPadding(t *testing.T) {
	s, a := framedSpec(t), expertNano()
	p := awake(t, s, a)
	r := newRig(t, s, a, p, 2, 1, func(g *Training) []*op.Node { return []*op.Node{g.Loss} })
	fillFamily(t, r.batch, s, 4)
	loss := func() float64 {
		for _, f := range r.Feeds(r.batch) {
			if err := r.program.Set(f.Node, f.Value); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.program.Run(); err != nil {
			t.Fatal(err)
		}
		return r.program.Scalar(r.Loss)
	}
	before := loss()
	for i, id := range r.batch.tokens {
		if id == TokenPad {
			r.batch.tokens[i] = 77
		}
	}
	for i, w := range r.batch.weight {
		if w == 0 {
			for j := range s.ActionDim() {
				r.batch.noisy[i*s.ActionDim()+j] = 9
				r.batch.target[i*s.ActionDim()+j] = 9
			}
		}
	}
	if after := loss(); after != before {
		t.Errorf("loss %v became %v when only padding changed", before, after)
	}
	r.batch.tokens[1]++
	if after := loss(); after == before {
		t.Error("the loss does not depend on the prompt")
	}
}

// The sampler's cached keys and values give the same Euler steps as the training graph, which computes everything anew.
func TestFamilySamplerMatchesTrainingGraph(t *testing.T) {
	s, a := framedSpec(t), expertNano()
	p := awake(t, s, a)
	m := NewManifest(s, a, mustFit(t, s))
	pol, err := New(m, p, Options{Seed: 5, Threads: 1, Noise: NoiseFixed})
	if err != nil {
		t.Fatal(err)
	}
	fillFamily(t, pol.sampler.batch, s, 9)
	got, err := pol.sample(0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, s, a, p, 1, 1, func(g *Training) []*op.Node { return []*op.Node{g.Velocity} })
	fillFamily(t, r.batch, s, 9)
	for i := range r.batch.attend {
		r.batch.attend[i] = true
	}
	x := make([]float32, len(got))
	rng := rand.New(rand.NewPCG(5, 0))
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	err = integrate(x, a.SampleSteps, func(dst, x []float32, tm float64) error {
		copy(r.batch.noisy, x)
		for k := range s.Horizon {
			TimeFeatures(r.batch.time[k*a.TimeDim:][:a.TimeDim], tm)
		}
		for _, f := range r.Feeds(r.batch) {
			if r.program.Uses(f.Node) {
				if err := r.program.Set(f.Node, f.Value); err != nil {
					return err
				}
			}
		}
		if err := r.program.Run(); err != nil {
			return err
		}
		copy(dst, r.program.Float32(r.Velocity))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range x {
		if math.Abs(float64(x[i]-got[i])) > 1e-4 {
			t.Fatalf("number %d: sampler %v, training graph %v", i, got[i], x[i])
		}
	}
}

// Committed steps are data: clean, at time 0, without a part in the loss; sampling returns them untouched and lets them change the rest.
func TestCommittedSteps(t *testing.T) {
	s, a := framedSpec(t), expertNano()
	a.MaxPrefix = 3
	b := NewBatch(s, a, 1, 64)
	chunk, valid := make([]float32, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	for i := range chunk {
		chunk[i] = float32(i) / 100
	}
	for k := range valid {
		valid[k] = true
	}
	b.SetChunk(0, chunk, valid, rand.New(rand.NewPCG(1, 1)))
	clean := make([]float32, a.TimeDim)
	TimeFeatures(clean, 0)
	seen := map[int]bool{}
	for j := range b.Draws {
		n := 0
		for n < s.Horizon && b.weight[j*s.Horizon+n] == 0 {
			at := (j*s.Horizon + n) * s.ActionDim()
			if !slices.Equal(b.noisy[at:at+s.ActionDim()], chunk[n*s.ActionDim():(n+1)*s.ActionDim()]) {
				t.Fatalf("draw %d, step %d is committed but not clean", j, n)
			}
			if !slices.Equal(b.time[(j*s.Horizon+n)*a.TimeDim:][:a.TimeDim], clean) {
				t.Fatalf("draw %d, step %d is committed but not at time 0", j, n)
			}
			n++
		}
		if n < s.Horizon && slices.Equal(b.time[(j*s.Horizon+n)*a.TimeDim:][:a.TimeDim], clean) {
			t.Fatalf("draw %d, step %d is trained at time 0", j, n)
		}
		seen[n] = true
	}
	if len(seen) != a.MaxPrefix+1 {
		t.Errorf("prefixes of %v steps drawn, want 0 to %d", seen, a.MaxPrefix)
	}

	p := awake(t, s, a)
	pol, err := New(NewManifest(s, a, mustFit(t, s)), p, Options{Seed: 5, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	fillFamily(t, pol.sampler.batch, s, 9)
	free, err := pol.sample(0)
	if err != nil {
		t.Fatal(err)
	}
	free = slices.Clone(free)
	pol.sampler.prefix = make([]float32, 2*s.ActionDim())
	for i := range pol.sampler.prefix {
		pol.sampler.prefix[i] = 0.3
	}
	bound, err := pol.sample(0)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(bound[:2*s.ActionDim()], pol.sampler.prefix) {
		t.Error("the committed steps were moved")
	}
	if slices.Equal(bound[2*s.ActionDim():], free[2*s.ActionDim():]) {
		t.Error("the committed steps have no effect on the others")
	}
}

func mustFit(t testing.TB, s Spec) Stats {
	t.Helper()
	st, err := FitStats(s, "", []Episode{walk(1, 60), walk(2, 60)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// The counts of the sizes, against the sums in the architecture's table: small 62, base 294, large 1210, xl 2800 million, to 6 %.
func TestSizesHaveTheirParameters(t *testing.T) {
	for _, c := range []struct {
		name                               string
		image, horizon, tokens, vocabulary int
		millions                           float64
	}{{"small", 224, 32, 32, 8192, 62}, {"base", 224, 32, 48, 16384, 294}, {"large", 224, 50, 64, 32768, 1210}, {"xl", 224, 50, 64, 32768, 2800}} {
		s, err := Preset(PresetUMI, umiFeatures, 30, PresetOptions{ImageSize: c.image, Horizon: c.horizon, MaxTokens: c.tokens})
		if err != nil {
			t.Fatal(err)
		}
		s.Prompt.Vocabulary = c.vocabulary
		info, err := Layout(s, Architectures[c.name])
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		n := 0.0
		for _, p := range info {
			n += float64(p.Len())
		}
		if math.Abs(n/1e6-c.millions) > 0.06*c.millions {
			t.Errorf("%s has %.1f million parameters, want about %.0f", c.name, n/1e6, c.millions)
		}
	}
}

// The activations of imported encoders against their definitions.
func TestActivations(t *testing.T) {
	for name, f := range map[string]func(x float64) float64{
		ActGELUErf:   func(x float64) float64 { return x * 0.5 * math.Erfc(-x/math.Sqrt2) },
		ActQuickGELU: func(x float64) float64 { return x / (1 + math.Exp(-1.702*x)) },
	} {
		n := newNetwork(Spec{}, Architecture{})
		x := op.Input(n.graph, op.Float32, "x", 1, 2001)
		var y *op.Node
		if err := op.Build(func() { y = activate(name, x) }); err != nil {
			t.Fatal(err)
		}
		prog, err := cpu.Compile(n.graph, []*op.Node{y}, cpu.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		v := make([]float32, 2001)
		for i := range v {
			v[i] = float32(i-1000) / 50
		}
		if err := prog.Set(x, v); err != nil {
			t.Fatal(err)
		}
		if err := prog.Run(); err != nil {
			t.Fatal(err)
		}
		for i, got := range prog.Float32(y) {
			if want := f(float64(v[i])); math.Abs(float64(got)-want) > 6e-6*(1+math.Abs(want)) {
				t.Fatalf("%s(%v) is %v, want %v", name, v[i], got, want)
			}
		}
	}
}
