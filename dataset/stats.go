package dataset

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

// Stats summarise a feature: one number per element of a vector, or per channel (0..1) of a picture.
// Std is the population value; quantiles interpolate linearly between order statistics.
type Stats struct {
	Min, Max, Mean, Std     []float64
	Q01, Q10, Q50, Q90, Q99 []float64
	// Count is the number of rows (of sampled frames for pictures). Quantiles are nil where a file has none.
	Count int64
}

// statNames is the order in which LeRobot stores the parts of Stats.
var statNames = []string{"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}

// quantileLevels belong to q01..q99.
var quantileLevels = [5]float64{0.01, 0.10, 0.50, 0.90, 0.99}

// part returns the vector called name, nil for "count".
func (s *Stats) part(name string) *[]float64 {
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

func (s *Stats) quantiles() [5]*[]float64 {
	return [5]*[]float64{&s.Q01, &s.Q10, &s.Q50, &s.Q90, &s.Q99}
}

// columnStats computes the statistics of dim interleaved elements. It sorts a copy of the values.
func columnStats(values []float64, dim int) Stats {
	n := len(values) / dim
	s := Stats{Count: int64(n)}
	one := make([]float64, n)
	for d := range dim {
		for r := range n {
			one[r] = values[r*dim+d]
		}
		s.Mean = append(s.Mean, 0)
		s.Std = append(s.Std, 0)
		s.Mean[d], s.Std[d] = meanStd(one)
		slices.Sort(one)
		s.Min = append(s.Min, one[0])
		s.Max = append(s.Max, one[n-1])
		for i, q := range s.quantiles() {
			*q = append(*q, quantile.Linear(one, quantileLevels[i]))
		}
	}
	return s
}

// meanStd computes mean and population standard deviation in two passes, so that a constant column has deviation 0.
func meanStd(v []float64) (mean, std float64) {
	lo, hi := slices.Min(v), slices.Max(v)
	if lo == hi {
		return lo, 0
	}
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	sum := 0.0
	for _, x := range v {
		sum += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(sum / float64(len(v)))
}

// complete reports whether every part has dim elements.
func (s *Stats) complete(dim int) bool {
	if s.Count < 1 {
		return false
	}
	for _, name := range statNames {
		if p := s.part(name); p != nil && len(*p) != dim {
			return false
		}
	}
	return true
}

func (s Stats) clone() Stats {
	out := Stats{Count: s.Count}
	for _, name := range statNames {
		if p := s.part(name); p != nil {
			*out.part(name) = slices.Clone(*p)
		}
	}
	return out
}

// merge adds the statistics of more rows: exact for min, max, mean, std and count. Quantiles become the envelope (lowest
// up to the median, highest above it), as LeRobot merges them; Writer.Close replaces them by the quantiles of all rows.
func merge(a, b Stats) Stats {
	if a.Count == 0 {
		return b
	}
	out := a.clone()
	out.merge(b)
	return out
}

// merge is merge in place.
func (s *Stats) merge(b Stats) {
	n, m := float64(s.Count), float64(b.Count)
	s.Count += b.Count
	for d := range s.Mean {
		delta := b.Mean[d] - s.Mean[d]
		s.Std[d] = math.Sqrt((n*s.Std[d]*s.Std[d] + m*b.Std[d]*b.Std[d] + delta*delta*n*m/(n+m)) / (n + m))
		s.Min[d], s.Max[d] = math.Min(s.Min[d], b.Min[d]), math.Max(s.Max[d], b.Max[d])
		s.Mean[d] += delta * m / (n + m)
	}
	qs, qb := s.quantiles(), b.quantiles()
	for i := range qs {
		if len(*qs[i]) != len(s.Mean) || len(*qb[i]) != len(s.Mean) {
			*qs[i] = nil
			continue
		}
		for d := range s.Mean {
			if i > 2 {
				(*qs[i])[d] = math.Max((*qs[i])[d], (*qb[i])[d])
			} else {
				(*qs[i])[d] = math.Min((*qs[i])[d], (*qb[i])[d])
			}
		}
	}
}

// statShape is the nesting in which LeRobot stores the vectors of a feature's statistics: {n} for numbers, {n,1,1} for
// pictures and for every feature whose name says "image", since its aggregation takes those for pictures.
func statShape(f Feature, n int) []int {
	if f.DType.Visual() || strings.Contains(f.Name, "image") {
		return []int{n, 1, 1}
	}
	return []int{n}
}

// likePicture reports whether LeRobot's aggregation takes a single number for a picture because of its name. Up to 0.4 it wants
// statistics of exactly three channels there, later of one or three: so the number is stored three times.
func (f Feature) likePicture() bool {
	return f.DType.Numeric() && f.Dim() == 1 && strings.Contains(f.Name, "image")
}

// withoutEpisodeStats reports whether meta/episodes has no statistics of a feature: those of a number whose name says "image" come back
// from Parquet in a shape that LeRobot 0.4's split and delete refuse, whatever is stored; without them they work.
func (f Feature) withoutEpisodeStats() bool {
	return f.DType.Numeric() && strings.Contains(f.Name, "image")
}

// stored is the form of statistics on disk.
func (f Feature) stored(s Stats) Stats {
	if !f.likePicture() || !s.complete(1) {
		return s
	}
	return s.pick([]int{0, 0, 0})
}

// loaded undoes stored.
func (f Feature) loaded(s Stats) Stats {
	if !f.likePicture() || !s.complete(3) {
		return s
	}
	return s.pick([]int{0})
}

// loadStats undoes stored for all features.
func loadStats(features []Feature, stats map[string]Stats) {
	for _, f := range features {
		if s, ok := stats[f.Name]; ok && f.likePicture() {
			stats[f.Name] = f.loaded(s)
		}
	}
}

// statsJSON is the form of meta/stats.json and of the v2.1 episodes_stats lines.
type statsJSON map[string]json.RawMessage

func encodeStats(features []Feature, stats map[string]Stats) ([]byte, error) {
	out := map[string]map[string]any{}
	for _, f := range features {
		s, ok := stats[f.Name]
		if !ok {
			continue
		}
		s = f.stored(s)
		parts := map[string]any{}
		for _, name := range statNames {
			if name == "count" {
				parts[name] = []int64{s.Count}
			} else if v := *s.part(name); v != nil {
				parts[name] = nest(v, statShape(f, len(v)))
			}
		}
		out[f.Name] = parts
	}
	return marshalIndent(out)
}

// nest arranges v as shape {n} or {n,1,1}.
func nest(v []float64, shape []int) any {
	if len(shape) == 1 {
		return v
	}
	out := make([][][]float64, len(v))
	for i, x := range v {
		out[i] = [][]float64{{x}}
	}
	return out
}

func decodeStats(b []byte) (map[string]Stats, error) {
	var raw map[string]statsJSON
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, err
	}
	out := map[string]Stats{}
	for feature, parts := range raw {
		var s Stats
		for name, text := range parts {
			v, err := flatNumbers(text)
			if err != nil {
				return nil, fmt.Errorf("statistic %s of %q: %w", name, feature, err)
			}
			if name == "count" && len(v) > 0 {
				s.Count = int64(v[0])
			} else if p := s.part(name); p != nil {
				*p = v
			}
		}
		out[feature] = s
	}
	return out, nil
}

// flatNumbers reads a number or a nested list of numbers. Python's NaN and Infinity are no JSON and stop the decoder.
func flatNumbers(raw json.RawMessage) ([]float64, error) {
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, err
	}
	var out []float64
	var walk func(any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case float64:
			out = append(out, v)
		case bool:
			out = append(out, 0)
			if v {
				out[len(out)-1] = 1
			}
		case []any:
			for _, e := range v {
				if err := walk(e); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("found %T among the numbers", v)
		}
		return nil
	}
	return out, walk(v)
}

func readStats(root string) (map[string]Stats, error) {
	path := filepath.Join(root, statsPath)
	b, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := decodeStats(b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}
