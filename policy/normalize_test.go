package policy

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func fitted(t *testing.T, rule Rot6DRule) (Spec, Stats, []Episode) {
	t.Helper()
	s := mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{})
	episodes := []Episode{walk(1, 90), walk(2, 120), walk(3, 70)}
	st, err := FitStats(s, rule, episodes)
	if err != nil {
		t.Fatal(err)
	}
	return s, st, episodes
}

func TestStatsArePerStepAndDimension(t *testing.T) {
	s, st, _ := fitted(t, "")
	if err := st.Check(s); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(st.Action.Shape, []int{16, 20}) || !slices.Equal(st.State.Shape, []int{11}) || st.Rows != 280 {
		t.Fatalf("action %v, state %v, %d rows", st.Action.Shape, st.State.Shape, st.Rows)
	}
	// A wandering hand is farther away at later steps: one number for all steps would hide that.
	if first, last := st.Action.Half[0], st.Action.Half[15*20]; last < 2*first {
		t.Errorf("half width of left x grows from %v to %v only", first, last)
	}
}

func TestNormalisationIsInvertible(t *testing.T) {
	for _, rule := range []Rot6DRule{Rot6DIdentity, Rot6DQuantile} {
		s, st, episodes := fitted(t, rule)
		chunk, valid := make([]float64, 320), make([]bool, 16)
		if err := s.EncodeTargets(chunk, valid, episodes[1], 20); err != nil {
			t.Fatal(err)
		}
		n, back := make([]float32, 320), make([]float64, 320)
		st.NormalizeAction(n, chunk, nil)
		st.UnnormalizeAction(back, n)
		for i := range chunk {
			if math.Abs(float64(n[i])) < Clip && math.Abs(back[i]-chunk[i]) > 1e-6*math.Max(1, st.Action.Half[i]) {
				t.Errorf("%s: number %d is %v after the way there and back, want %v", rule, i, back[i], chunk[i])
			}
		}
		for k := range 16 {
			for i := 3; i < 9; i++ {
				if rule == Rot6DIdentity && n[k*20+i] != float32(chunk[k*20+i]) {
					t.Fatalf("rotation numbers were changed under the identity rule")
				}
			}
		}
	}
}

func TestQuantilesMapToOne(t *testing.T) {
	s := Spec{Preset: PresetCustom, State: []Input{{Feature: "q", Representation: Absolute, SourceDim: 1}},
		Action: []Output{{Name: "a", Feature: "q", Representation: Absolute, SourceDim: 1}}, Horizon: 1, Stride: 1, FPS: 10, Prompt: Prompt{MaxTokens: 8}}
	e := Episode{Length: 101, Columns: map[string][]float64{"q": make([]float64, 101)}}
	for i := range 101 {
		e.Columns["q"][i] = float64((i * 37) % 101)
	}
	st, err := FitStats(s, "", []Episode{e})
	if err != nil {
		t.Fatal(err)
	}
	if st.State.Q01[0] != 1 || st.State.Q99[0] != 99 || st.State.Centre[0] != 50 || st.State.Half[0] != 49 {
		t.Errorf("q01 %v q99 %v centre %v half %v of 0..100; want 1 99 50 49", st.State.Q01, st.State.Q99, st.State.Centre, st.State.Half)
	}
}

// A dimension that hardly moves must not blow up what lies outside its range (a loss of -3200 in another project).
func TestFloorsAndClip(t *testing.T) {
	s := Spec{Preset: PresetCustom, State: []Input{
		{Feature: "m", Representation: Absolute, SourceDim: 1, Unit: Metre}, {Feature: "r", Representation: Absolute, SourceDim: 1, Unit: Radian},
		{Feature: "still", Representation: Absolute, SourceDim: 1}},
		Action: []Output{{Name: "a", Feature: "m", Representation: Absolute, SourceDim: 1, Unit: Metre}}, Horizon: 1, Stride: 1, FPS: 10, Prompt: Prompt{MaxTokens: 8}}
	e := Episode{Length: 50, Columns: map[string][]float64{"m": make([]float64, 50), "r": make([]float64, 50), "still": make([]float64, 50)}}
	for i := range 50 {
		e.Columns["m"][i] = 0.5 + 1e-6*float64(i%2)
		e.Columns["r"][i] = 1e-5 * float64(i%2)
		e.Columns["still"][i] = 7
	}
	st, err := FitStats(s, "", []Episode{e})
	if err != nil {
		t.Fatal(err)
	}
	if st.State.Half[0] != floorMetres/2 || st.State.Half[1] != floorRadians/2 || st.State.Half[2] != 0.5 {
		t.Errorf("half widths %v, want half of 3 mm, 0.02 rad and 1", st.State.Half)
	}
	if len(st.State.Floor) != 3 || !strings.HasPrefix(st.State.Floor[0], "m.") {
		t.Errorf("floored dimensions %v are not named", st.State.Floor)
	}
	var c ClipCount
	out := make([]float32, 3)
	st.NormalizeState(out, []float64{9, 0, 7}, &c)
	if out[0] != Clip || out[2] != 0 {
		t.Errorf("normalised %v; want an outlier at %v and the constant at 0", out, Clip)
	}
	if c.Share() != 1.0/3 {
		t.Errorf("clip share %v, want 1/3", c.Share())
	}
}

func TestStatsOfAnotherTransformAreRefused(t *testing.T) {
	s, st, _ := fitted(t, "")
	other := s.canonical()
	other.Stride = 2
	if err := st.Check(other); err == nil || !strings.Contains(err.Error(), "spec_hash") {
		t.Errorf("statistics of stride 3 accepted for stride 2: %v", err)
	}
	for name, change := range map[string]func(*Stats){
		"action": func(st *Stats) { st.Action.Shape = []int{320} }, // flattened
		"state":  func(st *Stats) { st.State.Q99 = st.State.Q99[:10] },
		"half":   func(st *Stats) { st.Action.Half = slices.Clone(st.Action.Half); st.Action.Half[4] = 0 },
		"centre": func(st *Stats) { st.Action.Centre = slices.Clone(st.Action.Centre); st.Action.Centre[0] = math.NaN() },
		"method": func(st *Stats) { st.Method = "zscore" },
		"rot6d":  func(st *Stats) { st.Rot6D = "" },
	} {
		bent := st
		change(&bent)
		if err := bent.Check(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v does not name the field", name, err)
		}
	}
}

func TestStatsSurviveJSON(t *testing.T) {
	_, st, _ := fitted(t, "")
	text, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	var back Stats
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(st, back); d != "" {
		t.Error(d)
	}
}

func TestNoRowsNoStats(t *testing.T) {
	if _, err := FitStats(mustPreset(t, PresetUMI, umiFeatures, 30, PresetOptions{}), "", nil); err == nil {
		t.Error("statistics of nothing")
	}
}
