package kernel

import "math"

// Activation names an element-wise function of one argument.
type Activation int32

// The activations.
const (
	GELU Activation = iota // x·σ(2u), u = √(2/π)·(x + 0.044715·x³): the tanh form, Hendrycks and Gimpel 2016, section 2
	SiLU                   // x·σ(x)
	Tanh
)

const (
	geluRoot  = 0.7978845608028654 // √(2/π)
	geluCubic = 0.044715
)

// Activate computes y = f(x). y and x may be the same slice.
func Activate[T Float](f Activation, y, x []T) {
	y = y[:len(x)]
	if is32[T]() {
		activate32(f, as32(y), as32(x))
		return
	}
	goActivate(f, y, x)
}

// ActivateGrad computes dx = dy·f'(x).
func ActivateGrad[T Float](f Activation, dx, x, dy []T) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	if is32[T]() {
		activateGrad32(f, as32(dx), as32(x), as32(dy))
		return
	}
	goActivateGrad(f, dx, x, dy)
}

func goActivate[T Float](f Activation, y, x []T) {
	for i, t := range x {
		v := float64(t)
		switch f {
		case GELU:
			v *= sigmoid(2 * geluRoot * v * (1 + geluCubic*v*v))
		case SiLU:
			v *= sigmoid(v)
		default:
			v = math.Tanh(v)
		}
		y[i] = T(v)
	}
}

func goActivateGrad[T Float](f Activation, dx, x, dy []T) {
	for i, t := range x {
		v := float64(t)
		var slope float64
		switch f {
		case GELU:
			s := sigmoid(2 * geluRoot * v * (1 + geluCubic*v*v))
			slope = s + v*s*(1-s)*2*geluRoot*(1+3*geluCubic*v*v)
		case SiLU:
			s := sigmoid(v)
			slope = s + v*s*(1-s)
		default:
			h := math.Tanh(v)
			slope = 1 - h*h
		}
		dx[i] = T(slope) * dy[i]
	}
}

func sigmoid(v float64) float64 { return 1 / (1 + math.Exp(-v)) }

// Exp computes y = eˣ.
func Exp[T Float](y, x []T) {
	y = y[:len(x)]
	if is32[T]() {
		exp32(as32(y), as32(x))
		return
	}
	goExp(y, x)
}

func goExp[T Float](y, x []T) {
	for i, v := range x {
		y[i] = T(math.Exp(float64(v)))
	}
}
