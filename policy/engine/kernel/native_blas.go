//go:build blas && cgo

package kernel

/*
#cgo CFLAGS: -O3 -Wno-psabi
#cgo LDFLAGS: -lopenblas -lm
#cgo noescape cblas_sgemm
#cgo nocallback cblas_sgemm
#cgo noescape cblas_dgemm
#cgo nocallback cblas_dgemm
#cgo noescape pinch_gemm
#cgo nocallback pinch_gemm
#cgo noescape pinch_binary
#cgo nocallback pinch_binary
#cgo noescape pinch_sum_to
#cgo nocallback pinch_sum_to
#cgo noescape pinch_affine
#cgo nocallback pinch_affine
#cgo noescape pinch_modulate
#cgo nocallback pinch_modulate
#cgo noescape pinch_gate
#cgo nocallback pinch_gate
#cgo noescape pinch_mul_sum
#cgo nocallback pinch_mul_sum
#cgo noescape pinch_activate
#cgo nocallback pinch_activate
#cgo noescape pinch_activate_grad
#cgo nocallback pinch_activate_grad
#cgo noescape pinch_exponential
#cgo nocallback pinch_exponential
#cgo noescape pinch_norm
#cgo nocallback pinch_norm
#cgo noescape pinch_norm_grad
#cgo nocallback pinch_norm_grad
#cgo noescape pinch_norm_param_grad
#cgo nocallback pinch_norm_param_grad
#cgo noescape pinch_softmax
#cgo nocallback pinch_softmax
#cgo noescape pinch_softmax_grad
#cgo nocallback pinch_softmax_grad
#cgo noescape pinch_scores
#cgo nocallback pinch_scores
#cgo noescape pinch_adamw
#cgo nocallback pinch_adamw
#cgo noescape pinch_sum_squares
#cgo nocallback pinch_sum_squares
#cgo noescape pinch_ema
#cgo nocallback pinch_ema
#include <cblas.h>
#include "native.h"
*/
import "C"

import "unsafe"

// Native says whether float32 kernels are OpenBLAS and C (build tag "blas") or pure Go.
const Native = true

// OpenBLAS works on the calling thread alone: the engine's workers cut the work themselves, and two levels of threads would fight for
// the cores.
func init() { C.openblas_set_num_threads(1) }

// useKernels takes the kernels of one kind of processor and reports whether this one can run them. Tests use it to try them all.
func useKernels(kind int) bool { return C.pinch_use(C.int(kind)) == 1 }

func ptr(x []float32) *C.float { return (*C.float)(unsafe.SliceData(x)) }

func cbool(b bool) C.int {
	if b {
		return 1
	}
	return 0
}

func trans(t bool) uint32 {
	if t {
		return C.CblasTrans
	}
	return C.CblasNoTrans
}

func gemm32(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	if (beta == 0 || beta == 1) && ownGemm(transA, transB, m, n, k, a, lda, b, ldb, nil, beta, c, ldc) {
		return
	}
	C.cblas_sgemm(C.CblasRowMajor, trans(transA), trans(transB), C.blasint(m), C.blasint(n), C.blasint(k), 1,
		ptr(a), C.blasint(lda), ptr(b), C.blasint(ldb), C.float(beta), ptr(c), C.blasint(ldc))
}

// ownGemm runs our product, which may add a bias to every row, and reports whether it did. Where few rows share the packing of b,
// OpenBLAS's small kernels win, unless they would have to read b across.
func ownGemm(transA, transB bool, m, n, k int, a []float32, lda int, b []float32, ldb int, bias []float32, beta float32, c []float32, ldc int) bool {
	return (m >= 24 || m >= 8 && transB) &&
		C.pinch_gemm(cbool(transA), cbool(transB), C.long(m), C.long(n), C.long(k), ptr(a), C.long(lda), ptr(b), C.long(ldb), ptr(bias), C.int(beta), ptr(c), C.long(ldc)) == 1
}

func linear32(transW bool, m, n, k int, x, w []float32, ldw int, bias, y []float32) {
	if !ownGemm(false, transW, m, n, k, x, k, w, ldw, bias, 0, y, n) {
		goLinear(transW, m, n, k, x, w, ldw, bias, y)
	}
}

func gemm64(transA, transB bool, m, n, k int, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	C.cblas_dgemm(C.CblasRowMajor, trans(transA), trans(transB), C.blasint(m), C.blasint(n), C.blasint(k), 1,
		(*C.double)(unsafe.SliceData(a)), C.blasint(lda), (*C.double)(unsafe.SliceData(b)), C.blasint(ldb), C.double(beta), (*C.double)(unsafe.SliceData(c)), C.blasint(ldc))
}

func binary32(kind Kind, y []float32, rows, cols int, a []float32, ars, acs int, b []float32, brs, bcs int) {
	C.pinch_binary(C.int(kind), ptr(y), C.long(rows), C.long(cols), ptr(a), C.long(ars), C.long(acs), ptr(b), C.long(brs), C.long(bcs))
}

func sumTo32(y []float32, yrs, ycs int, x []float32, rows, cols int) {
	C.pinch_sum_to(ptr(y), C.long(yrs), C.long(ycs), ptr(x), C.long(rows), C.long(cols))
}

func affine32(y, x []float32, scale, shift float32) {
	C.pinch_affine(ptr(y), ptr(x), C.long(len(x)), C.float(scale), C.float(shift))
}

func modulate32(y, x, scale, shift []float32, rows, d, stride int) {
	C.pinch_modulate(ptr(y), ptr(x), ptr(scale), ptr(shift), C.long(rows), C.long(d), C.long(stride))
}

func gate32(out, x, y, gate []float32, rows, d, stride int) {
	C.pinch_gate(ptr(out), ptr(x), ptr(y), ptr(gate), C.long(rows), C.long(d), C.long(stride))
}

func mulSum32(sum, a, b []float32, rows, d int) {
	C.pinch_mul_sum(ptr(sum), ptr(a), ptr(b), C.long(rows), C.long(d))
}

func activate32(f Activation, y, x []float32) {
	C.pinch_activate(C.int(f), ptr(y), ptr(x), C.long(len(x)))
}

func activateGrad32(f Activation, dx, x, dy []float32) {
	C.pinch_activate_grad(C.int(f), ptr(dx), ptr(x), ptr(dy), C.long(len(x)))
}

func exp32(y, x []float32) { C.pinch_exponential(ptr(y), ptr(x), C.long(len(x))) }

func norm32(centre bool, y, x, gain, bias []float32, rows, d int, eps float32) {
	C.pinch_norm(cbool(centre), ptr(y), ptr(x), ptr(gain), ptr(bias), C.long(rows), C.long(d), C.float(eps))
}

func normGrad32(centre bool, dx, x, gain, dy []float32, rows, d int, eps float32) {
	C.pinch_norm_grad(cbool(centre), ptr(dx), ptr(x), ptr(gain), ptr(dy), C.long(rows), C.long(d), C.float(eps))
}

func normParamGrad32(centre bool, dgain, dbias, x, dy []float32, rows, d int, eps float32) {
	C.pinch_norm_param_grad(cbool(centre), ptr(dgain), ptr(dbias), ptr(x), ptr(dy), C.long(rows), C.long(d), C.float(eps))
}

func softmax32(y, x []float32, rows, d int) {
	C.pinch_softmax(ptr(y), ptr(x), C.long(rows), C.long(d))
}

func softmaxGrad32(dx, y, dy []float32, rows, d int, scale float32) {
	C.pinch_softmax_grad(ptr(dx), ptr(y), ptr(dy), C.long(rows), C.long(d), C.float(scale))
}

func scores32(s []float32, rows, d int, scale float32, mask []float32, maskStride int) {
	C.pinch_scores(ptr(s), C.long(rows), C.long(d), C.float(scale), ptr(mask), C.long(maskStride))
}

func adamW32(p, g, m, v []float32, gradScale, beta1, beta2, size, eps, keep float32) {
	C.pinch_adamw(ptr(p), ptr(g), ptr(m), ptr(v), C.long(len(p)), C.float(gradScale), C.float(beta1), C.float(beta2), C.float(size), C.float(eps), C.float(keep))
}

func sumSquares32(x []float32) float64 { return float64(C.pinch_sum_squares(ptr(x), C.long(len(x)))) }

func ema32(average, x []float32, decay float32) {
	C.pinch_ema(ptr(average), ptr(x), C.long(len(x)), C.float(decay))
}
