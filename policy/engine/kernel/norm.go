package kernel

import "math"

// Norm normalises each row of d elements of x: y = (x − m)/√(v + eps)·gain + bias, where m and v are the row's mean and variance (divided
// by d) if centre (layer norm, Ba et al. 2016, equation 3), and m = 0 and v the mean square if not (RMS norm, Zhang and Sennrich 2019,
// equation 4). gain and bias of d elements may be nil: 1 and 0.
func Norm[T Float](centre bool, y, x, gain, bias []T, d int, eps float64) {
	y = y[:len(x)]
	checkRow(gain, d)
	checkRow(bias, d)
	if is32[T]() {
		norm32(centre, as32(y), as32(x), as32(gain), as32(bias), len(x)/d, d, float32(eps))
		return
	}
	goNorm(centre, y, x, gain, bias, len(x)/d, d, eps)
}

// NormGrad computes the gradient of Norm with respect to x, given dy.
func NormGrad[T Float](centre bool, dx, x, gain, dy []T, d int, eps float64) {
	dx, dy = dx[:len(x)], dy[:len(x)]
	checkRow(gain, d)
	if is32[T]() {
		normGrad32(centre, as32(dx), as32(x), as32(gain), as32(dy), len(x)/d, d, float32(eps))
		return
	}
	goNormGrad(centre, dx, x, gain, dy, len(x)/d, d, eps)
}

// NormParamGrad adds to dgain and dbias, either of which may be nil, the gradients of Norm with respect to gain and bias.
func NormParamGrad[T Float](centre bool, dgain, dbias, x, dy []T, d int, eps float64) {
	dy = dy[:len(x)]
	checkRow(dgain, d)
	checkRow(dbias, d)
	if is32[T]() {
		normParamGrad32(centre, as32(dgain), as32(dbias), as32(x), as32(dy), len(x)/d, d, float32(eps))
		return
	}
	goNormParamGrad(centre, dgain, dbias, x, dy, len(x)/d, d, eps)
}

func checkRow[T any](row []T, d int) {
	if row != nil && len(row) < d {
		panic("kernel: row vector is shorter than a row")
	}
}

// moments returns a row's centre and the reciprocal of its spread.
func moments[T Float](centre bool, row []T, eps float64) (mean, scale float64) {
	d := float64(len(row))
	if centre {
		for _, v := range row {
			mean += float64(v)
		}
		mean /= d
	}
	var square float64
	for _, v := range row {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, 1 / math.Sqrt(square/d+eps)
}

func goNorm[T Float](centre bool, y, x, gain, bias []T, rows, d int, eps float64) {
	for r := range rows {
		row := x[r*d : (r+1)*d]
		mean, scale := moments(centre, row, eps)
		for j, v := range row {
			h := (float64(v) - mean) * scale
			if gain != nil {
				h *= float64(gain[j])
			}
			if bias != nil {
				h += float64(bias[j])
			}
			y[r*d+j] = T(h)
		}
	}
}

func goNormGrad[T Float](centre bool, dx, x, gain, dy []T, rows, d int, eps float64) {
	for r := range rows {
		row, up, down := x[r*d:(r+1)*d], dy[r*d:(r+1)*d], dx[r*d:(r+1)*d]
		mean, scale := moments(centre, row, eps)
		var sum, dot float64
		for j, v := range row {
			g := float64(up[j])
			if gain != nil {
				g *= float64(gain[j])
			}
			sum += g
			dot += g * (float64(v) - mean) * scale
		}
		sum, dot = sum/float64(d), dot/float64(d)
		if !centre {
			sum = 0
		}
		for j, v := range row {
			g := float64(up[j])
			if gain != nil {
				g *= float64(gain[j])
			}
			down[j] = T(scale * (g - sum - (float64(v)-mean)*scale*dot))
		}
	}
}

func goNormParamGrad[T Float](centre bool, dgain, dbias, x, dy []T, rows, d int, eps float64) {
	for r := range rows {
		row, up := x[r*d:(r+1)*d], dy[r*d:(r+1)*d]
		if dgain != nil {
			mean, scale := moments(centre, row, eps)
			for j, v := range row {
				dgain[j] += T(float64(up[j]) * (float64(v) - mean) * scale)
			}
		}
		if dbias != nil {
			for j, g := range up {
				dbias[j] += g
			}
		}
	}
}
