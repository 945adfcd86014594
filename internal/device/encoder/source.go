// Package encoder reads a YUBI gripper encoder: an ESP32 with an AS5601 that sends one text line per sample over USB serial.
//
//	# AS5601 streaming: rad, device_id=L003     header after a reset
//	# t=1000005000000                            optional: device time of the next sample, ns
//	L003,1.23456789                              id (L or R and three digits), angle in rad, [0, 2 pi)
//	magnet too weak                              a warning after a sample
//
// 115200 baud, a little under 200 samples a second. The driver gives each sample once: when lines stop, readings stop.
package encoder

import (
	"context"
	"fmt"
	"io"
	"time"

	"go.bug.st/serial"

	"github.com/pinch-robotics/pinch/internal/device"
)

// Side says which hand an encoder must be on.
type Side byte

// The sides, as the first letter of the device id.
const (
	AnySide Side = 0
	Left    Side = 'L'
	Right   Side = 'R'
)

// Open opens the byte stream of an encoder. Its Read returns 0 bytes and no error when nothing came for a while, so that the
// driver can look at its context.
type Open func(ctx context.Context) (io.ReadCloser, error)

// Serial opens a serial port at 115200 baud, 8N1; a pseudo terminal works too.
func Serial(path string) Open {
	return func(context.Context) (io.ReadCloser, error) {
		p, err := serial.Open(path, &serial.Mode{BaudRate: 115200})
		if err != nil {
			return nil, device.Explain("open serial port "+path, err)
		}
		if err := p.SetReadTimeout(readTimeout); err != nil {
			_ = p.Close()
			return nil, device.Explain("open serial port "+path, err)
		}
		return p, nil
	}
}

const readTimeout = 100 * time.Millisecond

// Source is the driver of one encoder.
type Source struct {
	Name   string // "left encoder"
	Port   Open
	Side   Side   // refuse the other hand's encoder; AnySide does not check
	ID     string // the exact device id wanted; "" takes any of Side
	Clock  device.Clock
	Status device.StatusFunc
	Retry  time.Duration // pause between connection attempts; default device.RetryEvery
}

// Run emits readings until ctx ends. It returns a *device.ConfigError when the encoder is another one than the rig file says, and nil
// otherwise; everything else (unplugged, silent, garbage) is reported as status and tried again.
func (s *Source) Run(ctx context.Context, emit func(Reading)) error {
	return device.Retry(ctx, s.Name, s.Status, s.Retry, func(ctx context.Context, up func()) error {
		port, err := s.Port(ctx)
		if err != nil {
			return err
		}
		defer port.Close()
		return s.read(ctx, port, up, emit)
	})
}

func (s *Source) read(ctx context.Context, port io.Reader, up func(), emit func(Reading)) error {
	var d decoder
	var wrong error
	warned := Counts{}
	buf := make([]byte, 4096)
	take := func(r Reading) {
		if wrong == nil {
			wrong = s.checkID(r.ID)
		}
		if wrong != nil {
			return
		}
		if d.counts.Samples == 1 {
			up()
		}
		emit(r)
	}
	for ctx.Err() == nil {
		n, err := port.Read(buf)
		d.feed(buf[:n], s.Clock(), take)
		if wrong != nil {
			return wrong
		}
		s.warn(&d, &warned)
		if err != nil {
			return device.Explain("read "+s.Name, err)
		}
	}
	return nil
}

// checkID refuses an encoder of the other side or another id. The firmware ships with a placeholder for the id; it and ids
// of older firmware ("") pass when the rig file does not ask for one.
func (s *Source) checkID(id string) error {
	switch {
	case s.ID != "" && id != s.ID:
		return &device.ConfigError{Device: s.Name, Fault: fmt.Sprintf("the encoder says it is %q, the rig file wants %q", id, s.ID),
			Fix: "connect the right gripper or correct `id` in the rig file"}
	case s.Side != AnySide && idPattern.MatchString(id) && Side(id[0]) != s.Side:
		return &device.ConfigError{Device: s.Name, Fault: fmt.Sprintf("the encoder says it is %q, which is the other hand's", id),
			Fix: "swap the two cables or the two paths in the rig file"}
	}
	return nil
}

// warn reports new magnet notes, suspect zeros and unreadable lines, each kind at its 1st, 10th, 100th ... time.
func (s *Source) warn(d *decoder, done *Counts) {
	if milestone(done.Notes, d.counts.Notes) {
		s.Status.Report(device.Status{Name: s.Name, State: device.Connected, Warning: "magnet: " + d.note})
	}
	if milestone(done.Suspects, d.counts.Suspects) {
		s.Status.Report(device.Status{Name: s.Name, State: device.Connected,
			Warning: fmt.Sprintf("%d samples of exactly 0 left out (failed I2C reads of the encoder)", d.counts.Suspects)})
	}
	if milestone(done.Bad, d.counts.Bad) {
		s.Status.Report(device.Status{Name: s.Name, State: device.Connected,
			Warning: fmt.Sprintf("%d unreadable lines left out", d.counts.Bad)})
	}
	*done = d.counts
}

// milestone is true when a power of ten lies in (before, now].
func milestone(before, now uint64) bool {
	for p := uint64(1); p <= now; p *= 10 {
		if before < p {
			return true
		}
	}
	return false
}
