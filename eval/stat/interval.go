package stat

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

// Interval is an estimate with its interval at a confidence level.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
	Level    float64 `json:"level"`  // 0.95
	Method   string  `json:"method"` // one of the Method constants
}

// String prints estimate and bounds with two decimals.
func (i Interval) String() string { return fmt.Sprintf("%.2f [%.2f, %.2f]", i.Estimate, i.Low, i.High) }

// Methods an Interval can come from.
const (
	MethodBCa       = "BCa bootstrap"
	MethodDirichlet = "Dirichlet posterior"
	MethodBeta      = "Jeffreys posterior"
)

// Options of the intervals. The zero value takes the defaults.
type Options struct {
	Level     float64 // confidence, default 0.95
	Resamples int     // bootstrap resamples and posterior draws, default 20000: the bounds then repeat to about 0.003 of the spread
	Seed      uint64
}

func (o Options) withDefaults() Options {
	if o.Level == 0 {
		o.Level = 0.95
	}
	if o.Resamples == 0 {
		o.Resamples = 20000
	}
	return o
}

func (o Options) check(n int) error {
	if n == 0 {
		return fmt.Errorf("interval of a mean: no trial")
	}
	if !(o.Level > 0 && o.Level < 1) || o.Resamples < 100 {
		return fmt.Errorf("interval of a mean: level %v and %d resamples, want a level between 0 and 1 and at least 100", o.Level, o.Resamples)
	}
	return nil
}

// Mean is the mean of scores with its interval. levels lists the values that one score can take (ascending); it serves the
// fallback when all scores are equal. A score that is none of the levels is an error, as is a number that is not finite.
func Mean(scores, levels []float64, o Options) (Interval, error) {
	o = o.withDefaults()
	if err := o.check(len(scores)); err != nil {
		return Interval{}, err
	}
	counts, err := countLevels(scores, levels)
	if err != nil {
		return Interval{}, err
	}
	if len(scores) < 2 || allEqual(scores) {
		return dirichletMean(counts, levels, mean(scores), o), nil
	}
	return bca(scores, o), nil
}

// Paired is the mean of a[i] - b[i] with its interval, resampled by pair: i is an initial condition that both policies had.
// levels lists the values that one score can take.
func Paired(a, b, levels []float64, o Options) (Interval, error) {
	if len(a) != len(b) {
		return Interval{}, fmt.Errorf("paired interval: %d against %d scores", len(a), len(b))
	}
	for _, s := range [][]float64{a, b} {
		if _, err := countLevels(s, levels); err != nil {
			return Interval{}, err
		}
	}
	return Mean(Differences(a, b), differenceLevels(levels), o)
}

// Differences is a - b, element by element, rounded so that equal differences of level values are equal numbers.
func Differences(a, b []float64) []float64 {
	d := make([]float64, len(a))
	for i := range a {
		d[i] = snap(a[i] - b[i])
	}
	return d
}

// snap removes the last bits, in which 0.3-0.1 differs from 0.2.
func snap(x float64) float64 { return math.Round(x*1e9) / 1e9 }

func differenceLevels(levels []float64) []float64 {
	var out []float64
	for _, a := range levels {
		for _, b := range levels {
			out = append(out, snap(a-b))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// countLevels counts how many scores sit on each level.
func countLevels(scores, levels []float64) ([]int, error) {
	counts := make([]int, len(levels))
	for i, s := range scores {
		at := slices.IndexFunc(levels, func(l float64) bool { return math.Abs(l-s) < 1e-9 })
		if at < 0 {
			return nil, fmt.Errorf("score %d is %v, which is none of the levels %v", i, s, levels)
		}
		counts[at]++
	}
	return counts, nil
}

// bca is the bias-corrected and accelerated bootstrap interval of the mean (Efron 1987, Better bootstrap confidence
// intervals, section 3 and the jackknife acceleration of section 6).
func bca(x []float64, o Options) Interval {
	rng := rand.New(rand.NewPCG(o.Seed, 0xb0075))
	theta := mean(x)
	boots := make([]float64, o.Resamples)
	below := 0.0
	for i := range boots {
		sum := 0.0
		for range x {
			sum += x[rng.IntN(len(x))]
		}
		boots[i] = sum / float64(len(x))
		// Scores sit on a few levels, so many resamples tie with the estimate; half of them count as below.
		switch d := boots[i] - theta; {
		case d < -1e-12:
			below++
		case d <= 1e-12:
			below += 0.5
		}
	}
	slices.Sort(boots)
	normal := distuv.UnitNormal
	z0 := normal.Quantile(shareBelow(below, len(boots)))
	accel := jackknifeAcceleration(x)
	bound := func(p float64) float64 {
		z := z0 + normal.Quantile(p)
		return quantile.Linear(boots, normal.CDF(z0+z/(1-accel*z)))
	}
	tail := (1 - o.Level) / 2
	return Interval{theta, bound(tail), bound(1 - tail), o.Level, MethodBCa}
}

// shareBelow is the share of n resamples below the estimate, kept half a resample away from 0 and 1, whose normal quantile is infinite.
func shareBelow(below float64, n int) float64 {
	return min(max(below, 0.5), float64(n)-0.5) / float64(n)
}

// jackknifeAcceleration is Σd³ / 6(Σd²)^1.5 with d the mean of the leave-one-out means minus each of them.
func jackknifeAcceleration(x []float64) float64 {
	m := mean(x)
	squares, cubes := 0.0, 0.0
	for _, v := range x {
		d := (v - m) / float64(len(x)-1)
		squares += d * d
		cubes += d * d * d
	}
	return cubes / (6 * math.Pow(squares, 1.5))
}

// dirichletMean draws the probabilities of the levels from their posterior under a prior of total weight 1, spread evenly, and
// takes quantiles of the mean level.
func dirichletMean(counts []int, levels []float64, estimate float64, o Options) Interval {
	rng := rand.New(rand.NewPCG(o.Seed, 0xd171c))
	prior := 1 / float64(len(levels))
	gammas := make([]distuv.Gamma, len(levels))
	for k := range gammas {
		gammas[k] = distuv.Gamma{Alpha: float64(counts[k]) + prior, Beta: 1, Src: rng}
	}
	draws := make([]float64, o.Resamples)
	for i := range draws {
		weighted, sum := 0.0, 0.0
		for k, g := range gammas {
			v := g.Rand()
			weighted += v * levels[k]
			sum += v
		}
		draws[i] = weighted / sum
	}
	slices.Sort(draws)
	tail := (1 - o.Level) / 2
	// The posterior mean is pulled towards the middle of the levels; the interval always holds the plain mean too.
	low, high := quantile.Linear(draws, tail), quantile.Linear(draws, 1-tail)
	return Interval{estimate, min(low, estimate), max(high, estimate), o.Level, MethodDirichlet}
}

// Rate is passes of attempts with the equal-tailed interval of the Jeffreys posterior Beta(passes+1/2, attempts-passes+1/2);
// as usual the bound is 0 or 1 itself when none or all passed (Brown, Cai, DasGupta 2001).
func Rate(passes, attempts int, level float64) (Interval, error) {
	if attempts < 1 || passes < 0 || passes > attempts {
		return Interval{}, fmt.Errorf("interval of a rate: %d passes of %d attempts", passes, attempts)
	}
	if !(level > 0 && level < 1) {
		return Interval{}, fmt.Errorf("interval of a rate: level %v, want between 0 and 1", level)
	}
	a, b := float64(passes)+0.5, float64(attempts-passes)+0.5
	tail := (1 - level) / 2
	i := Interval{float64(passes) / float64(attempts), mathext.InvRegIncBeta(a, b, tail), mathext.InvRegIncBeta(a, b, 1-tail), level, MethodBeta}
	if passes == 0 {
		i.Low = 0
	}
	if passes == attempts {
		i.High = 1
	}
	return i, nil
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func allEqual(x []float64) bool {
	for _, v := range x {
		if v != x[0] {
			return false
		}
	}
	return true
}
