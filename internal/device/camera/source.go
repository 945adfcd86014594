package camera

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pinch-robotics/pinch/internal/device"
)

// Counts tells what a camera delivered so far.
type Counts struct {
	Frames      uint64 // good frames
	Bad         uint64 // damaged frames and H.264 frames that depend on one
	PacketsLost uint64
}

// Source is the driver of one camera.
type Source struct {
	Name   string // "left camera"
	URL    string // rtsp://host:port/path
	UDP    bool   // RTP over UDP instead of TCP
	Clock  device.Clock
	Status device.StatusFunc
	Retry  time.Duration // pause between connection attempts; default device.RetryEvery
	Quiet  time.Duration // a connected camera that sends nothing for this long is lost; default 5 s

	frames, bad, lost atomic.Uint64
}

// Counts may be called while Run runs.
func (s *Source) Counts() Counts {
	return Counts{Frames: s.frames.Load(), Bad: s.bad.Load(), PacketsLost: s.lost.Load()}
}

// Run emits every frame, bad ones with Bad set, until ctx ends, reconnecting when the camera goes away. A camera that offers no
// codec we read is a *device.ConfigError.
func (s *Source) Run(ctx context.Context, emit func(Frame)) error {
	return device.Retry(ctx, s.Name, s.Status, s.Retry, func(ctx context.Context, up func()) error {
		return s.session(ctx, up, emit)
	})
}

func (s *Source) session(ctx context.Context, up func(), emit func(Frame)) error {
	var a *assembler
	conn, err := dialRTSP(ctx, s.URL, s.UDP, cmp.Or(s.Quiet, rtspTimeout), streamHandler{
		found: func(c Codec, un unpacker, sets parameterSets) { a = newAssembler(c, un, sets) },
		packet: func(p packet) {
			a.add(p, s.Clock(), func(f Frame) {
				s.count(f)
				emit(f)
			})
		},
		lost: func(n uint64) {
			s.lost.Add(n)
			a.packetsLost()
			s.Status.Report(device.Status{Name: s.Name, State: device.Connected, Warning: fmt.Sprintf("%d packets lost", n)})
		},
	})
	if err != nil {
		return s.explain(err)
	}
	defer conn.close()
	stop := context.AfterFunc(ctx, conn.close)
	defer stop()
	up()
	return s.explain(conn.wait())
}

func (s *Source) count(f Frame) {
	if f.Bad {
		s.bad.Add(1)
	} else {
		s.frames.Add(1)
	}
}

func (s *Source) explain(err error) error {
	what := fmt.Sprintf("%s at %s", s.Name, s.URL)
	switch {
	case errors.Is(err, errNoVideo):
		return &device.ConfigError{Device: what, Fault: err.Error(), Fix: "set the camera to Motion-JPEG or H.264"}
	case err != nil && strings.Contains(err.Error(), "404"):
		return fmt.Errorf("%s: the server has no stream of that name; correct the path in the rig file: %w", what, err)
	}
	return device.Explain(what, err)
}
