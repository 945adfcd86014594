package train

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/score"
)

// From steps whose times follow known costs the fit finds them, and leaves out works that cost nothing; a point that does not follow them is off by
// as much as it is.
func TestSpeedModelFindsTheCosts(t *testing.T) {
	want := [works]float64{perOperation: 3e-12, perActivation: 2e-9, perParameter: 4e-10}
	m := &SpeedModel{}
	for i, l := range [][works]float64{{80, 1e9, 4e6, 1e6}, {80, 8e9, 32e6, 1e6}, {120, 2e9, 3e6, 5e6}, {120, 16e9, 24e6, 5e6}, {60, 1e9, 2e7, 2e5}, {200, 4e10, 1e8, 2e7}} {
		p := SpeedPoint{load: l, HeldOut: i == 5}
		p.Measured = (&SpeedModel{Seconds: want}).predict(l)
		if p.HeldOut {
			p.Measured *= 1.25
		}
		m.Points = append(m.Points, p)
	}
	if err := m.fit(); err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if math.Abs(m.Seconds[i]-want[i]) > 1e-6*want[i]+1e-18 {
			t.Errorf("cost %d is %g, want %g", i, m.Seconds[i], want[i])
		}
	}
	m.Points[5].Predicted = m.predict(m.Points[5].load)
	if got := m.HeldOutError(); math.Abs(got-0.2) > 1e-9 { // 1/1.25 is a fifth less
		t.Errorf("held-out error %v, want 0.2", got)
	}
	if !strings.Contains(m.String(), "20.0 %  held out") {
		t.Errorf("table:\n%s", m)
	}
}

func TestPeakOfAGPUByItsName(t *testing.T) {
	for model, want := range map[string]string{"NVIDIA H200": "h200", "NVIDIA GeForce RTX 4090": "rtx4090", "NVIDIA A100-SXM4-80GB": "a100", "Radeon": ""} {
		if got := gpuNamed(model); got != want {
			t.Errorf("%s: %q, want %q", model, got, want)
		}
	}
	s := speed{flops: 2e9, peak: 1e12}
	if tflops, mfu := s.of(100); tflops != 0.2 || mfu != 0.2 {
		t.Errorf("100 samples/s of 2 GFLOP: %v TFLOP/s, MFU %v; want 0.2 and 0.2", tflops, mfu)
	}
	if !strings.Contains(s.text(100), "MFU 20 %") {
		t.Error(s.text(100))
	}
}

// A run's loader costs time, never more than all of it, and the comparison leaves no run folder behind.
func TestCompareLoader(t *testing.T) {
	c := small(spots(t, 3, 10), t.TempDir())
	r, err := CompareLoader(context.Background(), c, 3, time.Now, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !(r.Loaded > 0 && r.Alone > 0 && r.Waiting >= 0 && r.Waiting <= 1) || !strings.Contains(r.String(), "ratio") {
		t.Errorf("%+v", r)
	}
}

// Episodes of a task count alike, whatever their chunks, then tasks: a task with two episodes of errors 1 and 3 and a task with one of error 5 give 3.5.
func TestReplayAveragesEpisodesThenTasks(t *testing.T) {
	sums := replaySums{}
	add := func(episode int, task string, cm float64, chunks int) {
		for range chunks {
			e := sums.of(example{origin: origin{Episode: episode}, prompt: task})
			moved := start
			moved.Pose[0].Pos.X += cm / 100
			for _, s := range []*score.ReplayScorer{&e.policy, &e.hold} {
				if err := s.Add(start, []score.Hands{moved}, []score.Hands{start}, 0.1); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cm := func(mse float64) float64 { return score.PositionScaleCM * math.Sqrt(6*mse) } // one of six channels errs
	add(1, "a", cm(1), 3)
	add(2, "a", cm(3), 1)
	add(3, "b", cm(5), 2)
	r, err := sums.result()
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(r.Policy-3.5) > 1e-9 || math.Abs(r.Hold-3.5) > 1e-9 || r.Within != 0 {
		t.Errorf("%+v, want 3.5", r)
	}
}
