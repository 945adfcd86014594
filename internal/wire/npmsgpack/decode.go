package npmsgpack

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Decode reads one message: nil, bool, int64, uint64 (above int64), float64, string, []byte, []any, map[string]any, Array or Scalar. Keys of
// ordinary maps may be str or bin. Trailing bytes, extension types and keys of other kinds are errors. Binary data share b.
func Decode(b []byte, limits Limits) (any, error) {
	if limits == (Limits{}) {
		limits = Defaults
	}
	if len(b) > limits.Bytes {
		return nil, fmt.Errorf("message of %d bytes, at most %d: %w", len(b), limits.Bytes, ErrTooLarge)
	}
	d := decoder{b: b, limits: limits}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.at != len(b) {
		return nil, fmt.Errorf("%d bytes after the message: %w", len(b)-d.at, ErrMalformed)
	}
	return v, nil
}

// DecodeMap is Decode for a message that must be a map with text keys.
func DecodeMap(b []byte, limits Limits) (map[string]any, error) {
	v, err := Decode(b, limits)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("message is a %T, want a map: %w", v, ErrMalformed)
	}
	return m, nil
}

// decoder walks the bytes; every length is checked against what is left before anything is allocated.
type decoder struct {
	b      []byte
	at     int
	limits Limits
}

func (d *decoder) take(n uint64) ([]byte, error) {
	if n > uint64(len(d.b)-d.at) {
		return nil, fmt.Errorf("needs %d bytes at offset %d, has %d: %w", n, d.at, len(d.b)-d.at, ErrMalformed)
	}
	p := d.b[d.at : d.at+int(n)]
	d.at += int(n)
	return p, nil
}

// uint reads a big-endian number of n bytes.
func (d *decoder) uint(n int) (uint64, error) {
	p, err := d.take(uint64(n))
	if err != nil {
		return 0, err
	}
	var full [8]byte
	copy(full[8-n:], p)
	return binary.BigEndian.Uint64(full[:]), nil
}

func (d *decoder) value(depth int) (any, error) {
	if depth > d.limits.Depth {
		return nil, fmt.Errorf("nested deeper than %d at offset %d: %w", d.limits.Depth, d.at, ErrTooLarge)
	}
	c, err := d.uint(1)
	if err != nil {
		return nil, err
	}
	switch {
	case c <= 0x7f:
		return int64(c), nil
	case c <= 0x8f:
		return d.mapping(c&0x0f, depth)
	case c <= 0x9f:
		return d.list(c&0x0f, depth)
	case c <= 0xbf:
		return d.text(c & 0x1f)
	case c >= 0xe0:
		return int64(int8(c)), nil
	}
	return d.tagged(byte(c), depth)
}

// tagged reads the formats whose first byte carries no value. Specification: msgpack, "Formats".
func (d *decoder) tagged(c byte, depth int) (any, error) {
	switch c {
	case 0xc0:
		return nil, nil
	case 0xc2, 0xc3:
		return c == 0xc3, nil
	case 0xca:
		n, err := d.uint(4)
		return float64(math.Float32frombits(uint32(n))), err
	case 0xcb:
		n, err := d.uint(8)
		return math.Float64frombits(n), err
	case 0xcc, 0xcd, 0xce, 0xcf:
		n, err := d.uint(1 << (c - 0xcc))
		if n > math.MaxInt64 {
			return n, err
		}
		return int64(n), err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := 1 << (c - 0xd0)
		n, err := d.uint(size)
		shift := 64 - 8*size
		return int64(n<<shift) >> shift, err
	case 0xc4, 0xc5, 0xc6:
		n, err := d.uint(1 << (c - 0xc4))
		if err != nil {
			return nil, err
		}
		return d.take(n)
	case 0xd9, 0xda, 0xdb:
		n, err := d.uint(1 << (c - 0xd9))
		if err != nil {
			return nil, err
		}
		return d.text(n)
	case 0xdc, 0xdd:
		n, err := d.uint(2 << (c - 0xdc))
		if err != nil {
			return nil, err
		}
		return d.list(n, depth)
	case 0xde, 0xdf:
		n, err := d.uint(2 << (c - 0xde))
		if err != nil {
			return nil, err
		}
		return d.mapping(n, depth)
	}
	return nil, fmt.Errorf("format byte 0x%02x at offset %d: %w", c, d.at-1, ErrMalformed)
}

func (d *decoder) text(n uint64) (any, error) {
	p, err := d.take(n)
	return string(p), err
}

// count refuses more items than the limit or than bytes are left (each item takes at least one).
func (d *decoder) count(n uint64, perItem int) (int, error) {
	if n > uint64(d.limits.Items) {
		return 0, fmt.Errorf("%d items at offset %d, at most %d: %w", n, d.at, d.limits.Items, ErrTooLarge)
	}
	if n*uint64(perItem) > uint64(len(d.b)-d.at) {
		return 0, fmt.Errorf("%d items at offset %d with %d bytes left: %w", n, d.at, len(d.b)-d.at, ErrMalformed)
	}
	return int(n), nil
}

func (d *decoder) list(n uint64, depth int) (any, error) {
	items, err := d.count(n, 1)
	if err != nil {
		return nil, err
	}
	out := make([]any, items)
	for i := range out {
		if out[i], err = d.value(depth + 1); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (d *decoder) mapping(n uint64, depth int) (any, error) {
	items, err := d.count(n, 2)
	if err != nil {
		return nil, err
	}
	m := make(map[string]any, items)
	for i := 0; i < items; i++ {
		start := d.at
		k, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		key, ok := k.(string)
		if raw, isBin := k.([]byte); isBin {
			key, ok = string(raw), true
		}
		if !ok {
			return nil, fmt.Errorf("map key of type %T at offset %d: %w", k, start, ErrMalformed)
		}
		if _, twice := m[key]; twice {
			return nil, fmt.Errorf("map key %q twice at offset %d: %w", key, start, ErrMalformed)
		}
		if m[key], err = d.value(depth + 1); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return d.numpy(m)
}

// numpy turns the two marked forms into Array and Scalar.
func (d *decoder) numpy(m map[string]any) (any, error) {
	if _, ok := m["__ndarray__"]; ok {
		return d.array(m)
	}
	if _, ok := m["__npgeneric__"]; ok {
		dtype, _ := m["dtype"].(string)
		if _, err := itemSize(dtype); err != nil {
			return nil, err
		}
		switch m["data"].(type) {
		case int64, uint64, float64, bool:
			return Scalar{DType: dtype, Value: m["data"]}, nil
		}
		return nil, fmt.Errorf("numpy scalar holds a %T: %w", m["data"], ErrMalformed)
	}
	return m, nil
}

func (d *decoder) array(m map[string]any) (any, error) {
	dtype, okType := m["dtype"].(string)
	data, okData := m["data"].([]byte)
	list, okShape := m["shape"].([]any)
	if !okType {
		return nil, fmt.Errorf("array dtype is a %T: %w", m["dtype"], ErrType)
	}
	if _, err := itemSize(dtype); err != nil {
		return nil, err
	}
	if !okData || !okShape {
		return nil, fmt.Errorf("array data is a %T and shape a %T: %w", m["data"], m["shape"], ErrMalformed)
	}
	a := Array{DType: dtype, Data: data, Shape: make([]int, len(list))}
	for i, v := range list {
		n, ok := v.(int64)
		if !ok || n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("array shape %v: %w", list, ErrMalformed)
		}
		a.Shape[i] = int(n)
	}
	if err := a.Check(d.limits.Dims); err != nil {
		return nil, err
	}
	return a, nil
}
