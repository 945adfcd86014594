package deploy

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// A run's log holds every wrist frame once, poses and fingers at every state, chunks, commands and events, all on the cell's clock.
func TestTrialLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trial.mcap")
	w, err := rawlog.Create(path, rawlog.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := fakeSession(t, DefaultCell(), FakeOptions{FingerRad: [2]float64{0.4, 0.3}})
	log, err := NewTrialLog(w, s.Hello())
	if err != nil {
		t.Fatal(err)
	}
	base := s.measured()
	res, err := s.Run(context.Background(), RunOptions{Policy: &scripted{rateHz: 30}, Prompt: "go", MaxDuration: 2 * time.Second, Log: log,
		Step: func(_ context.Context, st Step) (Directive, error) {
			if st.Elapsed == 10*time.Millisecond {
				if err := log.SessionEvent(st.TNS, rawlog.EventStart, "task", false); err != nil {
					return Directive{}, err
				}
				return Directive{}, log.SessionEvent(st.TNS, rawlog.EventSubtask, "go", false)
			}
			if st.Elapsed == 1990*time.Millisecond {
				return Directive{}, log.SessionEvent(st.TNS, rawlog.EventAccept, "go", true)
			}
			return Directive{}, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := rawlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	count := map[string]int{}
	stamps := map[string]int64{}
	var events []rawlog.SessionEvent
	for m, err := range r.Messages() {
		if err != nil {
			t.Fatal(err)
		}
		topic := m.Channel.Topic
		if m.Channel.Clock() != TrialClock {
			t.Fatalf("%s is on clock %q", topic, m.Channel.Clock())
		}
		if m.PublishTime < stamps[topic] {
			t.Fatalf("%s runs back in time", topic)
		}
		stamps[topic] = m.PublishTime
		count[topic]++
		switch topic {
		case "/tf":
			var tf rosmsg.TFMessage
			if err := tf.UnmarshalCDR(m.Data); err != nil {
				t.Fatal(err)
			}
			if len(tf.Transforms) != 2 || tf.Transforms[1].Header.FrameID != "cell" || tf.Transforms[1].ChildFrameID != "right_hand_root" {
				t.Fatalf("transforms %+v", tf.Transforms)
			}
			if count[topic] == 1 {
				got, want := tf.Transforms[0].Transform.Translation, base.pose[0].Pos
				if math.Abs(got.X-want.X)+math.Abs(got.Y-want.Y)+math.Abs(got.Z-want.Z) > 1e-6 {
					t.Errorf("first left pose %v, want %v", got, want)
				}
			}
		case "/joint_states":
			var js rosmsg.JointState
			if err := js.UnmarshalCDR(m.Data); err != nil {
				t.Fatal(err)
			}
			if js.Name[0] != "left_right_finger_joint" || js.Name[1] != "right_right_finger_joint" {
				t.Fatalf("joints %v", js.Name)
			}
		case "/left_camera/image_raw/compressed":
			var im rosmsg.CompressedImage
			if err := im.UnmarshalCDR(m.Data); err != nil || im.Format != "jpeg" || im.Header.Stamp.Nanos() != m.PublishTime {
				t.Fatalf("image %v %v", im.Format, err)
			}
		case rawlog.TopicSession:
			var e rawlog.SessionEvent
			if err := json.Unmarshal(m.Data, &e); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
	}
	seconds := res.Duration.Seconds()
	if n, want := count["/tf"], int(math.Round(seconds*100)); n != want {
		t.Errorf("%d pose messages in %.2f s, want %d", n, seconds, want)
	}
	for _, topic := range []string{"/left_camera/image_raw/compressed", "/right_camera/image_raw/compressed"} {
		if n := count[topic]; n < int(seconds*10) || n > int(seconds*10)+1 {
			t.Errorf("%s: %d frames in %.2f s at 10 Hz", topic, n, seconds)
		}
	}
	if count[TopicChunk] != res.Chunks+res.Rejected || count[TopicCommand] < 190 || count[TopicEvent] < 2 {
		t.Errorf("messages %v for %+v", count, res)
	}
	if len(events) != 3 || events[2].Success == nil || !*events[2].Success || events[0].Success != nil || events[2].Subtask != 0 {
		t.Errorf("session events %+v", events)
	}
}

// In real time latencies are measured and nothing waits for the policy; the arms follow and come to rest.
func TestRealTime(t *testing.T) {
	cell := DefaultCell()
	cell.Safety.StateMaxAgeMS, cell.Safety.ObservationMaxAgeMS, cell.Safety.PolicyMaxMS = 5000, 5000, 5000 // a busy test machine is no fault
	cell.Control.LeadMS = 500
	s, _ := fakeSession(t, cell, FakeOptions{RealTime: true, FingerRad: [2]float64{0.4, 0.4}})
	res, err := s.Run(context.Background(), RunOptions{Policy: &slow{scripted{rateHz: 30}}, MaxDuration: 1500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if res.Outcome == OutcomeStopped {
		t.Skipf("this machine is too busy for real time: %s", res.Reason)
	}
	if res.Chunks < 2 || res.PolicyLatency.P50 < 20*time.Millisecond {
		t.Errorf("result %+v: latencies must be measured", res)
	}
	if m := s.arm(0).Mode; m != armlink.ModeIdle {
		t.Errorf("left arm is %s after the run", m)
	}
}

type slow struct{ scripted }

func (p *slow) Infer(ctx context.Context, o Observation) (Chunk, error) {
	time.Sleep(20 * time.Millisecond)
	return p.scripted.Infer(ctx, o)
}
