package train

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/policy"
)

// trainer is a run in progress.
type trainer struct {
	Options
	*maker
	*optimiser
	cfg    Config
	stored *stored // of a resumed run; nil otherwise
	parent *parent // of a post-training run; nil otherwise

	stepper stepper
	speed   speed
	check   *validator
	replay  *replayer
	metrics *os.File
	events  *events
	saver   saver
	curve   []point
	result  Result
}

// compile plans the step for the engine and makes the parameters its storage.
func (t *trainer) compile() (err error) {
	if t.cfg.Threads == 0 {
		t.cfg.Threads = runtime.NumCPU()
	}
	t.maker.cfg, t.optimiser.cfg = t.cfg, t.cfg
	graph, err := policy.BuildTraining(t.spec, t.arch, t.cfg.part(), t.cfg.Draws)
	if err != nil {
		return err
	}
	if t.stepper, err = newStepper(t.cfg, graph, t.optimiser); err != nil {
		return err
	}
	if t.speed, err = t.newSpeed(); err != nil {
		return err
	}
	if t.check, err = newValidator(t.maker, t.ema); err != nil {
		return err
	}
	t.replay = &replayer{maker: t.maker, ema: t.ema}
	return nil
}

// loop makes the steps: next batch, forward and backward, update; then log, validate and save when their time has come.
func (t *trainer) loop(ctx context.Context) error {
	// One batch for each worker under way, and never fewer than two ahead.
	stream := loader.Start(ctx, t.cfg.Workers, max(2, t.cfg.Workers), t.steps, t.cfg.Steps, t.batch)
	defer stream.Close()
	bar := newProgress(t.Console, t.Now, "train")
	defer bar.finish()
	start, first := t.Now(), t.steps
	meter := newMeter(start)
	for t.steps < t.cfg.Steps {
		batch, ok, err := stream.Next()
		if ctx.Err() != nil {
			return t.interrupted(ctx)
		}
		if err != nil || !ok {
			return err
		}
		if t.steps == 0 {
			if err := t.saveFirstBatch(batch.parts[0]); err != nil {
				return err
			}
		}
		rate := t.cfg.rateAt(t.steps)
		loss, norm, err := t.step(batch)
		if err != nil {
			return err
		}
		t.result.Steps = t.steps
		meter.add(loss, norm)
		elapsed := t.Now().Sub(start)
		t.result.SamplesPerSecond = float64((t.steps-first)*t.cfg.Batch) / math.Max(elapsed.Seconds(), 1e-9)
		bar.report(t.steps, t.cfg.Steps, fmt.Sprintf("loss %.4f  %s", meter.loss(), t.speed.text(t.result.SamplesPerSecond)))
		limit := t.cfg.MaxMinutes > 0 && elapsed >= time.Duration(t.cfg.MaxMinutes*float64(time.Minute))
		last := limit || t.steps == t.cfg.Steps
		if err := t.after(ctx, meter, rate, stream.Waited(), last); err != nil {
			return err
		}
		if t.OnStep != nil {
			t.OnStep(t.steps, loss)
		}
		if limit && t.steps < t.cfg.Steps {
			t.result.TimeLimit = true
			t.Logger.Warn("time limit reached before the planned steps", "steps", t.steps, "planned", t.cfg.Steps)
			return nil
		}
	}
	return nil
}

// batch makes batch n and brings it to where it will be used.
func (t *trainer) batch(ctx context.Context, n int) (filled, error) {
	b, err := t.maker.training(ctx, n)
	if err != nil {
		return b, err
	}
	return b, t.stepper.stage(&b)
}

// step runs one batch through the graph and updates the weights. The weights are untouched when the loss or the gradient is
// not finite.
func (t *trainer) step(b filled) (loss, norm float64, err error) {
	if loss, norm, err = t.stepper.step(b); err != nil {
		return 0, 0, fmt.Errorf("step %d: %w", t.steps, err)
	}
	if !finite(loss) {
		return 0, 0, t.notFinite("loss", loss, b)
	}
	if !finite(norm) {
		return 0, 0, t.notFinite("gradient norm", norm, b)
	}
	return loss, norm, nil
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// interrupted saves where the run is, so that nothing is lost of what was learnt, and gives the context's error.
func (t *trainer) interrupted(ctx context.Context) error {
	if t.steps == 0 {
		return ctx.Err()
	}
	if err := t.stepper.sync(); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return errors.Join(ctx.Err(), t.save())
}

// notFinite writes the offending batch beside the run, its tensors and where its samples come from, and names the step.
func (t *trainer) notFinite(what string, value float64, b filled) error {
	path := filepath.Join(t.cfg.Out, fmt.Sprintf("not_finite_step_%06d", t.steps))
	text, err := json.MarshalIndent(map[string]any{"step": t.steps, "what": what, "value": fmt.Sprint(value), "samples": b.origins}, "", " ")
	if err == nil {
		err = atomicfile.WriteFile(path+".json", text, 0o644)
	}
	for i, part := range b.parts {
		if err == nil {
			err = atomicfile.Write(atomicfile.OS, fmt.Sprintf("%s_%d.safetensors", path, i), 0o644, func(w io.Writer) error {
				return policy.WriteTensors(w, part.Tensors())
			})
		}
	}
	if err != nil {
		return fmt.Errorf("step %d: %s is %v: %w (and its batch could not be written: %w)", t.steps, what, value, ErrNotFinite, err)
	}
	return fmt.Errorf("step %d: %s is %v: %w; the batch is in %s.json (episodes and rows) and .safetensors; lower the rate or check these rows", t.steps, what, value, ErrNotFinite, path)
}

// after does what is due after a step.
func (t *trainer) after(ctx context.Context, m *meter, rate float64, waited time.Duration, last bool) error {
	due := func(every int) bool { return last || every > 0 && t.steps%every == 0 }
	if due(t.cfg.LogEvery) {
		p := m.take(t.Now(), t.steps, t.cfg.Batch, waited)
		p.Rate, p.ClipShare = rate, t.clips.Share()
		p.TFLOPS, p.MFU = t.speed.of(p.SamplesPerSecond)
		p.Epoch = float64(t.steps*t.cfg.Batch) / float64(t.samples())
		t.result.Loss = p.Loss
		if err := t.write(p); err != nil {
			return err
		}
	}
	if due(t.cfg.ValEvery) || due(t.cfg.SaveEvery) {
		if err := t.stepper.sync(); err != nil {
			return fmt.Errorf("step %d: %w", t.steps, err)
		}
	}
	if due(t.cfg.ValEvery) {
		loss, err := t.check.loss(ctx)
		if err != nil {
			return err
		}
		t.result.ValLoss = loss
		if !math.IsNaN(loss) {
			p := point{Step: t.steps, ValLoss: &loss}
			if p.Replay, err = t.replay.score(ctx); err != nil {
				return err
			}
			t.result.Replay = p.Replay
			if err := t.write(p); err != nil {
				return err
			}
		}
	}
	if due(t.cfg.SaveEvery) {
		return t.save()
	}
	return nil
}

// finish measures the averaged weights on held-out rows and draws the curve.
func (t *trainer) finish(ctx context.Context) error {
	if err := t.draw(); err != nil {
		return err
	}
	if t.cfg.ReportRows == 0 {
		return t.page()
	}
	report, err := t.report(ctx)
	if err != nil {
		return err
	}
	t.result.Report = report
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteFile(filepath.Join(t.cfg.Out, "open_loop.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return t.page()
}

// close releases what a run holds, however far it came.
func (t *trainer) close() {
	if t.maker != nil && t.source != nil {
		_ = t.source.Close()
	}
	_ = t.events.close()
	if t.metrics != nil {
		_ = t.metrics.Close()
	}
	if t.stepper != nil {
		_ = t.stepper.close()
	}
}
