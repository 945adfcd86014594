// Package device holds what the drivers of the handheld rig share. Each driver package (camera, encoder, tracker, pedal) has one
// Source: Run connects, emits stamped readings, reports every change of its state, and reconnects until its context ends.
//
//	src := &encoder.Source{Name: "left encoder", Port: encoder.Serial("/dev/yubi_left_esp32c6"), Clock: device.NewClock()}
//	err := src.Run(ctx, func(r encoder.Reading) { ... })
//
// emit is called from one goroutine per source; while it does not return, the source reads nothing, which is the
// back-pressure that keeps a lock-step simulation lossless.
package device

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// Clock gives host time.
type Clock func() frames.HostTime

// NewClock makes a host clock: the monotonic clock, shifted once, now, to Unix time. All sources of a session share one.
func NewClock() Clock {
	start := time.Now()
	unix := start.UnixNano()
	return func() frames.HostTime { return frames.HostTime(unix + int64(time.Since(start))) }
}

// State is where a source stands.
type State int

// The states of a source.
const (
	Connecting State = iota // not connected yet, trying
	Connected               // readings arrive or may arrive
	Lost                    // was connected; trying again
	Ended                   // the device closed the stream for good (a pedal socket at the end of a simulation)
)

// String is the state in one word, as the status line shows it.
func (s State) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Lost:
		return "lost"
	case Ended:
		return "ended"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Status is one change of a source's state, or a warning (State unchanged, Warning set).
type Status struct {
	Name    string // the source's name, "left camera"
	State   State
	Err     error  // why it is not connected; nil when it is
	Warning string // something the operator should know while readings go on
}

// StatusFunc receives the changes; it must not block. Sources call it from their own goroutine. nil is allowed in Sources.
type StatusFunc func(Status)

// Report calls f if it is there.
func (f StatusFunc) Report(s Status) {
	if f != nil {
		f(s)
	}
}

// RetryEvery is the pause between two attempts to connect, as in YUBI's drivers.
const RetryEvery = time.Second

// ErrEnded is returned by a connection that the device closed for good; Retry stops on it and returns nil.
var ErrEnded = errors.New("the device closed the stream")

// Retry runs connect again and again until ctx ends (it returns nil then) or connect returns ErrEnded (nil too) or a
// *ConfigError (returned: trying again cannot help). connect must call up once it is connected. Every failure is reported once
// per change of its text.
func Retry(ctx context.Context, name string, report StatusFunc, pause time.Duration, connect func(ctx context.Context, up func()) error) error {
	if pause <= 0 {
		pause = RetryEvery
	}
	state, last := Connecting, ""
	report.Report(Status{Name: name, State: Connecting})
	for {
		err := connect(ctx, func() {
			state, last = Connected, ""
			report.Report(Status{Name: name, State: Connected})
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrEnded):
			report.Report(Status{Name: name, State: Ended})
			return nil
		}
		var config *ConfigError
		if errors.As(err, &config) {
			return err
		}
		if state == Connected {
			state = Lost
		}
		if err != nil && err.Error() != last {
			last = err.Error()
			report.Report(Status{Name: name, State: state, Err: err})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// ConfigError is a failure that only a person can repair: a wrong address, a codec we do not read, a device of the wrong side.
type ConfigError struct {
	Device string
	Fault  string // what is wrong
	Fix    string // what to do
}

// Error names the device, the fault and the fix.
func (e *ConfigError) Error() string { return fmt.Sprintf("%s: %s; %s", e.Device, e.Fault, e.Fix) }

// Explain adds the fix to the usual failures of opening a device or a connection.
func Explain(what string, err error) error {
	fix := ""
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ECONNREFUSED):
		fix = "nothing listens there: start the device or correct the address in the rig file"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), os.IsTimeout(err):
		fix = "no answer: check power, cable or Wi-Fi and the address in the rig file"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV):
		fix = "no such device: plug it in or correct the path in the rig file"
	case errors.Is(err, os.ErrPermission):
		fix = "no permission: add your user to the group of the device (ls -l shows it) and log in again"
	case errors.Is(err, syscall.EBUSY):
		fix = "another program holds it: close that program"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EIO), errors.Is(err, syscall.ECONNRESET):
		fix = "the device went away: check its cable and power"
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w (%s)", what, err, fix)
}
