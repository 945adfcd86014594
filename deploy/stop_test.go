package deploy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// A stop of one arm at any tick of a run: both come to rest within the limits, the fingers hold, nothing moves until Recover, and then the
// cell homes and runs again.
func TestStopAtAnyTick(t *testing.T) {
	cell := DefaultCell()
	h := FakeHello()
	p, _, err := newPair(&h, cell.Safety)
	if err != nil {
		t.Fatal(err)
	}
	rest := [2]armlink.Joints{robotmodel.FR3().Rest, robotmodel.FR3().Rest}
	for i, at := range []int64{1_250e6, 1_481e6, 1_777e6, 2_003e6, 2_500e6, 3_333e6} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			watch := newLimitWatch(&p, rest)
			var held [2]float64
			var last [2]armrt.Command
			stopped := int64(0)
			s, _ := fakeSession(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4},
				Inject: func(tNS int64, rt [2]*armrt.Runtime) {
					if tNS == at {
						rt[i%2].Stop(tNS, "emergency")
						held = [2]float64{last[0].GripperRad, last[1].GripperRad}
						stopped = tNS
					}
				},
				Observe: func(tNS int64, cmd [2]armrt.Command) {
					watch.observe(tNS, cmd)
					last = cmd
				}})
			starts := [2]HandStart{{Pose: s.HandPose(0), FingerRad: 0.4}, {Pose: s.HandPose(1), FingerRad: 0.4}}
			ctx := context.Background()
			res, err := s.Run(ctx, RunOptions{Policy: &scripted{rateHz: 30}, MaxDuration: 20 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if !res.Stopped() || !strings.Contains(res.Reason, "emergency") || stopped == 0 {
				t.Fatalf("result %+v", res)
			}
			for i := 0; i < 50; i++ {
				if err := s.next(ctx); err != nil {
					t.Fatal(err)
				}
			}
			for h := range last {
				for j, v := range last[h].DQ {
					if math.Abs(v) > 1e-4 {
						t.Errorf("%s arm joint %d still moves at %v rad/s", Hands[h], j+1, v)
					}
				}
				// What was on its way when the stop came is braked within the servo's acceleration: 0.2 rad/s takes a third of a milliradian.
				if d := math.Abs(last[h].GripperRad - held[h]); d > 2e-3 {
					t.Errorf("%s fingers moved by %v rad after the stop", Hands[h], d)
				}
			}
			if err := s.Recover(ctx); err != nil {
				t.Fatal(err)
			}
			if err := s.Home(ctx, starts); err != nil {
				t.Fatal(err)
			}
			res, err = s.Run(ctx, RunOptions{Policy: &scripted{rateHz: 30}, MaxDuration: time.Second})
			if err != nil || res.Outcome != OutcomeTime {
				t.Errorf("run after recovery: %+v, %v", res, err)
			}
			if watch.err != nil {
				t.Error(watch.err)
			}
		})
	}
}

// A caller that gives up gets its own error, and the arms are told to stop.
func TestCancelledRunStopsTheArms(t *testing.T) {
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.4}})
	ctx, cancel := context.WithCancel(context.Background())
	_, err := s.Run(ctx, RunOptions{Policy: &scripted{rateHz: 30}, Step: func(_ context.Context, st Step) (Directive, error) {
		if st.Elapsed > time.Second {
			cancel()
		}
		return Directive{}, nil
	}})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrPolicyLost) {
		t.Fatalf("error %v", err)
	}
	if err := s.settle(context.Background(), settleTime, func(m armlink.Mode) bool { return m == armlink.ModeStopped }, "stop"); err != nil {
		t.Error(err)
	}
}

// Standing still is reported once per standstill, and nothing else happens.
func TestStallIsReportedNotNudged(t *testing.T) {
	cell := DefaultCell()
	cell.Safety.StallMS = 1000
	s, _ := fakeSession(t, cell, FakeOptions{FingerRad: [2]float64{0.4, 0.4}})
	before := s.arm(0).Q
	res, err := s.Run(context.Background(), RunOptions{Policy: Hold{RateHz: 10}, MaxDuration: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if res.Stalls != 1 || res.Outcome != OutcomeTime || res.Starved != 0 {
		t.Errorf("result %+v, want one stall", res)
	}
	for j, q := range s.arm(0).Q {
		if math.Abs(q-before[j]) > 1e-3 {
			t.Errorf("hold moved joint %d by %v rad", j+1, q-before[j])
		}
	}
}

// A cell with a camera missing, or with one arm, is refused with its name.
func TestIncompleteCells(t *testing.T) {
	for want, edit := range map[string]func(*armlink.Hello){
		"no right wrist camera":     func(h *armlink.Hello) { h.Cameras = h.Cameras[:1] },
		"armlink 9":                 func(h *armlink.Hello) { h.Version = 9 },
		"arm model \"no-such-arm\"": func(h *armlink.Hello) { h.Arms[1].Model = "no-such-arm" },
		"world_from_base":           func(h *armlink.Hello) { h.Arms[0].WorldFromBase = armlink.Pose{} },
	} {
		f, err := NewFake(FakeOptions{Greet: edit})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Connect(context.Background(), DefaultCell(), ConnectOptions{Conn: f.Conn(), OpenCamera: f.OpenCamera})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		f.Wait()
	}
}

// Sessions leave no goroutine behind.
func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := 0; i < 5; i++ {
		f, err := NewFake(FakeOptions{FingerRad: [2]float64{0.4, 0.4}})
		if err != nil {
			t.Fatal(err)
		}
		s, err := Connect(context.Background(), DefaultCell(), ConnectOptions{Conn: f.Conn(), OpenCamera: f.OpenCamera})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Run(context.Background(), RunOptions{Policy: Hold{RateHz: 30}, MaxDuration: 300 * time.Millisecond}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		f.Wait()
	}
	for i := 0; runtime.NumGoroutine() > before && i < 200; i++ {
		time.Sleep(10 * time.Millisecond) // goroutines that have finished may not have left the scheduler yet
	}
	if n := runtime.NumGoroutine(); n > before {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after\n%s", before, n, buf[:runtime.Stack(buf, true)])
	}
}
