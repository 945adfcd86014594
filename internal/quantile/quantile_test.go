package quantile

import (
	"math"
	"testing"
)

// The numbers are numpy.quantile's of [1, 2, 4, 8], worked by hand: position q*3, then linear between neighbours.
func TestLinearIsNumpysDefault(t *testing.T) {
	four := []float64{1, 2, 4, 8}
	for q, want := range map[float64]float64{0: 1, 0.1: 1.3, 1.0 / 3: 2, 0.5: 3, 0.99: 7.88, 1: 8, -2: 1, 7: 8} {
		if got := Linear(four, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if got := Linear([]float64{5}, 0.3); got != 5 {
		t.Errorf("of one number: %v", got)
	}
	if !math.IsNaN(Linear(nil, 0.5)) || !math.IsNaN(Linear(four, math.NaN())) {
		t.Error("no numbers, or no q, must give NaN")
	}
}
