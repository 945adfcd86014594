package deploy

import (
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// path is the motion the executor follows: hands on a fixed grid of policy time.
type path struct {
	start  float64 // policy time of the first sample, s
	step   float64 // s
	sample []hands

	origin  float64 // policy time of the observation the newest chunk answers
	rows    int     // of that chunk
	rowStep float64 // s
}

// standing is the path of hands that do not move: one sample.
func standing(at hands, t, step float64) *path {
	return &path{start: t, step: step, sample: []hands{at}, origin: t}
}

func (p *path) end() float64 { return p.start + float64(len(p.sample)-1)*p.step }

// at gives the hands at policy time t; they stand at both ends.
func (p *path) at(t float64) hands {
	x := (t - p.start) / p.step
	last := len(p.sample) - 1
	if x <= 0 {
		return p.sample[0]
	}
	if x >= float64(last) {
		return p.sample[last]
	}
	i := int(x)
	f := x - float64(i)
	if f < 1e-9 {
		return p.sample[i]
	}
	return mix(p.sample[i], p.sample[i+1], f)
}

func mix(a, b hands, f float64) (o hands) {
	for h := range o.pose {
		o.pose[h] = frames.Interpolate(a.pose[h], b.pose[h], f)
		o.finger[h] = a.finger[h] + f*(b.finger[h]-a.finger[h])
	}
	return o
}

// coast gives the hands at policy time t on a path that does not stop dead at its end: beyond it the last motion fades out within fade
// seconds. Only the seam uses it, when a new chunk takes over near the end of the old one.
func (p *path) coast(t, fade float64) hands {
	over := t - p.end()
	n := len(p.sample)
	if over <= 0 || n < 2 {
		return p.at(t)
	}
	// Speed falls linearly to zero: the way gone after time u is u - u²/(2 fade) of the last speed.
	u := math.Min(over, fade)
	steps := (u - u*u/(2*fade)) / p.step
	o := p.sample[n-1]
	for h := range o.pose {
		last := p.sample[n-2].pose[h].Inv().Mul(p.sample[n-1].pose[h])
		o.pose[h] = o.pose[h].Mul(last.Log().Scale(steps).Exp())
	}
	return o
}

// moved is what is left of the path from policy time t on, displaced so that it starts from other poses.
func (p *path) moved(t float64, to [2]frames.Pose) *path {
	n := int(math.Ceil(math.Max(0, p.end()-t)/p.step-1e-9)) + 1
	out := &path{start: t, step: p.step, sample: make([]hands, n), origin: p.origin, rows: p.rows, rowStep: p.rowStep}
	from := p.at(t)
	for k := range out.sample {
		at := p.at(t + float64(k)*p.step)
		for h := range at.pose {
			at.pose[h] = displaced(at.pose[h], from.pose[h], to[h])
		}
		out.sample[k] = at
	}
	return out
}

// displaced moves a pose as another was moved: its position by the way from one to the other, its rotation by the turn between them.
func displaced(p, from, to frames.Pose) frames.Pose {
	return frames.Pose{Pos: r3.Add(p.Pos, r3.Sub(to.Pos, from.Pos)), Rot: to.Rot.Mul(from.Rot.Inv()).Mul(p.Rot)}
}

// coasting is the path on the grid of step that carries the motion from before (at policy time t0) to last (at t) on, fading to rest within
// fade seconds.
func coasting(before hands, t0 float64, last hands, t, step, fade float64) *path {
	p := &path{start: t0, step: t - t0, sample: []hands{before, last}}
	if p.step <= 0 {
		return standing(last, t, step)
	}
	out := &path{start: t, step: step, origin: t}
	for i := 0; float64(i)*step < fade+step; i++ {
		out.sample = append(out.sample, p.coast(t+float64(i)*step, fade))
	}
	return out
}

// smooth rises from 0 at s = 0 to 1 at s = 1 with no velocity and no acceleration at both ends: 10s³-15s⁴+6s⁵.
func smooth(s float64) float64 { return s * s * s * (10 + s*(-15+6*s)) }

// blend lays the curve over the path from policy time at on: what was commanded passes into what is wanted within blend seconds, weighted by
// smooth, so that position, velocity and acceleration are continuous at both ends of the seam.
func (p *path) blend(c *curve, at, blend float64, rows int, origin, rowStep float64) *path {
	n := int(math.Floor((c.end()-at)/p.step+1e-9)) + 1
	out := &path{start: at, step: p.step, sample: make([]hands, n), origin: origin, rows: rows, rowStep: rowStep}
	for i := range out.sample {
		t := at + float64(i)*p.step
		s := float64(i) * p.step / blend
		if s >= 1 {
			out.sample[i] = c.at(t)
			continue
		}
		out.sample[i] = mix(p.coast(t, blend), c.at(t), smooth(s))
	}
	return out
}
