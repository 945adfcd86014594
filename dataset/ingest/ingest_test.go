package ingest

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"gonum.org/v1/gonum/spatial/r3"
)

const (
	rowStart = 5020 * ms // the left camera is the last stream to start
	cut      = 5500 * ms // where the first attempt ends and the second begins
)

// rigLog is a recording of our rig: one failed and one accepted attempt that touch.
func rigLog(t *testing.T, dir, name string) string {
	t.Helper()
	l := newLog(t, dir, name, "rig")
	l.session(5010*ms, rawlog.EventStart, "cup "+name) // logs of other names have other bytes
	l.session(5100*ms, rawlog.EventSubtask, "put the cup down")
	l.writeRig(6000*ms, true)
	l.session(cut, rawlog.EventReject, "put the cup down")
	l.session(cut, rawlog.EventSubtask, "put the cup down")
	l.session(5900*ms, rawlog.EventAccept, "put the cup down")
	l.segment(5100*ms, cut, "put the cup down", false)
	l.segment(cut, 5900*ms, "put the cup down", true)
	return l.close("yubi", "11111111-2222-4333-8444-"+name)
}

func tickAt(k int) int64 { return rowStart + int64(math.Round(float64(k)*1e9/30)) }

func ingest(t *testing.T, o Options) (Report, *dataset.Dataset) {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	rep, err := Run(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	return rep, d
}

func column[T dataset.Element](t *testing.T, d *dataset.Dataset, name string, episode int) []T {
	t.Helper()
	v, err := dataset.ReadColumn[T](d, name, episode)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func poseRow(t *testing.T, col []float64, row int) frames.Pose {
	t.Helper()
	p, err := frames.PoseFromXYZXYZW([7]float64(col[7*row : 7*row+7]))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func nearPose(t *testing.T, what string, row int, got, want frames.Pose) {
	t.Helper()
	if d, a := got.Distance(want); d > 1e-12 || a > 1e-7 || math.IsNaN(a) {
		t.Fatalf("%s row %d: %v, want %v", what, row, got, want)
	}
}

// Every value of our rig's rows against the functions that made the log.
func TestRowsOfOurRig(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	if rep.Episodes != 2 || rep.FPS != 30 || len(rep.Recordings) != 1 || rep.Recordings[0].Clock != "rig" {
		t.Fatalf("report %+v", rep)
	}
	if w := rep.Recordings[0].Warnings; len(w) != 0 {
		t.Errorf("warnings: %q", w)
	}
	// Rows with 5100 <= tick < 5500 and 5500 <= tick < 5900 ms: ticks 3..14 and 15..26 of 5020 + k/30 s (tick 14.4 is the cut).
	first := []int{3, 15}
	length := []int{12, 12}
	for e := range 2 {
		ep, err := d.Episode(e)
		if err != nil {
			t.Fatal(err)
		}
		if ep.Length != length[e] || ep.Extra["success"] != (e == 1) || ep.Extra["segment"] != int64(e) || ep.Extra["clock"] != "rig" {
			t.Fatalf("episode %d: length %d, extra %v", e, ep.Length, ep.Extra)
		}
		if !slices.Equal(ep.Tasks, []string{"put the cup down"}) {
			t.Errorf("tasks %q", ep.Tasks)
		}
		checkEpisode(t, d, e, first[e], length[e], e == 1)
	}
}

func checkEpisode(t *testing.T, d *dataset.Dataset, e, first, n int, success bool) {
	t.Helper()
	ticks := column[int64](t, d, feature.RowStamp, e)
	for row := range n {
		if ticks[row] != tickAt(first+row) {
			t.Fatalf("row %d at %d, want %d", row, ticks[row], tickAt(first+row))
		}
	}
	tf := map[string]stream{"left": leftTF, "right": rightTF}
	heldPose := func(side string, row int) frames.Pose {
		_, at := tf[side].held(ticks[row])
		return handPose(side, at)
	}
	for _, side := range []string{"left", "right"} {
		abs := column[float64](t, d, "observation.pose."+side+"_hand_root.absolute", e)
		prev := column[float64](t, d, "action.pose."+side+"_hand_root.relative", e)
		obs := column[float64](t, d, "observation.pose."+side+"_hand_root.relative", e)
		next := column[float64](t, d, "action.next.pose."+side+"_hand_root.relative", e)
		fresh := column[bool](t, d, "observation.pose."+side+"_hand_root.absolute.is_fresh", e)
		for row := range n {
			want := heldPose(side, row)
			nearPose(t, side+" absolute", row, poseRow(t, abs, row), want)
			wantPrev, wantNext := frames.Identity, frames.Identity
			if row > 0 {
				wantPrev = heldPose(side, row-1).Inv().Mul(want)
			}
			if row < n-1 {
				wantNext = want.Inv().Mul(heldPose(side, row+1))
			}
			nearPose(t, side+" previous", row, poseRow(t, prev, row), wantPrev)
			nearPose(t, side+" observed", row, poseRow(t, obs, row), wantPrev)
			nearPose(t, side+" next", row, poseRow(t, next, row), wantNext)
			if !fresh[row] {
				t.Fatalf("%s row %d: a 111 Hz pose is not fresh at 30 Hz", side, row)
			}
			if abs[7*row+6] < 0 {
				t.Fatalf("row %d: quaternion without canonical sign", row)
			}
		}
	}
	rel := column[float64](t, d, feature.HandToHand, e)
	tip := column[float64](t, d, "observation.pose.left_left_finger_tip.absolute", e)
	joints := column[float64](t, d, feature.JointStates, e)
	action := column[float64](t, d, "action.joint_states", e)
	actionNext := column[float64](t, d, feature.JointStatesNext, e)
	jointTimes := column[int64](t, d, "observation.capture_time.joint_states", e)
	pedal := column[int32](t, d, "observation.state", e)
	tracked := column[bool](t, d, "observation.pose.right_hand_root.is_tracked", e)
	done := column[bool](t, d, feature.NextDone, e)
	ok := column[bool](t, d, feature.SuccessPrimitive, e)
	angle := func(row int) [2]float64 {
		_, at := jointsS.held(ticks[row])
		return [2]float64{leftAngle(at), rightAngle(at)}
	}
	for row := range n {
		nearPose(t, "hand to hand", row, poseRow(t, rel, row), heldPose("left", row).Inv().Mul(heldPose("right", row)))
		q := angle(row)
		// The left finger turns about +Z by the encoder's angle, from a pivot 15 mm to the left; its tip lies 14 mm further out.
		handFromTip := frames.Pose{Pos: r3.Vec{X: -0.016, Y: 0.015}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: 1}, q[0])}.
			Mul(frames.Translation(r3.Vec{X: 0.10943, Y: 0.014}))
		nearPose(t, "finger tip", row, poseRow(t, tip, row), heldPose("left", row).Mul(handFromTip))
		wantNext := angle(min(row+1, n-1))
		for i := range 2 {
			if joints[2*row+i] != q[i] || action[2*row+i] != wantNext[i] || actionNext[2*row+i] != wantNext[i] {
				t.Fatalf("row %d joint %d: %v, action %v, next %v; want %v, %v", row, i, joints[2*row+i], action[2*row+i], actionNext[2*row+i], q[i], wantNext[i])
			}
		}
		_, at := jointsS.held(ticks[row])
		if jointTimes[2*row] != at || jointTimes[2*row+1] != at+hostOffset {
			t.Fatalf("row %d: joint captured at %v, want %d, %d", row, jointTimes[2*row:2*row+2], at, at+hostOffset)
		}
		p := (ticks[row] - 5000*ms) / (100 * ms)
		if !slices.Equal(pedal[3*row:3*row+3], []int32{int32(p % 2), 0, int32(p % 3)}) {
			t.Fatalf("row %d: pedal %v at message %d", row, pedal[3*row:3*row+3], p)
		}
		if want := (ticks[row]-5000*ms)/(50*ms)%4 != 3; tracked[row] != want {
			t.Fatalf("row %d: tracked %v", row, tracked[row])
		}
		if done[row] != (row == n-1) || ok[row] != success {
			t.Fatalf("row %d: done %v, success %v", row, done[row], ok[row])
		}
	}
	checkVideo(t, d, e, feature.ImageLeft, leftCam, 0, ticks)
	checkVideo(t, d, e, feature.ImageRight, rightCam, 50, ticks)
}

// checkVideo looks at the picture of every row, and at its freshness and capture time.
func checkVideo(t *testing.T, d *dataset.Dataset, e int, key string, s stream, add int64, ticks []int64) {
	t.Helper()
	checkVideoAt(t, d, e, key, s, add, ticks, 30)
}

func checkVideoAt(t *testing.T, d *dataset.Dataset, e int, key string, s stream, add int64, ticks []int64, fps int64) {
	t.Helper()
	path, frame, err := d.VideoFrame(e, key)
	if err != nil {
		t.Fatal(err)
	}
	info, err := video.Probe(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Frames() != len(ticks) || info.HasBFrames || info.MaxGOP > 2 {
		t.Fatalf("%s: %d frames for %d rows, B-frames %v, GOP %d", key, info.Frames(), len(ticks), info.HasBFrames, info.MaxGOP)
	}
	fresh := column[bool](t, d, key+".is_fresh", e)
	times := column[int64](t, d, "observation.capture_time."+key[len("observation.image."):], e)
	err = video.Each(path, video.ReaderOptions{}, frame, len(ticks), func(i int, rgb []byte) error {
		row := i - frame
		n, at := s.held(ticks[row])
		if got, want := mean(rgb), float64(grey(n+add)); math.Abs(got-want) > 4 {
			t.Errorf("%s row %d shows grey %.1f, want %.0f (picture %d)", key, row, got, want, n)
		}
		before, _ := s.held(ticks[row] - int64(math.Round(1e9/float64(fps))))
		if want := n != before; row > 0 && fresh[row] != want {
			t.Errorf("%s row %d fresh %v, want %v", key, row, fresh[row], want)
		}
		device := at
		if s.first >= rosStart {
			device = 0 // ROS recordings have no device clock
		}
		if times[2*row] != device {
			t.Errorf("%s row %d captured at %d, want %d", key, row, times[2*row], device)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func mean(b []byte) float64 {
	sum := 0
	for _, v := range b {
		sum += int(v)
	}
	return float64(sum) / float64(len(b))
}
