package train

import (
	"math"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
)

// Names of the optimisers.
const (
	adamW = "adamw"
	muon  = "muon" // Muon for hidden matrices, AdamW for everything else
)

// The quintic of the Newton-Schulz iteration, and how often it is applied. Source: Jordan et al. 2024, Muon, "The coefficients".
const (
	schulzA, schulzB, schulzC = 3.4445, -4.7750, 2.0315
	schulzSteps               = 5
)

// orthogonal makes a Muon step on one matrix: Nesterov momentum in m, then the nearest matrix with singular values about one, scaled by
// sqrt(max(1, outputs/inputs)). The learning rate is muon_rate on the schedule of rate. Source: Jordan et al. 2024, algorithm 2.
func (o *optimiser) orthogonal(info policy.ParamInfo, grad []float32, gradScale, factor float64) {
	w, m := o.params.View(info.Name), o.m.View(info.Name)
	mu := float32(o.cfg.MuonMomentum)
	update := make([]float32, len(grad))
	for i, g := range grad {
		g *= float32(gradScale)
		m[i] += (1 - mu) * (g - m[i])
		update[i] = g + mu*(m[i]-g)
	}
	in, out := info.Shape[0], info.Shape[1]
	orthogonalize(update, in, out)
	rate := o.cfg.MuonRate * o.cfg.rateAt(o.steps) / o.cfg.Rate * factor
	size := float32(rate * math.Sqrt(math.Max(1, float64(out)/float64(in))))
	keep := float32(1 - rate*o.cfg.Decay)
	for i := range w {
		w[i] = keep*w[i] - size*update[i]
	}
}

// orthogonalize replaces x [rows, cols] by a matrix of the same singular vectors whose singular values lie near one (0.7 to 1.2).
func orthogonalize(x []float32, rows, cols int) {
	wide := x
	if rows > cols { // the products are of the smaller side
		wide = transposed(x, rows, cols)
		rows, cols = cols, rows
		defer func() { copy(x, transposed(wide, rows, cols)) }()
	}
	norm := float32(math.Sqrt(kernel.SumSquares(wide)) + 1e-7)
	for i := range wide {
		wide[i] /= norm
	}
	a, b, next := make([]float32, rows*rows), make([]float32, rows*rows), make([]float32, rows*cols)
	for range schulzSteps { // x = a x + (b A + c A A) x with A = x x^T
		kernel.Gemm(false, true, rows, rows, cols, wide, cols, wide, cols, 0, a, rows)
		kernel.Gemm(false, false, rows, rows, rows, a, rows, a, rows, 0, b, rows)
		for i := range b {
			b[i] = schulzB*a[i] + schulzC*b[i]
		}
		kernel.Gemm(false, false, rows, cols, rows, b, rows, wide, cols, 0, next, cols)
		for i := range wide {
			wide[i] = schulzA*wide[i] + next[i]
		}
	}
}

func transposed(x []float32, rows, cols int) []float32 {
	y := make([]float32, len(x))
	for r := range rows {
		for c := range cols {
			y[c*rows+r] = x[r*cols+c]
		}
	}
	return y
}
