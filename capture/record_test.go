package capture

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"image/color"
	"image/jpeg"
	"math"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// recordFake records episodes of a fake rig.
func recordFake(t *testing.T, episodes int, rig *fakeRig) (Result, string) {
	t.Helper()
	s := serve(t, episodes, rig, nil)
	out := filepath.Join(t.TempDir(), "recordings")
	var console bytes.Buffer
	res, err := Record(t.Context(), Options{RigFile: s.rigFile, Out: out, MinFreeBytes: -1, Console: &console})
	if err != nil {
		t.Fatalf("record: %v\n%s", err, console.String())
	}
	sent := s.wait(t)
	for _, c := range res.Cameras {
		if c.Logged == 0 || c.Logged > c.Frames {
			t.Errorf("%s camera: %d of %d frames logged", c.Name, c.Logged, c.Frames)
		}
		if want := sent.Frames[sim.Camera(c.Name)]; c.Frames != want || c.Bad != 0 || c.PacketsLost != 0 {
			t.Errorf("%s camera: %d of %d frames arrived, %d bad, %d packets lost", c.Name, c.Frames, want, c.Bad, c.PacketsLost)
		}
	}
	if t.Failed() {
		t.Log(console.String())
	}
	return res, out
}

type stored struct {
	info   rawlog.Info
	topics map[string][]rawlog.Message
}

func load(t *testing.T, folder string) stored {
	t.Helper()
	path := filepath.Join(folder, filepath.Base(folder)+"_0.mcap")
	r, err := rawlog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := stored{info: r.Info(), topics: map[string][]rawlog.Message{}}
	if !s.info.Complete || len(s.info.Losses) > 0 {
		t.Errorf("%s: complete %v, losses %v", path, s.info.Complete, s.info.Losses)
	}
	for m, err := range r.Messages() {
		if err != nil {
			t.Fatal(err)
		}
		m.Data = bytes.Clone(m.Data)
		s.topics[m.Channel.Topic] = append(s.topics[m.Channel.Topic], m)
	}
	return s
}

func TestRecordingHoldsWhatTheDevicesMeasured(t *testing.T) {
	res, _ := recordFake(t, 2, newFakeRig())
	if len(res.Saved) != 2 || len(res.Discarded) != 0 {
		t.Fatalf("saved %v, discarded %v; want two saved", res.Saved, res.Discarded)
	}
	for i, folder := range res.Saved {
		m, err := meta.Read(folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Segments) != 2 || !m.Episode.Success || m.Labels[0] != sim.Prompts[0] || m.Labels[1] != sim.Prompts[1] {
			t.Errorf("meta.json: %+v", m)
		}
		log := load(t, folder)
		start := float64(i) * 2.6
		checkTimes(t, log, start)
		checkCameras(t, log)
		checkJoints(t, log)
		checkPoses(t, log)
		checkSession(t, log, start)
		checkClock(t, log)
	}
}

// checkClock: the exchanges of a recording are with the rig's clock.
func checkClock(t *testing.T, log stored) {
	t.Helper()
	for _, m := range log.topics[rawlog.TopicClock] {
		var c rawlog.ClockSample
		if err := json.Unmarshal(m.Data, &c); err != nil {
			t.Fatal(err)
		}
		if c.Clock != sim.ClockName || c.DeviceNS < int64(sim.StartTime) || c.HostNS != int64(m.LogTime) || c.RoundTripNS < 0 {
			t.Errorf("%+v logged at %d", c, m.LogTime)
		}
	}
}

// checkTimes: every stream is on the cell's clock, has all its samples from 0.4 s before the first press to 0.25 s after the last, in order,
// and none twice.
func checkTimes(t *testing.T, log stored, start float64) {
	t.Helper()
	rates := map[string]float64{
		"/left_camera/image_raw/compressed": fakeWristHz, "/right_camera/image_raw/compressed": fakeWristHz, "/center_camera/video": fakeCenterHz,
		"/left_camera/camera_info": fakeWristHz, "/joint_states": fakeEncoderHz, "/yubi/gripper/left/joint_state": fakeEncoderHz,
		"/yubi/gripper/right/joint_state": fakeEncoderHz, "/tf": fakeTrackerHz, "/quest/controller/left/tracked": fakeTrackerHz,
		"/quest/controller/right/valid": fakeTrackerHz,
	}
	from, to := start+0.5-0.4, start+1.9+0.25
	for topic, hz := range rates {
		ms := log.topics[topic]
		inside := 0
		for i, m := range ms {
			d, ok := m.DeviceTime()
			if !ok || m.Channel.Clock() != sim.ClockName {
				t.Fatalf("%s is not on the clock %q", topic, sim.ClockName)
			}
			if s := seconds(d); s >= from && s <= to {
				inside++
			} else if s > to || (s < from && topic != "/center_camera/video") {
				t.Errorf("%s has a message at %.3f s, outside %.3f to %.3f s", topic, s, from, to)
			}
			if i > 0 && m.PublishTime <= ms[i-1].PublishTime {
				t.Fatalf("%s: message %d at %d ns follows one at %d ns", topic, i, m.PublishTime, ms[i-1].PublishTime)
			}
		}
		want := int(math.Floor(to*hz)) - int(math.Ceil(from*hz)) + 1
		if inside < want-1 || inside > want+1 { // the borders fall on ticks
			t.Errorf("%s: %d messages, want %d", topic, inside, want)
		}
	}
}

func checkCameras(t *testing.T, log stored) {
	t.Helper()
	for _, side := range sim.Sides {
		for _, m := range log.topics[fmt.Sprintf("/%s_camera/image_raw/compressed", side)] {
			var c rosmsg.CompressedImage
			if err := c.UnmarshalCDR(m.Data); err != nil {
				t.Fatal(err)
			}
			img, err := jpeg.Decode(bytes.NewReader(c.Data))
			if err != nil {
				t.Fatal(err)
			}
			n := int(math.Round(float64(m.PublishTime-int64(sim.StartTime)) / 1e9 * fakeWristHz))
			got, want := int(color.GrayModel.Convert(img.At(20, 20)).(color.Gray).Y), int(fakeLevel(side, n))
			if c.Format != "jpeg" || got < want-3 || got > want+3 {
				t.Fatalf("%s frame %d: level %d, want %d, format %q", side, n, got, want, c.Format)
			}
		}
	}
	for i, m := range log.topics["/center_camera/video"] {
		var c rosmsg.CompressedVideo
		if err := c.UnmarshalCDR(m.Data); err != nil {
			t.Fatal(err)
		}
		if i == 0 && !(bytes.HasPrefix(c.Data, []byte{0, 0, 0, 1, 0x67}) && bytes.Contains(c.Data, []byte{0, 0, 0, 1, 0x68}) && bytes.Contains(c.Data, []byte{0, 0, 0, 1, 0x65})) {
			t.Errorf("the video does not begin with SPS, PPS and an IDR: % x", c.Data[:min(64, len(c.Data))])
		}
	}
}

func checkJoints(t *testing.T, log stored) {
	t.Helper()
	for _, m := range log.topics["/joint_states"] {
		var j rosmsg.JointState
		if err := j.UnmarshalCDR(m.Data); err != nil {
			t.Fatal(err)
		}
		s := float64(m.PublishTime-int64(sim.StartTime)) / 1e9
		if j.Name[0] != "left_right_finger_joint" || j.Name[1] != "right_right_finger_joint" {
			t.Fatalf("joint names %v", j.Name)
		}
		for side := range sim.Sides {
			if want := fakeAngle(sim.Sides[side], s); math.Abs(j.Position[side]-want) > 1e-7 { // 8 decimals on the wire
				t.Fatalf("%s finger at %.4f s: %.9f rad, want %.9f", sim.Sides[side], s, j.Position[side], want)
			}
		}
	}
}

func checkPoses(t *testing.T, log stored) {
	t.Helper()
	for _, m := range log.topics["/tf"] {
		var tf rosmsg.TFMessage
		if err := tf.UnmarshalCDR(m.Data); err != nil {
			t.Fatal(err)
		}
		s := float64(m.PublishTime-int64(sim.StartTime)) / 1e9
		if len(tf.Transforms) != 3 {
			t.Fatalf("%d transforms, want headset and two hands", len(tf.Transforms))
		}
		for i, side := range sim.Sides {
			x := tf.Transforms[i+1]
			want := fakeHand(side, s)
			p := x.Transform.Translation
			d := math.Abs(p.X-want.Pos.X) + math.Abs(p.Y-want.Pos.Y) + math.Abs(p.Z-want.Pos.Z)
			q := x.Transform.Rotation
			w := want.Rot.Canonical()
			dq := math.Abs(q.X-w.X) + math.Abs(q.Y-w.Y) + math.Abs(q.Z-w.Z) + math.Abs(q.W-w.W)
			if x.ChildFrameID != side.String()+"_hand_root" || x.Header.FrameID != "quest_origin" || d > 1e-12 || dq > 1e-12 {
				t.Fatalf("%s at %.4f s: off by %g m, %g", x.ChildFrameID, s, d, dq)
			}
		}
	}
}

func checkSession(t *testing.T, log stored, start float64) {
	t.Helper()
	want := []struct {
		event string
		at    float64
	}{{"start", 0.5}, {"subtask", 0.5}, {"accept", 1.2}, {"subtask", 1.2}, {"accept", 1.9}}
	ms := log.topics[rawlog.TopicSession]
	if len(ms) != len(want) {
		t.Fatalf("%d session events, want %d", len(ms), len(want))
	}
	for i, m := range ms {
		var e rawlog.SessionEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if at := float64(m.PublishTime-int64(sim.StartTime)) / 1e9; e.Event != want[i].event || math.Abs(at-start-want[i].at) > 1e-6 {
			t.Errorf("event %d: %s at %.6f s, want %s at %.6f s", i, e.Event, at-start, want[i].event, want[i].at)
		}
	}
}

// The same device data gives the same recording: same topics, device times and payload bytes, whatever the scheduling was.
func TestSameSamplesGiveTheSameRecording(t *testing.T) {
	fingerprint := func() string {
		res, _ := recordFake(t, 2, newFakeRig())
		h := sha256.New()
		for _, folder := range res.Saved {
			log := load(t, folder)
			m, err := meta.Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(h, m.UUID, len(m.Segments))
			for _, topic := range []string{"/left_camera/image_raw/compressed", "/right_camera/image_raw/compressed", "/center_camera/video", "/joint_states", "/tf", "/footpedal_states", "/quest/controller/left/valid", rawlog.TopicSession, "/tf_static"} {
				for _, m := range log.topics[topic] {
					fmt.Fprintf(h, "%s %d %x\n", topic, m.PublishTime, m.Data)
				}
			}
		}
		return fmt.Sprintf("%x", h.Sum(nil))
	}
	if a, b := fingerprint(), fingerprint(); a != b {
		t.Error("two recordings of the same samples differ")
	}
}
