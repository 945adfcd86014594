package edit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/sketch"
	"github.com/pinch-robotics/pinch/frames"
)

// ChunkStats are statistics of what a policy that predicts chunks sees of a feature: for each step ahead and each dimension, over all
// rows that have that step in their episode.
type ChunkStats struct {
	Feature string `json:"feature"`
	// Reference is "body" for poses: inverse(T[t]) T[t+k] as dx dy dz in metres and the first two rows of its rotation matrix;
	// "difference" for other vectors: v[t+k] - v[t].
	Reference string   `json:"reference"`
	Names     []string `json:"names"`
	// RankError bounds the error of the quantiles, as a share of the rows; 0: exact.
	RankError float64    `json:"rank_error"`
	Steps     []StepStat `json:"steps"`
}

// StepStat is one step ahead, the first is 1.
type StepStat struct {
	Step  int       `json:"step"`
	Count int64     `json:"count"`
	Min   []float64 `json:"min"`
	Max   []float64 `json:"max"`
	Mean  []float64 `json:"mean"`
	Std   []float64 `json:"std"`
	Q01   []float64 `json:"q01"`
	Q10   []float64 `json:"q10"`
	Q50   []float64 `json:"q50"`
	Q90   []float64 `json:"q90"`
	Q99   []float64 `json:"q99"`
}

var (
	poseNames     = []string{"x", "y", "z", "qx", "qy", "qz", "qw"}
	relativeNames = []string{"dx", "dy", "dz", "r00", "r01", "r02", "r10", "r11", "r12"}
)

// RelativeChunks computes the statistics of chunks of horizon steps of a numeric feature. No picture is read.
func RelativeChunks(ctx context.Context, d *dataset.Dataset, feature string, horizon int) (*ChunkStats, error) {
	f, err := d.Feature(feature)
	if err != nil {
		return nil, err
	}
	if !f.DType.Numeric() || len(f.Shape) != 1 || horizon < 1 {
		return nil, fmt.Errorf("feature %q: want a vector of numbers and a horizon of at least 1", feature)
	}
	out := &ChunkStats{Feature: feature, Reference: "difference", Names: f.Names}
	relative := minus
	if slices.Equal(f.Names, poseNames) {
		out.Reference, out.Names, relative = "body", relativeNames, bodyMotion
	}
	dim := max(len(out.Names), f.Dim())
	if out.Reference == "body" {
		dim = len(relativeNames)
	}
	steps := make([]*sketch.Column, horizon)
	for k := range steps {
		steps[k] = sketch.NewColumn(dim)
	}
	for e := range d.All() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		rows, err := dataset.ReadColumn[float64](d, feature, e.Index)
		if err != nil {
			return nil, err
		}
		for k := range steps {
			var all []float64
			for t := 0; t+k+1 < e.Length; t++ {
				a, b := rows[t*f.Dim():(t+1)*f.Dim()], rows[(t+k+1)*f.Dim():(t+k+2)*f.Dim()]
				if all, err = relative(all, a, b); err != nil {
					return nil, fmt.Errorf("feature %q of episode %d, row %d: %w", feature, e.Index, t, err)
				}
			}
			sketch.Add(steps[k], all)
		}
	}
	for k, c := range steps {
		if c.Rows() == 0 {
			continue // no episode is that long
		}
		out.RankError = max(out.RankError, c.RankError())
		out.Steps = append(out.Steps, stepStat(k+1, c))
	}
	if len(out.Steps) == 0 {
		return nil, errors.New("no episode has two rows")
	}
	return out, nil
}

// minus appends b - a.
func minus(dst, a, b []float64) ([]float64, error) {
	for i := range a {
		dst = append(dst, b[i]-a[i])
	}
	return dst, nil
}

// bodyMotion appends inverse(a) b as translation and two rows of the rotation matrix.
func bodyMotion(dst, a, b []float64) ([]float64, error) {
	p, err1 := frames.PoseFromXYZXYZW([7]float64(a))
	q, err2 := frames.PoseFromXYZXYZW([7]float64(b))
	if err := errors.Join(err1, err2); err != nil {
		return dst, err
	}
	m := p.Inv().Mul(q)
	rows := m.Rot.Rot6DRows()
	return append(append(dst, m.Pos.X, m.Pos.Y, m.Pos.Z), rows[:]...), nil
}

func stepStat(step int, c *sketch.Column) StepStat {
	s := StepStat{Step: step, Count: c.Rows()}
	for d := range c.Dim() {
		lo, hi, mean, std, q := c.Element(d, []float64{0.01, 0.10, 0.50, 0.90, 0.99})
		s.Min, s.Max, s.Mean, s.Std = append(s.Min, lo), append(s.Max, hi), append(s.Mean, mean), append(s.Std, std)
		s.Q01, s.Q10, s.Q50, s.Q90, s.Q99 = append(s.Q01, q[0]), append(s.Q10, q[1]), append(s.Q50, q[2]), append(s.Q90, q[3]), append(s.Q99, q[4])
	}
	return s
}
