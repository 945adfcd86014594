// Package tracker reads the poses of a Meta Quest headset and its two controllers from YUBI's headset application: one JSON object
// per line over TCP (port 65432) in Unity's axes, and a clock exchange over UDP (port 42000).
//
// Poses come out in ROS axes. Tracked and valid flags are passed on as they are; jumps are found from the poses themselves,
// because headsets report poses that teleport while both flags are true.
package tracker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

// DefaultTCPPort and DefaultUDPPort are the application's ports.
const (
	DefaultTCPPort = 65432
	DefaultUDPPort = 42000
	maxLineBytes   = 64 << 10 // a line has about 1.5 KiB
	dialTimeout    = 2 * time.Second
)

// Source is the driver of one headset.
type Source struct {
	Name    string // "tracker"
	Address string // TCP host:port
	Sync    string // UDP host:port of the clock exchange; "" does without
	Clock   device.Clock
	Status  device.StatusFunc
	OnClock func(frames.ClockSample) // each exchange, also slow ones (see RoundTrip); called from its own goroutine; may be nil
	Period  time.Duration            // between exchanges; default 1 s
	Retry   time.Duration            // pause between connection attempts; default device.RetryEvery
}

// Run emits a reading per line until ctx ends, reconnecting when the headset goes away; then it returns nil. A peer that sends no
// lines of the application is a *device.ConfigError.
func (s *Source) Run(ctx context.Context, emit func(Reading)) error {
	return device.Retry(ctx, s.Name, s.Status, s.Retry, func(ctx context.Context, up func()) error {
		d := net.Dialer{Timeout: dialTimeout}
		conn, err := d.DialContext(ctx, "tcp", s.Address)
		if err != nil {
			return device.Explain(fmt.Sprintf("connect %s at %s", s.Name, s.Address), err)
		}
		defer conn.Close()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		done := s.startExchange(ctx)
		up()
		err = s.read(conn, emit)
		cancel()
		<-done
		return device.Explain("read "+s.Name, err)
	})
}

// startExchange runs the clock exchange beside the stream; the channel closes when it has ended.
func (s *Source) startExchange(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.Sync == "" || s.OnClock == nil {
			return
		}
		period := s.Period
		if period <= 0 {
			period = time.Second
		}
		if err := exchange(ctx, s.Sync, period, s.Clock, s.OnClock); err != nil {
			s.Status.Report(device.Status{Name: s.Name, State: device.Connected, Warning: err.Error()})
		}
	}()
	return done
}

func (s *Source) read(conn net.Conn, emit func(Reading)) error {
	in := bufio.NewReaderSize(conn, maxLineBytes)
	var jumps [2]jumpDetector
	var bad uint64
	for {
		b, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			return &device.ConfigError{Device: s.Name, Fault: fmt.Sprintf("a line at %s is longer than %d bytes", s.Address, maxLineBytes),
				Fix: "check that the address and port are those of the headset application"}
		}
		if err != nil {
			return err // a line without its end is dropped with the connection
		}
		if len(bytes.TrimSpace(b)) == 0 {
			continue
		}
		r, err := parseLine(b, s.Clock())
		if err != nil {
			if bad++; bad == 1 || bad%1000 == 0 {
				s.Status.Report(device.Status{Name: s.Name, State: device.Connected, Warning: fmt.Sprintf("%d unreadable lines left out: %v", bad, err)})
			}
			continue
		}
		markJumps(&r, &jumps)
		emit(r)
	}
}

func markJumps(r *Reading, jumps *[2]jumpDetector) {
	at := int64(r.Received)
	if r.Timed {
		at = int64(r.Device)
	}
	for i := range r.Controllers {
		if r.Controllers[i].HasPose {
			r.Jump[i] = jumps[i].add(r.Controllers[i].Pose, at)
		}
	}
}
