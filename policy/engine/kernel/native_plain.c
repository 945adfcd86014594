//go:build blas && cgo

// The kernels for any processor.
#include "vector.h"

#include "native.h"
#include "native_elementwise.h"
#include "native_rows.h"

#define ENTRY(name, result, ret, parameters, arguments) name,
const pinch_kernels pinch_plain = {KERNELS(ENTRY) 0};
