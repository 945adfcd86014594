package eval

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// stubPolicy states metadata and never answers.
type stubPolicy struct{ deploy.Policy }

func (stubPolicy) Metadata() map[string]any {
	return deploy.Contract{RateHz: 10, Horizon: 16, PoseReference: deploy.ReferenceBody, PoseTiming: deploy.TimingNext, Checkpoint: "c0ffee"}.Map()
}

func stubPlan(t testing.TB, conditions int, names ...string) Plan {
	t.Helper()
	list, err := ConditionSource{Simulator: "eval"}.List(conditions, "")
	if err != nil {
		t.Fatal(err)
	}
	var entrants []Entrant
	for _, n := range names {
		entrants = append(entrants, Entrant{n, stubPolicy{}, "about " + n})
	}
	plan, err := newPlan(blockToTray(t), list, entrants, 7)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// trialsOf makes one counted trial per condition that passed the given number of milestones.
func trialsOf(plan Plan, name string, done ...int) []Trial {
	var out []Trial
	for n, d := range done {
		t := Trial{Entrant: name, Condition: plan.Conditions[n].Name, Number: n, Attempt: 1, Counts: true, Score: plan.Task.Rubric().Credit(d), End: EndComplete, Seconds: 10}
		t.Done = d
		if d < 4 {
			t.End, t.Cause, t.CauseText, t.FinalState = EndTime, CauseGrasp, "the fingers did not touch the block", "block on the table"
		}
		out = append(out, t)
	}
	return out
}

// All numbers by hand: scores 1, 1, 0.5, 0.25 have mean 0.6875; against 0, 0.25, 0, 0.25 the differences are 1, 0.75, 0.5, 0 with mean
// 0.5625. Of 16 sign assignments those that reach the sum 2.25 are the observed one and the one that flips the zero: p = 2/16.
func TestSummaryByHand(t *testing.T) {
	plan := stubPlan(t, 4, PolicyName, ReplayName)
	trials := append(trialsOf(plan, PolicyName, 4, 4, 2, 1), trialsOf(plan, ReplayName, 0, 1, 0, 1)...)
	void := trials[0]
	void.Counts, void.Score, void.End = false, 0, EndFault
	trials = append(trials, void)
	r, err := summarize(plan, trials)
	if err != nil {
		t.Fatal(err)
	}
	s := r.Summary(PolicyName)
	if s.Score.Estimate != 0.6875 || s.Success.Estimate != 0.5 || s.Trials != 4 || s.Reruns != 1 || s.Seconds != 10 {
		t.Errorf("%+v", s)
	}
	for j, want := range [][2]int{{4, 4}, {4, 3}, {3, 2}, {2, 2}} {
		if s.Steps[j].Attempts != want[0] || s.Steps[j].Passes != want[1] {
			t.Errorf("milestone %d: %d of %d, want %d of %d", j, s.Steps[j].Passes, s.Steps[j].Attempts, want[1], want[0])
		}
	}
	if s.Causes[CauseGrasp] != 2 || s.Ends[EndTime] != 2 || s.Ends[EndComplete] != 2 || s.Ends[EndFault] != 0 {
		t.Errorf("causes %v, ends %v", s.Causes, s.Ends)
	}
	c := r.Comparisons[0]
	if c.Difference.Estimate != 0.5625 || math.Abs(c.Test.P-2.0/16) > 1e-12 || !c.Primary || c.Against != ReplayName {
		t.Errorf("%+v", c)
	}
	if c.Difference.Low > c.Difference.Estimate || c.Difference.High < c.Difference.Estimate {
		t.Errorf("interval %v without its estimate", c.Difference)
	}
}

// A missing trial must not shrink n in silence.
func TestSummaryRefusesAMissingTrial(t *testing.T) {
	plan := stubPlan(t, 3, PolicyName)
	if _, err := summarize(plan, trialsOf(plan, PolicyName, 4, 4)); err == nil || !strings.Contains(err.Error(), "2 counted trials for 3 conditions") {
		t.Errorf("got %v", err)
	}
}

func TestPlanOrderIsARandomOrderInsideEachBlock(t *testing.T) {
	plan := stubPlan(t, 40, "a", "b", "c")
	first := map[string]int{}
	for n, block := range plan.Order {
		seen := map[string]bool{}
		for _, name := range block {
			seen[name] = true
		}
		if len(block) != 3 || len(seen) != 3 {
			t.Fatalf("block %d: %v", n, block)
		}
		first[block[0]]++
	}
	for name, n := range first {
		if n < 5 || n > 25 { // 40/3 with a standard deviation of 3
			t.Errorf("%s runs first in %d of 40 blocks", name, n)
		}
	}
	again := stubPlan(t, 40, "a", "b", "c")
	for n := range plan.Order {
		if strings.Join(plan.Order[n], " ") != strings.Join(again.Order[n], " ") {
			t.Fatal("the same seed gave another order")
		}
	}
}

func TestAFolderKeepsItsPlan(t *testing.T) {
	out := t.TempDir()
	plan := stubPlan(t, 3, PolicyName, HoldName)
	for range 2 { // the second time finds it
		if err := plan.register(out); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadFile(filepath.Join(out, "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	other := stubPlan(t, 4, PolicyName, HoldName)
	if err := other.register(out); err == nil || !strings.Contains(err.Error(), "another plan") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(out, "plan.json")); string(after) != string(before) {
		t.Error("the plan was changed")
	}
	if _, err := newPlan(plan.Task, plan.Conditions, []Entrant{{"../x", stubPolicy{}, ""}}, 0); err == nil {
		t.Error("an entrant's name that leaves the folder was taken")
	}
}

// exampleReport writes pictures and reports of a made-up evaluation of 15 conditions.
func exampleReport(t testing.TB, out string) *Report {
	t.Helper()
	plan := stubPlan(t, 15, PolicyName, HoldName, ReplayName, BlankName)
	trials := trialsOf(plan, PolicyName, 4, 4, 2, 4, 1, 4, 4, 3, 4, 0, 4, 4, 4, 2, 4)
	trials = append(trials, trialsOf(plan, HoldName, make([]int, 15)...)...)
	trials = append(trials, trialsOf(plan, ReplayName, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 0, 1, 0)...)
	trials = append(trials, trialsOf(plan, BlankName, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)...)
	for i := range trials {
		tr := &trials[i]
		dir := tr.dir(out)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for k, label := range append([]string{"start", "reach", "lift", "carry", "place"}[:tr.Done+1], "end") {
			for h, hand := range deploy.Hands {
				img := imaging.NewRGB(64, 48)
				for p := range img.Pix {
					img.Pix[p] = byte(40*k + 60*h + p%64)
				}
				p := Picture{label, hand, int64(k) * 1e9, label + "-" + hand + ".jpg"}
				if err := os.WriteFile(filepath.Join(dir, p.File), jpegOf(t, img), 0o644); err != nil {
					t.Fatal(err)
				}
				tr.Pictures = append(tr.Pictures, p)
			}
		}
	}
	r, err := finish(out, plan, trials)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The page must stand alone: every picture inside, nothing fetched. PINCH_REPORT keeps it for a look.
func TestReportIsSelfContained(t *testing.T) {
	out := t.TempDir()
	if keep := os.Getenv("PINCH_REPORT"); keep != "" {
		out = keep
	}
	exampleReport(t, out)
	page, err := os.ReadFile(filepath.Join(out, ReportHTML))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	for _, forbidden := range []string{"http:", "https:", "<script", "src=\"/", "@import", "url(", "ZgotmplZ"} {
		if strings.Contains(text, forbidden) {
			t.Errorf("the page contains %q", forbidden)
		}
	}
	for _, want := range []string{"<b>policy</b> scored <b>0.80</b> of 1 over 15 trials", "the fingers did not touch the block", "data:image/jpeg;base64,", "c0ffee", "mean partial credit of policy minus that of replay"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// 4 entrants x 15 conditions, each with start and end, and one picture for each milestone passed.
	if got, want := strings.Count(text, "<figure>"), 2*60+48+5+1; got != want {
		t.Errorf("%d pictures, want %d", got, want)
	}
	if len(page) > 6<<20 {
		t.Errorf("the page has %d bytes", len(page))
	}
	back, err := ReadReport(out)
	if err != nil {
		t.Fatal(err)
	}
	if back.Summary(PolicyName).Score.Estimate != 0.8 {
		t.Errorf("report.json: %+v", back.Summary(PolicyName))
	}
	var table strings.Builder
	if err := back.WriteText(&table); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(table.String(), "policy  0.80 [") || !strings.Contains(table.String(), "policy - replay: +0.72 [") {
		t.Errorf("table:\n%s", table.String())
	}
}
