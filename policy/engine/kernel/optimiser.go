package kernel

import "math"

// Adam holds one step's numbers of AdamW (Loshchilov and Hutter 2019, algorithm 2, with decay decoupled and multiplied by the rate).
type Adam struct {
	Rate         float64 // learning rate of this step
	Beta1, Beta2 float64 // decay rates of the two moments
	Eps          float64 // added to the root of the second moment
	Decay        float64 // weight decay; 0 for gains and biases
	Step         int     // 1 for the first step: the bias correction
	GradScale    float64 // multiplies the gradient first: 1, or the clipping factor
}

// AdamW updates one parameter p and its moments m and v in place from the gradient g.
func AdamW[T Float](p, g, m, v []T, a Adam) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	// p −= rate·(m̂/(√v̂ + eps) + decay·p), with both bias corrections folded into two factors.
	root2 := math.Sqrt(1 - math.Pow(a.Beta2, float64(a.Step)))
	size := a.Rate * root2 / (1 - math.Pow(a.Beta1, float64(a.Step)))
	eps := a.Eps * root2
	keep := 1 - a.Rate*a.Decay
	if is32[T]() {
		adamW32(as32(p), as32(g), as32(m), as32(v), float32(a.GradScale), float32(a.Beta1), float32(a.Beta2), float32(size), float32(eps), float32(keep))
		return
	}
	goAdamW(p, g, m, v, T(a.GradScale), T(a.Beta1), T(a.Beta2), T(size), T(eps), T(keep))
}

func goAdamW[T Float](p, g, m, v []T, gradScale, beta1, beta2, size, eps, keep T) {
	for i := range p {
		d := g[i] * gradScale
		m[i] = beta1*m[i] + (1-beta1)*d
		v[i] = beta2*v[i] + (1-beta2)*d*d
		p[i] = keep*p[i] - size*m[i]/(T(math.Sqrt(float64(v[i])))+eps)
	}
}

// SumSquares returns Σ x², summed in float64 in a fixed order: the part of one slice in a global gradient norm.
func SumSquares[T Float](x []T) float64 {
	if is32[T]() {
		return sumSquares32(as32(x))
	}
	return goSumSquares(x)
}

func goSumSquares[T Float](x []T) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	return sum
}

// EMA updates a moving average in place: average = decay·average + (1 − decay)·x.
func EMA[T Float](average, x []T, decay float64) {
	average = average[:len(x)]
	if is32[T]() {
		ema32(as32(average), as32(x), float32(decay))
		return
	}
	goEMA(average, x, T(decay))
}

func goEMA[T Float](average, x []T, decay T) {
	for i, v := range x {
		average[i] = decay*average[i] + (1-decay)*v
	}
}
