package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// umiObservation is an observation with the five UMI Arena keys.
func umiObservation(seed uint64) Observation {
	rng := rand.New(rand.NewPCG(seed, 1))
	o := Observation{Images: map[string]imaging.RGB{}, Prompt: "go",
		Values: map[string][]float64{HandsPose: {0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34}, JointStates: {0.1, 0.4}}}
	for _, name := range []string{LeftImage, RightImage} {
		m := imaging.NewRGB(640, 480)
		tone := byte(rng.Uint32())
		for i := range m.Pix {
			m.Pix[i] = tone + byte(i%64)
		}
		o.Images[name] = m
	}
	return o
}

func loaded(t testing.TB, o Options) *Policy {
	t.Helper()
	dir, _, _, _ := saved(t)
	o.Threads = 1
	p, err := Load(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func infer(t testing.TB, p *Policy, o Observation) Chunk {
	t.Helper()
	c, err := p.Infer(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestInferAnswersTheArenaContract(t *testing.T) {
	p := loaded(t, Options{Seed: 1})
	c := infer(t, p, umiObservation(1))
	if c.Dim != 16 || c.Steps != 4 || len(c.Values) != 64 || c.RateHz != 10 {
		t.Fatalf("%d x %d at %v Hz, %d numbers", c.Steps, c.Dim, c.RateHz, len(c.Values))
	}
	for k := range c.Steps {
		for hand := range 2 {
			n := 0.0
			for _, q := range c.Values[k*16+7*hand+3:][:4] {
				n += float64(q) * float64(q)
			}
			if math.Abs(n-1) > 1e-5 {
				t.Errorf("step %d hand %d: quaternion of square length %v", k, hand, n)
			}
		}
	}
}

func TestInferIsAFunctionOfObservationAndSeed(t *testing.T) {
	p := loaded(t, Options{Seed: 1})
	a := infer(t, p, umiObservation(1))
	other := infer(t, p, umiObservation(2))
	again := infer(t, p, umiObservation(1))
	if !slices.Equal(a.Values, again.Values) {
		t.Error("equal observations gave different answers")
	}
	if slices.Equal(a.Values, other.Values) {
		t.Error("other pictures gave the same answer")
	}
	if seeded := infer(t, loaded(t, Options{Seed: 2}), umiObservation(1)); !slices.Equal(a.Values, seeded.Values) {
		t.Error("without noise another seed gave another answer")
	}
	one := infer(t, loaded(t, Options{Seed: 1, Noise: NoiseFixed}), umiObservation(1))
	two := infer(t, loaded(t, Options{Seed: 2, Noise: NoiseFixed}), umiObservation(1))
	if slices.Equal(one.Values, two.Values) || slices.Equal(one.Values, a.Values) {
		t.Error("another draw of noise gave the same answer")
	}
	fresh := loaded(t, Options{Seed: 1, Noise: NoiseFresh})
	first, second := infer(t, fresh, umiObservation(1)), infer(t, fresh, umiObservation(1))
	if slices.Equal(first.Values, second.Values) {
		t.Error("fresh noise gave the same answer twice")
	}
	fresh.Reset()
	if !slices.Equal(first.Values, infer(t, fresh, umiObservation(1)).Values) {
		t.Error("after Reset the first answer is another")
	}
}

func TestThePromptMayChangeBetweenCalls(t *testing.T) {
	p := loaded(t, Options{})
	o := umiObservation(1)
	a := infer(t, p, o)
	o.Prompt = "put it"
	b := infer(t, p, o)
	o.Prompt = "GO "
	if c := infer(t, p, o); !slices.Equal(a.Values, c.Values) {
		t.Error("the same instruction in other letters gave another answer")
	}
	if slices.Equal(a.Values, b.Values) {
		t.Error("the prompt does not steer")
	}
}

func TestServedWeightsAreTheAverage(t *testing.T) {
	avg, raw := loaded(t, Options{}), loaded(t, Options{RawWeights: true})
	if slices.Equal(infer(t, avg, umiObservation(1)).Values, infer(t, raw, umiObservation(1)).Values) {
		t.Error("raw and averaged weights answer alike")
	}
}

func TestBlankImagesHideThePictures(t *testing.T) {
	p := loaded(t, Options{BlankImage: true})
	if !slices.Equal(infer(t, p, umiObservation(1)).Values, infer(t, p, umiObservation(2)).Values) {
		t.Error("pictures change the answer of a policy with blanked images")
	}
}

func TestBadObservationsAreNamed(t *testing.T) {
	p := loaded(t, Options{})
	good := infer(t, p, umiObservation(1))
	for want, change := range map[string]func(o *Observation){
		LeftImage:                  func(o *Observation) { delete(o.Images, LeftImage) },
		"observation.image.center": func(o *Observation) { o.Images["observation.image.center"] = imaging.NewRGB(4, 4) },
		RightImage: func(o *Observation) {
			o.Images[RightImage] = imaging.RGB{Width: 640, Height: 480, Pix: make([]byte, 5)}
		},
		HandsPose:             func(o *Observation) { delete(o.Values, HandsPose) },
		JointStates:           func(o *Observation) { o.Values[JointStates] = []float64{1} },
		"not finite":          func(o *Observation) { o.Values[JointStates] = []float64{1, math.NaN()} },
		"not a rotation":      func(o *Observation) { o.Values[HandsPose] = make([]float64, 7) },
		"the policy takes 12": func(o *Observation) { o.Prompt = strings.Repeat("long ", 9) },
		"is not UTF-8":        func(o *Observation) { o.Prompt = "\xff" },
	} {
		o := umiObservation(1)
		change(&o)
		if _, err := p.Infer(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
	if !slices.Equal(good.Values, infer(t, p, umiObservation(1)).Values) {
		t.Error("a refused observation left something behind")
	}
}

// Cameras are told apart by name, not by the order of a map or of the dataset.
func TestSwappedCamerasAreAnotherObservation(t *testing.T) {
	p := loaded(t, Options{})
	o := umiObservation(1)
	o.Images[LeftImage] = imaging.NewRGB(640, 480)
	a := infer(t, p, o)
	o.Images[LeftImage], o.Images[RightImage] = o.Images[RightImage], o.Images[LeftImage]
	if slices.Equal(a.Values, infer(t, p, o).Values) {
		t.Error("left and right picture may be swapped without effect")
	}
}

func TestLoadNeedsACheckpoint(t *testing.T) {
	if _, err := Load(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), ManifestFile) {
		t.Errorf("an empty folder loaded: %v", err)
	}
	dir, _, _, _ := saved(t)
	if _, err := Load(dir, Options{Noise: "loud"}); err == nil {
		t.Error("unknown noise accepted")
	}
}

// BenchmarkInfer is one answer of the tiny two-hand policy to camera images of 640 x 480.
func BenchmarkInfer(b *testing.B) {
	s, err := Preset(PresetUMI, umiFeatures, 30, PresetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	st, err := FitStats(s, "", []Episode{walk(1, 90)})
	if err != nil {
		b.Fatal(err)
	}
	a := Architectures["tiny"]
	p, err := New(NewManifest(s, a, st), awake(b, s, a), Options{})
	if err != nil {
		b.Fatal(err)
	}
	o := umiObservation(1)
	for b.Loop() {
		if _, err := p.Infer(o); err != nil {
			b.Fatal(err)
		}
	}
}
