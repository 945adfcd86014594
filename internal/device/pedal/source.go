// Package pedal reads a foot pedal's buttons as Linux input events: from an event device (/dev/input/by-id/...-event-kbd), a FIFO or a
// Unix socket that carries the same 24-byte records.
//
// Each change of each button is emitted with its time; nothing is sampled, so a press of a millisecond counts. Chatter is
// removed by a debounce that reports the first edge at once.
package pedal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
)

// Buttons is the number of buttons of the pedal.
const Buttons = 3

// DefaultDebounce is well above the chatter of a foot switch (a few ms) and below the shortest press (about 60 ms).
const DefaultDebounce = 30 * time.Millisecond

// DefaultKeys are the key codes (linux/input-event-codes.h) that the pedal of YUBI's stationary rig sends for buttons 0, 1, 2: its HID
// usages 0x04, 0x05, 0x06 are the letters a, b, c, which the kernel reports as KEY_A, KEY_B, KEY_C.
var DefaultKeys = [Buttons]uint16{30, 48, 46}

// Reading is one change of one button, or, when Changed is false, only news of the pedal's clock.
type Reading struct {
	Changed  bool
	Button   int           // 0, 1, 2
	Down     bool          // new level of Button
	Level    [Buttons]bool // all levels after the change
	Device   frames.DeviceTime
	Received frames.HostTime
}

// Source is the driver of one pedal.
type Source struct {
	Name     string // "pedal"
	Path     string // event device, FIFO or Unix socket
	Keys     [Buttons]uint16
	Debounce time.Duration // default DefaultDebounce; negative: none
	// EndsWithStream (sockets only): the far end closes the stream for good when it is done, as a simulated rig does. Then Run returns nil with
	// the state Ended instead of reconnecting.
	EndsWithStream bool
	Clock          device.Clock
	Status         device.StatusFunc
	Retry          time.Duration // pause between connection attempts; default device.RetryEvery
}

// Run emits readings until ctx ends, reconnecting when the pedal goes away.
func (s *Source) Run(ctx context.Context, emit func(Reading)) error {
	return device.Retry(ctx, s.Name, s.Status, s.Retry, func(ctx context.Context, up func()) error {
		in, err := s.open(ctx)
		if err != nil {
			return device.Explain("open "+s.Name+" at "+s.Path, err)
		}
		defer in.Close()
		stop := context.AfterFunc(ctx, func() { _ = in.SetReadDeadline(time.Unix(1, 0)) })
		defer stop()
		up()
		return s.read(ctx, in, emit)
	})
}

// stream is what *os.File and *net.UnixConn have in common.
type stream interface {
	io.ReadCloser
	SetReadDeadline(time.Time) error
}

func (s *Source) open(ctx context.Context) (stream, error) {
	info, err := os.Stat(s.Path)
	if err != nil {
		return nil, err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return openNonblocking(s.Path, info.Mode()&os.ModeNamedPipe != 0)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", s.Path)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

func (s *Source) read(ctx context.Context, in stream, emit func(Reading)) error {
	d := debounce{hold: s.Debounce}
	if d.hold == 0 {
		d.hold = DefaultDebounce
	}
	buf := make([]byte, EventBytes)
	for {
		if _, err := io.ReadFull(in, buf); err != nil {
			return s.ended(err)
		}
		e, err := parseEvent(buf)
		if err != nil {
			return &device.ConfigError{Device: s.Name, Fault: fmt.Sprintf("%s does not send input events (%v)", s.Path, err), Fix: "correct `pedal.path` in the rig file"}
		}
		if ctx.Err() != nil {
			return nil
		}
		s.handle(&d, e, emit)
	}
}

func (s *Source) ended(err error) error {
	if s.EndsWithStream && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return device.ErrEnded
	}
	return device.Explain("read "+s.Name, err)
}

// handle turns one record into readings. Held-back changes are looked at whenever the pedal's clock is heard of: a switch that
// chatters sends records while it does, and the kernel closes each group with a SYN.
func (s *Source) handle(d *debounce, e event, emit func(Reading)) {
	now := s.Clock()
	for _, x := range d.settle(e.time) {
		emit(Reading{Changed: true, Button: x.button, Down: x.down, Level: d.level, Device: x.at, Received: now})
	}
	if e.typ == evKey && (e.value == keyUp || e.value == keyDown) {
		if b, ok := s.button(e.code); ok {
			if x, ok := d.add(b, e.value == keyDown, e.time); ok {
				emit(Reading{Changed: true, Button: b, Down: x.down, Level: d.level, Device: x.at, Received: now})
				return
			}
		}
	}
	emit(Reading{Level: d.level, Device: e.time, Received: now})
}

func (s *Source) button(code uint16) (int, bool) {
	keys := s.Keys
	if keys == ([Buttons]uint16{}) {
		keys = DefaultKeys
	}
	for i, k := range keys {
		if k == code {
			return i, true
		}
	}
	return 0, false
}
