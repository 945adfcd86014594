// The float32 kernels in C. Their meaning is written at their Go twins. Each is compiled once per kind of processor (native_*.c) and
// called through the table of the best kind that this one has.
#ifndef PINCH_NATIVE_H
#define PINCH_NATIVE_H

// KERNELS(X) calls X(name, result, return, parameters, arguments) for every kernel.
#define KERNELS(X) \
	X(binary, void, , (int kind, float *y, long rows, long cols, const float *a, long ars, long acs, const float *b, long brs, long bcs), (kind, y, rows, cols, a, ars, acs, b, brs, bcs)) \
	X(sum_to, void, , (float *y, long yrs, long ycs, const float *x, long rows, long cols), (y, yrs, ycs, x, rows, cols)) \
	X(affine, void, , (float *y, const float *x, long n, float scale, float shift), (y, x, n, scale, shift)) \
	X(modulate, void, , (float *y, const float *x, const float *scale, const float *shift, long rows, long d, long stride), (y, x, scale, shift, rows, d, stride)) \
	X(gate, void, , (float *out, const float *x, const float *y, const float *gate, long rows, long d, long stride), (out, x, y, gate, rows, d, stride)) \
	X(mul_sum, void, , (float *sum, const float *a, const float *b, long rows, long d), (sum, a, b, rows, d)) \
	X(activate, void, , (int kind, float *y, const float *x, long n), (kind, y, x, n)) \
	X(activate_grad, void, , (int kind, float *dx, const float *x, const float *dy, long n), (kind, dx, x, dy, n)) \
	X(exponential, void, , (float *y, const float *x, long n), (y, x, n)) \
	X(norm, void, , (int centre, float *y, const float *x, const float *gain, const float *bias, long rows, long d, float eps), (centre, y, x, gain, bias, rows, d, eps)) \
	X(norm_grad, void, , (int centre, float *dx, const float *x, const float *gain, const float *dy, long rows, long d, float eps), (centre, dx, x, gain, dy, rows, d, eps)) \
	X(norm_param_grad, void, , (int centre, float *dgain, float *dbias, const float *x, const float *dy, long rows, long d, float eps), (centre, dgain, dbias, x, dy, rows, d, eps)) \
	X(softmax, void, , (float *y, const float *x, long rows, long d), (y, x, rows, d)) \
	X(softmax_grad, void, , (float *dx, const float *y, const float *dy, long rows, long d, float scale), (dx, y, dy, rows, d, scale)) \
	X(scores, void, , (float *s, long rows, long d, float scale, const float *mask, long mask_stride), (s, rows, d, scale, mask, mask_stride)) \
	X(adamw, void, , (float *p, const float *g, float *m, float *v, long n, float grad_scale, float beta1, float beta2, float size, float eps, float keep), (p, g, m, v, n, grad_scale, beta1, beta2, size, eps, keep)) \
	X(sum_squares, double, return, (const float *x, long n), (x, n)) \
	X(ema, void, , (float *average, const float *x, long n, float decay), (average, x, n, decay))

#define DECLARE(name, result, ret, parameters, arguments) result pinch_##name parameters;
KERNELS(DECLARE)

// pinch_gemm computes c = op(a)·op(b), plus bias in each row if not null, plus the old c if add, and returns 1; or does nothing and returns 0 if this processor has no kernel
// for it.
int pinch_gemm(int trans_a, int trans_b, long m, long n, long k, const float *a, long lda, const float *b, long ldb, const float *bias, int add, float *c, long ldc);

#define POINTER(name, result, ret, parameters, arguments) result(*name) parameters;
typedef struct {
	KERNELS(POINTER)
	// Null where OpenBLAS is the better one.
	void (*gemm)(int trans_a, int trans_b, long m, long n, long k, const float *a, long lda, const float *b, long ldb, const float *bias, int add, float *c, long ldc);
} pinch_kernels;

// pinch_use takes the kernels of one kind of processor (0 any, 1 AVX2, 2 AVX-512) and returns 1, or returns 0 if this processor lacks it.
int pinch_use(int kind);

extern const pinch_kernels pinch_plain, pinch_avx2, pinch_avx512;

#endif
