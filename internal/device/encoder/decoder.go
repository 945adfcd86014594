package encoder

import (
	"bytes"
	"math"

	"github.com/pinch-robotics/pinch/frames"
)

// Reading is one sample of one encoder.
type Reading struct {
	RawRad   float64           // angle as sent, [0, 2 pi)
	ID       string            // device id as sent, "" from older firmware
	Device   frames.DeviceTime // time of the sample on the device's clock
	Timed    bool              // Device is set ("# t=" line before the sample)
	Received frames.HostTime   // when the line was complete
	// Suspect marks an angle of exactly 0 that is far from the sample before it: the firmware sends 0 when its I2C read fails, so
	// this is more likely a failure than an angle. Consumers do not use it.
	Suspect bool
}

// Counts tells what a decoder met.
type Counts struct {
	Samples  uint64
	Bad      uint64 // lines that are no sample, comment or note: cut, "nan", "inf", out of range
	Suspects uint64
	Notes    uint64 // magnet warnings
}

// decoder turns the bytes of the serial port into readings. It takes no clock: the caller stamps. Everything up to the first
// line end is dropped, because a stream that is joined in the middle of a line looks like a shorter line ("03,1.2").
type decoder struct {
	buf     []byte
	synced  bool // the first line end has been seen
	long    bool // the line has grown beyond maxLine and is skipped to its end
	device  frames.DeviceTime
	timed   bool
	last    float64
	hasLast bool
	counts  Counts
	note    string // newest magnet warning, cleared by the reader
}

// suspectJump: between two samples 5 ms apart a finger turns 0.1 rad at 20 rad/s, faster than any hand.
const suspectJump = 0.2

// feed takes received bytes and calls emit for each sample in them.
func (d *decoder) feed(b []byte, now frames.HostTime, emit func(Reading)) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			d.collect(b)
			return
		}
		d.collect(b[:i])
		b = b[i+1:]
		d.endLine(now, emit)
	}
}

func (d *decoder) collect(b []byte) {
	if d.long || len(d.buf)+len(b) > maxLine {
		d.long = true
		d.buf = d.buf[:0]
		return
	}
	d.buf = append(d.buf, b...)
}

func (d *decoder) endLine(now frames.HostTime, emit func(Reading)) {
	text, long := d.buf, d.long
	d.buf, d.long = d.buf[:0], false
	if !d.synced {
		d.synced = true
		return
	}
	if long {
		d.counts.Bad++
		return
	}
	switch l := parseLine(text); l.kind {
	case lineTime:
		d.device, d.timed = l.device, true
	case lineNote:
		d.counts.Notes++
		d.note = l.text
	case lineBad:
		d.counts.Bad++
		d.timed = false
	case lineSample:
		emit(d.sample(l, now))
	}
}

func (d *decoder) sample(l line, now frames.HostTime) Reading {
	r := Reading{RawRad: l.raw, ID: l.id, Device: d.device, Timed: d.timed, Received: now}
	d.timed = false
	r.Suspect = l.raw == 0 && (!d.hasLast || math.Abs(WrapPi(l.raw-d.last)) > suspectJump)
	d.counts.Samples++
	if r.Suspect {
		d.counts.Suspects++
	} else {
		d.last, d.hasLast = l.raw, true
	}
	return r
}
