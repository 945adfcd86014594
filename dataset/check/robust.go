package check

import (
	"math"
	"slices"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

// spread is the centre and width of a set of numbers by their median and median absolute deviation, which a third of wrong numbers
// hardly moves.
type spread struct {
	mid, dev float64
	n        int
}

// spreadOf returns median and 1.4826 times the median absolute deviation (the standard deviation of a normal distribution). It
// sorts a copy.
func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	s := slices.Clone(v)
	mid := median(s)
	for i, x := range s {
		s[i] = math.Abs(x - mid)
	}
	return spread{mid, 1.4826 * median(s), len(v)}
}

// sharp is the spread of the numbers that remain when those far above are left out once: a third of broken episodes widens the median
// absolute deviation by half, which for logarithms is a factor. At least 60 % must remain, or the numbers have two kinds.
func sharp(v []float64) spread {
	sp := spreadOf(v)
	limit := sp.mid + 4.5*sp.dev
	kept := slices.DeleteFunc(slices.Clone(v), func(x float64) bool { return x > limit })
	if float64(len(kept)) < majority*float64(len(v)) {
		return sp
	}
	return spreadOf(kept)
}

// runsOf is the spread of the longest runs of episodes. Runs have two kinds of episodes where a part of the set pauses by design, so
// the width also spans from the middle to the 65th percentile (0.385 deviations of a normal distribution): what a third of the
// episodes and more do is ordinary.
func runsOf(v []float64) spread {
	sp := spreadOf(v)
	sp.dev = math.Max(sp.dev, upper(v, sp.mid, 0.65, 0.3853))
	return sp
}

// jumpsOf is the spread of the largest steps of episodes: sharp, but where takes are of two kinds by design, a calm and a lively one, the
// width spans from the middle to the 60th percentile, less three standard errors of that distance (0.81 deviations over the root of the
// number): in a small set it says nothing.
func jumpsOf(v []float64) spread {
	sp := sharp(v)
	sp.dev = math.Max(sp.dev, upper(v, sp.mid+2.43*sp.dev/math.Sqrt(float64(len(v))), 0.60, 0.2533))
	return sp
}

// upper is the deviation of a normal distribution that has a percentile of v as far above mid; score is that percentile's.
func upper(v []float64, mid, share, score float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return (quantile.Linear(s, share) - mid) / score
}

// levelsOf is the spread of the means of episodes. Where a third or more of them lie elsewhere by design, the width spans from the middle
// to the 35th and 65th percentiles too.
func levelsOf(v []float64) spread {
	sp := runsOf(v)
	s := slices.Clone(v)
	slices.Sort(s)
	sp.dev = math.Max(sp.dev, (sp.mid-quantile.Linear(s, 0.35))/0.385)
	return sp
}

// median sorts v.
func median(v []float64) float64 {
	slices.Sort(v)
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// reach is how many deviations from the middle count as ordinary when tests numbers are looked at: the expected extreme of that many
// normal numbers, sqrt(2 ln tests), and three more, because what people and robots do has longer tails than the normal distribution.
func reach(tests int) float64 { return 3 + math.Sqrt(2*math.Log(float64(max(tests, 2)))) }

// above is the fence over which a number is out of the ordinary; floor is the least width that the kind of number can have, such as
// one row.
func (s spread) above(tests int, floor float64) float64 {
	return s.mid + reach(tests)*math.Max(s.dev, floor)
}

// below is the fence on the other side.
func (s spread) below(tests int, floor float64) float64 {
	return s.mid - reach(tests)*math.Max(s.dev, floor)
}

// enough is the least number of episodes from which a distribution over episodes is taken.
const enough = 8
