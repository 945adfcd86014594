package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// A policy slower than its own chunks: the arms stop and go, skip nothing and stay on the reference; each wait is counted, and asking goes on.
func TestPolicySlowerThanItsChunks(t *testing.T) {
	cell := DefaultCell()
	cell.Control.PolicyLatencyMS = 700 // 16 rows at 30 Hz last 533 ms
	h := FakeHello()
	p, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	watch := newLimitWatch(&p, [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest})
	s, _ := fakeSession(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4}, Observe: watch.observe})
	base := s.measured().pose
	pol := &scripted{rateHz: 30}
	res, err := s.Run(context.Background(), RunOptions{Policy: pol, MaxDuration: 8 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome != OutcomeTime || res.Starved < 4 || res.Chunks < 5 || res.Rejected != 0 {
		t.Errorf("result %+v", res)
	}
	if watch.err != nil {
		t.Error(watch.err)
	}
	for i, o := range pol.seen {
		at := o.Consumed.Seconds()
		want := base[0].Mul(reference(0, at)).Inv().Mul(base[1].Mul(reference(1, at)))
		if m, rad := o.LeftFromRight.Distance(want); m > 0.003 || rad > 0.02 {
			t.Errorf("question %d at policy time %v: hands are %.4f m %.3f rad from the reference", i, o.Consumed, m, rad)
		}
	}
	if got := pol.seen[len(pol.seen)-1].Consumed; got < 2*time.Second {
		t.Errorf("only %v of motion in 8 s", got)
	}
}

// Real time: an arm process that falls silent is lost, with that reason.
func TestSilentArmProcess(t *testing.T) {
	quiet := false
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{RealTime: true, FingerRad: [2]float64{0.4, 0.4},
		Inject: func(tNS int64, _ [2]*armrt.Runtime) {
			if !quiet {
				quiet = true
				time.Sleep(500 * time.Millisecond)
			}
		}})
	_, err := s.Run(context.Background(), RunOptions{Policy: Hold{RateHz: 30}, MaxDuration: 10 * time.Second})
	if !errors.Is(err, ErrCellLost) || errors.Is(err, ErrPolicyLost) {
		t.Errorf("error %v, want the cell lost", err)
	}
}

// An arm process that does not answer is a lost cell too, wherever it is waited for.
func TestUnansweredQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{incoming: make(chan any)}
		if _, err := s.receive(t.Context()); !errors.Is(err, ErrCellLost) {
			t.Errorf("error %v, want the cell lost", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.receive(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, ErrCellLost) {
			t.Errorf("error %v, want an interruption", err)
		}
	})
}

// A run that ends before its first step has a result that can be written as JSON, which knows no infinity.
func TestARunWithoutAStepHasAFiniteResult(t *testing.T) {
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{})
	_ = s.conn.Close()
	res, err := s.Run(t.Context(), RunOptions{Policy: Hold{RateHz: 30}})
	if !errors.Is(err, ErrCellLost) {
		t.Fatalf("error %v, want the cell lost", err)
	}
	if _, err := json.Marshal(res); err != nil {
		t.Error(err)
	}
}

// The seam gate: a new chunk that would put a hand 6 cm off its path stops the run instead of being blended in.
func TestSeamGateStops(t *testing.T) {
	h := FakeHello()
	cell := DefaultCell()
	cell.Safety.HandSpeedMPS, cell.Safety.SeamGateM = 3, 0.05
	p, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	e := newExecutor(&p, cell, Contract{RateHz: 30, PoseReference: ReferenceBody, PoseTiming: TimingNext}, 10e6, 0)
	rest := [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}
	e.begin(1e9, rest, [2]float64{0.4, 0.4})
	if err := e.takeOver(1e9, 1e9, referenceChunk(0, 30)); err != nil {
		t.Fatal(err)
	}
	for now := int64(1e9); now <= 1.4e9; now += 10e6 {
		if _, err := e.extend(now); err != nil {
			t.Fatal(err)
		}
	}
	// The first rows jump sideways by 6 cm and then stay; by now they are in the past, so the jump lies at the switch.
	c := referenceChunk(0, 30)
	still := frames.Identity.ArrayXYZXYZW()
	for k := 0; k < 16; k++ {
		step := still
		if k < 2 {
			step[1] = 0.03
		}
		setRow(c.Data[16*k:], step, still, [2]float64{0.4, 0.4})
	}
	before := e.path
	if err := e.takeOver(1.4e9, 1.1e9, c); !errors.Is(err, ErrStop) {
		t.Fatalf("error %v, want a stop", err)
	}
	if e.path != before {
		t.Error("the refused chunk changed the path")
	}
}
