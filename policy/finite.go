package policy

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/frames"
)

// checkFinite reports the first number that is NaN or infinite with its place.
func checkFinite(v []float64) error {
	for i, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("number %d is %v: %w", i, x, frames.ErrNotFinite)
		}
	}
	return nil
}
