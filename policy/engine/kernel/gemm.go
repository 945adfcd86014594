package kernel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// Gemm computes c = a·b + beta·c, with a transposed first if transA and b if transB: c is [m, n] with row stride ldc, op(a) is [m, k]
// and op(b) is [k, n]; lda and ldb are the row strides of a and b as stored. With beta 0 the old c is not read.
// It runs on the calling goroutine alone.
func Gemm[T Float](transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	checkMatrix("a", len(a), rows(transA, m, k), rows(transA, k, m), lda)
	checkMatrix("b", len(b), rows(transB, k, n), rows(transB, n, k), ldb)
	checkMatrix("c", len(c), m, n, ldc)
	if is32[T]() {
		gemm32(transA, transB, m, n, k, as32(a), lda, as32(b), ldb, float32(beta), as32(c), ldc)
		return
	}
	gemm64(transA, transB, m, n, k, any(a).([]float64), lda, any(b).([]float64), ldb, float64(beta), any(c).([]float64), ldc)
}

// Linear computes y = x·w + bias in every row: x [rows, k], w [k, n] or, if transW, [n, k], bias [n] or nil, y [rows, n].
func Linear[T Float](transW bool, n, k int, x, w, bias, y []T) {
	m, ldw := len(x)/k, n
	if transW {
		ldw = k
	}
	if m == 0 {
		return
	}
	checkMatrix("w", len(w), rows(transW, k, n), ldw, ldw)
	checkMatrix("y", len(y), m, n, n)
	checkRow(bias, n)
	if is32[T]() {
		linear32(transW, m, n, k, as32(x), as32(w), ldw, as32(bias), as32(y))
		return
	}
	goLinear(transW, m, n, k, x, w, ldw, bias, y)
}

func goLinear[T Float](transW bool, m, n, k int, x, w []T, ldw int, bias, y []T) {
	var beta T
	if bias != nil {
		FillRows(y[:m*n], bias[:n])
		beta = 1
	}
	Gemm(false, transW, m, n, k, x, k, w, ldw, beta, y, n)
}

func rows(trans bool, plain, transposed int) int {
	if trans {
		return transposed
	}
	return plain
}

func checkMatrix(name string, have, r, c, stride int) {
	if stride < c || (r > 0 && have < (r-1)*stride+c) {
		panic("kernel: matrix " + name + " is smaller than its shape")
	}
}

func transpose(t bool) blas.Transpose {
	if t {
		return blas.Trans
	}
	return blas.NoTrans
}

// goGemm32 uses gonum, which cuts large products over goroutines of its own. gonum skips the zeros of a and so would hide a NaN or an
// infinity of b behind them; such products take the plain loop.
func goGemm32(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if !finite(b) || !finite(a) {
		plainGemm(transA, transB, m, n, k, a, lda, b, ldb, beta, c, ldc)
		return
	}
	gonum.Implementation{}.Sgemm(transpose(transA), transpose(transB), m, n, k, 1, a, lda, b, ldb, beta, c, ldc)
}

func goGemm64(transA, transB bool, m, n, k int, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	if !finite(b) || !finite(a) {
		plainGemm(transA, transB, m, n, k, a, lda, b, ldb, beta, c, ldc)
		return
	}
	gonum.Implementation{}.Dgemm(transpose(transA), transpose(transB), m, n, k, 1, a, lda, b, ldb, beta, c, ldc)
}

// finite reports whether x holds no NaN and no infinity: v − v is 0 for all other numbers.
func finite[T Float](x []T) bool {
	var sum T
	for _, v := range x {
		sum += v - v
	}
	return sum == 0
}

func plainGemm[T Float](transA, transB bool, m, n, k int, a []T, lda int, b []T, ldb int, beta T, c []T, ldc int) {
	ai, al, bl, bj := lda, 1, ldb, 1
	if transA {
		ai, al = 1, lda
	}
	if transB {
		bl, bj = 1, ldb
	}
	for i := range m {
		for j := range n {
			var sum T
			if beta != 0 {
				sum = beta * c[i*ldc+j]
			}
			for l := range k {
				sum += a[i*ai+l*al] * b[l*bl+j*bj]
			}
			c[i*ldc+j] = sum
		}
	}
}
