package ingest

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// pythonRows is one segment as testdata/rebake_rows.py computes it.
type pythonRows struct {
	Ticks       []int64
	Joints      [][]float64
	NextJoints  [][]float64 `json:"next_joints"`
	JointsFresh []bool      `json:"joints_fresh"`
	CameraFresh map[string][]bool
	Left        pythonPoses `json:"left_hand_root"`
	Tip         pythonPoses `json:"left_left_finger_tip"`
	Hands       pythonPoses `json:"hand_to_hand"`
	Controller  pythonPoses `json:"right_controller"`
}

type pythonPoses struct {
	Absolute, Relative [][]float64
	Fresh              []bool
}

// Rows, motions and freshness by rebake's rules against a computation of their own in Python, on a log whose late topics,
// touching segments and separate senders make every rule count.
func TestRebakeRowsAgainstPython(t *testing.T) {
	python := testpeer.Python(t, "mcap", "mcap_ros2", "numpy")
	dir := t.TempDir()
	log := yubiBag(t, dir+"/bag", 0.3)
	rep, d := ingest(t, Options{Sources: []string{dir + "/bag"}, Out: dir + "/set", Compat: CompatRebake})
	text, err := exec.Command(python, "testdata/rebake_rows.py", log, filepath.Join(filepath.Dir(log), meta.FileName), "30").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderrOf(err))
	}
	var want []pythonRows
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"camera_fresh"`, `"CameraFresh"`)), &want); err != nil {
		t.Fatal(err)
	}
	// The timeline begins only with /rosout and the camera's transform at 900 ms, so the first two attempts have lost their rows or most.
	if len(want) != 3 || len(want[0].Ticks) != 0 || len(want[1].Ticks) == 0 || rep.Episodes != 2 {
		t.Fatalf("%d segments, report %+v", len(want), rep)
	}
	// Segments that touch at a tick share it; here no tick falls on a boundary, but all rows of both are there.
	for e, w := range want[1:] {
		ep, err := d.Episode(e)
		if err != nil || ep.Length != len(w.Ticks) || ep.Extra["start_ns"] != w.Ticks[0] {
			t.Fatalf("episode %d: %d rows from %v, want %d from %d, %v", e, ep.Length, ep.Extra["start_ns"], len(w.Ticks), w.Ticks[0], err)
		}
		for name, p := range map[string]pythonPoses{
			"observation.pose.left_hand_root": w.Left, "observation.pose.left_left_finger_tip": w.Tip, "observation.pose.right_controller": w.Controller} {
			nearRows(t, d, e, name+".absolute", p.Absolute)
			nearRows(t, d, e, name+".relative", p.Relative)
			sameFlags(t, d, e, name+".absolute.is_fresh", p.Fresh)
		}
		nearRows(t, d, e, feature.HandToHand, w.Hands.Absolute)
		nearRows(t, d, e, "observation.pose.left_hand_to_right_hand.relative", w.Hands.Relative)
		nearRows(t, d, e, "action.pose.left_hand_root.relative", w.Left.Relative)
		nearRows(t, d, e, feature.JointStates, w.Joints)
		nearRows(t, d, e, "action.joint_states", w.NextJoints)
		sameFlags(t, d, e, "observation.joint_states.is_fresh", w.JointsFresh)
		for camera, f := range w.CameraFresh {
			sameFlags(t, d, e, "observation.image."+camera+".is_fresh", f)
		}
	}
	if n := len(withoutDefaults(d.Features())); n != 56+2 {
		t.Errorf("%d features, want rebake's 56 and two marks", n)
	}
}

// Both ends of a segment are inside, and float seconds are cut, not rounded.
func TestRebakeSegmentsHoldBothEnds(t *testing.T) {
	s := &survey{meta: meta.New(), rebake: &rebakeLog{first: 0, last: 1e9}}
	s.meta.AddSegment("a", 0, 0.3333333329, true)
	s.meta.AddSegment("b", 0.3333333329, 0.9999999999, true)
	r, err := s.rebakeRows(3, s.rebakeSegments()) // ticks at 0, 333333333, 666666666 and 999999999 ns
	if err != nil || r.tl.N != 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	s.meta.Segments[0].EndTime, s.meta.Segments[1].StartTime = 0.33333333399, 0.33333333399
	shared, err := s.rebakeRows(3, s.rebakeSegments())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][4]int{{0, 1, 1, 4}, {0, 2, 1, 4}} {
		got := []rows{r, shared}[i].spans
		if n := [4]int{got[0].first, got[0].end, got[1].first, got[1].end}; n != want {
			t.Errorf("case %d: rows %v, want %v", i, n, want)
		}
	}
}

func nearRows(t *testing.T, d *dataset.Dataset, e int, name string, want [][]float64) {
	t.Helper()
	got := column[float64](t, d, name, e)
	flat := slices.Concat(want...)
	if len(got) != len(flat) {
		t.Fatalf("%s episode %d: %d values, want %d", name, e, len(got), len(flat))
	}
	for i := range got {
		if math.Abs(got[i]-flat[i]) > 1e-12 {
			t.Fatalf("%s episode %d value %d: %v, want %v", name, e, i, got[i], flat[i])
		}
	}
}

func sameFlags(t *testing.T, d *dataset.Dataset, e int, name string, want []bool) {
	t.Helper()
	if got := column[bool](t, d, name, e); !slices.Equal(got, want) {
		t.Errorf("%s episode %d: %v, want %v", name, e, got, want)
	}
}

func stderrOf(err error) string {
	if ee, ok := err.(*exec.ExitError); ok {
		return string(ee.Stderr)
	}
	return ""
}
