package train

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
)

func mustRun(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(context.Background(), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t *testing.T, path ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var weightFiles = []string{policy.RawFile, policy.EMAFile, optimizerFile}

func TestResumeGivesTheBytesOfOneRun(t *testing.T) {
	data := spots(t, 4, 10)
	whole := small(data, filepath.Join(t.TempDir(), "whole"))
	mustRun(t, whole)

	parts := whole
	parts.Out = filepath.Join(t.TempDir(), "parts")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, parts, Options{OnStep: func(step int, _ float64) {
		if step == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("interrupted run gave %v", err)
	}
	if _, err := os.Stat(filepath.Join(parts.Out, "checkpoints", "step-000004")); err == nil {
		t.Fatal("the interrupted run went to the end")
	}
	parts.Resume = true
	r := mustRun(t, parts)
	if r.Steps != 4 {
		t.Fatalf("resumed run ended at step %d", r.Steps)
	}
	for _, f := range weightFiles {
		a, b := read(t, whole.Out, "checkpoints", "latest", f), read(t, parts.Out, "checkpoints", "latest", f)
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs between one run and two", f)
		}
	}
	// Resuming a run that is done changes nothing and still knows how it ended.
	if again := mustRun(t, parts); again.Steps != 4 || again.Loss != r.Loss || again.ValLoss != r.ValLoss || again.Checkpoint == "" {
		t.Errorf("resumed at its end: %+v, want the losses %v and %v", again, r.Loss, r.ValLoss)
	}
	// The log has every step once.
	steps := map[int]int{}
	for _, line := range bytes.Split(bytes.TrimSpace(read(t, parts.Out, "metrics.jsonl")), []byte("\n")) {
		var p point
		if err := json.Unmarshal(line, &p); err != nil {
			t.Fatal(err)
		}
		if p.ValLoss == nil {
			steps[p.Step]++
		}
	}
	for s := 1; s <= 4; s++ {
		if steps[s] != 1 {
			t.Errorf("step %d is logged %d times", s, steps[s])
		}
	}
}

func TestEqualSeedsGiveEqualRunsWhateverTheWorkers(t *testing.T) {
	data := spots(t, 3, 10)
	a := small(data, filepath.Join(t.TempDir(), "a"))
	b := a
	b.Out, b.Workers, b.CacheDir = filepath.Join(t.TempDir(), "b"), 3, t.TempDir()
	c := a
	c.Out, c.Seed = filepath.Join(t.TempDir(), "c"), 2
	ra, rb, rc := mustRun(t, a), mustRun(t, b), mustRun(t, c)
	if ra.Loss != rb.Loss || ra.Manifest.Files[policy.EMAFile] != rb.Manifest.Files[policy.EMAFile] {
		t.Error("workers or the frame cache changed the weights")
	}
	if ra.Loss == rc.Loss {
		t.Error("another seed gave the same loss")
	}
}

func TestRunFolderIsNotReused(t *testing.T) {
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "note.txt"), []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Run(context.Background(), small("nowhere", out), Options{})
	if !errors.Is(err, ErrRunExists) {
		t.Fatalf("error %v, want ErrRunExists", err)
	}
	c := small("nowhere", filepath.Join(out, "new"))
	c.Resume = true
	if _, err := Run(context.Background(), c, Options{}); err == nil || !strings.Contains(err.Error(), "no checkpoint yet") {
		t.Fatalf("resume without a checkpoint gave %v", err)
	}
}

func TestResumeOnOtherDataIsRefused(t *testing.T) {
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "run"))
	mustRun(t, c)
	c.Resume, c.Data = true, spots(t, 4, 10)
	_, err := Run(context.Background(), c, Options{})
	if err == nil || !strings.Contains(err.Error(), "identity") {
		t.Fatalf("error %v, want one about the dataset's identity", err)
	}
}

func TestTimeLimitSavesAndTellsSo(t *testing.T) {
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "run"))
	c.Steps, c.MaxMinutes, c.SaveEvery, c.ReportRows = 50, 1, 0, 0
	now := time.Unix(0, 0)
	r, err := Run(context.Background(), c, Options{
		Now:    func() time.Time { return now },
		OnStep: func(int, float64) { now = now.Add(25 * time.Second) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.TimeLimit || r.Steps != 4 { // 25 s a step: 75 s have passed when step 4 ends
		t.Fatalf("time limit %v after %d steps, want true after 4", r.TimeLimit, r.Steps)
	}
	if m, err := policy.ReadManifest(r.Checkpoint); err != nil || m.Step != 4 {
		t.Fatalf("checkpoint at the limit: step %d, %v", m.Step, err)
	}
}

func TestThePictureDecidesTheAction(t *testing.T) {
	if !kernel.Native && os.Getenv("PINCH_SOAK") == "" {
		t.Skip("250 steps take a minute without OpenBLAS: with the tag blas, or in make soak")
	}
	c := small(spots(t, 8, 60), filepath.Join(t.TempDir(), "run"))
	c.Steps, c.Warmup, c.Batch, c.Draws, c.Rate = 250, 20, 32, 4, 5e-3
	c.ImageSize, c.Arch.Patch, c.Arch.Window = 16, 4, 4
	c.LogEvery, c.SaveEvery, c.ReportRows, c.ValRows = 100, 0, 64, 64
	c.EMAMax = 0.98
	c.Augment = loader.Augment{}
	r := mustRun(t, c)
	got := r.Report.Channels[0]
	if p, m := Total(got.Policy), Total(got.Mean); p > 0.4*m {
		t.Errorf("held-out error %.3f is not below 0.4 of the mean baseline's %.3f (loss %.3f, validation %.3f)", p, m, r.Loss, r.ValLoss)
	}
	// The same weights without pictures can not beat the mean.
	blind, err := policy.Load(c.Out, policy.Options{BlankImage: true})
	if err != nil {
		t.Fatal(err)
	}
	seeing, err := policy.Load(c.Out, policy.Options{})
	if err != nil {
		t.Fatal(err)
	}
	errBlind, errSeeing := pointError(t, blind), pointError(t, seeing)
	t.Logf("held-out error %.3f, mean baseline %.3f; seeing %.3f, blind %.3f", Total(got.Policy), Total(got.Mean), errSeeing, errBlind)
	if errSeeing > 0.4*errBlind {
		t.Errorf("error %.3f with pictures, %.3f with blanked pictures", errSeeing, errBlind)
	}
}

func TestNaNStopsAndNamesTheStep(t *testing.T) {
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "run"))
	c.Rate, c.Clip, c.Steps, c.ReportRows, c.ValEvery = 10, 1e9, 60, 0, 0
	c.Beta1, c.Beta2, c.Decay = 0, 0, 10 // weights are multiplied by 1 - 100 at each step
	_, err := Run(context.Background(), c, Options{})
	if !errors.Is(err, ErrNotFinite) || !strings.Contains(err.Error(), "step ") {
		t.Fatalf("error %v, want ErrNotFinite with the step", err)
	}
	files, _ := filepath.Glob(filepath.Join(c.Out, "not_finite_step_*.json"))
	if len(files) != 1 {
		t.Fatalf("the offending batch was written to %d files", len(files))
	}
	// The newest checkpoint before the fault is whole and finite.
	if _, err := policy.Load(c.Out, policy.Options{RawWeights: true}); err != nil {
		t.Errorf("checkpoint before the fault: %v", err)
	}
}

func pointError(t *testing.T, p *policy.Policy) float64 {
	t.Helper()
	sum, n := 0.0, 0
	for x := 10; x < 56; x += 9 {
		for y := 10; y < 56; y += 9 {
			c, err := p.Infer(spotObservation(x, y))
			if err != nil {
				t.Fatal(err)
			}
			sum += math.Pow(float64(c.Values[0])-float64(x-32)/24, 2) + math.Pow(float64(c.Values[1])-float64(y-32)/24, 2)
			n++
		}
	}
	return math.Sqrt(sum / float64(n))
}
