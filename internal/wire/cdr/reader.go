package cdr

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Reader takes fields out of one message in order. The first failure sticks: later calls give zero values, and Err tells the
// failure. A count or length larger than the rest of the message fails before anything is allocated.
type Reader struct {
	buf   []byte // from byte 4 on
	pos   int
	order binary.ByteOrder
	max   int // largest alignment: 8 in XCDR1, 4 in XCDR2
	err   error
}

// NewReader reads the encapsulation bytes of b. Slices that the Reader returns are copies, apart from Octets.
func NewReader(b []byte) *Reader {
	r := &Reader{order: binary.LittleEndian, max: 8}
	if len(b) < headBytes {
		r.err = fmt.Errorf("cdr: encapsulation bytes missing: %w", ErrShort)
		return r
	}
	switch {
	case b[0] != 0:
		r.err = fmt.Errorf("cdr: first byte is %#02x, not 0: %w", b[0], ErrInvalid)
	case b[1] == kindBig:
		r.order = binary.BigEndian
	case b[1] == kindLittle:
	case b[1] == kindBig2Old, b[1] == kindBig2:
		r.order, r.max = binary.BigEndian, 4
	case b[1] == kindLittle2Od, b[1] == kindLittle2:
		r.max = 4
	default:
		r.err = fmt.Errorf("cdr: encapsulation kind %#02x is not read here: %w", b[1], ErrInvalid)
	}
	r.buf = b[headBytes:]
	return r
}

// Err is the first failure, or nil.
func (r *Reader) Err() error { return r.err }

// Remaining is the number of unread bytes; ROS 2 may leave up to three bytes of padding after the last field.
func (r *Reader) Remaining() int { return len(r.buf) - r.pos }

func (r *Reader) fail(what string, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("cdr: %s at byte %d: %w", what, r.pos+headBytes, err)
	}
}

// take gives the next n bytes after aligning to align, or nil.
func (r *Reader) take(what string, align, n int) []byte {
	if r.err != nil {
		return nil
	}
	align = min(align, r.max)
	p := (r.pos + align - 1) / align * align
	if n > len(r.buf)-p || p > len(r.buf) {
		r.fail(what, ErrShort)
		return nil
	}
	r.pos = p + n
	return r.buf[p:r.pos]
}

// Uint8 reads one byte.
func (r *Reader) Uint8() uint8 {
	if b := r.take("uint8", 1, 1); b != nil {
		return b[0]
	}
	return 0
}

// Uint16 reads two bytes.
func (r *Reader) Uint16() uint16 {
	if b := r.take("uint16", 2, 2); b != nil {
		return r.order.Uint16(b)
	}
	return 0
}

// Bool reads one byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Uint8()
	if v > 1 {
		r.fail("bool", ErrInvalid)
		return false
	}
	return v == 1
}

// Uint32 reads 4 bytes.
func (r *Reader) Uint32() uint32 {
	if b := r.take("uint32", 4, 4); b != nil {
		return r.order.Uint32(b)
	}
	return 0
}

// Int32 reads 4 bytes.
func (r *Reader) Int32() int32 { return int32(r.Uint32()) }

// Float32 reads 4 bytes.
func (r *Reader) Float32() float32 { return math.Float32frombits(r.Uint32()) }

// Uint64 reads 8 bytes.
func (r *Reader) Uint64() uint64 {
	if b := r.take("uint64", 8, 8); b != nil {
		return r.order.Uint64(b)
	}
	return 0
}

// Float64 reads 8 bytes.
func (r *Reader) Float64() float64 { return math.Float64frombits(r.Uint64()) }

// String reads a string; lengths 0 and 1 both mean empty.
func (r *Reader) String() string {
	n := r.Uint32()
	if n == 0 || r.err != nil {
		return ""
	}
	if uint64(n) > uint64(r.Remaining()) {
		r.fail("string", ErrShort)
		return ""
	}
	b := r.take("string", 1, int(n))
	if b[n-1] != 0 {
		r.fail("string without NUL", ErrInvalid)
		return ""
	}
	return string(b[:n-1])
}

// Count reads the number of elements of a sequence whose elements take at least minBytes each.
func (r *Reader) Count(minBytes int) int {
	n := r.Uint32()
	if r.err == nil && uint64(n)*uint64(minBytes) > uint64(r.Remaining()) {
		r.fail(fmt.Sprintf("sequence of %d elements", n), ErrShort)
		return 0
	}
	return int(n)
}

// Octets reads a uint8[] sequence; the result shares the message's memory.
func (r *Reader) Octets() []byte { return r.take("uint8[]", 1, r.Count(1)) }

// Strings reads a string[] sequence.
func (r *Reader) Strings() []string {
	return sequence(r, r.Count(4), r.String)
}

// Float64s reads a float64[] sequence.
func (r *Reader) Float64s() []float64 {
	return sequence(r, r.Count(8), r.Float64)
}

// FixedFloat64s reads a float64[n] array into dst.
func (r *Reader) FixedFloat64s(dst []float64) {
	for i := range dst {
		dst[i] = r.Float64()
	}
}

// Float32s reads a float32[] sequence.
func (r *Reader) Float32s() []float32 {
	return sequence(r, r.Count(4), r.Float32)
}

// Int32s reads an int32[] sequence.
func (r *Reader) Int32s() []int32 {
	return sequence(r, r.Count(4), r.Int32)
}

func sequence[T any](r *Reader, n int, next func() T) []T {
	if n == 0 || r.err != nil {
		return nil
	}
	out := make([]T, 0, n)
	for range n {
		out = append(out, next())
		if r.err != nil {
			return nil
		}
	}
	return out
}
