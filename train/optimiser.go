package train

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
)

// rateAt is the learning rate of step n (0 first): linear rise over the warm-up, then a cosine from the peak to
// RateEnd times the peak at the last planned step. It depends on the step alone, so a resumed run is on the same curve.
func (c Config) rateAt(n int) float64 {
	if n < c.Warmup {
		return c.Rate * float64(n+1) / float64(c.Warmup)
	}
	progress := math.Min(float64(n-c.Warmup)/math.Max(float64(c.Steps-1-c.Warmup), 1), 1)
	return c.Rate * (c.RateEnd + (1-c.RateEnd)*(1+math.Cos(math.Pi*progress))/2)
}

// Kinds of running average.
const (
	emaWarmup   = "warmup"   // decay (1+n)/(10+n), at most ema_max
	emaPower    = "power"    // decay 1-(1+n)^-0.75, at most ema_max (the diffusion policy's)
	emaConstant = "constant" // decay ema_max
)

// emaAt is the decay of update n (0 first): short at the beginning, so that the first weights are soon forgotten.
func (c Config) emaAt(n int) float64 {
	switch c.EMA {
	case emaPower:
		return math.Min(1-math.Pow(float64(1+n), -0.75), c.EMAMax)
	case emaConstant:
		return c.EMAMax
	}
	return math.Min(float64(1+n)/float64(10+n), c.EMAMax)
}

// optimiser is AdamW, or Muon for hidden matrices, with global-norm clipping and a running average of the weights. Everything here is
// saved in a checkpoint, so a resumed run continues bit for bit.
type optimiser struct {
	cfg    Config
	factor []float64      // of each parameter's learning rate; 0 is frozen
	frozen bool           // some are
	params *policy.Params // updated in place
	ema    *policy.Params
	m, v   *policy.Params // the two moments
	steps  int            // updates done; also the counter of the average
}

func newOptimiser(c Config, params *policy.Params) *optimiser {
	o := &optimiser{cfg: c, params: params, ema: params.Clone(), m: params.Clone(), v: params.Clone(), factor: c.factors(params)}
	o.frozen = slices.Contains(o.factor, 0)
	clear(o.m.Slab)
	clear(o.v.Slab)
	return o
}

// update makes one step from the gradients (one slice per parameter) and returns their global norm before clipping. With a
// norm that is not finite it changes nothing.
func (o *optimiser) update(grads [][]float32) (norm float64) {
	for i, g := range grads {
		if o.factor[i] != 0 {
			norm += kernel.SumSquares(g)
		}
	}
	norm = math.Sqrt(norm)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		return norm
	}
	a := kernel.Adam{Rate: o.cfg.rateAt(o.steps), Beta1: o.cfg.Beta1, Beta2: o.cfg.Beta2, Eps: o.cfg.Epsilon, Step: o.steps + 1, GradScale: 1}
	if norm > o.cfg.Clip {
		a.GradScale = o.cfg.Clip / norm
	}
	for i, info := range o.params.Info {
		if o.factor[i] == 0 {
			continue
		}
		if o.cfg.Optimiser == muon && info.Hidden() {
			o.orthogonal(info, grads[i], a.GradScale, o.factor[i])
			continue
		}
		b := a
		if o.factor[i] != 1 {
			b.Rate *= o.factor[i]
		}
		if info.Decay() {
			b.Decay = o.cfg.Decay
		}
		kernel.AdamW(o.params.View(info.Name), grads[i], o.m.View(info.Name), o.v.View(info.Name), b)
	}
	o.average()
	o.steps++
	return norm
}

// average brings the running average up to date. Frozen parameters stay as they are, to the bit.
func (o *optimiser) average() {
	decay := o.cfg.emaAt(o.steps)
	if !o.frozen {
		kernel.EMA(o.ema.Slab, o.params.Slab, decay)
		return
	}
	for i, info := range o.params.Info {
		if o.factor[i] != 0 {
			kernel.EMA(o.ema.View(info.Name), o.params.View(info.Name), decay)
		}
	}
}

// factors of the learning rate, parameter by parameter: 0 for frozen ones; encoder_rate for the vision transformer, which shrinks by
// layer_decay for each block below the last; text_rate for the text encoder; 1 for the rest.
func (c Config) factors(p *policy.Params) []float64 {
	depth := 0
	for _, info := range p.Info {
		if i, ok := visionBlock(info.Name); ok {
			depth = max(depth, i+1)
		}
	}
	out := make([]float64, len(p.Info))
	for i, info := range p.Info {
		out[i] = c.factor(info.Name, depth)
	}
	return out
}

func (c Config) factor(name string, depth int) float64 {
	for _, prefix := range c.Freeze {
		if strings.HasPrefix(name, prefix) {
			return 0
		}
	}
	block, inBlock := visionBlock(name)
	switch {
	case inBlock:
		return c.EncoderRate * math.Pow(c.LayerDecay, float64(depth-1-block))
	case strings.HasPrefix(name, "vision.out"), name == "vision.camera", name == "vision.frame": // new, whatever the encoder is
		return 1
	case strings.HasPrefix(name, "vision.norm"):
		return c.EncoderRate
	case strings.HasPrefix(name, "vision."):
		return c.EncoderRate * math.Pow(c.LayerDecay, float64(depth))
	case strings.HasPrefix(name, "text."):
		return c.TextRate
	}
	return 1
}

// visionBlock is the number in names like vision.3.norm1.gain.
func visionBlock(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, "vision.")
	if !ok {
		return 0, false
	}
	number, _, _ := strings.Cut(rest, ".")
	i, err := strconv.Atoi(number)
	return i, err == nil
}
