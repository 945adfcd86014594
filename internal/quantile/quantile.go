// Package quantile is the one rule by which the project reads quantiles off a sample.
package quantile

import "math"

// Linear interpolates linearly between the order statistics of sorted numbers at q in 0 to 1, numpy's default rule (type 7 of
// Hyndman and Fan 1996). A q beyond that gives the nearer end; of no numbers, and for a q that is NaN, it is NaN.
func Linear(sorted []float64, q float64) float64 {
	if len(sorted) == 0 || math.IsNaN(q) {
		return math.NaN()
	}
	at := min(max(q, 0), 1) * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
