//go:build blas && cgo

// The kernels for processors with AVX-512 (Skylake servers and later).
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#include "vector.h"

#include "native.h"
#include "native_elementwise.h"
#include "native_rows.h"
#include "native_gemm.h"

#define ENTRY(name, result, ret, parameters, arguments) name,
const pinch_kernels pinch_avx512 = {KERNELS(ENTRY) product_any};
