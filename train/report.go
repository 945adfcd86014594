package train

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/policy"
)

// Report holds the open-loop error on rows that were not trained on: a chunk is sampled at each row and compared with what the
// demonstrator did, step by step. Baselines see the same rows: hold (stay as at the observation) and mean (the average
// training chunk).
type Report struct {
	HeldOut  bool           `json:"held_out"` // false: nothing was held out, so the rows are training rows
	Rows     int            `json:"rows"`
	RateHz   float64        `json:"rate_hz"`
	Channels []ChannelError `json:"channels"`
}

// ChannelError is the root mean square error of one part of an action.
type ChannelError struct {
	Name   string    `json:"name"`   // left position, left rotation, gripper, action
	Unit   string    `json:"unit"`   // mm, deg, rad, or the dataset's own
	Policy []float64 `json:"policy"` // per step of the chunk
	Hold   []float64 `json:"hold"`   // nil where holding is not defined
	Mean   []float64 `json:"mean"`
}

// Total is the root mean square over the steps; NaN when there are none.
func Total(steps []float64) float64 {
	sum := 0.0
	for _, v := range steps {
		sum += v * v
	}
	return math.Sqrt(sum / float64(len(steps)))
}

// String is a table with one line per channel: the error over all steps and at the first and last.
func (r *Report) String() string {
	var b strings.Builder
	where := "held-out"
	if !r.HeldOut {
		where = "training (nothing was held out)"
	}
	fmt.Fprintf(&b, "open-loop error on %d %s rows, root mean square over the chunk (first step, last step)\n", r.Rows, where)
	fmt.Fprintf(&b, "%-20s %-5s %28s %12s %12s\n", "", "", "policy", "hold", "mean")
	for _, c := range r.Channels {
		hold := "-"
		if c.Hold != nil {
			hold = fmt.Sprintf("%.4g", Total(c.Hold))
		}
		fmt.Fprintf(&b, "%-20s %-5s %10.4g (%7.3g, %7.3g) %12s %12.4g\n", c.Name, c.Unit, Total(c.Policy), c.Policy[0], c.Policy[len(c.Policy)-1], hold, Total(c.Mean))
	}
	return b.String()
}

// channel measures one part of an action row: square errors of numbers from col on, n of them, times scale; or the square
// angle between rotations.
type channel struct {
	name, unit string
	col, n     int
	scale      float64
	angle      bool
}

// channelsOf splits an action row for people: millimetres, degrees, and the rest as stored.
func channelsOf(s policy.Spec) []channel {
	var out []channel
	col := 0
	for _, o := range s.Action {
		if o.Pose() {
			out = append(out, channel{o.Name + " position", "mm", col, 3, 1000, false}, channel{o.Name + " rotation", "deg", col + 3, 6, 180 / math.Pi, true})
		} else {
			unit := string(o.Unit)
			if unit == "" {
				unit = "-"
			}
			out = append(out, channel{o.Name, unit, col, o.Dim(), 1, false})
		}
		col += o.Dim()
	}
	return out
}

// square is the mean square (numbers) or square angle (rotations) between two action rows; positions count as a distance.
// Six numbers that are no rotation count as half a turn, the greatest error a rotation can have.
func (c channel) square(a, b []float64) float64 {
	a, b = a[c.col:c.col+c.n], b[c.col:c.col+c.n]
	if c.angle {
		qa, errA := frames.Rot6DRows(a).Quat()
		qb, errB := frames.Rot6DRows(b).Quat()
		angle := math.Pi
		if errA == nil && errB == nil {
			angle = qa.AngleTo(qb)
		}
		return angle * c.scale * angle * c.scale
	}
	sum := 0.0
	for i := range a {
		d := (a[i] - b[i]) * c.scale
		sum += d * d
	}
	if c.unit != "mm" {
		sum /= float64(c.n)
	}
	return sum
}

// reportBatch is how many examples are read at a time.
const reportBatch = 16

// report samples the averaged weights on held-out examples.
func (t *trainer) report(ctx context.Context) (*Report, error) {
	rows, held := t.shown(t.cfg.ReportRows)
	m := policy.NewManifest(t.spec, t.arch, t.stats)
	p, err := policy.New(m, t.ema, policy.Options{Seed: t.cfg.Seed, Threads: t.cfg.Threads, Engine: t.cfg.engine(), Words: t.words})
	if err != nil {
		return nil, fmt.Errorf("open-loop report: %w", err)
	}
	mean, err := t.meanChunk(ctx)
	if err != nil {
		return nil, err
	}
	sums := newErrorSums(t.spec)
	for at := 0; at < rows; at += reportBatch {
		examples, err := t.show(ctx, rows, at, min(at+reportBatch, rows))
		if err != nil {
			return nil, err
		}
		for _, x := range examples {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := t.measure(sums, p, x, mean); err != nil {
				return nil, fmt.Errorf("open-loop report: %v: %w", x.origin, err)
			}
		}
	}
	r := sums.report()
	r.HeldOut, r.Rows, r.RateHz = held, rows, t.spec.RateHz()
	return r, nil
}

// measure adds the errors of one example, everything in chunk form.
func (t *trainer) measure(sums *errorSums, p *policy.Policy, x example, mean []float64) error {
	want, valid := make([]float64, t.spec.Horizon*t.spec.ActionDim()), make([]bool, t.spec.Horizon)
	if err := t.spec.EncodeTargetRows(want, valid, x.rows); err != nil {
		return err
	}
	obs, err := x.observation(t.spec)
	if err != nil {
		return err
	}
	got, err := p.InferChunk(obs)
	if err != nil {
		return err
	}
	hold, ok := t.spec.HoldChunk(obs.Values)
	if !ok {
		hold = nil
	}
	t.fillInvalid(want, valid)
	if want, err = t.spec.ChunkForm(want, obs.Values); err != nil {
		return err
	}
	guess, err := t.spec.ChunkForm(slices.Clone(mean), obs.Values)
	if err != nil {
		return err
	}
	sums.add(want, valid, got, hold, guess)
	return nil
}

// fillInvalid repeats the last valid step, so that steps outside the episode, which nobody looks at, are poses too.
func (t *maker) fillInvalid(chunk []float64, valid []bool) {
	dim := t.spec.ActionDim()
	for k := 1; k < len(valid); k++ {
		if !valid[k] {
			copy(chunk[k*dim:(k+1)*dim], chunk[(k-1)*dim:k*dim])
		}
	}
}

// meanChunk averages the training chunks, step by step over the valid ones.
func (t *trainer) meanChunk(ctx context.Context) ([]float64, error) {
	dim := t.spec.ActionDim()
	sum, n := make([]float64, t.spec.Horizon*dim), make([]float64, t.spec.Horizon)
	chunk, valid := make([]float64, len(sum)), make([]bool, t.spec.Horizon)
	err := t.numbers(ctx, 5000, func(x example) error {
		if err := t.spec.EncodeTargetRows(chunk, valid, x.rows); err != nil {
			return fmt.Errorf("mean chunk: %v: %w", x.origin, err)
		}
		for k, ok := range valid {
			if ok {
				n[k]++
				for i := range dim {
					sum[k*dim+i] += chunk[k*dim+i]
				}
			}
		}
		return nil
	})
	for i := range sum {
		sum[i] /= math.Max(n[i/dim], 1)
	}
	for k := 1; k < t.spec.Horizon; k++ { // a step beyond the end of every episode
		if n[k] == 0 {
			copy(sum[k*dim:(k+1)*dim], sum[(k-1)*dim:k*dim])
		}
	}
	return sum, err
}

// errorSums gathers square errors per channel and step.
type errorSums struct {
	spec     policy.Spec
	channels []channel
	count    []float64      // per step
	sum      [3][][]float64 // policy, hold, mean: per channel and step
	noHold   bool
}

func newErrorSums(s policy.Spec) *errorSums {
	e := &errorSums{spec: s, channels: channelsOf(s), count: make([]float64, s.Horizon)}
	for j := range e.sum {
		for range e.channels {
			e.sum[j] = append(e.sum[j], make([]float64, s.Horizon))
		}
	}
	return e
}

func (e *errorSums) add(want []float64, valid []bool, guesses ...[]float64) {
	dim := e.spec.ActionDim()
	for k, ok := range valid {
		if !ok {
			continue
		}
		e.count[k]++
		for j, g := range guesses {
			if g == nil {
				e.noHold = true
				continue
			}
			for c, ch := range e.channels {
				e.sum[j][c][k] += ch.square(g[k*dim:(k+1)*dim], want[k*dim:(k+1)*dim])
			}
		}
	}
}

func (e *errorSums) report() *Report {
	r := &Report{}
	root := func(sum []float64) (out []float64) {
		for k, s := range sum {
			if e.count[k] > 0 { // later steps may lie outside every episode
				out = append(out, math.Sqrt(s/e.count[k]))
			}
		}
		return out
	}
	for c, ch := range e.channels {
		ce := ChannelError{Name: ch.name, Unit: ch.unit, Policy: root(e.sum[0][c]), Hold: root(e.sum[1][c]), Mean: root(e.sum[2][c])}
		if e.noHold {
			ce.Hold = nil
		}
		r.Channels = append(r.Channels, ce)
	}
	return r
}
