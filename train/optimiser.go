package train

import (
	"math"

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

// emaAt is the decay of update n (0 first): short at the beginning, so that the first weights are soon forgotten.
func (c Config) emaAt(n int) float64 {
	return math.Min(float64(1+n)/float64(10+n), c.EMAMax)
}

// optimiser is AdamW with global-norm clipping and a running average of the weights. Everything here is saved in a
// checkpoint, so a resumed run continues bit for bit.
type optimiser struct {
	cfg    Config
	params *policy.Params // updated in place
	ema    *policy.Params
	m, v   *policy.Params // the two moments
	steps  int            // updates done; also the counter of the average
}

func newOptimiser(c Config, params *policy.Params) *optimiser {
	o := &optimiser{cfg: c, params: params, ema: params.Clone(), m: params.Clone(), v: params.Clone()}
	clear(o.m.Slab)
	clear(o.v.Slab)
	return o
}

// update makes one step from the gradients (one slice per parameter) and returns their global norm before clipping. With a
// norm that is not finite it changes nothing.
func (o *optimiser) update(grads [][]float32) (norm float64) {
	for _, g := range grads {
		norm += kernel.SumSquares(g)
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
		a.Decay = 0
		if info.Decay() {
			a.Decay = o.cfg.Decay
		}
		kernel.AdamW(o.params.View(info.Name), grads[i], o.m.View(info.Name), o.v.View(info.Name), a)
	}
	kernel.EMA(o.ema.Slab, o.params.Slab, o.cfg.emaAt(o.steps))
	o.steps++
	return norm
}
