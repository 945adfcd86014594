package ingest

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/wire/cdr"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// Offset and drift out of receive times whose delays are log-normal, with 5 % bursts of 100 ms and a stretch of slow network.
func TestTrackerClockFindsOffsetAndDrift(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const offset, drift, delay = int64(1_700_000_000e9), 40e-6, 6e6
	var sent []frames.ClockSample
	for i := range int64(72 * 120) {
		device := int64(5e9) + i*1e9/72
		d := delay + 2e6*math.Exp(rng.NormFloat64()) - 2e6
		if rng.IntN(20) == 0 || (i > 3000 && i < 3300) {
			d += 1e8 * rng.Float64()
		}
		sent = append(sent, frames.ClockSample{Device: frames.DeviceTime(device), Host: frames.HostTime(device + offset + int64(drift*float64(i)*1e9/72+d))})
	}
	c := &trackerClock{}
	c.fit(sent)
	if math.Abs(c.drift-drift) > 5e-6 {
		t.Errorf("drift %.2f ppm, want %.0f", c.drift*1e6, drift*1e6)
	}
	// What is left of the delays is their median, 6 ms and a little for the bursts, at the start and at the end alike.
	for _, i := range []int{0, 72 * 119} {
		device := int64(sent[i].Device)
		left := device + c.offset + c.grown(device) - (device + offset + int64(drift*float64(device-5e9)))
		if left < 5e6 || left > 8e6 {
			t.Errorf("sample %d: %.2f ms of delay left, want about 6", i, float64(left)/1e6)
		}
	}
}

// questState is a message of the bridge: header, device time, host time and what follows.
func questState(stamp, device int64) []byte {
	w := cdr.NewWriter(nil)
	w.Int32(int32(stamp / 1e9))
	w.Uint32(uint32(stamp % 1e9))
	w.String("quest_origin")
	w.Uint64(uint64(device))
	w.Uint64(uint64(device + 17))
	w.Uint32(0)
	w.String("")
	w.FixedFloat64s(make([]float64, 7))
	return w.Bytes()
}

// questBag is a portable recording whose headset frames are 14 ms apart on its own clock and come over a network that delays each by
// 2 to 27 ms; lost state messages leave every 10th frame without a device time.
func questBag(t *testing.T, dir string, stamped bool) string {
	b := newBag(t, dir)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := int64(0); i < 110; i++ {
		sent := i * 14 * ms
		recv := rosStart + sent + 2*ms + rng.Int64N(25*ms)
		if stamped && i%10 != 9 {
			b.raw("/quest/controller/left/state", "airoa_quest_msgs/msg/QuestController", recv+ms/5, questState(recv, 9e9+sent))
		}
		for _, side := range []string{"left", "right"} {
			var m rosmsg.TFMessage
			x := stampedAt(recv, "quest_origin", side+"_hand_root", handPose(side, sent))
			m.Transforms = append(m.Transforms, x)
			b.msg("/tf", recv+ms/4, &m)
		}
	}
	for i := int64(0); i < 1540; i += 10 {
		b.msg("/joint_states", rosStart+i*ms, &rosmsg.JointState{Name: feature.JointNames, Position: []float64{float64(i), 0}})
		b.msg("/left_camera/image_raw/compressed", rosStart+i*ms, &rosmsg.CompressedImage{Format: "jpeg", Data: greyJPEG(t, grey(i))})
		b.msg("/right_camera/image_raw/compressed", rosStart+i*ms, &rosmsg.CompressedImage{Format: "jpeg", Data: greyJPEG(t, grey(i+1))})
	}
	m := meta.New()
	m.UUID, m.Robot.Type, m.Robot.ID = "1aeb6e0f-4a1d-4b57-9a35-4a3f5ad8ad4b", "yubi_portable", "rig-2"
	m.AddSegment("wave", float64(rosStart+200*ms)/1e9, float64(rosStart+1400*ms)/1e9, true)
	b.close(m)
	return b.path
}

func stampedAt(stamp int64, parent, child string, p frames.Pose) rosmsg.TransformStamped {
	x := stamped(0, parent, child, p)
	x.Header.Stamp = rosmsg.TimeFromNanos(stamp)
	return x
}

// The poses of rows come from evenly spaced device times: no row is more than a frame and the usual delay old, and its motion is smooth
// where receive times would give jumps.
func TestPosesByTheHeadsetsClock(t *testing.T) {
	dir := t.TempDir()
	questBag(t, dir+"/bag", true)
	questBag(t, dir+"/plain", false)
	_, d := ingest(t, Options{Sources: []string{dir + "/bag"}, Out: dir + "/set"})
	_, raw := ingest(t, Options{Sources: []string{dir + "/plain"}, Out: dir + "/raw"})
	ages := func(d interface {
		HasFiles(int) bool
	}, ticks []int64, left []float64) (spread int64) {
		least, most := int64(math.MaxInt64), int64(0)
		for row, tk := range ticks {
			x := left[7*row] / 0.1 * 1e9 // handPose moves x of the left hand by 0.1 m a second
			age := tk - rosStart - int64(math.Round(x))
			least, most = min(least, age), max(most, age)
		}
		return most - least
	}
	ticks := column[int64](t, d, feature.RowStamp, 0)
	spread := ages(d, ticks, column[float64](t, d, feature.LeftHand, 0))
	plain := ages(raw, column[int64](t, raw, feature.RowStamp, 0), column[float64](t, raw, feature.LeftHand, 0))
	// Held 14 ms frames are 0 to 14 ms older than the delay; one in ten keeps its receive time and is up to 13 ms later than that.
	if spread > 28*ms || plain < 30*ms {
		t.Errorf("ages of poses spread over %d ms with the device's clock and %d ms without", spread/ms, plain/ms)
	}
	times := column[int64](t, d, "observation.capture_time.left_hand_root", 0)
	known := 0
	for row := range ticks {
		if times[2*row] != 0 {
			known++
		}
	}
	if known < len(ticks)*7/10 {
		t.Errorf("%d of %d rows know the device time of their pose", known, len(ticks))
	}
}

// State messages that belong to no transform are told, and change nothing.
func TestTrackerStateThatDoesNotMatch(t *testing.T) {
	c := &trackerClock{device: map[int64]int64{7: 8}}
	s := sample{at: 5}
	c.correct(&s, 6)
	sv := &survey{m: Portable()}
	c.warn(sv)
	if s.at != 5 || len(sv.warnings) != 1 || !strings.Contains(sv.warnings[0], "/quest/hmd/state") {
		t.Errorf("sample %+v, warnings %q", s, sv.warnings)
	}
}
