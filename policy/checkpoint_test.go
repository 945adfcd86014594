package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// saved writes a checkpoint of the small two-hand policy and returns its folder.
func saved(t testing.TB) (dir string, m Manifest, raw, ema *Params) {
	t.Helper()
	s, a := smallSpec(t), Architectures["nano"]
	st, err := FitStats(s, "", []Episode{walk(1, 60), walk(2, 60)})
	if err != nil {
		t.Fatal(err)
	}
	raw = awake(t, s, a)
	ema = raw.Clone()
	for i := range ema.Slab {
		ema.Slab[i] *= 0.5
	}
	m = NewManifest(s, a, st)
	m.Step = 7
	m.Data = Provenance{Identity: "abc", Name: "cups", TrainEpisodes: []int{0, 1}, ValEpisodes: []int{}, Split: "episodes", Rows: 120, Prompts: []string{"go"}}
	dir = filepath.Join(t.TempDir(), "step-000007")
	m, err = Checkpoint{Manifest: m, Raw: raw, EMA: ema}.Save(dir, map[string][]byte{"trainer.json": []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	return dir, m, raw, ema
}

func TestCheckpointRoundTrip(t *testing.T) {
	dir, m, raw, ema := saved(t)
	got, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, got); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]*Params{RawFile: raw, EMAFile: ema} {
		p, err := got.ReadParams(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want.Slab, p.Slab); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if _, err := (Checkpoint{Manifest: m, Raw: raw, EMA: ema}).Save(dir, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("saving over a checkpoint: %v", err)
	}
}

// edit rewrites the manifest through a generic JSON object and renews the marker, so that only the edit itself is wrong.
func edit(t *testing.T, dir string, change func(m map[string]any)) {
	t.Helper()
	path := filepath.Join(dir, ManifestFile)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	change(m)
	if text, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, CompleteFile), []byte(hash(text)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// paths lists every field of a JSON object, through nested objects and the first entry of lists of objects.
func paths(v map[string]any, at string) []string {
	var out []string
	for k, x := range v {
		path := strings.TrimPrefix(at+"."+k, ".")
		out = append(out, path)
		switch x := x.(type) {
		case map[string]any:
			if path != "files" {
				out = append(out, paths(x, path)...)
			}
		case []any:
			if len(x) > 0 {
				if first, ok := x[0].(map[string]any); ok {
					out = append(out, paths(first, path+"[0]")...)
				}
			}
		}
	}
	return out
}

func remove(m map[string]any, path string) {
	parts := strings.Split(path, ".")
	for _, p := range parts[:len(parts)-1] {
		if name, ok := strings.CutSuffix(p, "[0]"); ok {
			m = m[name].([]any)[0].(map[string]any)
		} else {
			m = m[p].(map[string]any)
		}
	}
	delete(m, parts[len(parts)-1])
}

func TestEveryMissingFieldIsNamed(t *testing.T) {
	dir, _, _, _ := saved(t)
	whole, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(whole, &m); err != nil {
		t.Fatal(err)
	}
	all := paths(m, "")
	if len(all) < 60 {
		t.Fatalf("only %d fields found", len(all))
	}
	for _, path := range all {
		if path == "normalisation.action.floored" || path == "normalisation.state.floored" { // a note, absent when nothing was floored
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, ManifestFile), whole, 0o644); err != nil {
			t.Fatal(err)
		}
		edit(t, dir, func(m map[string]any) { remove(m, path) })
		_, err := ReadManifest(dir)
		if !errors.Is(err, ErrBadCheckpoint) || !strings.Contains(err.Error(), "field "+path+" is missing") || !strings.Contains(err.Error(), ManifestFile) {
			t.Errorf("without %s: %v", path, err)
		}
	}
}

func TestChangedFieldsAreNamed(t *testing.T) {
	for field, change := range map[string]func(m map[string]any){
		"time_convention": func(m map[string]any) { m["time_convention"] = "noise_at_zero" },
		"geometry_hash":   func(m map[string]any) { m["geometry_hash"] = "0" },
		"tokenizer.hash":  func(m map[string]any) { m["tokenizer"].(map[string]any)["hash"] = "0" },
		"camera_order":    func(m map[string]any) { m["camera_order"] = []string{RightImage, LeftImage} },
		"spec_hash":       func(m map[string]any) { m["spec"].(map[string]any)["stride"] = 2 },
		"normalisation":   func(m map[string]any) { m["normalisation"].(map[string]any)["spec_hash"] = "0" },
		"data.identity":   func(m map[string]any) { m["data"].(map[string]any)["identity"] = "" },
		"format":          func(m map[string]any) { m["format"] = "pinch-policy-v9" },
		"checkpoint":      func(m map[string]any) { m["step"] = 8 },
		"architecture":    func(m map[string]any) { m["architecture"].(map[string]any)["heads"] = 3 },
		"action":          func(m map[string]any) { m["action"].(map[string]any)["rate_hz"] = 30 },
	} {
		dir, _, _, _ := saved(t)
		edit(t, dir, change)
		if _, err := ReadManifest(dir); !errors.Is(err, ErrBadCheckpoint) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestDamagedFilesAreNamed(t *testing.T) {
	damage := map[string]func(path string) error{
		"cut":     func(p string) error { return os.Truncate(p, 100) },
		"removed": os.Remove,
		"flipped": func(p string) error {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			b[len(b)-1] ^= 1
			return os.WriteFile(p, b, 0o644)
		},
	}
	for how, do := range damage {
		dir, m, _, _ := saved(t)
		if err := do(filepath.Join(dir, EMAFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := m.ReadParams(dir, EMAFile); !errors.Is(err, ErrBadCheckpoint) || !strings.Contains(err.Error(), EMAFile) {
			t.Errorf("%s weights: %v", how, err)
		}
		if _, err := m.ReadParams(dir, RawFile); err != nil {
			t.Errorf("%s: the other weight file does not load: %v", how, err)
		}
	}
	dir, _, _, _ := saved(t)
	if err := os.Remove(filepath.Join(dir, CompleteFile)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(dir); !errors.Is(err, ErrIncomplete) || !errors.Is(err, ErrBadCheckpoint) {
		t.Errorf("without the complete marker: %v", err)
	}
}

// A tensor of another shape or with NaN does not load even when sizes and hashes agree.
func TestWeightsMustFitTheArchitecture(t *testing.T) {
	_, m, raw, _ := saved(t)
	for name, change := range map[string]func([]Tensor) []Tensor{
		"one missing":  func(ts []Tensor) []Tensor { return ts[1:] },
		"other name":   func(ts []Tensor) []Tensor { ts[0].Name = "x"; return ts },
		"other shape":  func(ts []Tensor) []Tensor { ts[0].Shape = []int{1, len(ts[0].Data)}; return ts },
		"not a number": func(ts []Tensor) []Tensor { ts[3].Data[0] = float32(nan()); return ts },
	} {
		dir := t.TempDir()
		var buf bytes.Buffer
		if err := WriteTensors(&buf, change(raw.Clone().Tensors())); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, RawFile), buf.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		m.Files = map[string]File{RawFile: {int64(buf.Len()), hash(buf.Bytes())}}
		if _, err := m.ReadParams(dir, RawFile); !errors.Is(err, ErrBadCheckpoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func nan() float64 { z := 0.0; return z / z }

// An interrupted save leaves the name free, and the next save succeeds.
func TestSaveAfterAnInterruptedSave(t *testing.T) {
	dir, m, raw, ema := saved(t)
	next := filepath.Join(filepath.Dir(dir), "step-000008")
	if err := os.MkdirAll(next+".partial", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := atomicfile.WriteFile(filepath.Join(next+".partial", RawFile), []byte("half"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(next); err == nil {
		t.Error("a partial folder counts as a checkpoint")
	}
	m.Step = 8
	if _, err := (Checkpoint{Manifest: m, Raw: raw, EMA: ema}).Save(next, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadManifest(next); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(next + ".partial"); err == nil {
		t.Error("the partial folder is still there")
	}
}
