package train

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"time"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/policy"
)

// LoaderRatio compares training with the loader against training without one.
type LoaderRatio struct {
	Loaded  float64 // samples/s with batches from the loader: cache, augmentation, copies to the devices
	Alone   float64 // samples/s on one batch that lies on the devices already
	Waiting float64 // share of the loaded time in which steps waited for the loader
	MFU     float64 // of the loaded steps, 0 where the peak is not known
	Memory  string  // of a step, where the engine has devices
}

// Ratio is the share of the speed that the loader leaves.
func (r LoaderRatio) Ratio() float64 { return r.Loaded / r.Alone }

// String is one line, and one about memory where the engine has devices.
func (r LoaderRatio) String() string {
	s := fmt.Sprintf("%.1f samples/s with the loader (waiting %.1f %%), %.1f without: ratio %.3f", r.Loaded, 100*r.Waiting, r.Alone, r.Ratio())
	if r.MFU > 0 {
		s += fmt.Sprintf(", MFU %.1f %%", 100*r.MFU)
	}
	if r.Memory != "" {
		s += "\n" + r.Memory
	}
	return s
}

// CompareLoader makes n steps of a run with its loader, and n steps on one batch, with one compiled program; a few steps before each do not
// count. It writes nothing.
func CompareLoader(ctx context.Context, c Config, n int, now func() time.Time, log *slog.Logger) (LoaderRatio, error) {
	r, err := compareLoader(ctx, c, n, now, log)
	if err != nil {
		return r, fmt.Errorf("compare with the loader: %w", err)
	}
	return r, nil
}

func compareLoader(ctx context.Context, c Config, n int, now func() time.Time, log *slog.Logger) (out LoaderRatio, err error) {
	if c.Data == "" && c.Mixture == "" {
		return out, fmt.Errorf("data (or mixture) must be set")
	}
	if err := c.Validate(); err != nil {
		return out, err
	}
	if c.Threads == 0 {
		c.Threads = runtime.NumCPU()
	}
	t := &trainer{cfg: c, Options: Options{Logger: log, Console: io.Discard, Now: now}}
	defer t.close()
	t.maker = &maker{cfg: c, words: policy.Bytes{}}
	if err := t.openSource(ctx, nil); err != nil {
		return out, err
	}
	if err := t.initialise(ctx); err != nil {
		return out, err
	}
	t.optimiser.cfg = c
	graph, err := policy.BuildTraining(t.spec, t.arch, c.part(), c.Draws)
	if err != nil {
		return out, err
	}
	if t.stepper, err = newStepper(c, graph, t.optimiser); err != nil {
		return out, err
	}
	if d, ok := t.stepper.(*deviceStepper); ok {
		out.Memory = d.memory()
	}
	if err := t.loaded(ctx, n, &out); err != nil {
		return out, err
	}
	if err := t.alone(ctx, n, &out); err != nil {
		return out, err
	}
	if t.speed, err = t.newSpeed(); err == nil {
		_, out.MFU = t.speed.of(out.Loaded)
	}
	return out, err
}

// loaded times steps with the loader.
func (t *trainer) loaded(ctx context.Context, n int, out *LoaderRatio) error {
	warm := warmSteps + max(2, t.cfg.Workers) // until the batches that were made before the first step are used up
	stream := loader.Start(ctx, t.cfg.Workers, max(2, t.cfg.Workers), 0, warm+n, t.batch)
	defer stream.Close()
	var begin time.Time
	var waited time.Duration
	for i := range warm + n {
		if i == warm {
			begin, waited = t.Now(), stream.Waited()
		}
		b, ok, err := stream.Next()
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the loader ended after %d batches", i)
		}
		if _, _, err := t.step(b); err != nil {
			return err
		}
	}
	spent := t.Now().Sub(begin).Seconds()
	out.Loaded, out.Waiting = float64(n*t.cfg.Batch)/spent, (stream.Waited()-waited).Seconds()/spent
	return nil
}

// alone times steps on one batch: on devices its copy there is made once, before the time runs.
func (t *trainer) alone(ctx context.Context, n int, out *LoaderRatio) error {
	one, err := t.maker.training(ctx, 0)
	if err != nil {
		return err
	}
	if err := t.stepper.stage(&one); err != nil {
		return err
	}
	var begin time.Time
	for i := range warmSteps + n {
		if i == warmSteps {
			begin = t.Now()
		}
		if _, _, err := t.step(one); err != nil {
			return err
		}
		one.staged = nil // it is the input from here on; of a batch in parts the last part is
	}
	out.Alone = float64(n*t.cfg.Batch) / t.Now().Sub(begin).Seconds()
	return nil
}
