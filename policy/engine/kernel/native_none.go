//go:build !blas || !cgo

package kernel

// Native says whether float32 kernels are OpenBLAS and C (build tag "blas") or pure Go.
const Native = false

func gemm32(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	goGemm32(transA, transB, m, n, k, a, lda, b, ldb, beta, c, ldc)
}

func gemm64(transA, transB bool, m, n, k int, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	goGemm64(transA, transB, m, n, k, a, lda, b, ldb, beta, c, ldc)
}

func linear32(transW bool, m, n, k int, x, w []float32, ldw int, bias, y []float32) {
	goLinear(transW, m, n, k, x, w, ldw, bias, y)
}

func binary32(kind Kind, y []float32, rows, cols int, a []float32, ars, acs int, b []float32, brs, bcs int) {
	goBinary(kind, y, rows, cols, a, ars, acs, b, brs, bcs)
}

func sumTo32(y []float32, yrs, ycs int, x []float32, rows, cols int) {
	goSumTo(y, yrs, ycs, x, rows, cols)
}

func affine32(y, x []float32, scale, shift float32) { goAffine(y, x, scale, shift) }

func modulate32(y, x, scale, shift []float32, rows, d, stride int) {
	goModulate(y, x, scale, shift, rows, d, stride)
}

func gate32(out, x, y, gate []float32, rows, d, stride int) {
	goGate(out, x, y, gate, rows, d, stride)
}

func mulSum32(sum, a, b []float32, rows, d int) { goMulSum(sum, a, b, rows, d) }

func activate32(f Activation, y, x []float32) { goActivate(f, y, x) }

func activateGrad32(f Activation, dx, x, dy []float32) { goActivateGrad(f, dx, x, dy) }

func exp32(y, x []float32) { goExp(y, x) }

func norm32(centre bool, y, x, gain, bias []float32, rows, d int, eps float32) {
	goNorm(centre, y, x, gain, bias, rows, d, float64(eps))
}

func normGrad32(centre bool, dx, x, gain, dy []float32, rows, d int, eps float32) {
	goNormGrad(centre, dx, x, gain, dy, rows, d, float64(eps))
}

func normParamGrad32(centre bool, dgain, dbias, x, dy []float32, rows, d int, eps float32) {
	goNormParamGrad(centre, dgain, dbias, x, dy, rows, d, float64(eps))
}

func softmax32(y, x []float32, rows, d int) { goSoftmax(y, x, rows, d) }

func softmaxGrad32(dx, y, dy []float32, rows, d int, scale float32) {
	goSoftmaxGrad(dx, y, dy, rows, d, scale)
}

func scores32(s []float32, rows, d int, scale float32, mask []float32, maskStride int) {
	goScores(s, rows, d, scale, mask, maskStride)
}

func adamW32(p, g, m, v []float32, gradScale, beta1, beta2, size, eps, keep float32) {
	goAdamW(p, g, m, v, gradScale, beta1, beta2, size, eps, keep)
}

func sumSquares32(x []float32) float64 { return goSumSquares(x) }

func ema32(average, x []float32, decay float32) { goEMA(average, x, decay) }
