package check

import (
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

func distance(v []float64, dim, lo, hi, a, b int) float64 {
	sum := 0.0
	for d := lo; d < hi; d++ {
		x := v[b*dim+d] - v[a*dim+d]
		sum += x * x
	}
	return math.Sqrt(sum)
}

// turn is the angle between the rotations of rows a and b, in rad.
func turn(v []float64, dim, a, b int) float64 {
	p, q := v[a*dim+3:a*dim+7], v[b*dim+3:b*dim+7]
	// 2 asin of the half chord: exact for small angles, where acos is not
	minus, plus := 0.0, 0.0
	for i := range p {
		minus += (q[i] - p[i]) * (q[i] - p[i])
		plus += (q[i] + p[i]) * (q[i] + p[i])
	}
	return 4 * math.Asin(math.Min(1, math.Sqrt(math.Min(minus, plus))/2))
}

func positionSteps(v []float64, dim int, steps []float64) {
	for k := 1; k < len(steps); k++ {
		steps[k] = distance(v, dim, 0, 3, k-1, k)
	}
}

func rotationSteps(v []float64, dim int, steps []float64) {
	for k := 1; k < len(steps); k++ {
		steps[k] = turn(v, dim, k-1, k)
	}
}

// norms of elements lo..hi of each row.
func norms(v []float64, dim, lo, hi, n int) []float64 {
	out := make([]float64, n)
	for k := range n {
		sum := 0.0
		for d := lo; d < hi; d++ {
			sum += v[k*dim+d] * v[k*dim+d]
		}
		out[k] = math.Sqrt(sum)
	}
	return out
}

// angles of the rotations of motions, in rad.
func angles(v []float64, dim, n int) []float64 {
	out := make([]float64, n)
	for k := range n {
		q := v[k*dim+3 : k*dim+7]
		out[k] = 2 * math.Atan2(math.Sqrt(q[0]*q[0]+q[1]*q[1]+q[2]*q[2]), math.Abs(q[3]))
	}
	return out
}

// measure describes a channel by its steps (steps[k] leads to row k; steps[0] is no step) and the distance between any two rows, nil
// when there is none.
//
// A sudden displacement that stays (a step) and one that goes back at once (a spike) both count: the excess of a step over its larger
// neighbour, and of a spike over the direct way past it.
func measure(name string, steps []float64, between func(a, b int) float64) channel {
	c := channel{name: name, at: -1}
	n := len(steps)
	rough := 0.0
	for k := 1; k < n; k++ {
		c.path += steps[k]
		around := 0.0
		if k > 1 {
			around = steps[k-1]
		}
		next := 0.0
		if k+1 < n {
			next = steps[k+1]
		}
		jump := steps[k] - math.Max(around, next)
		direct := 0.0
		if between != nil && k+1 < n {
			direct = between(k-1, k+1)
			rough += steps[k] + next - direct
		}
		if next > 0 && math.Min(steps[k], next) > c.jump {
			outer := around
			if k+2 < n {
				outer = math.Max(outer, steps[k+2])
			}
			if spike := math.Min(steps[k], next) - direct - outer; spike > jump {
				jump = spike
			}
		}
		if jump > c.jump {
			c.jump, c.at = jump, k
		}
	}
	c.step = medianStep(steps[1:])
	if c.path > 0 {
		c.rough = rough / c.path
	}
	return c
}

// pulses describes a channel that is itself a step in each row, such as the length of a relative motion.
func pulses(name string, steps []float64) channel {
	return measure(name, steps, nil)
}

// medianStep is the median of the steps that are not zero; 0 when nothing moves.
func medianStep(steps []float64) float64 {
	moved := make([]float64, 0, len(steps))
	for _, s := range steps {
		if s > 0 {
			moved = append(moved, s)
		}
	}
	if len(moved) == 0 {
		return 0
	}
	return nth(moved, len(moved)/2)
}

// nth is the k-th smallest number (from 0); v is reordered. Hoare's selection: a sort would cost several times as much.
func nth(v []float64, k int) float64 {
	lo, hi := 0, len(v)-1
	for lo < hi {
		pivot := v[(lo+hi)/2]
		i, j := lo, hi
		for i <= j {
			for v[i] < pivot {
				i++
			}
			for v[j] > pivot {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return v[k]
		}
	}
	return v[k]
}

// wantsMotion picks the features that lags and idle stretches are measured with: what the robot or hand does.
func wantsMotion(f dataset.Feature) bool {
	if !isFloat(f) || isClock(f) || isMotion(f) || f.Dim() < 2 {
		return false
	}
	return f.Name == "state" || f.Name == "actions" || f.Name == "action" || strings.HasPrefix(f.Name, "action") || strings.HasPrefix(f.Name, "observation.")
}

// speed is the length of the step that leads to each row, elements scaled by their own spread so that no unit dominates; poses by
// their position alone.
func speed(f dataset.Feature, v []float64) []float32 {
	dim := f.Dim()
	n := len(v) / dim
	out := make([]float32, n)
	if isPose(f) {
		for k := 1; k < n; k++ {
			out[k] = float32(distance(v, dim, 0, 3, k-1, k))
		}
		return out
	}
	scale := make([]float64, dim)
	for d := range dim {
		for k := 1; k < n; k++ {
			scale[d] += math.Abs(v[k*dim+d] - v[(k-1)*dim+d])
		}
		if scale[d] > 0 {
			scale[d] = float64(n) / scale[d]
		}
	}
	for k := 1; k < n; k++ {
		sum := 0.0
		for d := range dim {
			x := (v[k*dim+d] - v[(k-1)*dim+d]) * scale[d]
			sum += x * x
		}
		out[k] = float32(math.Sqrt(sum))
	}
	return out
}

// idleStretch is the longest run of rows in which no feature that moves in the episode moves at all.
func idleStretch(c *checker, e *episode, rows map[string][]float64) stretch {
	still := make([]bool, e.rows)
	for i := range still {
		still[i] = i > 0
	}
	any := false
	for _, f := range c.set.Info.Features {
		v, ok := rows[f.Name]
		s := e.summaries[f.Name]
		if !ok || !wantsMotion(f.Feature) || !s.moves() {
			continue
		}
		any = true
		dim := f.Dim()
		for k := 1; k < e.rows; k++ {
			if still[k] && !slices.Equal(v[k*dim:(k+1)*dim], v[(k-1)*dim:k*dim]) {
				still[k] = false
			}
		}
	}
	best, n := stretch{}, 0
	for k := 0; any && k < e.rows; k++ {
		if !still[k] {
			n = 0
			continue
		}
		if n++; n+1 > best.rows {
			best = stretch{k - n, n + 1}
		}
	}
	return best
}
