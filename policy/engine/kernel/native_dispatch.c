//go:build blas && cgo

#include "native.h"

static const pinch_kernels *best = &pinch_plain;

// supported tells how far this processor goes: 0 any, 1 AVX2 and FMA, 2 AVX-512.
static int supported(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
		return 0;
	if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") || !__builtin_cpu_supports("avx512vl"))
		return 1;
	return 2;
#else
	return 0;
#endif
}

int pinch_use(int kind)
{
	if (kind > supported())
		return 0;
	best = kind == 2 ? &pinch_avx512 : kind == 1 ? &pinch_avx2 : &pinch_plain;
	return 1;
}

// The best kind is chosen once, before main.
__attribute__((constructor)) static void choose(void) { pinch_use(supported()); }

#define FORWARD(name, result, ret, parameters, arguments) \
	result pinch_##name parameters { ret best->name arguments; }
KERNELS(FORWARD)

int pinch_gemm(int trans_a, int trans_b, long m, long n, long k, const float *a, long lda, const float *b, long ldb, const float *bias, int add, float *c, long ldc)
{
	if (!best->gemm)
		return 0;
	best->gemm(trans_a, trans_b, m, n, k, a, lda, b, ldb, bias, add, c, ldc);
	return 1;
}
