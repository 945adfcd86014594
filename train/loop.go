package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
)

// trainer is a run in progress.
type trainer struct {
	Options
	*maker
	*optimiser
	cfg    Config
	stored *stored // of a resumed run; nil otherwise

	graph   *policy.Training
	program *cpu.Program
	check   *validator
	metrics *os.File
	curve   []point
	result  Result
}

// compile plans the step for the engine and makes the parameters its storage.
func (t *trainer) compile() (err error) {
	if t.cfg.Threads == 0 {
		t.cfg.Threads = runtime.NumCPU()
	}
	t.maker.cfg, t.optimiser.cfg = t.cfg, t.cfg
	if t.graph, err = policy.BuildTraining(t.spec, t.arch, t.cfg.Batch, t.cfg.Draws); err != nil {
		return err
	}
	if t.program, err = cpu.Compile(t.graph.Graph, t.graph.Outputs(), cpu.Options{Threads: t.cfg.Threads}); err != nil {
		return fmt.Errorf("compile training step: %w", err)
	}
	for i, info := range t.params.Info {
		if err := t.program.Bind(t.graph.Params[i], t.params.View(info.Name)); err != nil {
			return fmt.Errorf("parameter %q: %w", info.Name, err)
		}
	}
	t.check, err = newValidator(t.maker, t.ema)
	return err
}

// loop makes the steps: next batch, forward and backward, update; then log, validate and save when their time has come.
func (t *trainer) loop(ctx context.Context) error {
	stream := loader.Start(ctx, t.cfg.Workers, 2, t.steps, t.cfg.Steps, t.batches())
	defer stream.Close()
	bar := newProgress(t.Console, t.Now, "train")
	defer bar.finish()
	start, first := t.Now(), t.steps
	meter := newMeter(start)
	for t.steps < t.cfg.Steps {
		batch, ok, err := stream.Next()
		if err != nil {
			return err
		}
		if !ok || ctx.Err() != nil {
			return ctx.Err()
		}
		if t.steps == 0 {
			if err := t.saveFirstBatch(batch); err != nil {
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
		bar.report(t.steps, t.cfg.Steps, fmt.Sprintf("loss %.4f  %.0f samples/s", meter.loss(), t.result.SamplesPerSecond))
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

// step runs one batch through the graph and updates the weights. The weights are untouched when the loss or the gradient is
// not finite.
func (t *trainer) step(b filled) (loss, norm float64, err error) {
	for _, f := range t.graph.Feeds(b.Batch) {
		if err := t.program.Set(f.Node, f.Value); err != nil {
			return 0, 0, fmt.Errorf("step %d: %w", t.steps, err)
		}
	}
	if err := t.program.Run(); err != nil {
		return 0, 0, fmt.Errorf("step %d: %w", t.steps, err)
	}
	loss = t.program.Scalar(t.graph.Loss)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, 0, t.notFinite("loss", loss, b)
	}
	grads := make([][]float32, len(t.graph.Gradients))
	for i, g := range t.graph.Gradients {
		grads[i] = t.program.Float32(g)
	}
	norm = t.update(grads)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return 0, 0, t.notFinite("gradient norm", norm, b)
	}
	return loss, norm, nil
}

// notFinite writes the offending batch's rows beside the run and names the step.
func (t *trainer) notFinite(what string, value float64, b filled) error {
	type row struct{ Episode, Row int }
	var rows []row
	for _, r := range b.rows {
		e, at := t.data.Locate(r)
		rows = append(rows, row{e.Index, at})
	}
	path := filepath.Join(t.cfg.Out, fmt.Sprintf("not_finite_step_%06d.json", t.steps))
	text, err := json.MarshalIndent(map[string]any{"step": t.steps, "what": what, "value": fmt.Sprint(value), "rows": rows}, "", " ")
	if err == nil {
		err = atomicfile.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("step %d: %s is %v: %w (and its batch could not be written: %w)", t.steps, what, value, ErrNotFinite, err)
	}
	return fmt.Errorf("step %d: %s is %v: %w; the batch's rows are in %s; lower the rate or check these rows", t.steps, what, value, ErrNotFinite, path)
}

// after does what is due after a step.
func (t *trainer) after(ctx context.Context, m *meter, rate float64, waited time.Duration, last bool) error {
	due := func(every int) bool { return last || every > 0 && t.steps%every == 0 }
	if due(t.cfg.LogEvery) {
		p := m.take(t.Now(), t.steps, t.cfg.Batch)
		p.Rate, p.LoaderWaitS, p.ClipShare = rate, waited.Seconds(), t.clips.Share()
		p.Epoch = float64(t.steps*t.cfg.Batch) / float64(len(t.train))
		t.result.Loss = p.Loss
		if err := t.write(p); err != nil {
			return err
		}
	}
	if due(t.cfg.ValEvery) {
		loss, err := t.check.loss(ctx)
		if err != nil {
			return err
		}
		t.result.ValLoss = loss
		if !math.IsNaN(loss) {
			if err := t.write(point{Step: t.steps, ValLoss: &loss}); err != nil {
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
		return nil
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
	return atomicfile.WriteFile(filepath.Join(t.cfg.Out, "open_loop.json"), append(text, '\n'), 0o644)
}

// close releases what a run holds, however far it came.
func (t *trainer) close() {
	if t.maker != nil && t.corpus != nil {
		_ = t.data.Close()
	}
	if t.metrics != nil {
		_ = t.metrics.Close()
	}
}
