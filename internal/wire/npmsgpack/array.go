package npmsgpack

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Array is a numpy array: DType as numpy writes it ("<f4"), Shape outermost first, Data in C order. Decode shares Data with the message.
type Array struct {
	DType string
	Shape []int
	Data  []byte
}

// Scalar is a numpy scalar; Value is int64, uint64, float64, bool or string as msgpack delivered it.
type Scalar struct {
	DType string
	Value any
}

// itemSize gives the bytes of one element; the error wraps ErrType.
func itemSize(dtype string) (int, error) {
	if len(dtype) < 3 {
		return 0, fmt.Errorf("dtype %q: %w", dtype, ErrType)
	}
	order, kind, size := dtype[0], dtype[1], dtype[2:]
	known := map[byte]string{'b': "1", 'u': "1248", 'i': "1248", 'f': "248"}[kind]
	if len(size) != 1 || known == "" || !strings.Contains(known, size) {
		return 0, fmt.Errorf("dtype %q (accepted: bool, integers, floats): %w", dtype, ErrType)
	}
	n := int(size[0] - '0')
	if order != '<' && order != '>' && !(order == '|' && n == 1) {
		return 0, fmt.Errorf("dtype %q: byte order %q: %w", dtype, order, ErrType)
	}
	return n, nil
}

// Len is the number of elements.
func (a Array) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// Check verifies dtype, shape and length of the data.
func (a Array) Check(dims int) error {
	size, err := itemSize(a.DType)
	if err != nil {
		return err
	}
	if len(a.Shape) > dims {
		return fmt.Errorf("array of %d dimensions, at most %d: %w", len(a.Shape), dims, ErrTooLarge)
	}
	n := size
	for _, d := range a.Shape {
		if d < 0 {
			return fmt.Errorf("array shape %v: %w", a.Shape, ErrMalformed)
		}
		if d > 0 && n > math.MaxInt32/d {
			return fmt.Errorf("array shape %v: %w", a.Shape, ErrTooLarge)
		}
		n *= d
	}
	if n != len(a.Data) {
		return fmt.Errorf("array %s%v needs %d bytes of data, has %d: %w", a.DType, a.Shape, n, len(a.Data), ErrMalformed)
	}
	return nil
}

// Float32 makes a "<f4" array of the values; the product of shape must be len(v).
func Float32(v []float32, shape ...int) Array {
	b := make([]byte, 4*len(v))
	for i, f := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(f))
	}
	return Array{DType: "<f4", Shape: shape, Data: b}
}

// Uint8 makes a "|u1" array that shares v.
func Uint8(v []byte, shape ...int) Array { return Array{DType: "|u1", Shape: shape, Data: v} }

// Float32s converts any accepted array of numbers to float32 (integers and float64 are rounded).
func (a Array) Float32s() ([]float32, error) {
	out := make([]float32, a.Len())
	err := a.each(func(i int, v float64) { out[i] = float32(v) })
	return out, err
}

// Float64s converts any accepted array of numbers to float64.
func (a Array) Float64s() ([]float64, error) {
	out := make([]float64, a.Len())
	err := a.each(func(i int, v float64) { out[i] = v })
	return out, err
}

func (a Array) each(put func(i int, v float64)) error {
	if err := a.Check(Defaults.Dims); err != nil {
		return err
	}
	size, _ := itemSize(a.DType)
	var order binary.ByteOrder = binary.LittleEndian
	if a.DType[0] == '>' {
		order = binary.BigEndian
	}
	kind := a.DType[1]
	for i := 0; i < len(a.Data)/size; i++ {
		put(i, element(a.Data[i*size:(i+1)*size], order, kind))
	}
	return nil
}

func element(b []byte, order binary.ByteOrder, kind byte) float64 {
	var bits uint64
	switch len(b) {
	case 1:
		bits = uint64(b[0])
	case 2:
		bits = uint64(order.Uint16(b))
	case 4:
		bits = uint64(order.Uint32(b))
	default:
		bits = order.Uint64(b)
	}
	shift := 64 - 8*len(b)
	switch {
	case kind == 'f' && len(b) == 8:
		return math.Float64frombits(bits)
	case kind == 'f' && len(b) == 4:
		return float64(math.Float32frombits(uint32(bits)))
	case kind == 'f':
		return half(uint16(bits))
	case kind == 'i':
		return float64(int64(bits<<shift) >> shift)
	}
	return float64(bits)
}

// half converts IEEE 754 binary16.
func half(h uint16) float64 {
	sign := 1.0
	if h&0x8000 != 0 {
		sign = -1
	}
	exp, frac := int(h>>10&0x1f), float64(h&0x3ff)
	switch exp {
	case 0:
		return sign * math.Ldexp(frac, -24)
	case 31:
		if frac != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+frac, exp-25)
}
