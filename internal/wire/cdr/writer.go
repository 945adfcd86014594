package cdr

import (
	"encoding/binary"
	"math"
)

// Writer appends one message to a byte slice. The zero value is not ready: use NewWriter. Not safe for concurrent use.
type Writer struct {
	buf   []byte
	start int // index of byte 4 of the message in buf
}

// NewWriter starts a message at the end of dst with the four encapsulation bytes.
func NewWriter(dst []byte) *Writer {
	dst = append(dst, 0, kindLittle, 0, 0)
	return &Writer{buf: dst, start: len(dst)}
}

// Bytes is dst with the message appended.
func (w *Writer) Bytes() []byte { return w.buf }

func (w *Writer) align(n int) {
	for (len(w.buf)-w.start)%n != 0 {
		w.buf = append(w.buf, 0)
	}
}

// Uint8 writes one byte.
func (w *Writer) Uint8(v uint8) { w.buf = append(w.buf, v) }

// Bool writes 0 or 1.
func (w *Writer) Bool(v bool) {
	if v {
		w.Uint8(1)
		return
	}
	w.Uint8(0)
}

// Uint32 writes 4 bytes, aligned to 4.
func (w *Writer) Uint32(v uint32) {
	w.align(4)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, v)
}

// Int32 writes 4 bytes, aligned to 4.
func (w *Writer) Int32(v int32) { w.Uint32(uint32(v)) }

// Float32 writes 4 bytes, aligned to 4.
func (w *Writer) Float32(v float32) { w.Uint32(math.Float32bits(v)) }

// Uint64 writes 8 bytes, aligned to 8.
func (w *Writer) Uint64(v uint64) {
	w.align(8)
	w.buf = binary.LittleEndian.AppendUint64(w.buf, v)
}

// Float64 writes 8 bytes, aligned to 8.
func (w *Writer) Float64(v float64) { w.Uint64(math.Float64bits(v)) }

// String writes the length with the NUL, the bytes and the NUL.
func (w *Writer) String(s string) {
	w.Uint32(uint32(len(s) + 1))
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, 0)
}

// Count writes the number of elements of a sequence that follows.
func (w *Writer) Count(n int) { w.Uint32(uint32(n)) }

// Octets writes a uint8[] sequence.
func (w *Writer) Octets(b []byte) {
	w.Count(len(b))
	w.buf = append(w.buf, b...)
}

// Strings writes a string[] sequence.
func (w *Writer) Strings(s []string) {
	w.Count(len(s))
	for _, v := range s {
		w.String(v)
	}
}

// Float64s writes a float64[] sequence.
func (w *Writer) Float64s(v []float64) {
	w.Count(len(v))
	w.FixedFloat64s(v)
}

// FixedFloat64s writes a float64[n] array: the elements without a count.
func (w *Writer) FixedFloat64s(v []float64) {
	for _, x := range v {
		w.Float64(x)
	}
}

// Float32s writes a float32[] sequence.
func (w *Writer) Float32s(v []float32) {
	w.Count(len(v))
	for _, x := range v {
		w.Float32(x)
	}
}

// Int32s writes an int32[] sequence.
func (w *Writer) Int32s(v []int32) {
	w.Count(len(v))
	for _, x := range v {
		w.Int32(x)
	}
}
