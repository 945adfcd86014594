package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/importer"
)

// Options come from outside the configuration: where to talk to and what time it is.
type Options struct {
	Logger  *slog.Logger     // nil: silent
	Console io.Writer        // progress bars and tables; nil: none
	Now     func() time.Time // nil: time.Now; used for rates, the time limit and the progress bar only
	// OnStep is called after each step, when its log lines and checkpoint are written; nil: not called.
	OnStep func(step int, loss float64)
}

// Result tells how a run ended.
type Result struct {
	Steps            int     // optimiser steps done in total
	Loss             float64 // mean of the last logged interval; NaN before the first
	ValLoss          float64 // of the averaged weights; NaN without validation
	Replay           *Replay // of the averaged weights; nil without held-out episodes of two hands
	SamplesPerSecond float64 // encoded samples, whole loop, this session
	TimeLimit        bool    // stopped by max_minutes
	Checkpoint       string  // folder of the newest checkpoint
	Manifest         policy.Manifest
	Report           *Report // open-loop errors; nil when report_rows is 0
}

// ErrRunExists marks a run folder that already holds something.
var ErrRunExists = errors.New("run folder is not empty")

// ErrNotFinite marks a loss or gradient that became NaN or infinite; the step that would have used it was not made.
var ErrNotFinite = errors.New("training left the finite numbers")

// Run trains according to c and returns when the planned steps are done, the time limit is reached (both save a checkpoint) or
// the context ends (the newest periodic checkpoint stays).
func Run(ctx context.Context, c Config, o Options) (Result, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Console == nil {
		o.Console = io.Discard
	}
	r, err := run(ctx, c, o)
	if err != nil {
		return r, fmt.Errorf("train: %w", err)
	}
	return r, nil
}

func run(ctx context.Context, c Config, o Options) (Result, error) {
	if c.Data == "" && c.Mixture == "" || c.Out == "" {
		return Result{}, fmt.Errorf("data (or mixture) and out must both be set (data %q, mixture %q, out %q)", c.Data, c.Mixture, c.Out)
	}
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	t := &trainer{cfg: c, Options: o}
	defer t.close()
	if c.Resume {
		if err := t.readCheckpoint(); err != nil {
			return Result{}, err
		}
	} else if err := freshFolder(c.Out); err != nil {
		return Result{}, err
	}
	lock, err := folderlock.Take(c.Out) // two runs would mix their checkpoints
	if err != nil {
		return Result{}, err
	}
	defer lock.Release()
	if err := t.prepare(ctx); err != nil {
		return Result{}, err
	}
	err = t.loop(ctx)
	if err = errors.Join(err, t.saver.wait(t)); err != nil {
		return t.result, err
	}
	return t.result, t.finish(ctx)
}

// freshFolder refuses a run folder with content: two runs must not mix.
func freshFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return os.MkdirAll(dir, 0o755)
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s: %w; choose another folder, or go on with its newest checkpoint (--resume, or resume=true)", dir, ErrRunExists)
	}
	return nil
}

// prepare turns the configuration into data, network and optimiser, and writes down what was decided.
func (t *trainer) prepare(ctx context.Context) (err error) {
	var spec *policy.Spec
	if t.stored != nil {
		spec = &t.stored.manifest.Spec
	}
	t.maker = &maker{cfg: t.cfg, words: policy.Bytes{}}
	if t.stored == nil && t.cfg.From != "" {
		if t.parent, err = t.readParent(); err != nil {
			return err
		}
		spec = t.parent.spec(t.cfg)
	}
	if err := t.openSource(ctx, spec); err != nil {
		return err
	}
	if t.stored != nil {
		err = t.restore()
	} else {
		err = t.initialise(ctx)
	}
	if err != nil {
		return err
	}
	if err := t.compile(); err != nil {
		return err
	}
	text, err := config.Marshal(t.cfg)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if err := atomicfile.WriteFile(filepath.Join(t.cfg.Out, "config.yaml"), text, 0o644); err != nil {
		return err
	}
	t.describe()
	return t.openMetrics()
}

// openSource opens a dataset or a mixture.
func (t *trainer) openSource(ctx context.Context, spec *policy.Spec) error {
	if t.cfg.Mixture != "" {
		s, p, err := openStream(ctx, t.cfg, spec, t.Logger)
		if err != nil {
			return err
		}
		t.source, t.spec, t.provenance = s, s.spec, p
		return nil
	}
	bar := newProgress(t.Console, t.Now, "decode")
	k, err := openCorpus(ctx, t.cfg, spec, t.Logger, func(done, total int) { bar.report(done, total, "") })
	bar.finish()
	if err != nil {
		return err
	}
	t.source, t.spec, t.provenance = k, k.spec, k.provenance
	return nil
}

// initialise makes the tokenizer, measures statistics and draws the first weights, or takes them from a checkpoint or an encoder.
func (t *trainer) initialise(ctx context.Context) (err error) {
	t.arch = t.cfg.architecture()
	if t.parent != nil {
		return t.adopt(ctx)
	}
	if t.cfg.Vocabulary > 0 {
		words, err := policy.TrainPairs(t.provenance.Prompts, t.cfg.Vocabulary)
		if err != nil {
			return err
		}
		t.words, t.spec.Prompt.Vocabulary = words, t.cfg.Vocabulary
		t.Logger.Info("tokenizer", "tokens", words.Size(), "of", t.cfg.Vocabulary, "instructions", len(t.provenance.Prompts))
	}
	if t.stats, err = t.fit(ctx, t.spec, t.cfg.Rot6D); err != nil {
		return err
	}
	var encoder *importer.Encoder
	if t.cfg.Backbone != "" {
		if encoder, err = importer.Read(t.cfg.Backbone); err != nil {
			return err
		}
		encoder.Fit(&t.arch)
	}
	params, err := policy.NewParams(t.spec, t.arch, t.cfg.Seed)
	if err != nil {
		return err
	}
	if encoder != nil {
		if err := encoder.Load(t.spec, t.arch, params); err != nil {
			return fmt.Errorf("backbone %s: %w", t.cfg.Backbone, err)
		}
		t.Logger.Info("vision encoder loaded", "file", t.cfg.Backbone, "kind", encoder.Kind, "blocks", t.arch.VisionDepth, "width", t.arch.VisionDim)
	}
	t.optimiser = newOptimiser(t.cfg, params)
	return nil
}

// describe logs what a reader wants to know before the first step.
func (t *trainer) describe() {
	t.Logger.Info("policy", "preset", t.spec.Preset, "cameras", len(t.spec.Cameras), "state_dim", t.spec.StateDim(), "action_dim", t.spec.ActionDim(),
		"horizon", t.spec.Horizon, "stride", t.spec.Stride, "rate_hz", t.spec.RateHz(), "prompts", len(t.provenance.Prompts))
	t.Logger.Info("network", "size", t.cfg.Size, "parameters", len(t.params.Slab), "tensors", len(t.params.Info))
	if d, ok := t.stepper.(*deviceStepper); ok {
		t.Logger.Info("memory of a step", "remat", t.cfg.Remat, "shard", t.cfg.Shard, "devices", t.cfg.Devices, "bytes", d.memory())
	}
	t.Logger.Info("rows", "train", t.samples(), "validation", t.check.count, "train_episodes", len(t.provenance.TrainEpisodes), "validation_episodes", len(t.provenance.ValEpisodes))
	for _, set := range t.provenance.Sets {
		t.Logger.Info("dataset of the mixture", "name", set.Name, "samples_per_epoch", set.Samples)
	}
	if f := append(append([]string{}, t.stats.State.Floor...), t.stats.Action.Floor...); len(f) > 0 {
		t.Logger.Warn("dimensions that hardly move are normalised by their floor", "count", len(f), "first", f[0])
	}
}
