package kernel

import "math"

// Softmax computes y = softmax(x) over each row of d elements. A row of only −∞ gives NaN.
func Softmax[T Float](y, x []T, d int) {
	y = y[:len(x)]
	if is32[T]() {
		softmax32(as32(y), as32(x), len(x)/d, d)
		return
	}
	goSoftmax(y, x, len(x)/d, d)
}

// SoftmaxGrad computes dx = y·(dy − Σ y·dy) over each row of d elements, from the softmax y. dx and dy may be the same slice.
func SoftmaxGrad[T Float](dx, y, dy []T, d int, scale T) {
	dx, dy = dx[:len(y)], dy[:len(y)]
	if is32[T]() {
		softmaxGrad32(as32(dx), as32(y), as32(dy), len(y)/d, d, float32(scale))
		return
	}
	goSoftmaxGrad(dx, y, dy, len(y)/d, d, scale)
}

// Scores turns attention scores into weights in place: each row s of d elements becomes softmax(scale·s + mask). Row r adds elements
// [r·maskStride, r·maskStride+d) of mask, which may be nil. A row that the mask shuts entirely (every sum is −∞) becomes zeros; a NaN
// stays one.
func Scores[T Float](s []T, d int, scale T, mask []T, maskStride int) {
	n := len(s) / d
	if mask != nil && n > 0 {
		checkStrided("mask", len(mask), n, d, maskStride, 1)
	}
	if is32[T]() {
		scores32(as32(s), n, d, float32(scale), as32(mask), maskStride)
		return
	}
	goScores(s, n, d, scale, mask, maskStride)
}

func goSoftmax[T Float](y, x []T, rows, d int) {
	for r := range rows {
		row, out := x[r*d:(r+1)*d], y[r*d:(r+1)*d]
		top := math.Inf(-1)
		for _, v := range row {
			top = math.Max(top, float64(v))
		}
		var sum float64
		for j, v := range row {
			e := math.Exp(float64(v) - top)
			sum += e
			out[j] = T(e)
		}
		for j := range out {
			out[j] = T(float64(out[j]) / sum)
		}
	}
}

func goSoftmaxGrad[T Float](dx, y, dy []T, rows, d int, scale T) {
	for r := range rows {
		p, up, down := y[r*d:(r+1)*d], dy[r*d:(r+1)*d], dx[r*d:(r+1)*d]
		var dot float64
		for j, v := range p {
			dot += float64(v) * float64(up[j])
		}
		for j, v := range p {
			down[j] = v * (up[j] - T(dot)) * scale
		}
	}
}

func goScores[T Float](s []T, rows, d int, scale T, mask []T, maskStride int) {
	for r := range rows {
		row := s[r*d : (r+1)*d]
		shut := true
		for j := range row {
			row[j] *= scale
			if mask != nil {
				row[j] += mask[r*maskStride+j]
			}
			shut = shut && math.IsInf(float64(row[j]), -1)
		}
		if shut {
			clear(row)
			continue
		}
		goSoftmax(row, row, 1, d)
	}
}
