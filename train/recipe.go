package train

import (
	"fmt"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/policy"
)

// Whose weights and whose statistics a run begins with.
const (
	fromEMA, fromRaw         = "ema", "raw"
	fromCheckpoint, fromData = "checkpoint", "data"
	maxMoments               = 16
)

// recipe is what a size asks of a pretraining run: its image, its horizon and instructions, and its learning rate. Images of 224 pixels are
// what vision transformers are pretrained on; the horizons are about three seconds at 10 to 16 Hz.
type recipe struct {
	image, horizon, tokens, vocabulary, batch int
	rate                                      float64
}

var recipes = map[string]recipe{
	"small": {224, 32, 32, 8192, 1024, 3e-4},
	"base":  {224, 32, 48, 16384, 1024, 3e-4},
	"large": {224, 50, 64, 32768, 2048, 1e-4},
	"xl":    {224, 50, 64, 32768, 2048, 1e-4},
}

// PretrainConfig is the recipe of a pretraining run of a size: AdamW (0.9, 0.95) with decay 0.05 on matrices, clipping at 1, 2000 steps of
// warm-up and a cosine to a tenth, EMA of power 0.75, state dropout 0.2, wrist-camera colour changes and small shifts.
func PretrainConfig(size string) Config {
	c := DefaultConfig()
	c.Size = size
	c.Steps, c.Warmup, c.RateEnd, c.Decay = 100_000, 2000, 0.1, 0.05
	c.EMA, c.EMAMax, c.StateDropout = emaPower, 0.9999, 0.2
	c.Augment = loader.Augment{Brightness: 0.3, Contrast: 0.4, Saturation: 0.5}
	c.ValShare, c.ValEvery, c.ValRows, c.SaveEvery, c.Keep, c.KeepEvery, c.LogEvery = 0.02, 2000, 512, 1000, 2, 20_000, 50
	if r, ok := recipes[size]; ok {
		c.ImageSize, c.Horizon, c.MaxTokens, c.Vocabulary, c.Batch, c.Draws, c.Rate = r.image, r.horizon, r.tokens, r.vocabulary, r.batch, 1, r.rate
		c.Augment.Shift = r.image / 40 // a crop of 95 %
	}
	return c
}

// PostConfig is the recipe of a post-training run: 20,000 steps of batch 64 at a tenth of a pretraining rate, a constant EMA, the encoder at
// a tenth of that.
func PostConfig(size string) Config {
	c := PretrainConfig(size)
	c.Steps, c.Warmup, c.Batch, c.Rate = 20_000, 500, 64, 3e-5
	c.EMA, c.EMAMax = emaConstant, 0.999
	c.ValEvery, c.SaveEvery, c.KeepEvery = 1000, 1000, 0
	return c
}

// LoadRecipe reads a file and key=value overrides over the built-in values of a kind of run, which depend on the size that they name.
func LoadRecipe(recipe func(size string) Config, path string, overrides ...string) (Config, error) {
	named := recipe("base")
	read := func(c Config) (Config, error) {
		if path != "" {
			if err := config.Load(path, &c); err != nil {
				return Config{}, err
			}
		}
		return c, config.Set(&c, overrides...)
	}
	first, err := read(named)
	if err != nil {
		return Config{}, err
	}
	if first.Size == named.Size {
		return first, nil
	}
	return read(recipe(first.Size))
}

// part is the number of samples that are computed at once, accumulated the number of such parts of a batch.
func (c Config) part() int { return c.Batch / c.accumulated() }

func (c Config) accumulated() int { return max(c.Accumulate, 1) }

func (c Config) presetOptions() policy.PresetOptions {
	return policy.PresetOptions{ImageSize: c.ImageSize, ImageMode: c.ImageMode, Horizon: c.Horizon, Stride: c.Stride, MaxTokens: c.MaxTokens,
		Form: c.ActionForm, Frames: c.Frames, FrameStride: c.FrameStride}
}

// validateRecipe is the part of Validate about optimiser, beginnings and forms.
func (c Config) validateRecipe() error {
	oneOf := func(key, v string, choices ...string) error {
		for _, choice := range choices {
			if v == choice {
				return nil
			}
		}
		return fmt.Errorf("%s is %q, want one of %v", key, v, choices)
	}
	switch {
	case c.Accumulate < 0 || c.Batch%c.accumulated() != 0:
		return fmt.Errorf("accumulate is %d, want a divisor of batch (%d)", c.Accumulate, c.Batch)
	case c.Frames < 0 || c.Frames > maxMoments || c.FrameStride < 0 || c.KeepEvery < 0 || c.Vocabulary < 0:
		return fmt.Errorf("frames (at most %d), frame_stride, keep_every and vocabulary must not be negative", maxMoments)
	case c.Data != "" && c.Mixture != "":
		return fmt.Errorf("data and mixture are both set: a run learns from one of them")
	case c.From != "" && c.Statistics == "" && !c.Resume:
		return fmt.Errorf("statistics is not set: with from, say statistics=%s to keep the checkpoint's normalisation (new data alike) or statistics=%s to measure it anew", fromCheckpoint, fromData)
	case c.From == "" && c.Statistics != "":
		return fmt.Errorf("statistics is %q without a checkpoint: set from", c.Statistics)
	case c.From != "" && c.Backbone != "":
		return fmt.Errorf("from and backbone are both set: the checkpoint has an encoder already")
	}
	if c.Statistics != "" {
		if err := oneOf("statistics", c.Statistics, fromCheckpoint, fromData); err != nil {
			return err
		}
	}
	for _, err := range []error{
		oneOf("ema", c.EMA, emaWarmup, emaPower, emaConstant), oneOf("optimiser", c.Optimiser, adamW, muon),
		oneOf("from_weights", c.FromWeights, fromEMA, fromRaw),
		oneOf("action_form", string(c.ActionForm), string(policy.FormChunk), string(policy.FormStep), string(policy.FormAbsolute)),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}
