package deploy

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// An acknowledgement that the arm process refuses is an error at once, with its reason, not after the time that becoming ready may take.
func TestARefusedRecoverSaysSoAtOnce(t *testing.T) {
	s := &Session{incoming: make(chan any, 8), conn: armlink.NewConn(nowhere{}), index: [2]int{0, 1}}
	s.hello = FakeHello()
	s.hello.Clock = armlink.RealTime
	state := func(ms int64) *armlink.State {
		a := armlink.ArmState{Mode: armlink.ModeStopped, Reason: "the user stop is pressed"}
		return &armlink.State{TNS: ms * 1e6, Arms: []armlink.ArmState{a, a}}
	}
	s.incoming <- state(1010)
	done := make(chan error, 1)
	go func() { done <- s.Recover(context.Background()) }()
	for ms := int64(1020); ; ms += 10 {
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), "release it") || ms > 2000 {
				t.Errorf("after %d ms: %v", ms, err)
			}
			return
		case s.incoming <- state(ms):
		}
		if ms == 1050 {
			s.incoming <- &armlink.Fault{Of: armlink.KindRecover, Text: "left arm: the user stop is pressed; release it, then acknowledge"}
		}
		time.Sleep(time.Millisecond)
	}
}

// Fingers that lag 80 ms more than the arms are commanded 80 ms ahead of them, so that hand and fingers are where the policy wants them at one time.
func TestFingersAreCommandedAhead(t *testing.T) {
	angles := func(latency float64) (rad []float64) {
		cell := DefaultCell()
		cell.Control.GripperLatencyMS = latency
		s, _ := fakeSession(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4}, Observe: func(_ int64, cmd [2]armrt.Command) { rad = append(rad, cmd[0].GripperRad) }})
		if _, err := s.Run(context.Background(), RunOptions{Policy: &scripted{rateHz: 30}, MaxDuration: 3 * time.Second}); err != nil {
			t.Fatal(err)
		}
		return rad
	}
	plain, ahead := angles(-1), angles(80)
	worst, same := 0.0, 0.0
	for ms := 1000; ms < 2500; ms++ {
		worst = math.Max(worst, math.Abs(ahead[ms]-plain[ms+80]))
		same = math.Max(same, math.Abs(ahead[ms]-plain[ms]))
	}
	if worst > 0.003 || same < 0.01 {
		t.Errorf("fingers are %.4f rad from 80 ms ahead, %.4f rad from no lead", worst, same)
	}
}
