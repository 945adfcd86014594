package eval

import (
	"context"
	"math"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// lineDataset has one episode of n rows at 10 Hz in which the right hand goes 1 cm along +X from row to row, and nothing else moves.
func lineDataset(t *testing.T, n int) *dataset.Dataset {
	t.Helper()
	ffmpeg := testpeer.Program(t, "ffmpeg", "ffmpeg")
	dir := t.TempDir()
	clip := filepath.Join(dir, "clip.mp4")
	cmd := exec.Command(ffmpeg, "-v", "error", "-f", "lavfi", "-i", "color=c=red:size=64x48:rate=10", "-frames:v", strconv.Itoa(n), "-c:v", "libx264", "-bf", "0", "-g", "10",
		"-pix_fmt", "yuv420p", "-video_track_timescale", "10000", clip)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pose := func(name string) dataset.Feature {
		return dataset.Feature{Name: name, DType: dataset.Float64, Shape: []int{7}, Names: []string{"x", "y", "z", "qx", "qy", "qz", "qw"}}
	}
	picture := func(name string) dataset.Feature {
		return dataset.Feature{Name: name, DType: dataset.Video, Shape: []int{48, 64, 3}, Names: []string{"height", "width", "channels"}}
	}
	root := filepath.Join(dir, "line")
	w, err := dataset.Create(root, dataset.Options{FPS: 10, Features: []dataset.Feature{
		pose(featurePose[0]), pose(featurePose[1]), {Name: featureFinger, DType: dataset.Float64, Shape: []int{2}, Names: []string{"left", "right"}},
		picture(deploy.KeyImageLeft), picture(deploy.KeyImageRight)}})
	if err != nil {
		t.Fatal(err)
	}
	left, right := make([]float64, 7*n), make([]float64, 7*n)
	for i := range n {
		left[7*i+6], right[7*i+6] = 1, 1
		right[7*i] = 0.01 * float64(i)
	}
	_, err = w.AddEpisode(t.Context(), dataset.Episode{Length: n, Tasks: []string{"go along a line"},
		Columns: map[string]any{featurePose[0]: left, featurePose[1]: right, featureFinger: make([]float64, 2*n)},
		Videos:  map[string]string{deploy.KeyImageLeft: clip, deploy.KeyImageRight: clip}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// By hand: in a window the held hand is off by 1, 2, ... cm. Windows start at rows 0, 16 and 32 of 40; they score rows 1-16, 17-32 and
// 33-39, so the mean square is (2·(1²+...+16²) + (1²+...+7²)) / 39 = (2·1496 + 140) / 39 cm². One of six channels has it, in scales of 2 cm.
// A policy that says the recorded motion has no error at all, and half its speed leaves a quarter of the square.
func TestOpenLoopErrorsByHand(t *testing.T) {
	d := lineDataset(t, 40)
	hold := (2*1496.0 + 140) / 39 / 4 / 6
	for name, c := range map[string]struct {
		policy deploy.Policy
		want   float64
	}{
		"hold":       {deploy.Hold{RateHz: 10}, hold},
		"exact":      {&liner{metresPerRow: 0.01}, 0},
		"half speed": {&liner{metresPerRow: 0.005}, hold / 4},
	} {
		r, err := OpenLoop(t.Context(), OpenLoopOptions{Dataset: d, Policy: c.policy})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if math.Abs(r.PolicyMSE-c.want) > 1e-5 || math.Abs(r.HoldMSE-hold) > 1e-9 {
			t.Errorf("%s: policy %v, want %v; hold %v, want %v", name, r.PolicyMSE, c.want, r.HoldMSE, hold)
		}
		if rows := r.Episodes[0].Policy.Rows; rows != 39 {
			t.Errorf("%s: %d rows scored, want 39", name, rows)
		}
	}
}

// liner moves the right hand along its X, if it sees the red pictures and the prompt of the recording.
type liner struct {
	stubPolicy
	metresPerRow float64
	rateHz       float64
}

func (l *liner) Metadata() map[string]any {
	m := l.stubPolicy.Metadata()
	if l.rateHz > 0 {
		m["rate_hz"] = l.rateHz
	}
	return m
}

func (l *liner) Infer(_ context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	c := deploy.Chunk{Rows: 16, Cols: deploy.ActionColumns}
	r, g, _ := obs.Left.At(32, 24)
	sees := r > 200 && g < 60 && obs.Prompt == "go along a line"
	for range c.Rows {
		row := make([]float32, deploy.ActionColumns)
		row[6], row[13] = 1, 1
		if sees {
			row[7] = float32(l.metresPerRow)
		}
		c.Data = append(c.Data, row...)
	}
	return c, nil
}

func TestOpenLoopRefusesAnotherRate(t *testing.T) {
	d := lineDataset(t, 40)
	for rate, want := range map[float64]string{3: "want a whole multiple", 20: "want a whole multiple", 5: ""} {
		_, err := OpenLoop(t.Context(), OpenLoopOptions{Dataset: d, Policy: &liner{rateHz: rate}})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("policy at %v Hz on rows at 10 Hz: %v", rate, err)
		}
	}
}

// Equal weight at each level: two episodes of one task count as much as one of another.
func TestOpenLoopAveragesOverTasks(t *testing.T) {
	var r OpenLoopReport
	for _, e := range []struct {
		task string
		mse  float64
	}{{"a", 1}, {"a", 3}, {"b", 10}} {
		ep := EpisodeError{Task: e.task}
		ep.Policy.NormalizedMSE = e.mse
		r.Episodes = append(r.Episodes, ep)
	}
	r.aggregate()
	if math.Abs(r.PolicyMSE-6) > 1e-12 {
		t.Errorf("got %v, want ((1+3)/2 + 10)/2 = 6", r.PolicyMSE)
	}
}
