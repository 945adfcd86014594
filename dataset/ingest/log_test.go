package ingest

import (
	"bytes"
	"encoding/json"
	"image"
	"image/color"
	"image/jpeg"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
	"gonum.org/v1/gonum/spatial/r3"
)

const ms = int64(1e6)

// testLog writes a log message by message. Times are device ns; the host clock is offset and receives late by a varying delay, so
// a reader that aligned by receive time would get other rows.
type testLog struct {
	t        testing.TB
	w        *rawlog.Writer
	path     string
	clock    string // "" writes channels without a clock
	channels map[string]rawlog.ChannelID
	sent     int64
	segments []meta.Segment
	labels   []string
}

// hostOffset is host minus device of test logs.
const hostOffset = int64(1_700_000_000e9)

func newLog(t testing.TB, dir, name, clock string) *testLog {
	t.Helper()
	return newLogWith(t, dir, name, clock, rawlog.WriterOptions{})
}

func newLogWith(t testing.TB, dir, name, clock string, o rawlog.WriterOptions) *testLog {
	t.Helper()
	folder := filepath.Join(dir, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name+"_0.mcap")
	w, err := rawlog.Create(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return &testLog{t: t, w: w, path: path, clock: clock, channels: map[string]rawlog.ChannelID{}}
}

// delay is the transport delay of the n-th message: up to 40 ms, more than a row.
func delay(n int64) int64 { return (n * 7 % 41) * ms }

// write logs bytes at a device time on a topic; clock "" drops the channel's clock.
func (l *testLog) write(topic string, schema rawlog.Schema, clock string, device int64, data []byte) {
	l.t.Helper()
	id, ok := l.channels[topic]
	if !ok {
		md := map[string]string{}
		if clock != "" {
			md[rawlog.ClockKey] = clock
		}
		var err error
		if id, err = l.w.AddChannel(topic, schema, md); err != nil {
			l.t.Fatal(err)
		}
		l.channels[topic] = id
	}
	host := device + hostOffset
	if l.clock != "" {
		host += delay(l.sent)
	}
	l.sent++
	if err := l.w.Write(id, frames.HostTime(host), frames.DeviceTime(device), data); err != nil {
		l.t.Fatal(err)
	}
}

func (l *testLog) ros(topic string, device int64, m rosmsg.Message) {
	l.t.Helper()
	l.write(topic, rawlog.Schema{Name: m.TypeName(), Encoding: rawlog.SchemaROS2, Data: []byte(rosmsg.Definition(m.TypeName()))}, l.clock, device, m.MarshalCDR(nil))
}

func header(device int64, frame string) rosmsg.Header {
	return rosmsg.Header{Stamp: rosmsg.TimeFromNanos(device + hostOffset), FrameID: frame}
}

func stamped(device int64, parent, child string, p frames.Pose) rosmsg.TransformStamped {
	return rosmsg.TransformStamped{Header: header(device, parent), ChildFrameID: child, Transform: rosmsg.Transform{
		Translation: rosmsg.Vector3{X: p.Pos.X, Y: p.Pos.Y, Z: p.Pos.Z},
		Rotation:    rosmsg.Quaternion{X: p.Rot.X, Y: p.Rot.Y, Z: p.Rot.Z, W: p.Rot.W},
	}}
}

func (l *testLog) tf(device int64, parent, child string, p frames.Pose) {
	l.ros("/tf", device, &rosmsg.TFMessage{Transforms: []rosmsg.TransformStamped{stamped(device, parent, child, p)}})
}

func (l *testLog) joints(device int64, left, right float64) {
	// The order of a message is its own: here right comes first.
	l.ros("/joint_states", device, &rosmsg.JointState{Header: header(device, ""),
		Name: []string{"right_right_finger_joint", "left_right_finger_joint"}, Position: []float64{right, left}})
}

func (l *testLog) picture(topic string, device int64, grey uint8) {
	l.ros(topic, device, &rosmsg.CompressedImage{Header: header(device, "cam"), Format: "jpeg", Data: greyJPEG(l.t, grey)})
}

func (l *testLog) session(device int64, event, label string) {
	e := rawlog.SessionEvent{Event: event, Label: label}
	if event == rawlog.EventAccept || event == rawlog.EventReject {
		ok := event == rawlog.EventAccept
		e.Success = &ok
	}
	b, err := json.Marshal(e)
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(rawlog.TopicSession, rawlog.SessionEventSchema, l.clock, device, b)
}

// segment adds a segment to meta.json; times in device ns.
func (l *testLog) segment(from, to int64, label string, success bool) {
	l.labels = append(l.labels, label)
	l.segments = append(l.segments, meta.Segment{StartTime: meta.Seconds(from + hostOffset), EndTime: meta.Seconds(to + hostOffset),
		LabelIdx: len(l.labels) - 1, Success: success})
}

// close finishes the log and writes its meta.json with a uuid made of name, and no devices, as the ROS recorder does.
func (l *testLog) close(robot, uuid string) string {
	l.t.Helper()
	if err := l.w.Close(); err != nil {
		l.t.Fatal(err)
	}
	m := meta.New()
	m.UUID, m.Robot = uuid, meta.Robot{Type: robot, ID: "rig-7"}
	m.Labels, m.Segments = l.labels, l.segments
	m.Files = []meta.File{{Type: "mcap", Name: filepath.Base(l.path)}}
	m.Episode.Success = true
	b, err := json.Marshal(m)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(l.path), meta.FileName), b, 0o644); err != nil {
		l.t.Fatal(err)
	}
	return l.path
}

const pictureW, pictureH = 64, 48

// greyJPEG is a plain picture.
func greyJPEG(t testing.TB, grey uint8) []byte {
	t.Helper()
	img := image.NewRGBA(image.Rect(0, 0, pictureW, pictureH))
	for i := range img.Pix {
		img.Pix[i] = grey
	}
	img.Set(0, 0, color.RGBA{grey, grey, grey, 255})
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 95}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// handPose is where a hand is at a device time (ns): a turn about a tilted axis while moving, different for each side.
func handPose(side string, at int64) frames.Pose {
	s := float64(at) / 1e9
	f := 1.0
	if side == "right" {
		f = -0.7
	}
	return frames.Pose{
		Pos: r3.Vec{X: 0.1 * s * f, Y: 0.3 * math.Sin(s), Z: 1 + 0.05*f*s},
		Rot: frames.QuatFromAxisAngle(r3.Vec{X: 0.2, Y: f, Z: 1}, 0.8*s*f),
	}
}

func leftAngle(at int64) float64  { return 0.4 + 0.3*math.Sin(float64(at)/2e8) }
func rightAngle(at int64) float64 { return 0.5 + 0.2*math.Cos(float64(at)/3e8) }

// Streams of the test rig: period and first sample, in device ns.
var (
	leftTF   = stream{9 * ms, 5000*ms + 1*ms}
	rightTF  = stream{9 * ms, 5000*ms + 2*ms}
	headTF   = stream{9 * ms, 5000*ms + 3*ms}
	jointsS  = stream{10 * ms, 5000*ms + 4*ms}
	leftCam  = stream{16_666_667, 5000*ms + 20*ms}
	rightCam = stream{25 * ms, 5000*ms + 11*ms}
)

type stream struct{ period, first int64 }

// held is the number and time of the sample that is shown at a time.
func (s stream) held(at int64) (n, t int64) {
	n = (at - s.first) / s.period
	return n, s.first + n*s.period
}

// grey is the picture number in the picture: neighbours differ by more than coding noise.
func grey(n int64) uint8 { return uint8(20 + n*23%200) }

// writeRig writes what the simulated rig does for the given time, in order of device time.
func (l *testLog) writeRig(until int64, pedal bool) { l.writeRigFrom(0, until, pedal) }

// writeRigFrom leaves out what comes before from.
func (l *testLog) writeRigFrom(from, until int64, pedal bool) {
	type tick struct {
		stream
		emit func(n, at int64)
	}
	sides := map[string]stream{"left": leftTF, "right": rightTF}
	ticks := []tick{
		{headTF, func(_, at int64) { l.tf(at, "quest_origin", "quest_hmd", handPose("head", at)) }},
		{jointsS, func(_, at int64) { l.joints(at, leftAngle(at), rightAngle(at)) }},
		{leftCam, func(n, at int64) { l.picture("/left_camera/image_raw/compressed", at, grey(n)) }},
		{rightCam, func(n, at int64) { l.picture("/right_camera/image_raw/compressed", at, grey(n+50)) }},
	}
	for _, side := range []string{"left", "right"} {
		ticks = append(ticks,
			tick{sides[side], func(_, at int64) { l.tf(at, "quest_origin", side+"_hand_root", handPose(side, at)) }},
			tick{stream{50 * ms, 5000 * ms}, func(n, at int64) {
				l.ros("/quest/controller/"+side+"/tracked", at, &rosmsg.Bool{Data: side == "left" || n%4 != 3})
			}},
			tick{stream{50 * ms, 5000 * ms}, func(_, at int64) { l.ros("/quest/controller/"+side+"/valid", at, &rosmsg.Bool{Data: true}) }})
	}
	if pedal {
		ticks = append(ticks, tick{stream{100 * ms, 5000 * ms}, func(n, at int64) {
			l.ros("/footpedal_states", at, &rosmsg.Joy{Header: header(at, "foot_pedal"), Buttons: []int32{int32(n % 2), 0, int32(n % 3)}})
		}})
	}
	next := make([]int64, len(ticks))
	for i, tk := range ticks {
		for tk.first+next[i]*tk.period < from {
			next[i]++
		}
	}
	for {
		best := -1
		for i, tk := range ticks {
			if at := tk.first + next[i]*tk.period; at < until && (best < 0 || at < ticks[best].first+next[best]*ticks[best].period) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		ticks[best].emit(next[best], ticks[best].first+next[best]*ticks[best].period)
		next[best]++
	}
}

func metaBeside(log string) string { return filepath.Join(filepath.Dir(log), meta.FileName) }

func contains(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

// message is a message as a reader gives it.
func message(data []byte) rawlog.Message {
	return rawlog.Message{Channel: &rawlog.Channel{Topic: "/t"}, Data: data}
}
