package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
)

// smallSpec is the two-hand layout at a size for tests.
func smallSpec(t testing.TB) Spec {
	t.Helper()
	s, err := Preset(PresetUMI, umiFeatures, 30, PresetOptions{ImageSize: 16, Horizon: 4, MaxTokens: 12})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// awake gives every parameter a value other than zero, so that no branch of the network is switched off as at the start.
func awake(t testing.TB, s Spec, a Architecture) *Params {
	t.Helper()
	p, err := NewParams(s, a, 3)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range p.Slab {
		p.Slab[i] += 0.1 * float32(rng.NormFloat64())
	}
	return p
}

// rig is a compiled training graph with its batch.
type rig struct {
	*Training
	program *cpu.Program
	batch   *Batch
}

func newRig(t testing.TB, s Spec, a Architecture, p *Params, samples, draws int, outputs func(*Training) []*op.Node) *rig {
	t.Helper()
	g, err := BuildTraining(s, a, samples, draws)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Training: g, batch: NewBatch(s, a, samples, draws)}
	if r.program, err = cpu.Compile(g.Graph, outputs(g), cpu.Options{Threads: 1}); err != nil {
		t.Fatal(err)
	}
	for i, info := range p.Info {
		if err := r.program.Bind(g.Params[i], p.View(info.Name)); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rig) run(t testing.TB) {
	t.Helper()
	for _, f := range r.Feeds(r.batch) {
		if !r.program.Uses(f.Node) {
			continue
		}
		if err := r.program.Set(f.Node, f.Value); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.program.Run(); err != nil {
		t.Fatal(err)
	}
}

func fillRandom(t testing.TB, b *Batch, valid []bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(4, 4))
	g := b.spec.Cameras[0].Geometry
	pix := make([]byte, g.Width*g.Height*3)
	action := make([]float32, b.chunk)
	for i := range b.Samples {
		for c := range b.spec.Cameras {
			for j := range pix {
				pix[j] = byte(rng.Uint32())
			}
			if err := b.SetImage(i, c, pix); err != nil {
				t.Fatal(err)
			}
		}
		for j := range b.State(i) {
			b.State(i)[j] = float32(rng.NormFloat64())
		}
		for j := range action {
			action[j] = float32(rng.NormFloat64())
		}
		b.SetChunk(i, action, valid, rng)
		if err := b.SetPrompt(i, "go"); err != nil {
			t.Fatal(err)
		}
	}
}

func lossAndGradients(t *Training) []*op.Node { return t.Outputs() }

// Steps beyond the episode must reach neither the loss nor any gradient, whatever they hold: others trained on a repeated last
// action and their policies stalled.
func TestPaddingReachesNoGradient(t *testing.T) {
	s, a := smallSpec(t), Architectures["nano"]
	p := awake(t, s, a)
	r := newRig(t, s, a, p, 2, 3, lossAndGradients)
	fillRandom(t, r.batch, []bool{true, true, false, false})
	r.run(t)
	loss := r.program.Scalar(r.Loss)
	var grads [][]float32
	for _, g := range r.Gradients {
		grads = append(grads, slices.Clone(r.program.Float32(g)))
	}
	for i := range r.batch.noisy { // fill the padding with other numbers
		if step := i / s.ActionDim() % s.Horizon; step >= 2 {
			r.batch.noisy[i] = 50
			r.batch.target[i] = -70
		}
	}
	r.run(t)
	if got := r.program.Scalar(r.Loss); got != loss {
		t.Errorf("loss %v became %v when only padding changed", loss, got)
	}
	for i, g := range r.Gradients {
		if !slices.Equal(grads[i], r.program.Float32(g)) {
			t.Errorf("gradient of %s changed when only padding changed", r.info[i].Name)
		}
	}
}

// Half of the steps invalid must not halve the loss: it divides by the valid scalars only.
func TestLossIsTheMeanOverValidScalars(t *testing.T) {
	s, a := smallSpec(t), Architectures["nano"]
	p := awake(t, s, a)
	r := newRig(t, s, a, p, 2, 2, func(t *Training) []*op.Node { return []*op.Node{t.Loss, t.Velocity} })
	fillRandom(t, r.batch, []bool{true, false, false, false})
	r.run(t)
	v := r.program.Float32(r.Velocity)
	sum, n := 0.0, 0
	for i := range v {
		if i/s.ActionDim()%s.Horizon == 0 {
			d := float64(v[i] - r.batch.target[i])
			sum += d * d
			n++
		}
	}
	if got := r.program.Scalar(r.Loss); math.Abs(got-sum/float64(n)) > 1e-5*got {
		t.Errorf("loss %v, mean over the %d valid scalars %v", got, n, sum/float64(n))
	}
}

// At the start the network answers zero (adaLN-zero, zero output layer), so the loss is the mean square of the target.
func TestFreshNetworkAnswersZero(t *testing.T) {
	s, a := smallSpec(t), Architectures["nano"]
	p, err := NewParams(s, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, s, a, p, 1, 1, func(t *Training) []*op.Node { return []*op.Node{t.Velocity} })
	fillRandom(t, r.batch, []bool{true, true, true, true})
	r.run(t)
	for i, v := range r.program.Float32(r.Velocity) {
		if v != 0 {
			t.Fatalf("number %d is %v", i, v)
		}
	}
}

// Each input must matter: pictures of each camera, state, prompt, noise, flow time, and only those of the own sample.
func TestEachInputReachesItsOwnSampleOnly(t *testing.T) {
	s, a := smallSpec(t), Architectures["nano"]
	p := awake(t, s, a)
	r := newRig(t, s, a, p, 2, 2, func(t *Training) []*op.Node { return []*op.Node{t.Velocity} })
	fillRandom(t, r.batch, []bool{true, true, true, true})
	r.run(t)
	base := slices.Clone(r.program.Float32(r.Velocity))
	half := len(base) / 2
	g := s.Cameras[0].Geometry
	for name, change := range map[string]func(){
		"left camera":  func() { _ = r.batch.SetImage(1, 0, make([]byte, g.Width*g.Height*3)) },
		"right camera": func() { _ = r.batch.SetImage(1, 1, make([]byte, g.Width*g.Height*3)) },
		"state":        func() { r.batch.State(1)[10] += 1 },
		"prompt":       func() { _ = r.batch.SetPrompt(1, "no") },
		"noise":        func() { r.batch.noisy[half] += 1 },
		"flow time":    func() { r.batch.time[len(r.batch.time)/2] += 1 },
	} {
		fillRandom(t, r.batch, []bool{true, true, true, true})
		change()
		r.run(t)
		v := r.program.Float32(r.Velocity)
		if !slices.Equal(v[:half], base[:half]) {
			t.Errorf("%s of sample 1 changed the answer to sample 0", name)
		}
		if slices.Equal(v[half:], base[half:]) {
			t.Errorf("%s does not reach the answer", name)
		}
	}
}

// Two noises of one sample must not see each other, and one at a time must give what several at once give.
func TestDrawsAreIndependent(t *testing.T) {
	s, a := smallSpec(t), Architectures["nano"]
	p := awake(t, s, a)
	velocity := func(t *Training) []*op.Node { return []*op.Node{t.Velocity} }
	both, one := newRig(t, s, a, p, 1, 2, velocity), newRig(t, s, a, p, 1, 1, velocity)
	fillRandom(t, both.batch, []bool{true, true, true, false})
	both.run(t)
	v := both.program.Float32(both.Velocity)
	for d := range 2 {
		fillRandom(t, one.batch, []bool{true, true, true, false})
		copy(one.batch.noisy, both.batch.noisy[d*both.batch.chunk:])
		copy(one.batch.time, both.batch.time[d*both.batch.time1:])
		one.run(t)
		for i, w := range one.program.Float32(one.Velocity) {
			if math.Abs(float64(w-v[d*len(v)/2+i])) > 1e-4 {
				t.Fatalf("draw %d number %d: %v alone, %v together", d, i, w, v[d*len(v)/2+i])
			}
		}
	}
}

func TestPatchesLayOutWindows(t *testing.T) {
	a := Architectures["nano"]
	a.Patch, a.Window = 2, 4
	pix := make([]byte, 4*4*3)
	for i := range pix {
		pix[i] = byte(i)
	}
	got := make([]float32, 4*4*4*3)
	a.Patches(got, pix, 4, 4)
	at := func(token, y, x, c int) float32 { return got[((token*4+y)*4+x)*3+c] }
	level := func(y, x, c int) float32 { return float32((y*4+x)*3+c)/127.5 - 1 }
	// Token 3 covers pixels 2..3, its window 1..4 of both axes; 4 repeats 3.
	for y := range 4 {
		for x := range 4 {
			for c := range 3 {
				if want := level(min(1+y, 3), min(1+x, 3), c); at(3, y, x, c) != want {
					t.Fatalf("token 3 at %d,%d,%d: %v, want %v", y, x, c, at(3, y, x, c), want)
				}
				if want := level(max(y-1, 0), max(x-1, 0), c); at(0, y, x, c) != want {
					t.Fatalf("token 0 at %d,%d,%d: %v, want %v", y, x, c, at(0, y, x, c), want)
				}
			}
		}
	}
}

func TestArchitectureChecks(t *testing.T) {
	s := smallSpec(t)
	for name, change := range map[string]func(*Architecture){
		"heads":    func(a *Architecture) { a.Heads = 5 },
		"patch":    func(a *Architecture) { a.Patch, a.Window = 7, 7 },
		"window":   func(a *Architecture) { a.Window = 9 },
		"depth":    func(a *Architecture) { a.Depth = 0 },
		"time_dim": func(a *Architecture) { a.TimeDim = 15 },
	} {
		a := Architectures["nano"]
		change(&a)
		if err := a.Check(s); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for name, a := range Architectures {
		side := 64
		if a.Patch > 8 && a.Merge > 1 {
			side = 224
		}
		if err := a.Check(mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{ImageSize: side})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
