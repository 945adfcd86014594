package calibrate

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"time"
)

// Estimate is a measured value with its error, in the unit of its name.
type Estimate struct {
	Value float64
	Error float64 // half the difference between two halves of the measurement, and half the resolution
}

// ErrNoMatch is wrapped by errors of measurements whose two sides do not look alike.
var ErrNoMatch = errors.New("the measurement does not match the motion")

// minCorrelation is the likeness below which a lag means nothing.
const minCorrelation = 0.9

// series is something sampled at rising times.
type series struct {
	t []int64 // ns
	v []float64
}

func (s *series) add(t int64, v float64) {
	if n := len(s.t); n == 0 || t > s.t[n-1] {
		s.t, s.v = append(s.t, t), append(s.v, v)
	}
}

// at interpolates linearly; the ends stand.
func (s *series) at(t float64) float64 {
	n := len(s.t)
	i := sort.Search(n, func(i int) bool { return float64(s.t[i]) > t })
	switch i {
	case 0:
		return s.v[0]
	case n:
		return s.v[n-1]
	}
	f := (t - float64(s.t[i-1])) / float64(s.t[i]-s.t[i-1])
	return s.v[i-1] + f*(s.v[i]-s.v[i-1])
}

// part is the piece between two shares of its length.
func (s *series) part(from, to float64) *series {
	n := float64(len(s.t))
	a, b := int(from*n), int(to*n)
	return &series{s.t[a:b], s.v[a:b]}
}

// correlation is Pearson's, each side with its own mean; 0 where one does not vary.
func correlation(x, y []float64) float64 {
	mean := func(v []float64) (m float64) {
		for _, a := range v {
			m += a / float64(len(v))
		}
		return m
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	if xx == 0 || yy == 0 {
		return 0
	}
	return xy / math.Sqrt(xx*yy)
}

// resolution is the step of the search; the peak is then found between steps by a parabola.
const resolution = time.Millisecond

// bestLag is the lag from lo to hi at which likeness is greatest, in ms.
func bestLag(lo, hi time.Duration, likeness func(lagNS float64) float64) (lag, likest float64, err error) {
	n := int((hi-lo)/resolution) + 1
	c := make([]float64, n)
	best := 0
	for i := range c {
		c[i] = likeness(float64(lo) + float64(i)*float64(resolution))
		if c[i] > c[best] {
			best = i
		}
	}
	switch {
	case c[best] < minCorrelation:
		return 0, c[best], fmt.Errorf("likeness of %.2f at best, want %.2f: %w", c[best], minCorrelation, ErrNoMatch)
	case best == 0 && lo != 0 || best == n-1:
		return 0, c[best], fmt.Errorf("it is outside %v to %v: %w", lo, hi, ErrNoMatch)
	}
	at := float64(best)
	if best > 0 {
		if d := c[best-1] - 2*c[best] + c[best+1]; d < 0 {
			at += (c[best-1] - c[best+1]) / (2 * d)
		}
	}
	return (float64(lo) + at*float64(resolution)) / 1e6, c[best], nil
}

// halves estimates from the whole, and its error from both halves.
func halves(estimate func(from, to float64) (float64, error)) (Estimate, error) {
	var v [3]float64
	for i, p := range [][2]float64{{0, 1}, {0, 0.5}, {0.5, 1}} {
		var err error
		if v[i], err = estimate(p[0], p[1]); err != nil {
			return Estimate{}, err
		}
	}
	return Estimate{v[0], math.Abs(v[1]-v[2])/2 + float64(resolution)/2e6}, nil
}

// follows is how long y lags behind x (ms), up to most.
func follows(x, y *series, most time.Duration) (Estimate, error) {
	return halves(func(from, to float64) (float64, error) {
		y := y.part(from, to)
		if len(y.t) < 50 {
			return 0, fmt.Errorf("%d samples: %w", len(y.t), ErrNoMatch)
		}
		moved := make([]float64, len(y.t))
		lag, _, err := bestLag(0, most, func(lag float64) float64 {
			for i, t := range y.t {
				moved[i] = x.at(float64(t) - lag)
			}
			return correlation(moved, y.v)
		})
		return lag, err
	})
}
