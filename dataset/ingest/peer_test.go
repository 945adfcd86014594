package ingest

import (
	"encoding/json"
	"math"
	"os/exec"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// The dataset read by the official loader's rules, with its own libraries, has the values that the log was made of.
func TestReadByPythonPeers(t *testing.T) {
	python := testpeer.Python(t, "datasets", "pyarrow", "av", "numpy")
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	cmd := exec.Command(python, "testdata/read_like_lerobot.py", dir+"/set", dir+"/cache")
	cmd.Env = append(cmd.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+dir+"/hf", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	out, err := cmd.Output()
	if err != nil {
		if ee, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v\n%s", err, ee.Stderr)
		}
		t.Fatal(err)
	}
	var got struct {
		Lengths            []int
		Tasks              [][]string
		Success            []bool
		Left, Next, Joints [][]float64
		Tick               []int64
		Grey               [][]float64
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Lengths) != 2 || got.Lengths[0] != 12 || got.Lengths[1] != 12 || got.Success[0] || !got.Success[1] || got.Tasks[1][0] != "put the cup down" {
		t.Fatalf("episodes %+v %v %v", got.Lengths, got.Success, got.Tasks)
	}
	for row, tick := range got.Tick {
		if tick != tickAt(3+row) {
			t.Fatalf("row %d at %d, want %d", row, tick, tickAt(3+row))
		}
		_, at := leftTF.held(tick)
		pose := frames.Pose{}
		if pose, err = frames.PoseFromXYZXYZW([7]float64(got.Left[row])); err != nil {
			t.Fatal(err)
		}
		nearPose(t, "left hand", row, pose, handPose("left", at))
		if row%12 != 11 { // the motion of a row leads to the next row of its episode
			d, err := frames.DeltaFromXYZXYZW([7]float64(got.Next[row]), frames.BodyPrevious, frames.Next)
			if err != nil {
				t.Fatal(err)
			}
			_, next := leftTF.held(got.Tick[row+1])
			nearPose(t, "integrated motion", row, d.From(pose), handPose("left", next))
		}
		_, at = jointsS.held(tick)
		if got.Joints[row][0] != leftAngle(at) || got.Joints[row][1] != rightAngle(at) {
			t.Fatalf("row %d: joints %v", row, got.Joints[row])
		}
		n, _ := leftCam.held(tick)
		if g := got.Grey[row/12][row%12]; math.Abs(g-float64(grey(n))) > 4 {
			t.Errorf("row %d shows grey %.1f, want %d", row, g, grey(n))
		}
	}
}

// readByPython has the official loader's libraries read every row and frame of a dataset.
func readByPython(t *testing.T, root string) {
	t.Helper()
	python := testpeer.Python(t, "datasets", "pyarrow", "av", "numpy")
	dir := t.TempDir()
	cmd := exec.Command(python, "testdata/read_like_lerobot.py", root, dir+"/cache")
	cmd.Env = append(cmd.Environ(), "HF_HUB_OFFLINE=1", "HF_HOME="+dir+"/hf", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	if _, err := cmd.Output(); err != nil {
		t.Fatalf("%s: %v\n%s", root, err, stderrOf(err))
	}
}
