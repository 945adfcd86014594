package ingest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// greyH264 encodes plain pictures as the centre camera does: Annex B, no B-frames, parameter sets at each key frame. One slice per
// access unit.
func greyH264(t *testing.T, greys []uint8, gop int) [][]byte {
	t.Helper()
	ffmpeg := testpeer.Program(t, "ffmpeg", "ffmpeg")
	var raw bytes.Buffer
	for _, g := range greys {
		raw.Write(bytes.Repeat([]byte{g}, pictureW*pictureH*3))
	}
	cmd := exec.Command(ffmpeg, "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", fmt.Sprintf("%dx%d", pictureW, pictureH),
		"-framerate", "30", "-i", "pipe:0", "-pix_fmt", "yuv420p", "-c:v", "libx264", "-preset", "ultrafast", "-crf", "12", "-bf", "0",
		"-g", fmt.Sprint(gop), "-bsf:v", "dump_extra,h264_metadata=aud=insert", "-f", "h264", "pipe:1")
	cmd.Stdin = &raw
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	delimiter := []byte{0, 0, 0, 1, 9}
	parts := bytes.Split(out, delimiter)[1:]
	if len(parts) != len(greys) {
		t.Fatalf("%d access units of %d pictures", len(parts), len(greys))
	}
	for i, p := range parts {
		parts[i] = append(bytes.Clone(delimiter), p...)
	}
	return parts
}

// The centre camera's stream is joined in the middle: units before its first key frame show nothing, and the rows after it show
// the picture held at their tick.
func TestH264CentreCamera(t *testing.T) {
	dir := t.TempDir()
	centre := stream{31 * ms, 5030 * ms}
	var greys []uint8
	for n := range int64(40) {
		greys = append(greys, grey(n+17))
	}
	units := greyH264(t, greys, 6)
	l := newLog(t, dir+"/rec", "centre", "rig")
	l.session(5100*ms, rawlog.EventSubtask, "wave")
	l.writeRig(5800*ms, true)
	// The log begins at unit 4, two before the key frame 6; messages of one topic may lie anywhere among the others.
	for n := int64(4); centre.first+n*centre.period < 5800*ms; n++ {
		at := centre.first + n*centre.period
		l.ros("/center_camera/video", at, &rosmsg.CompressedVideo{Timestamp: header(at, "").Stamp, FrameID: "center", Format: "h264", Data: units[n]})
	}
	l.session(5700*ms, rawlog.EventAccept, "wave")
	l.segment(5100*ms, 5700*ms, "wave", true)
	l.close("yubi", "44444444-2222-4333-8444-555555555555")
	rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	// The stream's first picture is unit 6 at 5216 ms; the segment began at 5100.
	if w := rep.Recordings[0].Warnings; len(w) != 1 || !strings.Contains(w[0], "loses its first 116ms: camera center begins only then") {
		t.Errorf("warnings %q", w)
	}
	ticks := column[int64](t, d, feature.RowStamp, 0)
	// The grid begins two sixteenths of a row later, where the wrist pictures are freshest.
	if want := 5216*ms + 2*(1_000_000_000/30)/16; ticks[0] != want || len(ticks) != 15 {
		t.Fatalf("%d rows from %d", len(ticks), ticks[0])
	}
	checkVideo(t, d, 0, feature.ImageCenter, centre, 17, ticks)
}

// Cameras on one clock and a tracker on another: everything goes to host time, by the offsets of the clock exchanges.
func TestMixedClocksMeetOnHostTime(t *testing.T) {
	dir := t.TempDir()
	const questOffset = 77 * int64(1e9)
	l := newLog(t, dir+"/rec", "mixed", "rig")
	quest := func(at int64) int64 { return at + hostOffset - questOffset } // quest device time at a rig time
	for i := range int64(21) {
		at := 5000*ms + i*30*ms
		for _, c := range []struct {
			name  string
			dev   int64
			extra int64
		}{{"rig", at, 0}, {"quest", quest(at), 0}} {
			trip := 2 * ms
			host := at + hostOffset
			if i%4 == 0 { // slow exchanges, wrong by half their round trip
				trip, host = 60*ms, host+30*ms
			}
			b, err := json.Marshal(rawlog.ClockSample{Clock: c.name, DeviceNS: c.dev, HostNS: host, RoundTripNS: trip})
			if err != nil {
				t.Fatal(err)
			}
			l.write(rawlog.TopicClock, rawlog.ClockSampleSchema, "", at, b)
		}
	}
	tfSchema := rawlog.Schema{Name: rosmsg.TypeTFMessage, Encoding: rawlog.SchemaROS2}
	for i := range int64(70) {
		at := 5000*ms + i*9*ms
		for _, side := range []string{"left", "right"} {
			m := &rosmsg.TFMessage{Transforms: []rosmsg.TransformStamped{stamped(at, "quest_origin", side+"_hand_root", handPose(side, at))}}
			l.write("/tf", tfSchema, "quest", quest(at), m.MarshalCDR(nil))
		}
		l.joints(at+ms, leftAngle(at+ms), rightAngle(at+ms))
		l.picture("/left_camera/image_raw/compressed", at+2*ms, grey(i))
		l.picture("/right_camera/image_raw/compressed", at+3*ms, grey(i))
	}
	l.session(5100*ms, rawlog.EventSubtask, "wave")
	l.session(5500*ms, rawlog.EventAccept, "wave")
	l.segment(5100*ms, 5500*ms, "wave", true)
	l.close("yubi_portable", "55555555-2222-4333-8444-555555555555")
	rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	if rep.Recordings[0].Clock != "" || len(rep.Recordings[0].Warnings) != 0 {
		t.Errorf("report %+v", rep.Recordings[0])
	}
	ticks := column[int64](t, d, feature.RowStamp, 0)
	hand := column[float64](t, d, feature.LeftHand, 0)
	times := column[int64](t, d, "observation.capture_time.left_hand_root", 0)
	for row, tk := range ticks {
		rig := tk - hostOffset
		at := 5000*ms + (rig-5000*ms)/(9*ms)*(9*ms)
		nearPose(t, "left hand", row, poseRow(t, hand, row), handPose("left", at))
		if times[2*row] != quest(at) || times[2*row+1] != at+hostOffset {
			t.Fatalf("row %d: captured at %v, want %d, %d", row, times[2*row:2*row+2], quest(at), at+hostOffset)
		}
	}
	if len(ticks) != 12 {
		t.Errorf("%d rows", len(ticks))
	}
	if _, err := d.Feature("observation.pose.hmd.absolute"); err == nil {
		t.Error("a log without a headset has its pose")
	}
}

// A trial on arms: origin cell, no tracker. A camera that stops early ends the rows, and a silence is told.
func TestTrialWithACameraThatStops(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir+"/rec", "trial", "cell")
	for i := range int64(200) {
		at := 1000*ms + i*10*ms
		for _, side := range []string{"left", "right"} {
			l.tf(at, "cell", side+"_hand_root", handPose(side, at))
		}
		l.joints(at, leftAngle(at), rightAngle(at))
		if i%3 == 0 && (i < 60 || i >= 99) {
			l.picture("/left_camera/image_raw/compressed", at, grey(i))
		}
		if i%3 == 0 && i < 150 {
			l.picture("/right_camera/image_raw/compressed", at, grey(i))
		}
	}
	l.session(1100*ms, rawlog.EventSubtask, "stack the cups")
	l.session(2900*ms, rawlog.EventAccept, "stack the cups")
	l.segment(1100*ms, 2900*ms, "stack the cups", true)
	l.close("fr3_pair", "66666666-2222-4333-8444-555555555555")
	rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	w := strings.Join(rep.Recordings[0].Warnings, "\n")
	// The right camera's last picture is number 147 at 2.470 s; the left one is silent from 1.570 s to 1.990 s.
	for _, text := range []string{"segment 0 loses its last 397ms: camera right ends before", "no sample of camera left for 420ms"} {
		if !strings.Contains(w, text) {
			t.Errorf("warnings %q do not say %q", w, text)
		}
	}
	ticks := column[int64](t, d, feature.RowStamp, 0)
	fresh := column[bool](t, d, "observation.image.left.is_fresh", 0)
	for row, tk := range ticks {
		if silent := tk >= 1570*ms+34*ms && tk < 1990*ms; silent && fresh[row] {
			t.Errorf("row %d at %d ms: a held picture is marked fresh", row, tk/ms)
		}
	}
	if last := ticks[len(ticks)-1]; last < 2470*ms || last > 2504*ms {
		t.Errorf("last row at %d ms", last/ms)
	}
	f, err := d.Feature(feature.LeftHand)
	if err != nil || f.Dim() != 7 {
		t.Error(err)
	}
	if _, err := d.Feature("action.left_controller.relative"); err == nil {
		t.Error("arms have no controllers")
	}
	if ep, _ := d.Episode(0); fmt.Sprint(ep.Extra["warnings"]) == "[]" || ep.Extra["robot_type"] != "fr3_pair" {
		t.Errorf("extra %v", ep.Extra)
	}
}

// An open attempt at the end of the log was not judged; touching attempts share their boundary; a reject is a failure.
func TestSegmentsOfEvents(t *testing.T) {
	yes, no := true, false
	ev := func(at frames.Stamp, name, label string, ok *bool) event {
		return event{SessionEvent: rawlog.SessionEvent{Event: name, Label: label, Success: ok}, at: at}
	}
	got := segmentsOfEvents([]event{
		ev(1, "start", "task", nil), ev(2, "subtask", "a", nil), ev(5, "reject", "a", &no), ev(5, "subtask", "a", nil),
		ev(9, "accept", "a", &yes), ev(9, "subtask", "b", nil), ev(10, "cancel", "stopped", nil),
	})
	want := []segment{{0, "a", false, 2, 5}, {1, "a", true, 5, 9}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("segments %v, want %v", got, want)
	}
}

// The first tick at or after a boundary, so that segments that touch share none.
func TestTickOfBoundary(t *testing.T) {
	tl := frames.Timeline{Start: 1000, FPS: 30, N: 10}
	r := rows{tl: grid{Timeline: tl}}
	for k := range 10 {
		at := tl.At(k)
		if r.tick(at) != k || r.tick(at+1) != k+1 || (k > 0 && r.tick(at-1) != k) {
			t.Errorf("around tick %d: %d %d %d", k, r.tick(at-1), r.tick(at), r.tick(at+1))
		}
	}
	if r.tick(-1<<63) != 0 || r.tick(1<<63-1) != 10 {
		t.Error("outside the timeline")
	}
}

// One pose 0.6 m off, with the flags saying tracked, is told; the values stay as they were logged.
func TestJumpOfTheTracker(t *testing.T) {
	dir := t.TempDir()
	path := spoiled(t, dir+"/rec", func(l *testLog) {
		p := handPose("left", 5200*ms)
		p.Pos.Z += 0.6
		l.tf(5200*ms, "quest_origin", "left_hand_root", p)
	})
	s, r, err := takeSurvey(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := s.plan(30, ""); err != nil {
		t.Fatal(err)
	}
	// There and back again; 5.2 s lies between rows 2 (5186 ms) and 3 (5220 ms) of a segment that begins at tick 3 (5120 ms).
	if len(s.warnings) != 1 || s.warnings[0] != "segment 0: left_hand_root jumps 2 times, first before row 3, by up to 0.60 m" {
		t.Errorf("warnings %q", s.warnings)
	}
}

// A camera that sends key frames every second picture, in step with the rows, is copied: the dataset holds its own packets.
func TestH264InStepWithTheRowsIsCopied(t *testing.T) {
	dir := t.TempDir()
	var greys []uint8
	for n := range int64(40) {
		greys = append(greys, grey(n))
	}
	units := greyH264(t, greys, 2)
	l := newLog(t, dir+"/rec", "copied", "rig")
	l.session(5100*ms, rawlog.EventSubtask, "wave")
	l.writeRig(6000*ms, true)
	for n := int64(0); n < 40; n++ {
		at := 5000*ms + n*25*ms
		l.ros("/center_camera/video", at, &rosmsg.CompressedVideo{Timestamp: header(at, "").Stamp, FrameID: "center", Format: "h264", Data: units[n]})
	}
	l.session(5700*ms, rawlog.EventAccept, "wave")
	l.segment(5100*ms, 5700*ms, "wave", true)
	l.close("yubi", "45444444-2222-4333-8444-555555555555")
	for _, tc := range []struct {
		o    Options
		same bool
	}{{Options{FPS: 40}, true}, {Options{FPS: 20}, false}, {Options{FPS: 40, CRF: 20}, false}} {
		tc.o.Sources, tc.o.Out = []string{dir + "/rec"}, fmt.Sprintf("%s/set%d-%d", dir, tc.o.FPS, tc.o.CRF)
		_, d := ingest(t, tc.o)
		path, _, err := d.VideoFrame(0, feature.ImageCenter)
		if err != nil {
			t.Fatal(err)
		}
		times := column[int64](t, d, "observation.capture_time.center", 0)
		copied := 0
		err = video.Packets(path, func(i int, data []byte) error {
			var au h264.AnnexB
			if err := au.Unmarshal(units[(times[2*i]-5000*ms)/(25*ms)]); err != nil {
				return err
			}
			slice := au[len(au)-1]
			if bytes.HasSuffix(data, slice) {
				copied++
			}
			return nil
		})
		if err != nil || (copied == len(times)/2) != tc.same || (copied > 0) != tc.same {
			t.Errorf("FPS %d CRF %d: %d of %d packets are the camera's, %v", tc.o.FPS, tc.o.CRF, copied, len(times)/2, err)
		}
		checkVideoAt(t, d, 0, feature.ImageCenter, stream{25 * ms, 5000 * ms}, 0, column[int64](t, d, feature.RowStamp, 0), int64(tc.o.FPS))
	}
}
