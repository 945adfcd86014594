package pedal

import (
	"encoding/binary"
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// EventBytes is the size of a Linux input_event on 64-bit machines: seconds and microseconds (i64 each), type (u16), code (u16),
// value (i32), little-endian. Source: linux/input.h.
const EventBytes = 24

// Event types and values that matter here.
const (
	evSyn   = 0 // marks the end of a group; it carries a time, so it also tells that the clock went on
	evKey   = 1
	keyUp   = 0
	keyDown = 1 // 2 is the keyboard's auto-repeat, which is no press
)

// event is one decoded record.
type event struct {
	time  frames.DeviceTime // ns, whole microseconds
	typ   uint16
	code  uint16
	value int32
}

func parseEvent(b []byte) (event, error) {
	if len(b) != EventBytes {
		return event{}, fmt.Errorf("input event of %d bytes, want %d", len(b), EventBytes)
	}
	le := binary.LittleEndian
	sec, usec := int64(le.Uint64(b)), int64(le.Uint64(b[8:]))
	if sec < 0 || sec > 1<<33 || usec < 0 || usec >= 1_000_000 {
		return event{}, fmt.Errorf("input event with the impossible time %d s %d us", sec, usec)
	}
	return event{
		time: frames.DeviceTime(sec*1_000_000_000 + usec*1000), typ: le.Uint16(b[16:]), code: le.Uint16(b[18:]), value: int32(le.Uint32(b[20:])),
	}, nil
}

func appendEvent(dst []byte, e event) []byte {
	le := binary.LittleEndian
	us := int64(e.time) / 1000
	dst = le.AppendUint64(dst, uint64(us/1_000_000))
	dst = le.AppendUint64(dst, uint64(us%1_000_000))
	dst = le.AppendUint16(dst, e.typ)
	dst = le.AppendUint16(dst, e.code)
	return le.AppendUint32(dst, uint32(e.value))
}

// AppendKey appends the records of one key change, as the kernel writes it: the key and the closing SYN.
func AppendKey(dst []byte, t frames.DeviceTime, code uint16, down bool) []byte {
	e := event{time: t, typ: evKey, code: code, value: keyUp}
	if down {
		e.value = keyDown
	}
	return AppendSyn(appendEvent(dst, e), t)
}

// AppendSyn appends a SYN record; between key changes it only tells the time.
func AppendSyn(dst []byte, t frames.DeviceTime) []byte {
	return appendEvent(dst, event{time: t, typ: evSyn})
}
