package importer

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

// tensor is one array of a file, widened to float32.
type tensor struct {
	shape []int
	data  []float32
}

// maxHeader bounds the JSON header (100 MB), as the format's reference implementation does.
const maxHeader = 100 << 20

// readTensors reads the tensors of a safetensors file whose names pass want: F32, F16 and BF16. Others are passed over, so that the text
// half of a large checkpoint is never in memory.
func readTensors(path string, want func(name string) bool) (map[string]tensor, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var size [8]byte
	if _, err := io.ReadFull(f, size[:]); err != nil {
		return nil, fmt.Errorf("read %s: no safetensors header: %w", path, err)
	}
	n := binary.LittleEndian.Uint64(size[:])
	if n > maxHeader {
		return nil, fmt.Errorf("read %s: header of %d bytes: not a safetensors file", path, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(f, text); err != nil {
		return nil, fmt.Errorf("read %s: header: %w", path, err)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(text, &header); err != nil {
		return nil, fmt.Errorf("read %s: header: %w", path, err)
	}
	out := map[string]tensor{}
	for name, raw := range header {
		if name == "__metadata__" || !want(name) {
			continue
		}
		t, err := readTensor(f, raw, 8+int64(n))
		if err != nil {
			return nil, fmt.Errorf("read %s: tensor %q: %w", path, name, err)
		}
		out[name] = t
	}
	return out, nil
}

func readTensor(f *os.File, raw json.RawMessage, base int64) (tensor, error) {
	var e struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	if err := json.Unmarshal(raw, &e); err != nil {
		return tensor{}, err
	}
	width, ok := map[string]int{"F32": 4, "F16": 2, "BF16": 2}[e.DType]
	if !ok {
		return tensor{}, fmt.Errorf("element type %s, want F32, F16 or BF16", e.DType)
	}
	count := 1
	for _, d := range e.Shape {
		if d < 0 || d > 0 && count > math.MaxInt32/d {
			return tensor{}, fmt.Errorf("shape %v", e.Shape)
		}
		count *= d
	}
	if e.Offsets[0] < 0 || e.Offsets[1]-e.Offsets[0] != int64(count*width) {
		return tensor{}, fmt.Errorf("bytes %d to %d do not hold shape %v of %s", e.Offsets[0], e.Offsets[1], e.Shape, e.DType)
	}
	data := make([]byte, count*width)
	if _, err := f.ReadAt(data, base+e.Offsets[0]); err != nil {
		return tensor{}, err
	}
	t := tensor{shape: e.Shape, data: make([]float32, count)}
	for i := range t.data {
		switch e.DType {
		case "F32":
			t.data[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		case "BF16":
			t.data[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*i:])) << 16)
		default:
			t.data[i] = half(binary.LittleEndian.Uint16(data[2*i:]))
		}
		if v := t.data[i]; v-v != 0 {
			return tensor{}, fmt.Errorf("value %d is %v", i, v)
		}
	}
	return t, nil
}

// half widens an IEEE 754 binary16 number.
func half(h uint16) float32 {
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10)&31, uint32(h)&1023
	switch exponent {
	case 0: // zero or subnormal: fraction times 2^-24
		v := float32(fraction) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}
