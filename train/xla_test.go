//go:build xla && cgo

package train

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// TestXLARun holds that a run on XLA's CPU device has the losses of the CPU engine, that a run which was interrupted and resumed ends with the
// weights of one that was not, and that its policy answers the same on both engines.
func TestXLARun(t *testing.T) {
	testpeer.Python(t, "lammps_jax_pjrt_cpu")
	// Compiling dominates this test; what the programs compute does not depend on it.
	t.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
	data := spots(t, 4, 10)
	losses := func(c Config, stop int) (list []float64, r Result) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r, err := Run(ctx, c, Options{OnStep: func(step int, loss float64) {
			list = append(list, loss)
			if step == stop {
				cancel()
			}
		}})
		if err != nil && !(stop > 0 && errors.Is(err, context.Canceled)) {
			t.Fatal(err)
		}
		return list, r
	}
	host := small(data, filepath.Join(t.TempDir(), "cpu"))
	host.ReportRows = 0 // one program less to compile in each run
	want, _ := losses(host, 0)

	device := host
	device.Out = filepath.Join(t.TempDir(), "xla")
	device.Engine, device.Platform, device.Precision = engine.XLA, xla.CPU, xla.Full
	got, whole := losses(device, 0)
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-4*math.Max(1, want[i]) {
			t.Errorf("step %d: loss %v on XLA, %v on the CPU engine", i+1, got[i], want[i])
		}
	}

	parts := device
	parts.Out = filepath.Join(t.TempDir(), "parts")
	losses(parts, 2)
	parts.Resume = true
	_, resumed := losses(parts, 0)
	a, b := weights(t, whole), weights(t, resumed)
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 1e-6*math.Max(1, math.Abs(float64(a[i]))) {
			t.Fatalf("weight %d is %v after an interruption, %v without", i, b[i], a[i])
		}
	}

	answer := func(o engine.Options) []float32 {
		p, err := policy.Load(whole.Checkpoint, policy.Options{Engine: o})
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Infer(spotObservation(20, 40))
		if err != nil {
			t.Fatal(err)
		}
		return c.Values
	}
	x, y := answer(engine.Options{}), answer(engine.Options{Name: engine.XLA, Platform: xla.CPU, Precision: xla.Full})
	for i := range x {
		if math.Abs(float64(x[i]-y[i])) > 1e-4 {
			t.Errorf("action %d is %v on the CPU engine, %v on XLA", i, x[i], y[i])
		}
	}
}

// weights reads the newest checkpoint of a run.
func weights(t *testing.T, r Result) []float32 {
	t.Helper()
	m, err := policy.ReadManifest(r.Checkpoint)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.ReadParams(r.Checkpoint, policy.RawFile)
	if err != nil {
		t.Fatal(err)
	}
	return p.Slab
}
