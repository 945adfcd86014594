package deploy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// wrist is one wrist camera: a goroutine keeps its newest frames.
type wrist struct {
	info armlink.CameraInfo
	src  FrameSource
	// lateNS is how late its stamps are.
	lateNS int64
	done   chan struct{} // closed when read has left

	mu      sync.Mutex // guards everything below
	changed chan struct{}
	frames  []Frame // newest last, at most keepFrames
	err     error

	taken int64 // capture time of the newest frame handed out by fresh, whose caller owns it
}

// keepFrames per camera: two seconds at 30 Hz, 1.5 MB of JPEG.
const keepFrames = 64

func startWrist(ctx context.Context, info armlink.CameraInfo, src FrameSource, lateNS int64) *wrist {
	w := &wrist{info: info, src: src, lateNS: lateNS, done: make(chan struct{}), changed: make(chan struct{}), taken: -1}
	go w.read(ctx)
	return w
}

func (w *wrist) read(ctx context.Context) {
	defer close(w.done)
	for {
		f, err := w.src.Next(ctx)
		w.mu.Lock()
		if err != nil {
			w.err = fmt.Errorf("%s wrist camera: %w", w.info.Name, err)
		} else {
			f.CaptureNS -= w.lateNS
			w.keep(f)
		}
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// keep adds a frame; the caller holds mu.
func (w *wrist) keep(f Frame) {
	w.frames = append(w.frames, f)
	if n := len(w.frames) - keepFrames; n > 0 {
		w.frames = append(w.frames[:0], w.frames[n:]...)
	}
}

// newestDue is the capture time of the newest frame that exists at now, false before the first.
func (w *wrist) newestDue(startNS, now int64) (int64, bool) {
	first := startNS + w.info.PhaseNS
	if now < first {
		return 0, false
	}
	return first + (now-first)/w.info.PeriodNS*w.info.PeriodNS, true
}

// stampSlack covers the rounding of capture times on their way (NTP fractions).
const stampSlack = int64(time.Microsecond)

// wait returns when the frame captured at t (or a later one) is here.
func (w *wrist) wait(ctx context.Context, t int64) error {
	for {
		w.mu.Lock()
		n, err, changed := len(w.frames), w.err, w.changed
		here := n > 0 && w.frames[n-1].CaptureNS >= t-stampSlack
		w.mu.Unlock()
		switch {
		case here:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%s wrist camera: frame captured at %d ns did not come: %w", w.info.Name, t, context.Cause(ctx))
		}
	}
}

// seen is what a camera has shown up to one moment, oldest first. A control step looks once and decides by that, whatever comes meanwhile, so that it can be
// replayed.
type seen []Frame

// upTo is what is here and was captured at or before now.
func (w *wrist) upTo(now int64, into seen) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	into = into[:0]
	for _, f := range w.frames {
		if f.CaptureNS <= now+stampSlack {
			into = append(into, f)
		}
	}
	return into
}

// fresh hands out the frames that were not handed out before.
func (w *wrist) fresh(s seen) (out seen) {
	for _, f := range s {
		if f.CaptureNS > w.taken {
			out = append(out, f)
			w.taken = f.CaptureNS
		}
	}
	return out
}

// before gives the newest frame captured at or before t.
func (s seen) before(t int64) (Frame, bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i].CaptureNS <= t+stampSlack {
			return s[i], true
		}
	}
	return Frame{}, false
}

// rtspSource reads a wrist camera over RTSP. Frames without a capture time in the cell's clock can not be used.
type rtspSource struct {
	frames chan Frame
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

// quiet is how long a connected camera may send nothing, 0 for the driver's own limit. In lock-step the cell's time stands still while
// the policy thinks, and cameras with it; a camera that owes a frame is missed all the same (see answerTimeout).
func quiet(clock armlink.Clock) time.Duration {
	if clock == armlink.LockStep {
		return lockStepPatience + answerTimeout
	}
	return 0
}

func openRTSP(ctx context.Context, info armlink.CameraInfo, quiet time.Duration) (FrameSource, error) {
	if info.Kind != "mjpeg" {
		return nil, fmt.Errorf("%s wrist camera sends %q; only mjpeg is read", info.Name, info.Kind)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &rtspSource{frames: make(chan Frame, 4), cancel: cancel, done: make(chan struct{})}
	up := make(chan struct{})
	var once sync.Once
	fail := make(chan error, 1)
	src := &camera.Source{Name: info.Name + " wrist camera", URL: info.URL, Clock: device.NewClock(), Quiet: quiet, Status: func(st device.Status) {
		if st.State == device.Connected {
			once.Do(func() { close(up) })
		} else if st.Err != nil {
			select {
			case fail <- st.Err:
			default:
			}
		}
	}}
	go func() {
		defer close(s.done)
		s.err = src.Run(ctx, func(f camera.Frame) { s.emit(ctx, f) })
	}()
	select {
	case <-up:
		return s, nil
	case err := <-fail:
		cancel()
		<-s.done
		return nil, fmt.Errorf("open %s wrist camera %s: %w", info.Name, info.URL, err)
	case <-s.done: // trying again can not help
		cancel()
		return nil, fmt.Errorf("open %s wrist camera %s: %w", info.Name, info.URL, s.err)
	case <-time.After(answerTimeout):
		cancel()
		<-s.done
		return nil, fmt.Errorf("open %s wrist camera %s: it answers nothing for %v", info.Name, info.URL, answerTimeout)
	case <-ctx.Done():
		cancel()
		<-s.done
		return nil, ctx.Err()
	}
}

func (s *rtspSource) emit(ctx context.Context, f camera.Frame) {
	if f.Bad || !f.Timed {
		return
	}
	select {
	case s.frames <- Frame{CaptureNS: int64(f.Device), JPEG: f.Data}:
	case <-ctx.Done():
	}
}

// Next implements FrameSource.
func (s *rtspSource) Next(ctx context.Context) (Frame, error) {
	select {
	case f := <-s.frames:
		return f, nil
	case <-s.done:
		if s.err != nil {
			return Frame{}, s.err
		}
		return Frame{}, io.EOF
	case <-ctx.Done():
		return Frame{}, ctx.Err()
	}
}

// Close implements FrameSource.
func (s *rtspSource) Close() error {
	s.cancel()
	<-s.done
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		return s.err
	}
	return nil
}
