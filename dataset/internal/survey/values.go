package survey

import "github.com/pinch-robotics/pinch/dataset"

// StatNames is the order in which LeRobot stores the parts of statistics.
var StatNames = []string{"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}

// Part returns the vector called name, nil for "count" and unknown names.
func Part(s *dataset.Stats, name string) *[]float64 {
	switch name {
	case "min":
		return &s.Min
	case "max":
		return &s.Max
	case "mean":
		return &s.Mean
	case "std":
		return &s.Std
	case "q01":
		return &s.Q01
	case "q10":
		return &s.Q10
	case "q50":
		return &s.Q50
	case "q90":
		return &s.Q90
	case "q99":
		return &s.Q99
	}
	return nil
}

// Floats converts the values of a column to float64 (true is 1); false for texts. A []float64 is returned as it is.
func Floats(values any) ([]float64, bool) {
	switch v := values.(type) {
	case []float64:
		return v, true
	case []float32:
		return convert(v), true
	case []int32:
		return convert(v), true
	case []int64:
		return convert(v), true
	case []bool:
		out := make([]float64, len(v))
		for i, x := range v {
			if x {
				out[i] = 1
			}
		}
		return out, true
	}
	return nil, false
}

func convert[T float32 | int32 | int64](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}
