package npmsgpack

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// What openpi-client's packb gives for these values; the generator is TestAgreesWithOpenpiClient, which compares live.
var pythonVectors = []struct {
	python string
	value  any
}{
	{`{"a": np.array([[1.5, -2.0, 3.25]], np.float32)}`, map[string]any{"a": Float32([]float32{1.5, -2, 3.25}, 1, 3)}},
	{`np.arange(6, dtype=np.uint8).reshape(2, 3)`, Uint8([]byte{0, 1, 2, 3, 4, 5}, 2, 3)},
	{`np.zeros((0, 16), np.float32)`, Float32(nil, 0, 16)},
	{`{"prompt": "Würfel auf das Tablett", "server_timing": {"infer_ms": 12.5}, "x": None, "y": [1, -200, 70000, True]}`,
		map[string]any{"prompt": "Würfel auf das Tablett", "server_timing": map[string]any{"infer_ms": 12.5}, "x": nil,
			"y": []any{int64(1), int64(-200), int64(70000), true}}},
	{`np.float32(0.5)`, Scalar{DType: "<f4", Value: 0.5}},
	{`np.int16(-7)`, Scalar{DType: "<i2", Value: int64(-7)}},
	{`np.array([1, 2], dtype=">i8")`, Array{DType: ">i8", Shape: []int{2}, Data: []byte{0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2}}},
}

const pyPrelude = "import sys, numpy as np\nfrom openpi_client import msgpack_numpy as m\n"

func python(t *testing.T, code string, stdin []byte) []byte {
	t.Helper()
	cmd := exec.Command(testpeer.Python(t, "openpi_client", "numpy"), "-c", pyPrelude+code)
	cmd.Stdin = bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python: %v\n%s", err, stderr.String())
	}
	return out
}

func TestAgreesWithOpenpiClient(t *testing.T) {
	var code strings.Builder
	for _, v := range pythonVectors {
		code.WriteString("print(m.packb(" + v.python + ").hex())\n")
	}
	lines := strings.Fields(string(python(t, code.String(), nil)))
	if len(lines) != len(pythonVectors) {
		t.Fatalf("%d lines for %d vectors", len(lines), len(pythonVectors))
	}
	for i, v := range pythonVectors {
		theirs, _ := hex.DecodeString(lines[i])
		ours, err := Encode(v.value)
		if err != nil {
			t.Fatalf("%s: %v", v.python, err)
		}
		if !bytes.Equal(ours, theirs) {
			t.Errorf("%s: we write\n%x, they\n%x", v.python, ours, theirs)
		}
		got, err := Decode(theirs, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", v.python, err)
		}
		if !sameValue(got, v.value) {
			t.Errorf("%s: we read %#v, want %#v", v.python, got, v.value)
		}
	}
}

// A whole observation goes through Python and back unchanged, values checked there with numpy.
func TestRoundTripThroughNumpy(t *testing.T) {
	img := make([]byte, 480*640*3)
	for i := range img {
		img[i] = byte(i * 7)
	}
	obs := map[string]any{
		"observation.image.left": Uint8(img, 480, 640, 3),
		"pose":                   Float32([]float32{0.23, -0.05, 0.27, -0.58, -0.09, 0.72, 0.34}, 7),
		"prompt":                 "pick",
	}
	data, err := Encode(obs)
	if err != nil {
		t.Fatal(err)
	}
	back := python(t, `o = m.unpackb(sys.stdin.buffer.read())
a = o["observation.image.left"]
assert a.shape == (480, 640, 3) and a.dtype == np.uint8 and a[3, 5, 1] == (((3*640+5)*3+1)*7) % 256
assert o["pose"].dtype == np.float32 and abs(o["pose"][3] + 0.58) < 1e-6
sys.stdout.buffer.write(m.packb({"pose": o["pose"].astype(np.float64), "half": o["pose"].astype(np.float16), "flip": np.flip(a, 0)[:2]}))`, data)
	m, err := DecodeMap(back, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	pose, err := m["pose"].(Array).Float32s()
	if err != nil || pose[5] != 0.72 {
		t.Errorf("pose %v, %v", pose, err)
	}
	half, err := m["half"].(Array).Float64s()
	if err != nil || math.Abs(half[0]-0.23) > 1e-4 {
		t.Errorf("half %v, %v", half, err)
	}
	if flip := m["flip"].(Array); !bytes.Equal(flip.Data[:1920], img[479*1920:]) {
		t.Error("a flipped view came in the wrong order")
	}
}

// Object arrays (pickle inside), complex and structured types never get in.
func TestRefusals(t *testing.T) {
	array := func(dtype string, data string, shape string) []byte {
		b := "\x84\xc4\x0b__ndarray__\xc3\xc4\x04data\xc4" + string(rune(len(data))) + data + "\xc4\x05dtype" + string(rune(0xa0+len(dtype)))
		return []byte(strings.Replace(b, string(rune(0xa0+len(dtype))), string([]byte{byte(0xa0 + len(dtype))}), 1) + dtype + "\xc4\x05shape" + shape)
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"object array":            {array("|O", "12345678", "\x91\x01"), ErrType},
		"complex array":           {array("<c8", "12345678", "\x91\x01"), ErrType},
		"void array":              {array("|V8", "12345678", "\x91\x01"), ErrType},
		"text array":              {array("<U2", "12345678", "\x91\x01"), ErrType},
		"wrong byte order":        {array("|f8", "12345678", "\x91\x01"), ErrType},
		"data shorter than shape": {array("<f8", "1234567", "\x91\x01"), ErrMalformed},
		"negative shape":          {array("<f8", "", "\x91\xff"), ErrMalformed},
		"shape overflows":         {array("|u1", "", "\x92\xce\x7f\xff\xff\xff\xce\x7f\xff\xff\xff"), ErrTooLarge},
		"list longer than bytes":  {[]byte{0xdd, 0x00, 0x00, 0xff, 0xff, 1}, ErrMalformed},
		"huge list":               {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, ErrTooLarge},
		"bytes after the end":     {[]byte{1, 2}, ErrMalformed},
		"number as key":           {[]byte{0x81, 1, 2}, ErrMalformed},
		"key twice":               {[]byte{0x82, 0xa1, 'a', 1, 0xa1, 'a', 2}, ErrMalformed},
		"extension type":          {[]byte{0xd4, 1, 0}, ErrMalformed},
		"empty":                   {nil, ErrMalformed},
		"nested too deep":         {bytes.Repeat([]byte{0x91}, 100), ErrTooLarge},
	} {
		if _, err := Decode(c.b, Limits{}); !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
	}
	if _, err := Decode(make([]byte, 100), Limits{Bytes: 99, Depth: 4, Items: 4, Dims: 4}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("message above the limit: %v", err)
	}
	if _, err := Encode(map[string]any{"c": complex(1, 2)}); !errors.Is(err, ErrType) {
		t.Errorf("complex value: %v", err)
	}
}

// What decodes encodes again to something that decodes to the same; nothing panics and nothing large is allocated for small input.
func FuzzDecode(f *testing.F) {
	for _, v := range pythonVectors {
		b, _ := Encode(v.value)
		f.Add(b)
	}
	f.Add([]byte{0xdf, 0, 0, 0, 1, 0xa0, 0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b, Limits{})
		if err != nil {
			return
		}
		again, err := Encode(v)
		if err != nil {
			t.Fatalf("%#v does not encode: %v", v, err)
		}
		w, err := Decode(again, Limits{})
		if err != nil {
			t.Fatalf("%#v does not decode again: %v", v, err)
		}
		if !sameValue(v, w) {
			t.Fatalf("%#v became %#v", v, w)
		}
	})
}

// sameValue is DeepEqual that takes NaN for equal to NaN and nil for empty bytes.
func sameValue(a, b any) bool {
	x, okX := a.(float64)
	y, okY := b.(float64)
	if okX && okY {
		return math.Float64bits(x) == math.Float64bits(y) || (x != x && y != y)
	}
	switch p := a.(type) {
	case Array:
		q, ok := b.(Array)
		return ok && p.DType == q.DType && bytes.Equal(p.Data, q.Data) && len(p.Shape) == len(q.Shape) && (len(p.Shape) == 0 || reflect.DeepEqual(p.Shape, q.Shape))
	case Scalar:
		q, ok := b.(Scalar)
		return ok && p.DType == q.DType && sameValue(p.Value, q.Value)
	case []byte:
		q, ok := b.([]byte)
		return ok && bytes.Equal(p, q)
	case []any:
		q, ok := b.([]any)
		if !ok || len(p) != len(q) {
			return false
		}
		for i := range p {
			if !sameValue(p[i], q[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		q, ok := b.(map[string]any)
		if !ok || len(p) != len(q) {
			return false
		}
		for k := range p {
			if !sameValue(p[k], q[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
