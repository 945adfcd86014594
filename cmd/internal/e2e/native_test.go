//go:build opencv && mujoco && blas && libav

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/eval"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The tags of the Makefile.
const rigTags, simTags, nodeTags = "opencv", "mujoco", "blas,libav"

// The real recordings: check says what is wrong with status 3, info describes them, extract makes the valid part of the
// incomplete one valid.
func TestOtherPeoplesDatasets(t *testing.T) {
	unitree := testpeer.Data(t, "real/unitree_g1_v21")
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	if r := pinch(t, "dataset", "check", unitree); r.status != 3 {
		t.Errorf("check of an incomplete copy: status %d\n%s%s", r.status, r.out, r.errOut)
	}
	if r := pinch(t, "dataset", "check", testpeer.Data(t, "real/open50_v30_malformed")); r.status != 3 {
		t.Errorf("check of a malformed dataset: status %d\n%s%s", r.status, r.out, r.errOut)
	}
	info := must(t, "dataset", "info", unitree, "--json")
	if !strings.Contains(info.out, `"v2.1"`) {
		t.Errorf("info:\n%s", info.out)
	}
	out := filepath.Join(t.TempDir(), "two")
	must(t, "dataset", "extract", unitree, out)
	must(t, "dataset", "check", out)
	pages := filepath.Join(t.TempDir(), "pages")
	if r := must(t, "dataset", "view", out, "--out", pages); !strings.Contains(r.out, filepath.Join(pages, "index.html")) {
		t.Errorf("view:\n%s", r.out)
	}
	r := must(t, "train", "--data", out, "--out", filepath.Join(t.TempDir(), "run"), "size=nano", "steps=10", "warmup=2", "batch=8", "report_rows=16", "val_rows=16")
	if !strings.Contains(r.out, "held-out rows") {
		t.Errorf("train on them reports no error on held-out rows:\n%s", r.out)
	}
}

// trials reads the trials of an evaluation without the times that were measured.
func trials(t *testing.T, dir string) []eval.Trial {
	t.Helper()
	r, err := eval.ReadReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Trials {
		r.Trials[i].Wall = eval.Wall{}
	}
	return r.Trials
}

// The smallest demo: two demonstrations, some steps of the smallest policy, one condition. What it makes has to hold together, not
// to score; and the same evaluation again, with the policy served anew, has to give the same trials.
func TestTheWholeLoop(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demo")
	r := must(t, "demo", "--out", out, "--episodes", "2", "--trials", "1",
		"--train", "size=nano", "--train", "steps=20", "--train", "warmup=5", "--train", "val_share=0", "--train", "report_rows=16")
	for _, want := range []string{"[5/5] eval     done in", "policy - replay: ", "pinch dataset view"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the demo's output lacks %q:\n%s", want, r.out)
		}
	}
	first := trials(t, filepath.Join(out, "eval"))
	if len(first) < 4 {
		t.Fatalf("%d trials, want one for each of policy, hold, replay and blank", len(first))
	}
	for _, tr := range first {
		if tr.Entrant == eval.HoldName && tr.Score != 0 {
			t.Errorf("hold scored %v", tr.Score)
		}
		if tr.Counts && (len(tr.Pictures) < 4 || tr.FinalState == "") {
			t.Errorf("%s: %d pictures, final state %q", tr.Entrant, len(tr.Pictures), tr.FinalState)
		}
	}
	page, err := os.ReadFile(filepath.Join(out, "eval", eval.ReportHTML))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "data:image/jpeg;base64,"); n < 8 {
		t.Errorf("the report has %d pictures", n)
	}
	must(t, "dataset", "check", filepath.Join(out, "eval", "datasets", eval.PolicyName))

	must(t, "bench", "eval", "--demo", out, "--trials", "1")
	if d := cmp.Diff(first, trials(t, filepath.Join(out, "eval-1"))); d != "" {
		t.Errorf("the same seeds gave other trials: %s", d)
	}
	var info struct{ Episodes int }
	if err := json.Unmarshal([]byte(must(t, "dataset", "info", filepath.Join(out, "dataset"), "--json").out), &info); err != nil || info.Episodes != 4 {
		t.Errorf("%d episodes, want two subtasks of two demonstrations (%v)", info.Episodes, err)
	}
}
