package train

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/loader"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// Config holds every choice of a run. Zero values of Arch are filled from Size.
type Config struct {
	Data    string `yaml:"data"`    // dataset folder, held in memory
	Mixture string `yaml:"mixture"` // file that names several datasets and their weights, read as training goes; replaces data, val_share and only_success
	Out     string `yaml:"out"`     // run folder; must be new or empty unless resume

	Preset    string           `yaml:"preset"` // umi, joint or auto
	Spec      *policy.Spec     `yaml:"spec"`   // inputs and outputs spelled out; replaces preset, image, horizon, stride, max_tokens
	ImageSize int              `yaml:"image_size"`
	ImageMode imaging.Mode     `yaml:"image_mode"` // squash or centre_crop
	Horizon   int              `yaml:"horizon"`    // steps of a chunk
	Stride    int              `yaml:"stride"`     // dataset rows between steps; 0: the preset's
	MaxTokens int              `yaml:"max_tokens"` // longest prompt in bytes plus one
	Rot6D     policy.Rot6DRule `yaml:"rot6d"`      // identity or quantile

	ActionForm  policy.ActionForm `yaml:"action_form"`  // of poses: chunk (seen from the observation), step (from the step before) or absolute
	Frames      int               `yaml:"frames"`       // moments an observation shows; 0: one
	FrameStride int               `yaml:"frame_stride"` // dataset rows between them
	Vocabulary  int               `yaml:"vocabulary"`   // tokens of a tokenizer trained on the instructions; 0: their bytes

	From        string `yaml:"from"`         // checkpoint to begin with
	FromWeights string `yaml:"from_weights"` // its ema (averaged) or raw (last) weights
	Statistics  string `yaml:"statistics"`   // with from: whose normalisation, checkpoint or data
	Backbone    string `yaml:"backbone"`     // safetensors file of a vision transformer (CLIP, SigLIP, DINOv2, timm) to begin with

	Size string              `yaml:"size"` // nano, tiny, small, base, large or xl
	Arch policy.Architecture `yaml:"arch"` // replaces single numbers of size

	OnlySuccess  bool           `yaml:"only_success"` // leave out episodes marked as failed
	ValShare     float64        `yaml:"val_share"`    // share of the episodes held out
	ValSplit     string         `yaml:"val_split"`    // episodes: whole ones; tail: the end of each; auto: tail below 5 episodes
	MaxEpisodes  int            `yaml:"max_episodes"` // 0: all
	CacheDir     string         `yaml:"cache_dir"`    // decoded frames; empty: memory only
	Augment      loader.Augment `yaml:"augment"`
	StateDropout float64        `yaml:"state_dropout"` // probability that a training sample's state is blanked

	Steps   int     `yaml:"steps"`    // planned optimiser steps; the schedule ends here
	Batch   int     `yaml:"batch"`    // samples of a step
	Draws   int     `yaml:"draws"`    // noise draws per sample: one image encoding serves them all
	Rate    float64 `yaml:"rate"`     // peak learning rate
	RateEnd float64 `yaml:"rate_end"` // last learning rate as a share of the peak
	Warmup  int     `yaml:"warmup"`   // steps of linear rise
	Beta1   float64 `yaml:"beta1"`
	Beta2   float64 `yaml:"beta2"`
	Epsilon float64 `yaml:"epsilon"`
	Decay   float64 `yaml:"decay"` // weight decay of matrices
	Clip    float64 `yaml:"clip"`  // greatest global gradient norm
	EMA     string  `yaml:"ema"`   // decay of the average at update n: warmup (1+n)/(10+n), power 1-(1+n)^-0.75, constant; at most ema_max
	EMAMax  float64 `yaml:"ema_max"`
	Seed    uint64  `yaml:"seed"`

	Accumulate   int      `yaml:"accumulate"`    // parts a batch is computed in; 0 or 1: at once. It does not change what is learnt
	Optimiser    string   `yaml:"optimiser"`     // adamw, or muon for hidden matrices
	MuonRate     float64  `yaml:"muon_rate"`     // peak learning rate of muon
	MuonMomentum float64  `yaml:"muon_momentum"` // of muon
	EncoderRate  float64  `yaml:"encoder_rate"`  // learning rate of the vision transformer as a share of rate
	TextRate     float64  `yaml:"text_rate"`     // and of the text encoder
	LayerDecay   float64  `yaml:"layer_decay"`   // factor of the learning rate from each vision block to the one below
	Freeze       []string `yaml:"freeze"`        // parameters with these beginnings stay as they are: vision., text.

	LogEvery   int     `yaml:"log_every"`   // steps
	ValEvery   int     `yaml:"val_every"`   // steps; 0: only at the end
	ValRows    int     `yaml:"val_rows"`    // rows of a validation
	SaveEvery  int     `yaml:"save_every"`  // steps; 0: only at the end
	Keep       int     `yaml:"keep"`        // newest checkpoints kept
	KeepEvery  int     `yaml:"keep_every"`  // checkpoints of steps that this divides are kept for good; 0: none
	FrameCache float64 `yaml:"frame_cache"` // GB of decoded frames of a mixture on disk
	ReportRows int     `yaml:"report_rows"` // held-out rows of the open-loop report; 0: none
	ReplayRows int     `yaml:"replay_rows"` // held-out chunks of the replay score at each validation, for policies of two hands; 0: none
	MaxMinutes float64 `yaml:"max_minutes"` // stop (and save) after this long; 0: no limit
	Threads    int     `yaml:"threads"`     // of the engine; 0: one per processor. It orders sums, so it is part of the result

	Engine        string        `yaml:"engine"`        // cpu, or xla: the devices of a PJRT plugin
	Platform      xla.Platform  `yaml:"platform"`      // of xla: cuda or cpu
	Plugin        string        `yaml:"plugin"`        // path of the PJRT plugin; empty: where pip puts it
	Devices       int           `yaml:"devices"`       // that share the batch
	Precision     xla.Precision `yaml:"precision"`     // of activations on xla: bfloat16 or float32
	Deterministic bool          `yaml:"deterministic"` // the same bits from run to run on xla, at some cost in speed
	Remat         bool          `yaml:"remat"`         // on xla: keep only what lies between blocks and compute the rest again for gradients: less memory, a third more work
	Shard         xla.Shard     `yaml:"shard"`         // on xla: what of the optimiser's state is cut over the devices: none, zero1 (moments, average) or fsdp (weights too)
	PeakTFLOPS    float64       `yaml:"peak_tflops"`   // of one device, for mfu; 0: what is known of it, or measured on the processor

	Workers int  `yaml:"workers"` // goroutines that make batches
	Resume  bool `yaml:"resume"`  // go on with the newest checkpoint in out
}

// DefaultConfig is a run of the tiny policy that takes minutes on two cores.
func DefaultConfig() Config {
	return Config{
		Preset: policy.PresetAuto, ImageSize: 64, ImageMode: imaging.Squash, Horizon: 16, MaxTokens: 64, Rot6D: policy.Rot6DIdentity,
		Size: "tiny", OnlySuccess: true, ValShare: 0.1, ValSplit: splitAuto,
		Augment: loader.Augment{Brightness: 0.2, Contrast: 0.3, Saturation: 0.2},
		Steps:   3750, Batch: 64, Draws: 8,
		Rate: 2e-3, RateEnd: 0.05, Warmup: 100, Beta1: 0.9, Beta2: 0.95, Epsilon: 1e-8, Decay: 0.01, Clip: 1,
		EMA: emaWarmup, EMAMax: 0.999, Seed: 1,
		ActionForm: policy.FormChunk, FromWeights: fromEMA,
		Accumulate: 1, Freeze: []string{}, Optimiser: adamW, MuonRate: 0.02, MuonMomentum: 0.95, EncoderRate: 1, TextRate: 1, LayerDecay: 1,
		Engine: engine.CPU, Platform: xla.CUDA, Devices: 1, Precision: xla.BFloat16, Shard: xla.ShardNothing,
		LogEvery: 20, ValEvery: 500, ValRows: 256, SaveEvery: 500, Keep: 2, ReportRows: 256, ReplayRows: 48, Workers: 1,
	}
}

// LoadConfig reads a YAML file (or none, when path is empty) over the defaults, then applies key=value overrides. Unknown keys
// are refused with the nearest valid one.
func LoadConfig(path string, overrides ...string) (Config, error) {
	c := DefaultConfig()
	if path != "" {
		if err := config.Load(path, &c); err != nil {
			return Config{}, err
		}
	}
	if err := config.Set(&c, overrides...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate reports the first key that can not work; data and out are checked by Run.
func (c Config) Validate() error {
	positive := []struct {
		key string
		v   int
	}{{"image_size", c.ImageSize}, {"horizon", c.Horizon}, {"max_tokens", c.MaxTokens}, {"steps", c.Steps}, {"batch", c.Batch},
		{"draws", c.Draws}, {"log_every", c.LogEvery}, {"val_rows", c.ValRows}, {"keep", c.Keep}, {"workers", c.Workers}}
	for _, p := range positive {
		if p.v < 1 {
			return fmt.Errorf("%s is %d, want at least 1", p.key, p.v)
		}
	}
	shares := []struct {
		key    string
		v      float64
		lo, hi float64
	}{{"val_share", c.ValShare, 0, 0.9}, {"state_dropout", c.StateDropout, 0, 1}, {"rate", c.Rate, 1e-12, 10},
		{"rate_end", c.RateEnd, 0, 1}, {"beta1", c.Beta1, 0, 0.9999999}, {"beta2", c.Beta2, 0, 0.9999999}, {"epsilon", c.Epsilon, 1e-30, 1},
		{"decay", c.Decay, 0, 10}, {"clip", c.Clip, 1e-9, 1e9}, {"ema_max", c.EMAMax, 0, 0.9999999},
		{"augment.brightness", c.Augment.Brightness, 0, 0.95}, {"augment.contrast", c.Augment.Contrast, 0, 0.95},
		{"augment.saturation", c.Augment.Saturation, 0, 1}, {"muon_rate", c.MuonRate, 1e-12, 10}, {"muon_momentum", c.MuonMomentum, 0, 0.9999999},
		{"encoder_rate", c.EncoderRate, 0, 100}, {"text_rate", c.TextRate, 0, 100}, {"layer_decay", c.LayerDecay, 1e-3, 1},
		{"frame_cache", c.FrameCache, 0, 1e6}, {"max_minutes", c.MaxMinutes, 0, 1e9}, {"peak_tflops", c.PeakTFLOPS, 0, 1e6}}
	for _, s := range shares {
		if !(s.v >= s.lo && s.v <= s.hi) {
			return fmt.Errorf("%s is %v, want %v to %v", s.key, s.v, s.lo, s.hi)
		}
	}
	switch {
	case c.Stride < 0 || c.MaxEpisodes < 0 || c.ValEvery < 0 || c.SaveEvery < 0 || c.ReportRows < 0 || c.ReplayRows < 0 || c.Warmup < 0 || c.Threads < 0 || c.Augment.Shift < 0:
		return fmt.Errorf("stride, max_episodes, val_every, save_every, report_rows, replay_rows, warmup, threads and augment.shift must not be negative")
	case c.Warmup >= c.Steps && c.Steps > 1:
		return fmt.Errorf("warmup is %d of %d steps: the rate would never fall; set warmup=%d or less", c.Warmup, c.Steps, c.Steps/10)
	case c.Rot6D != policy.Rot6DIdentity && c.Rot6D != policy.Rot6DQuantile:
		return fmt.Errorf("rot6d is %q, want %s or %s", c.Rot6D, policy.Rot6DIdentity, policy.Rot6DQuantile)
	}
	if c.ValSplit != splitAuto && c.ValSplit != splitEpisodes && c.ValSplit != splitTail {
		return fmt.Errorf("val_split is %q, want %s, %s or %s", c.ValSplit, splitAuto, splitEpisodes, splitTail)
	}
	if err := c.validateRecipe(); err != nil {
		return err
	}
	if err := errors.Join(c.engine().Check(), c.Shard.Check()); err != nil {
		return err
	}
	if c.Engine != engine.XLA && (c.Remat || c.Shard != "" && c.Shard != xla.ShardNothing) {
		return fmt.Errorf("remat and shard are about devices: set engine=%s, or remat=false shard=%s", engine.XLA, xla.ShardNothing)
	}
	if c.Devices < 1 || c.part()%c.Devices != 0 {
		return fmt.Errorf("devices is %d, want at least 1 and a divisor of the samples that are computed at once (%d)", c.Devices, c.part())
	}
	if _, ok := policy.Architectures[c.Size]; !ok {
		return fmt.Errorf("size is %q, want one of %s", c.Size, policy.ArchitectureNames())
	}
	return nil
}

// engine says where the run computes.
func (c Config) engine() engine.Options {
	return engine.Options{Name: c.Engine, Threads: c.Threads, Platform: c.Platform, Plugin: c.Plugin, Devices: c.Devices, Precision: c.Precision, Deterministic: c.Deterministic, Shard: c.Shard}
}

// architecture is Size with the non-zero numbers of Arch in place of its own.
func (c Config) architecture() policy.Architecture {
	a := policy.Architectures[c.Size]
	from, to := reflect.ValueOf(c.Arch), reflect.ValueOf(&a).Elem()
	for i := range from.NumField() {
		if !from.Field(i).IsZero() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return a
}

// free are the keys that may change when a run is resumed, since they do not change the weights.
var free = map[string]bool{"data": true, "out": true, "cache_dir": true, "log_every": true, "val_every": true, "val_rows": true, "save_every": true,
	"keep": true, "keep_every": true, "frame_cache": true, "mixture": true, "from": true, "backbone": true, "plugin": true, "report_rows": true, "replay_rows": true, "peak_tflops": true, "max_minutes": true, "workers": true, "resume": true}

// resumed is the stored configuration with the free keys of the new one; diff names the other keys that were given another value,
// which is not used. A key that has its built-in value was not given.
func resumed(stored, now Config) (c Config, diff []string) {
	c = stored
	to, from, builtIn := reflect.ValueOf(&c).Elem(), reflect.ValueOf(now), reflect.ValueOf(DefaultConfig())
	for i := range from.NumField() {
		key, _, _ := strings.Cut(from.Type().Field(i).Tag.Get("yaml"), ",")
		switch {
		case free[key]:
			to.Field(i).Set(from.Field(i))
		case reflect.DeepEqual(builtIn.Field(i).Interface(), from.Field(i).Interface()):
		case !reflect.DeepEqual(to.Field(i).Interface(), from.Field(i).Interface()):
			diff = append(diff, fmt.Sprintf("%s: stored %v, given %v", key, to.Field(i).Interface(), from.Field(i).Interface()))
		}
	}
	return c, diff
}
