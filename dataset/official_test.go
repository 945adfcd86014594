package dataset

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// seen is what official_rules.py prints.
type seen struct {
	Rows, Episodes, Decoded int
	Grey                    map[string][][3]float64
	Columns, Tasks          []string
}

// official loads a dataset by the official loader's rules, with its libraries.
func official(t *testing.T, root, nth string) seen {
	t.Helper()
	python := testpeer.Python(t, "datasets", "pyarrow", "pandas", "av", "numpy")
	cmd := exec.Command(python, "testdata/official_rules.py", root, nth)
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the official loader's rules are broken: %v\n%s", err, out)
	}
	var s seen
	if err := json.Unmarshal(out, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOfficialLoaderReadsOurDataset(t *testing.T) {
	s := official(t, makeDataset(t), "1")
	if s.Rows != 39 || s.Episodes != 3 || s.Decoded != 78 || !slices.Equal(s.Tasks, []string{"task 0", "task 1"}) {
		t.Errorf("saw %d rows, %d episodes, %d frames, tasks %v", s.Rows, s.Episodes, s.Decoded, s.Tasks)
	}
	for c, name := range []string{"observation.images.left", "observation.images.right"} {
		for _, g := range s.Grey[name] { // each row must come with its own picture
			want := float64(shade(2*int(g[0])+c, int(g[1])))
			if math.Abs(g[2]-want) > 3 {
				t.Errorf("%s episode %v row %v has grey %.1f, want %.0f", name, g[0], g[1], g[2], want)
			}
		}
	}
	for _, c := range []string{"recording_sha256", "success", "tags", "score"} {
		if !slices.Contains(s.Columns, c) {
			t.Errorf("extra column %q did not survive", c)
		}
	}
}
