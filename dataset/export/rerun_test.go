package export

import (
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// series is one component of an entity.
type series struct {
	Times  []int64
	Values []json.RawMessage
}

// rerun reads with Rerun's own importer, which `make soak` installs into .venv-rerun.
func rerun(t *testing.T, args ...string) map[string]map[string]series {
	t.Helper()
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("the package rerun-sdk is large: make soak installs it and runs this test")
	}
	python := filepath.Join(testpeer.Root(t), ".venv-rerun", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Skipf("no .venv-rerun: %v", err)
	}
	cmd := exec.Command(python, append([]string{"testdata/rerun_peer.py"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("rerun does not read it: %v", err)
	}
	var got map[string]map[string]series
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%.500s", err, out)
	}
	return got
}

// near compares lists of numbers that Rerun keeps as float64 (tol 0) or float32.
func near(t *testing.T, what string, s series, want [][]float64, tol float64) {
	t.Helper()
	if !slices.Equal(s.Times, times()) {
		t.Errorf("%s has times %v", what, s.Times)
		return
	}
	for r, w := range want {
		var got []float64
		if json.Unmarshal(s.Values[r], &got) != nil {
			var nested [][]float64
			if err := json.Unmarshal(s.Values[r], &nested); err != nil {
				t.Errorf("%s row %d: %v", what, r, err)
				return
			}
			got = slices.Concat(nested...)
		}
		if len(got) != len(w) {
			t.Errorf("%s row %d has %v, want %v", what, r, got, w)
			return
		}
		for k := range w {
			if math.Abs(got[k]-w[k]) > tol*math.Max(1, math.Abs(w[k])) {
				t.Errorf("%s row %d is %v, want %v", what, r, got, w)
				return
			}
		}
	}
}

// Rerun shows plots, poses, transforms, video and texts of what we write for it.
func TestRerunSeesTheRows(t *testing.T) {
	root := testSet(t)
	path, _ := mustWrite(t, root, Options{Viewer: Rerun})
	got := rerun(t, path)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for entity, feature := range map[string]string{"/action/position": "action", "/observation/state/position": "observation.state", "/observation/pose/left_hand_root/relative/position": "observation.pose.left_hand_root.relative"} {
		near(t, entity, got[entity]["Scalars:scalars"], column(t, d, feature), 0)
	}
	var places [][]float64
	for _, p := range column(t, d, hand) {
		places = append(places, p[:3])
	}
	near(t, "pose", got["/observation/pose/left_hand_root/absolute"]["InstancePoses3D:translations"], places, 1e-6)
	tf := got["/tf"]["Transform3D:translation"]
	if len(tf.Times) != 2*23 {
		t.Errorf("%d transforms, want those of two frames in 23 rows", len(tf.Times))
	}
	for _, camera := range []string{"/observation/image/left", "/observation/image/right"} {
		if v := got[camera]["VideoStream:sample"]; !slices.Equal(v.Times, times()) {
			t.Errorf("%s is a video of %d samples", camera, len(v.Times))
		}
	}
	var texts []string
	for _, v := range got["/task"]["TextLog:text"].Values {
		var s []string
		json.Unmarshal(v, &s)
		texts = append(texts, s...)
	}
	if !reflect.DeepEqual(texts, []string{"pick", "place", "pick", "place"}) {
		t.Errorf("texts %q", texts)
	}
}

// Rerun opens our datasets as they are, too: what the docs say of it.
func TestRerunOpensTheDataset(t *testing.T) {
	root := testSet(t)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	got := rerun(t, "--dataset", root, "1")
	for entity, feature := range map[string]string{"/action": "action", "/observation.pose.left_hand_root.absolute": hand} {
		want := column(t, d, feature)[rows[0]:]
		s := got[entity]["Scalars:scalars"]
		if len(s.Times) != len(want) {
			t.Errorf("%s has %d rows, want %d", entity, len(s.Times), len(want))
			continue
		}
		for r := range want {
			var v []float64
			if err := json.Unmarshal(s.Values[r], &v); err != nil || s.Times[r] != int64(r) || !slices.Equal(v, want[r]) {
				t.Errorf("%s row %d is %v at %d, want %v; %v", entity, r, v, s.Times[r], want[r], err)
				break
			}
		}
	}
	for _, camera := range []string{"/observation.image.left", "/observation.image.right"} {
		if n := len(got[camera]["VideoStream:sample"].Times); n != rows[1] {
			t.Errorf("%s has %d pictures, want %d", camera, n, rows[1])
		}
	}
	if _, there := got["/observation.state"]; there {
		t.Error("int32 features are shown: say so in docs/dataset.md")
	}
}
