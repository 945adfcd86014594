package policy

import (
	"math"
	"testing"
)

// Whatever form the network learns, the chunk form, the body deltas and the absolute poses are the same motion.
func TestFormsAreOneMotion(t *testing.T) {
	e := walk(3, 80)
	base := smallSpec(t)
	const row = 20
	want := encoded(t, base, e, row)
	values := map[string][]float64{}
	for _, c := range base.Columns() {
		v, err := e.row(c.Feature, c.Dim, row)
		if err != nil {
			t.Fatal(err)
		}
		values[c.Feature] = v
	}
	wantSteps, err := base.StepDeltas(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []ActionForm{FormChunk, FormStep, FormAbsolute} {
		s, err := base.WithForm(form)
		if err != nil {
			t.Fatal(err)
		}
		if form != FormChunk && s.Hash() == base.Hash() {
			t.Errorf("%s: the transform's hash does not tell it from the chunk form", form)
		}
		got, err := s.ChunkForm(encoded(t, s, e, row), values)
		if err != nil {
			t.Fatal(err)
		}
		near(t, string(form)+" in chunk form", got, want)
		steps, err := s.StepDeltas(got)
		if err != nil {
			t.Fatal(err)
		}
		for k := range steps {
			near(t, string(form)+" as body deltas", steps[k], wantSteps[k])
		}
		absolute, err := s.AbsolutePoses(got, values)
		if err != nil {
			t.Fatal(err)
		}
		for k := range absolute {
			col := 0
			for _, o := range s.Action {
				if !o.Pose() {
					continue
				}
				stored, err := e.row(o.Feature, poseDim, row+s.Row(k))
				if err != nil {
					t.Fatal(err)
				}
				p, _ := poseOf(stored)
				a := p.ArrayXYZXYZW()
				near(t, string(form)+" as absolute poses", absolute[k][col:col+poseDim], a[:])
				col += poseDim
			}
		}
		if form == FormAbsolute {
			if _, err := s.ChunkForm(encoded(t, s, e, row), nil); err == nil {
				t.Error("absolute poses without the present pose gave no error")
			}
			continue
		}
		// The first two answered rows, given back as a prefix, are the first two rows the network would have been trained on.
		prefix, err := s.PrefixOfSteps(wantSteps[:2])
		if err != nil {
			t.Fatal(err)
		}
		near(t, string(form)+" as prefix", prefix, encoded(t, s, e, row)[:2*s.ActionDim()])
	}
	if _, err := base.WithForm("sideways"); err == nil {
		t.Error("an unknown form gave no error")
	}
}

func encoded(t *testing.T, s Spec, e Episode, row int) []float64 {
	t.Helper()
	chunk, valid := make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	if err := s.EncodeTargets(chunk, valid, e, row); err != nil {
		t.Fatal(err)
	}
	return chunk
}

func near(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-9 {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}
