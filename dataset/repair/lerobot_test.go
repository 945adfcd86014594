package repair

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// lerobot loads datasets with the official package, which `make soak` installs into an environment.
func lerobot(t *testing.T, venv, verb string, roots ...string) (got []struct {
	Rows, Episodes int
	Sums           map[string]float64
}) {
	t.Helper()
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	python := filepath.Join(testpeer.Root(t), venv, "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("no %s: %v", venv, err)
	}
	cmd := exec.Command(python, append([]string{"../testdata/lerobot_peer.py", verb}, roots...)...)
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lerobot does not load one of %v: %v", roots, err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return got
}

// The official loader reads the numbers and decodes every picture of every dataset that was broken and repaired.
func TestLeRobotLoadsWhatWasRepaired(t *testing.T) {
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the official package is large: make soak installs it and runs this test")
	}
	base := makeSet(t)
	names := slices.Sorted(maps.Keys(faults))
	var roots []string
	for _, name := range names {
		root := filepath.Join(t.TempDir(), "set")
		if err := os.CopyFS(root, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		faults[name].fault(t, root)
		if _, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		roots = append(roots, root)
	}
	for i, got := range lerobot(t, ".venv-lerobot", "load", roots...) {
		d, err := dataset.Open(roots[i])
		if err != nil {
			t.Fatal(err)
		}
		if got.Rows != faults[names[i]].rows || got.Episodes != d.NumEpisodes() {
			t.Errorf("%s: %d rows of %d episodes, want %d of %d", names[i], got.Rows, got.Episodes, faults[names[i]].rows, d.NumEpisodes())
		}
		for _, feature := range []string{"observation.state", "action"} {
			sum := 0.0
			for e := range d.All() {
				v, err := dataset.ReadColumn[float64](d, feature, e.Index)
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range v {
					sum += x
				}
			}
			if math.Abs(got.Sums[feature]-sum) > 1e-5*math.Max(1, math.Abs(sum)) {
				t.Errorf("%s: %s adds up to %v, want %v", names[i], feature, got.Sums[feature], sum)
			}
		}
	}
}

// Real recordings that it does not load as they came load after the repair, each in the package of its version.
func TestLeRobotLoadsRepairedRealRecordings(t *testing.T) {
	for folder, want := range map[string]struct {
		venv           string
		episodes, rows int
	}{"unitree_g1_v21": {".venv-lerobot033", 2, 736}, "open50_v30_malformed": {".venv-lerobot", 1, 427}} {
		to := filepath.Join(t.TempDir(), "new")
		if _, err := Run(context.Background(), testpeer.Data(t, "real/"+folder), Options{To: to, MaxTrim: -1}); err != nil {
			t.Fatal(err)
		}
		if got := lerobot(t, want.venv, "load/60", to)[0]; got.Rows != want.rows || got.Episodes != want.episodes {
			t.Errorf("%s: %d rows of %d episodes, want %d of %d", folder, got.Rows, got.Episodes, want.rows, want.episodes)
		}
	}
}
