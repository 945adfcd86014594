package policy_test

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/importer"
)

// expectation is what a library's own code answers.
type expectation struct {
	Image  int       `json:"image"`
	Pixels []int     `json:"pixels"`
	Tokens []float64 `json:"tokens"`
}

// compareEncoders loads each model of a folder and compares the patch tokens with its library's.
func compareEncoders(t *testing.T, root string) {
	dirs, err := filepath.Glob(filepath.Join(root, "*", "expect.json"))
	if err != nil || len(dirs) < 5 {
		t.Fatalf("%d models in %s (%v), want at least 5", len(dirs), root, err)
	}
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) { compareEncoder(t, dir) })
	}
}

func compareEncoder(t *testing.T, dir string) {
	var want expectation
	text, err := os.ReadFile(filepath.Join(dir, "expect.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	e, err := importer.Read(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	a := policy.Architectures["nano"]
	a.Merge = 1
	e.Fit(&a)
	s := policy.Spec{Preset: policy.PresetCustom, Horizon: 2, Stride: 1, FPS: 10, Prompt: policy.Prompt{MaxTokens: 4},
		Cameras: []policy.Camera{{Feature: "c", Geometry: imaging.Geometry{Mode: imaging.Squash, Width: want.Image, Height: want.Image}}},
		Action:  []policy.Output{{Name: "a", Feature: "a", Representation: policy.Absolute, SourceDim: 1}}}
	p, err := policy.NewParams(s, a, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Load(s, a, p); err != nil {
		t.Fatal(err)
	}
	pix := make([]byte, len(want.Pixels))
	for i, v := range want.Pixels {
		pix[i] = byte(v)
	}
	got, err := policy.VisionTokens(s, a, p, pix)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want.Tokens) {
		t.Fatalf("%d numbers, want %d", len(got), len(want.Tokens))
	}
	worst := 0.0
	for i, w := range want.Tokens {
		worst = math.Max(worst, math.Abs(float64(got[i])-w))
	}
	t.Logf("greatest difference %.2g", worst)
	if worst > 1e-4 {
		t.Errorf("greatest difference %g, want at most 1e-4 of numbers about one", worst)
	}
}

func TestEncodersAnswerAsTheirLibraries(t *testing.T) {
	compareEncoders(t, filepath.Join("importer", "testdata"))
}

// With PINCH_SOAK=1, and a Python with torch, transformers and timm in PINCH_PYTHON, the libraries make new weights and pictures.
func TestEncodersAgainstLivePeers(t *testing.T) {
	if os.Getenv("PINCH_SOAK") == "" {
		t.Skip("make soak runs torch, transformers and timm")
	}
	python := testpeer.Python(t, "torch", "transformers", "timm", "safetensors")
	for _, size := range []string{"8", "16", "20"} {
		dir := t.TempDir()
		out, err := exec.Command(python, filepath.Join("importer", "testdata", "make_vectors.py"), dir, "--seed", size, "--size", size).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		compareEncoders(t, dir)
	}
}

func TestFilesWithoutAnEncoderAreRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.safetensors")
	var file []byte
	head := `{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`
	file = append(file, byte(len(head)), 0, 0, 0, 0, 0, 0, 0)
	file = append(append(file, head...), 0, 0, 128, 63)
	if err := os.WriteFile(path, file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := importer.Read(path); !errors.Is(err, importer.ErrUnknown) {
		t.Errorf("error %v, want ErrUnknown", err)
	}
	for n := range file[:len(file)-1] {
		if err := os.WriteFile(path, file[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := importer.Read(path); err == nil {
			t.Errorf("a file cut at byte %d gave no error", n)
		}
	}
}
