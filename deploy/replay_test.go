package deploy

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// recordRun runs on a fake cell with a log and returns the log's path and the result.
func recordRun(t *testing.T, cell Cell, f FakeOptions, o RunOptions) (string, Result, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mcap")
	w, err := rawlog.Create(path, rawlog.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := fakeSession(t, cell, f)
	if o.Log, err = NewTrialLog(w, s.Hello()); err != nil {
		t.Fatal(err)
	}
	res, runErr := s.Run(context.Background(), o)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path, res, runErr
}

// again replays a log and wants every decision equal.
func again(t *testing.T, path string) ReplayReport {
	t.Helper()
	r, err := ReplayLog(context.Background(), path, ReplayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if r.First != nil {
		t.Fatal(r.First)
	}
	if r.Steps < 20 || r.Decisions < r.Steps {
		t.Fatalf("compared nothing: %+v", r)
	}
	return r
}

// Runs with noise, late and rejected answers, a change of the prompt, contact, a stop of the arm, a lost policy and an end by the scorer are decided again, byte
// for byte, in lock-step and in real time.
func TestARunReplaysToTheSameDecisions(t *testing.T) {
	noisy := func() *scripted {
		return &scripted{rateHz: 30, noise: 2e-4, rng: rand.New(rand.NewPCG(3, 4)), mangle: func(call int, c *Chunk) {
			if call%4 == 3 {
				c.Data[3] = 0.5 // a jump of half a metre
			}
		}}
	}
	finger := [2]float64{0.4, 0.4}
	hook := func(_ context.Context, st Step) (Directive, error) {
		switch {
		case st.Elapsed == 500*time.Millisecond:
			return Directive{Prompt: "then that"}, nil
		case st.Elapsed >= 1500*time.Millisecond:
			return Directive{End: true, Reason: "enough"}, nil
		}
		return Directive{}, nil
	}
	slow := DefaultCell()
	slow.Control.PolicyLatencyMS = 350
	for name, c := range map[string]struct {
		cell Cell
		fake FakeOptions
		run  RunOptions
		fail bool
	}{
		"noise, rejections and a lag": {DefaultCell(), FakeOptions{FingerRad: finger, Lag: 20 * time.Millisecond}, RunOptions{Policy: noisy(), MaxDuration: 2 * time.Second}, false},
		"prompt and end":              {slow, FakeOptions{FingerRad: finger}, RunOptions{Policy: noisy(), Prompt: "this", Step: hook}, false},
		"real time":                   {DefaultCell(), FakeOptions{FingerRad: finger, RealTime: true}, RunOptions{Policy: noisy(), MaxDuration: time.Second}, false},
		"a stop of the arm": {DefaultCell(), FakeOptions{FingerRad: finger, Inject: func(tNS int64, rt [2]*armrt.Runtime) {
			if tNS == 1.7e9 {
				rt[0].Reflex("the arm met something")
			}
		}}, RunOptions{Policy: noisy(), MaxDuration: 3 * time.Second}, false},
		"contact": {DefaultCell(), FakeOptions{FingerRad: finger, Hold: func(tNS int64, hand int, q armlink.Joints) armlink.Joints {
			if hand == 1 && tNS > 1.6e9 && tNS < 1.9e9 {
				q[1] += 0.02
			}
			return q
		}}, RunOptions{Policy: noisy(), MaxDuration: 2 * time.Second}, false},
		"a lost policy": {DefaultCell(), FakeOptions{FingerRad: finger}, RunOptions{Policy: &failing{noisy(), 3}, MaxDuration: 3 * time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			path, res, err := recordRun(t, c.cell, c.fake, c.run)
			if (err != nil) != c.fail {
				t.Fatalf("%+v, %v", res, err)
			}
			r := again(t, path)
			t.Logf("%+v; %d steps, %d decisions", res, r.Steps, r.Decisions)
		})
	}
}

// failing is lost at a call.
type failing struct {
	*scripted
	at int
}

// Infer implements Policy.
func (f *failing) Infer(ctx context.Context, o Observation) (Chunk, error) {
	if f.calls == f.at {
		return Chunk{}, errors.New("the server has burnt down")
	}
	return f.scripted.Infer(ctx, o)
}

// A changed configuration shows the first decision that it alters, and when.
func TestAReplayShowsWhatAChangeAlters(t *testing.T) {
	path, _, err := recordRun(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}}, RunOptions{Policy: &scripted{rateHz: 30}, MaxDuration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Cell)
		topic  string
		words  string
	}{
		"ramp":       {func(c *Cell) { c.Control.StartRampMS = 200 }, TopicSegment, "left"},
		"speed gate": {func(c *Cell) { c.Safety.HandSpeedMPS = 0.05 }, TopicChunk, "rejected"},
		"nothing":    {func(c *Cell) { c.Safety.StallMS = 7000 }, "", ""},
	} {
		r, err := ReplayLog(context.Background(), path, ReplayOptions{Change: func(cell *Cell) error { c.change(cell); return nil }})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch {
		case c.topic == "" && r.First == nil:
		case c.topic == "" || r.First == nil:
			t.Errorf("%s: first difference %v", name, r.First)
		case r.First.Topic != c.topic || r.First.TNS <= 1e9 || r.First.TNS >= 2e9 || !strings.Contains(r.First.Replayed, c.words) || !errors.Is(r.First, ErrDiffers):
			t.Errorf("%s: first difference %v", name, r.First)
		}
	}
}

// A log that was cut off, as by a crash, replays up to there; a recording without a run is refused with the reason.
func TestReplayOfOtherLogs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.mcap")
	w, err := rawlog.Create(path, rawlog.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReplayLog(context.Background(), path, ReplayOptions{}); err == nil || !strings.Contains(err.Error(), "no run") {
		t.Errorf("error %v", err)
	}
}

// The log tells by how much rows were raised to keep the fingers off the table.
func TestTheTableRaiseIsLogged(t *testing.T) {
	cell := DefaultCell()
	h := FakeHello()
	p, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	// The table is put 1 cm into the lowest finger tip where the arms stand.
	rest := p.arms[0].model.Rest
	lowest := tipHeight(&p, 0, p.arms[0].handPose(rest), 0.4)
	cell.Safety.TableHeightM = lowest - cell.Safety.FingerClearanceM + 0.01
	path, _, _ := recordRun(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4}}, RunOptions{Policy: Hold{RateHz: 30}, MaxDuration: 500 * time.Millisecond})
	runs, err := readAnswers(path)
	if err != nil || len(runs[0]) == 0 {
		t.Fatalf("%v, %v", runs, err)
	}
	for hand, m := range runs[0][0].RaisedM {
		if want := 0.011; m < want-1e-6 || m > want+1e-6 { // and 1 mm of air
			t.Errorf("%s hand: raised by %.4f m, want %.4f", Hands[hand], m, want)
		}
	}
}

// tipHeight is the height of a hand's lowest finger end.
func tipHeight(p *pair, hand int, pose frames.Pose, finger float64) float64 {
	low := math.Inf(1)
	at := robotmodel.FromPose(pose)
	for _, c := range p.arms[hand].gripper.Capsules(finger) {
		if c.Finger {
			low = math.Min(low, math.Min(at.Apply(c.A)[2], at.Apply(c.B)[2]))
		}
	}
	return low
}

// The view of a run tells its counts, rooms and last event.
func TestViewOfARun(t *testing.T) {
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}, Lag: 20 * time.Millisecond})
	var seen []View
	p := &scripted{rateHz: 30, mangle: func(call int, c *Chunk) {
		if call == 3 {
			c.Data[3] = 0.5
		}
	}}
	res, err := s.Run(context.Background(), RunOptions{Policy: p, Prompt: "go", MaxDuration: 2 * time.Second, Watch: func(v View) { seen = append(seen, v) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 9 || len(seen) > 12 {
		t.Fatalf("%d views in 2 s, want five a second", len(seen))
	}
	at := len(seen) - 3 // before it comes to its end
	last := seen[at]
	room, name := math.Inf(1), ""
	for h := range Hands {
		l := robotmodel.FR3().Limits
		for j, q := range s.arm(h).Q {
			if d := math.Min(q-l.QMin[j], l.QMax[j]-q); d < room {
				room, name = d, Hands[h]
			}
		}
	}
	if last.Steps != 20*(at+1) || last.Chunks < 5 || last.Rejected != 1 || last.Prompt != "go" || !strings.HasPrefix(last.LastEvent, "rejected: row 0 implies") {
		t.Errorf("%+v after %+v", last, res)
	}
	if math.Abs(last.JointRoomRad-room) > 0.05 || !strings.HasPrefix(last.JointName, name) || last.Frames[0] < 14 || last.Rate < 0.9 || last.ChunkAge < 100*time.Millisecond ||
		last.ChunkAge > 700*time.Millisecond || last.ArmDistanceM < 0.1 || last.ArmDistanceM > 0.6 || !(last.SpeedShare > 0.005 && last.SpeedShare < 0.9) || last.TableRoomM <= 0 {
		t.Errorf("%+v; room %v of %s", last, room, name)
	}
}
