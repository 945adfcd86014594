package rtspserve_test

import (
	"context"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/rtspserve"
)

// A camera whose clock stands still between two frames is lost after Source.Quiet, and not before: the reader of a cell in lock-step
// waits for as long as a policy may think.
func TestQuietCamera(t *testing.T) {
	for _, c := range []struct {
		quiet time.Duration
		lost  bool
	}{{150 * time.Millisecond, true}, {time.Minute, false}} {
		server, err := rtspserve.Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := server.AddMJPEG("left")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		lost := make(chan struct{}, 100)
		got := make(chan camera.Frame, 8)
		src := &camera.Source{Name: "camera", URL: stream.URL(), Clock: device.NewClock(), Quiet: c.quiet, Retry: time.Hour, Status: func(s device.Status) {
			if s.State == device.Lost {
				lost <- struct{}{}
			}
		}}
		done := make(chan error, 1)
		go func() { done <- src.Run(ctx, func(f camera.Frame) { got <- f }) }()
		if err := server.WaitReaders(ctx); err != nil {
			t.Fatal(err)
		}
		if err := stream.WriteJPEG(ctx, picture(t, 50), frames.DeviceTime(1e9)); err != nil {
			t.Fatal(err)
		}
		<-got
		select {
		case <-lost:
			if !c.lost {
				t.Errorf("quiet %v: lost while the clock stood still", c.quiet)
			}
		case <-time.After(1500 * time.Millisecond): // ten times the short limit
			if c.lost {
				t.Errorf("quiet %v: a silent camera is not reported", c.quiet)
			}
			if err := stream.WriteJPEG(ctx, picture(t, 90), frames.DeviceTime(2e9)); err != nil {
				t.Fatal(err)
			}
			<-got
		}
		cancel()
		<-done
		server.Close()
	}
}
