//go:build xla && cgo

package train

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomlx/go-xla/pkg/pjrt"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// hostDevices is how many devices XLA's CPU platform shows to the tests of this package: the first client fixes it.
const hostDevices = 8

// devicesOfTests opens that client.
func devicesOfTests(t *testing.T) {
	t.Helper()
	testpeer.Python(t, "lammps_jax_pjrt_cpu")
	// Compiling dominates these tests; what the programs compute does not depend on it.
	t.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
	if _, err := engine.Open(engine.Options{Name: engine.XLA, Platform: xla.CPU, Devices: hostDevices}); err != nil {
		t.Fatal(err)
	}
}

// short makes the first steps of a run, without validation and report, and gives their losses, norms, and the weights after them.
func short(t *testing.T, c Config, steps int) (metrics []float64, o *optimiser, bytes string, state int64) {
	t.Helper()
	c.Out = t.TempDir()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	tr := &trainer{cfg: c, Options: Options{Logger: slog.New(slog.DiscardHandler), Console: io.Discard, Now: time.Now}}
	defer tr.close()
	tr.maker = &maker{cfg: c, words: policy.Bytes{}}
	if err := tr.openSource(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	if err := tr.initialise(context.Background()); err != nil {
		t.Fatal(err)
	}
	graph, err := policy.BuildTraining(tr.spec, tr.arch, c.part(), c.Draws)
	if err != nil {
		t.Fatal(err)
	}
	if tr.stepper, err = newStepper(c, graph, tr.optimiser); err != nil {
		t.Fatal(err)
	}
	for n := range steps {
		b, err := tr.batch(context.Background(), n)
		if err != nil {
			t.Fatal(err)
		}
		loss, norm, err := tr.step(b)
		if err != nil {
			t.Fatal(err)
		}
		metrics = append(metrics, loss, norm)
	}
	if err := tr.stepper.sync(); err != nil {
		t.Fatal(err)
	}
	if d, ok := tr.stepper.(*deviceStepper); ok {
		bytes, state = d.memory(), d.program.StateBytes()
	}
	return metrics, tr.optimiser, bytes, state
}

// onDevice is a configuration on XLA's CPU devices in float32.
func onDevice(c Config) Config {
	c.Engine, c.Platform, c.Precision = engine.XLA, xla.CPU, xla.Full
	return c
}

func compare(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance*math.Max(1, math.Abs(want[i]))) {
			t.Errorf("%s: step %d: loss or norm %v, want %v within %g", what, i/2+1, got[i], want[i], tolerance)
		}
	}
}

func distant(a, b []float32) (worst float64) {
	for i := range a {
		worst = math.Max(worst, math.Abs(float64(a[i])-float64(b[i])))
	}
	return worst
}

// TestDeviceRecipes holds that each part of the recipe gives on XLA what it gives on the CPU engine: batches in parts, Muon, rates by part with
// frozen parameters, committed prefixes. In CI all of them at once, since compiling takes the time; one by one in `make soak`.
func TestDeviceRecipes(t *testing.T) {
	devicesOfTests(t)
	base := small(spots(t, 3, 10), "")
	base.Horizon, base.Batch, base.Draws = 4, 8, 1 // chunks leave the episodes of ten rows
	recipes := map[string]func(c *Config){
		"parts": func(c *Config) { c.Accumulate = 4 },
		"muon":  func(c *Config) { c.Optimiser = muon },
		"rates": func(c *Config) {
			c.EncoderRate, c.TextRate, c.LayerDecay, c.Freeze = 0.5, 0.25, 0.5, []string{"state.", "vision.patch"}
		},
		"prefix and dropout": func(c *Config) { c.Arch.TokenTime, c.Arch.MaxPrefix, c.Arch.Dropout = true, 2, 0.2 },
	}
	if os.Getenv("PINCH_SOAK") == "" {
		parts := recipes
		recipes = map[string]func(c *Config){"all": func(c *Config) {
			for _, change := range parts {
				change(c)
			}
		}}
	}
	for name, change := range recipes {
		t.Run(name, func(t *testing.T) {
			c := base
			change(&c)
			want, host, _, _ := short(t, c, 3)
			got, device, _, _ := short(t, onDevice(c), 3)
			compare(t, name, got, want, 1e-4)
			for what, pair := range map[string][2]*policy.Params{"weights": {device.params, host.params}, "average": {device.ema, host.ema}} {
				if d := distant(pair[0].Slab, pair[1].Slab); d > 2e-3 { // AdamW turns rounding of tiny gradients into a share of the rate
					t.Errorf("%s are %v from the CPU engine's", what, d)
				}
			}
			for _, info := range host.params.Info {
				if host.factor[host.params.Index(info.Name)] == 0 && distant(device.params.View(info.Name), host.params.View(info.Name)) != 0 {
					t.Errorf("frozen %s moved", info.Name)
				}
			}
		})
	}
}

// TestRemat holds that computing the forward pass again changes no loss and takes less memory by XLA's buffer assignment.
func TestRemat(t *testing.T) {
	devicesOfTests(t)
	c := onDevice(small(spots(t, 3, 10), ""))
	c.Batch, c.Draws, c.ImageSize = 8, 1, 64
	c.Arch = policy.Architecture{VisionDepth: 6, Dropout: 0.1}
	want, _, keeps, _ := short(t, c, 3)
	c.Remat = true
	got, _, again, _ := short(t, c, 3)
	compare(t, "remat", got, want, 1e-6)
	t.Logf("everything kept: %s\ncomputed again: %s", keeps, again)
	if a, b := temporary(t, again), temporary(t, keeps); !(a < 0.8*b) {
		t.Errorf("temporary memory %.3f GB with remat, %.3f without; want less than 0.8 of it", a, b)
	}
}

func temporary(t *testing.T, text string) (gb float64) {
	t.Helper()
	at := strings.LastIndex(text, ", ")
	if _, err := fmt.Sscanf(text[at:], ", %f temporary", &gb); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return gb
}

// TestShardedState holds that cutting the optimiser's state, and the weights, over devices gives the losses of one device to 1e-6, and that each
// device keeps the less of it the more there are; and that all device memory comes back. In CI on some numbers of devices, in `make soak` both
// ways on 2, 4 and 8.
func TestShardedState(t *testing.T) {
	devicesOfTests(t)
	before := pjrt.BuffersAlive()
	c := onDevice(small(spots(t, 3, 10), ""))
	c.Batch, c.Draws = 8, 1
	const steps = 20
	want, one, _, whole := short(t, c, steps)
	counts := map[xla.Shard][]int{xla.ShardOptimiser: {2}, xla.ShardWeights: {4}}
	if os.Getenv("PINCH_SOAK") != "" {
		counts = map[xla.Shard][]int{xla.ShardOptimiser: {2, 4, 8}, xla.ShardWeights: {2, 4, 8}}
	}
	for shard, list := range counts {
		for _, devices := range list {
			c.Shard, c.Devices = shard, devices
			name := fmt.Sprintf("%s on %d devices", shard, devices)
			got, o, bytes, state := short(t, c, steps)
			t.Logf("%s: %s", name, bytes)
			compare(t, name, got, want, 1e-6)
			for what, pair := range map[string][2]*policy.Params{"weights": {o.params, one.params}, "average": {o.ema, one.ema}, "moment": {o.m, one.m}} {
				if d := distant(pair[0].Slab, pair[1].Slab); d > 1e-4 {
					t.Errorf("%s: %s differ by %v", name, what, d)
				}
			}
			share := 1 / float64(devices)
			if shard == xla.ShardOptimiser { // the weights, a quarter, lie on each device
				share = 0.25 + 0.75*share
			}
			if got := float64(state) / float64(whole); math.Abs(got-share) > 0.01 {
				t.Errorf("%s: weights, moments and average take %.3f of one device's, want %.3f", name, got, share)
			}
		}
	}
	if alive := pjrt.BuffersAlive(); alive != before {
		t.Errorf("%d device buffers left", alive-before)
	}
}

// TestPrefixOnDevice holds that a policy leaves committed steps as they are and answers the same on both engines.
func TestPrefixOnDevice(t *testing.T) {
	devicesOfTests(t)
	c := small(spots(t, 3, 10), filepath.Join(t.TempDir(), "run"))
	c.Horizon, c.Steps, c.SaveEvery, c.ReportRows = 4, 2, 0, 0
	c.Arch.TokenTime, c.Arch.MaxPrefix = true, 2
	r := mustRun(t, c)
	answer := func(o engine.Options) []float32 {
		p, err := policy.Load(r.Checkpoint, policy.Options{Engine: o})
		if err != nil {
			t.Fatal(err)
		}
		obs := spotObservation(20, 40)
		obs.Prefix = []float64{0.5, -0.25}
		chunk, err := p.Infer(obs)
		if err != nil {
			t.Fatal(err)
		}
		return chunk.Values
	}
	want, got := answer(engine.Options{}), answer(engine.Options{Name: engine.XLA, Platform: xla.CPU, Precision: xla.Full})
	if d := distant(got, want); d > 1e-4 {
		t.Errorf("answers differ by %v: %v and %v", d, got, want)
	}
	if got[0] != 0.5 || got[1] != -0.25 {
		t.Errorf("the committed step became %v", got[:2])
	}
}
