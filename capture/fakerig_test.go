package capture

import (
	"bytes"
	"context"
	"image"
	"image/jpeg"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device/encoder"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/rigserve"
)

// fakeRig makes samples of a rig whose every value is a formula of time, for the real wire protocols of rigserve.
type fakeRig struct {
	episodeS float64 // length of an episode
	presses  []fakePress
	now      frames.DeviceTime
	mute     func(s *sim.Sample) bool // drops samples
}

type fakePress struct {
	atS    float64
	button sim.PedalButton
}

const (
	fakeWristHz   = 30.0
	fakeCenterHz  = 10.0
	fakeEncoderHz = 190.0
	fakeTrackerHz = 72.0
)

var (
	fakeWrist  = sim.Size{Width: 64, Height: 48}
	fakeCenter = sim.Size{Width: 64, Height: 48}
	// fakeScript: start, first subtask done, second done.
	fakeScript = []fakePress{{0.5, sim.PedalAccept}, {1.2, sim.PedalAccept}, {1.9, sim.PedalAccept}}
)

func newFakeRig() *fakeRig {
	return &fakeRig{episodeS: 2.6, presses: fakeScript, now: sim.StartTime}
}

// fakeAngle is the finger angle of a side at a time since StartTime.
func fakeAngle(side sim.Side, s float64) float64 { return 0.45 + 0.4*math.Sin(2*s+float64(side)) }

// fakeHand is questOriginFromHandRoot of a side.
func fakeHand(side sim.Side, s float64) frames.Pose {
	return frames.Pose{
		Pos: r3.Vec{X: 0.3 + 0.1*math.Sin(s), Y: 0.2 - 0.4*float64(side), Z: 1.1 + 0.05*math.Cos(s)},
		Rot: frames.QuatFromRPY(0.1*math.Sin(s), 0.2, 0.3*math.Cos(s)+float64(side)),
	}
}

// fakeLevel is the grey level of a wrist camera's frame n.
func fakeLevel(side sim.Side, n int) uint8 { return uint8(40 + (n*7+int(side)*50)%180) }

func seconds(t frames.DeviceTime) float64 { return float64(t-sim.StartTime) / 1e9 }

// episode yields one episode's samples in order of time.
func (f *fakeRig) episode(int) iter.Seq2[sim.Sample, error] {
	return func(yield func(sim.Sample, error) bool) {
		start := f.now
		all := f.samples(start)
		f.now = start.Add(time.Duration(f.episodeS * 1e9))
		for _, s := range all {
			if f.mute != nil && f.mute(&s) {
				continue
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// samples lists everything between start and the end of the episode. Devices tick on a grid that begins at StartTime.
func (f *fakeRig) samples(start frames.DeviceTime) []sim.Sample {
	var out []sim.Sample
	each := func(hz float64, add func(t frames.DeviceTime, n int)) {
		period := 1e9 / hz
		from, to := seconds(start), seconds(start)+f.episodeS
		for n := int(math.Ceil(from * hz)); ; n++ {
			t := sim.StartTime + frames.DeviceTime(float64(n)*period)
			if seconds(t) >= to {
				return
			}
			add(t, n)
		}
	}
	each(fakeWristHz, func(t frames.DeviceTime, n int) {
		for _, side := range sim.Sides {
			out = append(out, sim.Sample{Time: t, Image: &sim.Frame{Camera: sim.WristCamera(side), Time: t, Size: fakeWrist, JPEG: greyJPEG(fakeLevel(side, n))}})
		}
	})
	each(fakeCenterHz, func(t frames.DeviceTime, n int) {
		rgb := bytes.Repeat([]byte{byte(n * 20)}, 3*fakeCenter.Width*fakeCenter.Height)
		out = append(out, sim.Sample{Time: t, Image: &sim.Frame{Camera: sim.Center, Time: t, Size: fakeCenter, RGB: rgb}})
	})
	each(fakeEncoderHz, func(t frames.DeviceTime, _ int) {
		for _, side := range sim.Sides {
			raw := encoder.WrapPi(sim.EncoderClosedRaw[side] - fakeAngle(side, seconds(t)))
			if raw < 0 {
				raw += 2 * math.Pi
			}
			out = append(out, sim.Sample{Time: t, Encoder: &sim.EncoderReading{Side: side, RawRad: raw}})
		}
	})
	each(fakeTrackerHz, func(t frames.DeviceTime, _ int) {
		s := seconds(t)
		out = append(out, sim.Sample{Time: t, Tracker: &sim.TrackerReading{
			HMD: frames.Pose{Pos: r3.Vec{Z: 1.6}, Rot: frames.IdentityQuat}, Tracked: [2]bool{true, true},
			Hands: [2]frames.Pose{fakeHand(sim.Left, s), fakeHand(sim.Right, s)},
		}})
	})
	for _, p := range f.presses {
		t := start.Add(time.Duration(p.atS * 1e9))
		out = append(out, sim.Sample{Time: t, Pedal: &sim.PedalEvent{Button: p.button, Down: true}},
			sim.Sample{Time: t.Add(80 * time.Millisecond), Pedal: &sim.PedalEvent{Button: p.button}})
	}
	slices.SortStableFunc(out, func(a, b sim.Sample) int { return int(a.Time - b.Time) })
	return out
}

var greys = map[uint8][]byte{}

// greyJPEG is a wrist picture of one grey level; it is called from one goroutine at a time.
func greyJPEG(level uint8) []byte {
	if b := greys[level]; b != nil {
		return b
	}
	img := image.NewRGBA(image.Rect(0, 0, fakeWrist.Width, fakeWrist.Height))
	for i := range img.Pix {
		img.Pix[i] = level
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, &jpeg.Options{Quality: 90}); err != nil {
		panic(err)
	}
	greys[level] = b.Bytes()
	return b.Bytes()
}

// served is a running rig server.
type served struct {
	rigFile string
	done    chan error
	result  rigserve.Result
	cancel  context.CancelFunc
}

// serve starts rigserve over a fake rig and returns once the rig file is there.
func serve(t *testing.T, episodes int, rig *fakeRig, change func(*rigserve.Options)) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{done: make(chan error, 1), cancel: cancel}
	ready := make(chan rigserve.Ready, 1)
	opts := rigserve.Options{
		OutRig: filepath.Join(t.TempDir(), "rig.yaml"), Episodes: episodes, Wrist: fakeWrist, Center: fakeCenter,
		Rates: sim.HandheldConfig{WristHz: fakeWristHz, CenterHz: fakeCenterHz, EncoderHz: fakeEncoderHz, TrackerHz: fakeTrackerHz},
		Ready: func(r rigserve.Ready) { ready <- r },
	}
	if change != nil {
		change(&opts)
	}
	go func() {
		var err error
		s.result, err = rigserve.ServeSamples(ctx, opts, rig.episode)
		s.done <- err
	}()
	t.Cleanup(cancel)
	select {
	case r := <-ready:
		s.rigFile = r.RigFile
	case err := <-s.done:
		t.Fatalf("rig server: %v", err)
	case <-time.After(10 * time.Second):
		t.Fatal("the rig server did not get ready")
	}
	return s
}

// wait is the rig server's end.
func (s *served) wait(t *testing.T) rigserve.Result {
	t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			t.Fatalf("rig server: %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the rig server did not end")
	}
	return s.result
}
