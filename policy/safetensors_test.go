package policy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

var sampleTensors = []Tensor{
	{"b", []int{2, 3}, []float32{1, -2, 3.5, 0, 1e-30, 6}},
	{"a.w", []int{4}, []float32{9, 8, 7, 6}},
	{"scalar", []int{}, []float32{42}},
}

func written(t *testing.T, tensors []Tensor) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := WriteTensors(&buf, tensors); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestTensorsRoundTrip(t *testing.T) {
	got, err := ReadTensors(written(t, sampleTensors))
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{sampleTensors[1], sampleTensors[0], sampleTensors[2]} // sorted by name
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// The safetensors library reads our files, and we read its.
func TestTensorsAgreeWithTheReferenceLibrary(t *testing.T) {
	python := testpeer.Python(t, "safetensors", "numpy")
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours.safetensors"), filepath.Join(dir, "theirs.safetensors")
	if err := os.WriteFile(ours, written(t, sampleTensors), 0o644); err != nil {
		t.Fatal(err)
	}
	script := `
import sys, numpy as np
from safetensors.numpy import load_file, save_file
x = load_file(sys.argv[1])
for k in sorted(x): print(k, x[k].dtype, list(x[k].shape), x[k].astype(np.float64).ravel().tolist())
save_file({"z": np.arange(6, dtype=np.float32).reshape(2, 3), "y": np.float32([0.5])}, sys.argv[2], metadata={"from": "peer"})
`
	out, err := exec.Command(python, "-c", script, ours, theirs).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"a.w float32 [4] [9.0, 8.0, 7.0, 6.0]", "b float32 [2, 3] [1.0, -2.0, 3.5, 0.0,", "scalar float32 [] [42.0]"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the library reads\n%s\nwithout %q", out, want)
		}
	}
	data, err := os.ReadFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadTensors(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Tensor{{"y", []int{1}, []float32{0.5}}, {"z", []int{2, 3}, []float32{0, 1, 2, 3, 4, 5}}}, got); d != "" {
		t.Error(d)
	}
}

func withHeader(header string, body []byte) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(out, header...), body...)
}

func TestBrokenTensorFilesAreRefused(t *testing.T) {
	whole := written(t, sampleTensors)
	for n := range len(whole) {
		if _, err := ReadTensors(whole[:n]); !errors.Is(err, ErrBadTensors) {
			t.Fatalf("first %d of %d bytes: %v, want ErrBadTensors", n, len(whole), err)
		}
	}
	body := make([]byte, 16)
	for name, data := range map[string][]byte{
		"trailing bytes":       append(bytes.Clone(whole), 0),
		"huge header":          binary.LittleEndian.AppendUint64(nil, 1<<60),
		"half precision":       withHeader(`{"a":{"dtype":"F16","shape":[8],"data_offsets":[0,16]}}`, body),
		"shape and bytes":      withHeader(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}}`, body),
		"negative dimension":   withHeader(`{"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}}`, body),
		"overflowing shape":    withHeader(`{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,16]}}`, body),
		"beyond the file":      withHeader(`{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}`, body),
		"overlapping tensors":  withHeader(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}}`, body),
		"gap between tensors":  withHeader(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}`, body),
		"reversed offsets":     withHeader(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}}`, body),
		"header is not a map":  withHeader(`[1]`, nil),
		"offsets are not ints": withHeader(`{"a":{"dtype":"F32","shape":[4],"data_offsets":["0",16]}}`, body),
	} {
		if _, err := ReadTensors(data); !errors.Is(err, ErrBadTensors) {
			t.Errorf("%s: %v, want ErrBadTensors", name, err)
		}
	}
}

func FuzzReadTensors(f *testing.F) {
	var buf bytes.Buffer
	if err := WriteTensors(&buf, sampleTensors); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add(withHeader(`{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}`, make([]byte, 16)))
	f.Fuzz(func(t *testing.T, data []byte) {
		tensors, err := ReadTensors(data)
		if err != nil {
			return
		}
		again, err := ReadTensors(written(t, tensors))
		if err != nil {
			t.Fatal(err)
		}
		if len(again) != len(tensors) {
			t.Fatalf("%d tensors became %d", len(tensors), len(again))
		}
	})
}

func TestWriteRefusesWrongTensors(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"two of one name": {sampleTensors[0], sampleTensors[0]},
		"reserved name":   {{"__metadata__", []int{1}, []float32{1}}},
		"shape and data":  {{"x", []int{2}, []float32{1}}},
	} {
		if err := WriteTensors(&bytes.Buffer{}, tensors); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
