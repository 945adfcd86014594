package score

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func four() Rubric {
	return Rubric{{"reach", 0.25, ""}, {"lift", 0.25, ""}, {"carry", 0.25, ""}, {"place", 0.25, ""}}
}

func TestCreditAddsWeightsInOrder(t *testing.T) {
	uneven := Rubric{{"a", 0.1, ""}, {"b", 0.2, ""}, {"c", 0.7, ""}}
	for done, want := range []float64{0, 0.1, 0.3, 1} {
		if got := uneven.Levels()[done]; math.Abs(got-want) > 1e-12 {
			t.Errorf("%d milestones: credit %v, want %v", done, got, want)
		}
	}
	if four().Credit(-1) != 0 || four().Credit(3) != 0.75 || four().Credit(9) != 1 {
		t.Errorf("credits %v %v %v", four().Credit(-1), four().Credit(3), four().Credit(9))
	}
}

func TestRubricRefusesWithTheFault(t *testing.T) {
	for want, r := range map[string]Rubric{
		"at least one milestone": {},
		"milestone 2 has no":     {{"a", 0.5, ""}, {"", 0.5, ""}},
		"stands twice":           {{"a", 0.5, ""}, {"a", 0.5, ""}},
		"add up to 0.75":         four()[:3],
		"want more than 0":       {{"a", 0, ""}, {"b", 1, ""}},
		"weight NaN":             {{"a", math.NaN(), ""}},
	} {
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", r, err, want)
		}
	}
	if err := four().Validate(); err != nil {
		t.Error(err)
	}
}

// Counted by hand: of trials that passed 0, 1, 1, 3 and 4 milestones all five attempt the first, four pass it, and so on.
func TestStepsCountAttemptsAndPasses(t *testing.T) {
	done := []int{0, 1, 1, 3, 4}
	want := []Step{{5, 4}, {4, 2}, {2, 2}, {2, 1}}
	got := four().Steps(done)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	product := 1.0
	for _, s := range got {
		product *= s.Rate()
	}
	if math.Abs(product-1.0/5) > 1e-12 {
		t.Errorf("product of rates %v, want the share of full successes, 1/5", product)
	}
}
