package policy

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
)

// Tensor is a named array of float32, row-major.
type Tensor struct {
	Name  string
	Shape []int
	Data  []float32
}

// ErrBadTensors marks a file that is not a whole safetensors file.
var ErrBadTensors = errors.New("not a valid safetensors file")

// maxHeader bounds the JSON header, as the format's reference implementation does (100 MB).
const maxHeader = 100 << 20

type tensorEntry struct {
	DType   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// WriteTensors writes tensors in safetensors form, in the given order: 8 bytes little-endian header length, JSON header, padded
// with spaces to a multiple of 8, then the values. Source: the safetensors README, "Format".
func WriteTensors(w io.Writer, tensors []Tensor) error {
	header := map[string]tensorEntry{}
	at := int64(0)
	for _, t := range tensors {
		if _, dup := header[t.Name]; dup || t.Name == "__metadata__" {
			return fmt.Errorf("write safetensors: tensor name %q is taken", t.Name)
		}
		n := 1
		for _, d := range t.Shape {
			n *= d
		}
		if n != len(t.Data) {
			return fmt.Errorf("write safetensors: tensor %q has %d values, shape %v wants %d", t.Name, len(t.Data), t.Shape, n)
		}
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		header[t.Name] = tensorEntry{"F32", shape, [2]int64{at, at + 4*int64(n)}}
		at += 4 * int64(n)
	}
	text, err := json.Marshal(header) // sorted keys: equal tensors give equal bytes
	if err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	text = append(text, bytes.Repeat([]byte(" "), (8-len(text)%8)%8)...)
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(text)))); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("write safetensors: %w", err)
	}
	var buf []byte
	for _, t := range tensors {
		buf = buf[:0]
		for _, v := range t.Data {
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		if _, err := w.Write(buf); err != nil {
			return fmt.Errorf("write safetensors: %w", err)
		}
	}
	return nil
}

// ReadTensors reads a whole safetensors file of float32 tensors, sorted by name. Errors wrap ErrBadTensors and name the tensor.
func ReadTensors(data []byte) ([]Tensor, error) {
	if len(data) < 8 {
		return nil, fmt.Errorf("%d bytes are too short for a header: %w", len(data), ErrBadTensors)
	}
	n := binary.LittleEndian.Uint64(data)
	if n > maxHeader || n > uint64(len(data)-8) {
		return nil, fmt.Errorf("header of %d bytes in a file of %d: %w", n, len(data), ErrBadTensors)
	}
	var header map[string]json.RawMessage
	if err := json.Unmarshal(data[8:8+n], &header); err != nil {
		return nil, fmt.Errorf("header: %v: %w", err, ErrBadTensors)
	}
	delete(header, "__metadata__")
	body := data[8+n:]
	var out []Tensor
	var spans [][2]int64
	for name, raw := range header {
		t, span, err := readTensor(name, raw, body)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w: %w", name, err, ErrBadTensors)
		}
		out, spans = append(out, t), append(spans, span)
	}
	if err := checkSpans(spans, int64(len(body))); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrBadTensors)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

func readTensor(name string, raw json.RawMessage, body []byte) (Tensor, [2]int64, error) {
	var e tensorEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return Tensor{}, e.Offsets, err
	}
	if e.DType != "F32" {
		return Tensor{}, e.Offsets, fmt.Errorf("element type %s, only F32 is read", e.DType)
	}
	n := int64(1)
	for _, d := range e.Shape {
		if d < 0 || (d > 0 && n > int64(len(body))/int64(d)) {
			return Tensor{}, e.Offsets, fmt.Errorf("shape %v does not fit the file", e.Shape)
		}
		n *= int64(d)
	}
	from, to := e.Offsets[0], e.Offsets[1]
	if from < 0 || to < from || to > int64(len(body)) || to-from != 4*n {
		return Tensor{}, e.Offsets, fmt.Errorf("bytes %d to %d of %d do not hold shape %v", from, to, len(body), e.Shape)
	}
	t := Tensor{Name: name, Shape: e.Shape, Data: make([]float32, n)}
	for i := range t.Data {
		t.Data[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[from+4*int64(i):]))
	}
	return t, e.Offsets, nil
}

// checkSpans wants the tensors to cover the file without gap or overlap.
func checkSpans(spans [][2]int64, size int64) error {
	slices.SortFunc(spans, func(a, b [2]int64) int {
		if a[0] != b[0] {
			return int(a[0] - b[0])
		}
		return int(a[1] - b[1])
	})
	at := int64(0)
	for _, s := range spans {
		if s[0] != at {
			return fmt.Errorf("a tensor starts at byte %d, want %d", s[0], at)
		}
		at = s[1]
	}
	if at != size {
		return fmt.Errorf("tensors end at byte %d of %d", at, size)
	}
	return nil
}

// Tensors gives the parameters in safetensors form; the data are windows of the slab.
func (p *Params) Tensors() []Tensor {
	out := make([]Tensor, len(p.Info))
	for i, info := range p.Info {
		out[i] = Tensor{info.Name, info.Shape, p.view(info)}
	}
	return out
}

// SetTensors copies tensors into the parameters: exactly the same names and shapes, finite values.
func (p *Params) SetTensors(tensors []Tensor) error {
	if len(tensors) != len(p.Info) {
		return fmt.Errorf("file has %d tensors, the architecture %d", len(tensors), len(p.Info))
	}
	for _, t := range tensors {
		i, ok := p.at[t.Name]
		if !ok {
			return fmt.Errorf("tensor %q does not belong to the architecture", t.Name)
		}
		if !slices.Equal(t.Shape, p.Info[i].Shape) {
			return fmt.Errorf("tensor %q has shape %v, the architecture %v", t.Name, t.Shape, p.Info[i].Shape)
		}
		for j, v := range t.Data {
			if v-v != 0 {
				return fmt.Errorf("tensor %q, value %d is %v", t.Name, j, v)
			}
		}
		copy(p.view(p.Info[i]), t.Data)
	}
	return nil
}
