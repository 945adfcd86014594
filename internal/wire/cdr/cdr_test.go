package cdr

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
)

// The layout by hand, from OMG DDS-RTPS 2.5 section 10: every field's padding is written out.
func TestLayoutByHand(t *testing.T) {
	w := NewWriter(nil)
	w.Uint8(7)
	w.Float64(1.5)
	w.String("ab")
	w.Bool(true)
	w.Uint32(0x01020304)
	w.Octets([]byte{9, 8})
	w.Float64s(nil)
	w.Float64s([]float64{-2})
	want := []byte{
		0, 1, 0, 0,
		7, 0, 0, 0, 0, 0, 0, 0, // u8, padding to 8
		0, 0, 0, 0, 0, 0, 0xf8, 0x3f,
		3, 0, 0, 0, 'a', 'b', 0, // length counts the NUL
		1,          // bool at offset 23
		4, 3, 2, 1, // offset 24 is aligned
		2, 0, 0, 0, 9, 8, 0, 0, // sequence, padding to 4 before the next count
		0, 0, 0, 0, // empty float64[]: only the count
		1, 0, 0, 0, 0, 0, 0, 0, // count at 40, padding to 48
	}
	want = append(want, 0, 0, 0, 0, 0, 0, 0, 0xc0)
	if got := w.Bytes(); !bytes.Equal(got, want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
}

// Numbers of four bytes, alone and in sequences, as written and read: two's complement and IEEE 754, little-endian.
func TestFourByteNumbers(t *testing.T) {
	w := NewWriter(nil)
	w.Int32(-2)
	w.Float32(1.5)
	w.Int32s([]int32{-1, 256})
	w.Float32s([]float32{-0.5})
	want := []byte{0, 1, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0, 0, 0xc0, 0x3f, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xbf}
	if !bytes.Equal(w.Bytes(), want) {
		t.Fatalf("got\n% x\nwant\n% x", w.Bytes(), want)
	}
	r := NewReader(want)
	i, f, is, fs := r.Int32(), r.Float32(), r.Int32s(), r.Float32s()
	if i != -2 || f != 1.5 || !slices.Equal(is, []int32{-1, 256}) || !slices.Equal(fs, []float32{-0.5}) || r.Err() != nil || r.Remaining() != 0 {
		t.Errorf("read %v %v %v %v, err %v, %d left", i, f, is, fs, r.Err(), r.Remaining())
	}
}

func TestAlignmentCountsFromTheMessageNotFromTheBuffer(t *testing.T) {
	prefix := []byte{1, 2, 3}
	w := NewWriter(prefix)
	w.Float64(1)
	if got, want := len(w.Bytes()), 3+4+8; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

func TestReaderKinds(t *testing.T) {
	for name, b := range map[string][]byte{
		"little XCDR1": {0, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f},
		"big XCDR1":    {0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0},
		"little XCDR2": {0, 7, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f},
		"big XCDR2":    {0, 6, 0, 0, 5, 0, 0, 0, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0},
	} {
		r := NewReader(b)
		if a, f := r.Uint8(), r.Float64(); a != 5 || f != 1.5 || r.Err() != nil || r.Remaining() != 0 {
			t.Errorf("%s: %d %v, err %v, %d left", name, a, f, r.Err(), r.Remaining())
		}
	}
	for _, b := range [][]byte{nil, {0, 1, 0}, {1, 1, 0, 0}, {0, 2, 0, 0}, {0, 0x42, 0, 0}} {
		if r := NewReader(b); r.Err() == nil {
			t.Errorf("% x was accepted", b)
		}
	}
}

func TestEmptyStringsOfBothKinds(t *testing.T) {
	for _, b := range [][]byte{{0, 1, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 1, 0, 0, 0, 0}} {
		if r := NewReader(b); r.String() != "" || r.Err() != nil {
			t.Errorf("% x: %v", b, r.Err())
		}
	}
}

// A length that the message does not hold must fail before anything is allocated.
func TestImpossibleLengths(t *testing.T) {
	huge := []byte{0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff}
	for name, read := range map[string]func(*Reader){
		"string":    func(r *Reader) { _ = r.String() },
		"octets":    func(r *Reader) { r.Octets() },
		"float64s":  func(r *Reader) { r.Float64s() },
		"strings":   func(r *Reader) { r.Strings() },
		"int32s":    func(r *Reader) { r.Int32s() },
		"float32s":  func(r *Reader) { r.Float32s() },
		"two u32":   func(r *Reader) { r.Uint32(); r.Uint32() },
		"fixed f64": func(r *Reader) { r.FixedFloat64s(make([]float64, 3)) },
	} {
		if n := testing.AllocsPerRun(10, func() { read(NewReader(huge)) }); n > 12 {
			t.Errorf("%s: %v allocations", name, n)
		}
		r := NewReader(huge)
		read(r)
		if !errors.Is(r.Err(), ErrShort) {
			t.Errorf("%s: error %v", name, r.Err())
		}
	}
	r := NewReader([]byte{0, 1, 0, 0, 2, 0, 0, 0, 'a', 'b'})
	if _ = r.String(); !errors.Is(r.Err(), ErrInvalid) {
		t.Errorf("a string without NUL: %v", r.Err())
	}
	r = NewReader([]byte{0, 1, 0, 0, 2})
	if r.Bool(); !errors.Is(r.Err(), ErrInvalid) {
		t.Errorf("a bool of 2: %v", r.Err())
	}
}

// FuzzRoundTrip: what is written reads back, whatever the values, and reading never passes the end.
func FuzzRoundTrip(f *testing.F) {
	f.Add("frame", []byte{1, 2, 3}, 3.25, uint32(9), true)
	f.Fuzz(func(t *testing.T, s string, b []byte, x float64, n uint32, flag bool) {
		w := NewWriter(nil)
		w.Bool(flag)
		w.String(s)
		w.Float64s([]float64{x, -x})
		w.Octets(b)
		w.Uint32(n)
		w.Strings([]string{s, ""})
		r := NewReader(w.Bytes())
		if r.Bool() != flag || r.String() != s {
			t.Fatal("bool or string")
		}
		if v := r.Float64s(); math.Float64bits(v[0]) != math.Float64bits(x) || math.Float64bits(v[1]) != math.Float64bits(-x) {
			t.Fatal("float64s")
		}
		if !bytes.Equal(r.Octets(), b) || r.Uint32() != n {
			t.Fatal("octets or uint32")
		}
		if v := r.Strings(); v[0] != s || v[1] != "" || r.Err() != nil || r.Remaining() != 0 {
			t.Fatalf("strings: %v, %d left", r.Err(), r.Remaining())
		}
		for cut := range len(w.Bytes()) {
			c := NewReader(w.Bytes()[:cut])
			c.Bool()
			_ = c.String()
			c.Float64s()
			c.Octets()
			c.Uint32()
			c.Strings()
			if c.Err() == nil {
				t.Fatalf("a message cut at %d of %d read without an error", cut, len(w.Bytes()))
			}
		}
	})
}
