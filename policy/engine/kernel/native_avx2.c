//go:build blas && cgo

// The kernels for processors with AVX2 and FMA (Haswell and later).
#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#endif
#include "vector.h"

#include "native.h"
#include "native_elementwise.h"
#include "native_rows.h"

#define ENTRY(name, result, ret, parameters, arguments) name,
const pinch_kernels pinch_avx2 = {KERNELS(ENTRY) 0};
