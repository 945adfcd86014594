// Vectors of 16 floats in GCC's vector extension: one register with AVX-512, two with AVX2, four with SSE2.
#ifndef PINCH_VECTOR_H
#define PINCH_VECTOR_H

// cgo does not let these through as flags.
#pragma GCC optimize("no-math-errno", "no-trapping-math")

#include <stdint.h>
#include <string.h>

#define LANES 16

typedef float v16 __attribute__((vector_size(64)));
typedef int32_t i16 __attribute__((vector_size(64)));
typedef float v16u __attribute__((vector_size(64), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE v16 splat(float x) { return (v16){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
INLINE v16 load(const float *p) { return *(const v16u *)p; }
INLINE void store(float *p, v16 v) { *(v16u *)p = v; }

// loadn reads n < 16 floats and fills up with pad.
INLINE v16 loadn(const float *p, long n, float pad)
{
	v16 v = splat(pad);
	memcpy(&v, p, n * sizeof(float));
	return v;
}

INLINE void storen(float *p, v16 v, long n) { memcpy(p, &v, n * sizeof(float)); }

// pick takes a where the mask (all bits set or none) is set, b elsewhere.
INLINE v16 pick(i16 mask, v16 a, v16 b) { return (v16)((mask & (i16)a) | (~mask & (i16)b)); }
INLINE v16 larger(v16 a, v16 b) { return pick(a > b, a, b); }

INLINE float sum(v16 v)
{
	v += __builtin_shuffle(v, (i16){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7});
	v += __builtin_shuffle(v, (i16){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11});
	v += __builtin_shuffle(v, (i16){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13});
	return v[0] + v[1];
}

INLINE float largest(v16 v)
{
	v = larger(v, __builtin_shuffle(v, (i16){8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7}));
	v = larger(v, __builtin_shuffle(v, (i16){4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
	v = larger(v, __builtin_shuffle(v, (i16){2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13}));
	return v[0] > v[1] ? v[0] : v[1];
}

// vexp is eˣ to about 1e-7 relative: x = n·ln 2 + r, a polynomial for e^r (the coefficients of Cephes' expf) and two factors that make
// 2ⁿ, so that results below the normal range are rounded and those above become infinite. A NaN stays one.
INLINE v16 vexp(v16 x)
{
	x = pick(x > splat(89), splat(89), x);
	x = pick(x < splat(-105), splat(-105), x);
	v16 magic = splat(12582912.0f); // 1.5·2²³: adding it rounds to an integer in the low bits
	v16 t = x * splat(1.44269504088896341f) + magic;
	v16 n = t - magic;
	i16 k = (i16)t - (i16)magic;
	v16 r = x - n * splat(0.693359375f);
	r = r - n * splat(-2.12194440e-4f);
	v16 p = splat(1.9875691500e-4f);
	p = p * r + splat(1.3981999507e-3f);
	p = p * r + splat(8.3334519073e-3f);
	p = p * r + splat(4.1665795894e-2f);
	p = p * r + splat(1.6666665459e-1f);
	p = p * r + splat(5.0000001201e-1f);
	p = p * (r * r) + r + splat(1);
	i16 half = k >> 1;
	return p * (v16)((half + 127) << 23) * (v16)((k - half + 127) << 23);
}

INLINE v16 sigmoid(v16 x) { return splat(1) / (splat(1) + vexp(-x)); }

// vtanh is tanh x to about 1e-7 relative: a polynomial near 0 (the coefficients of Cephes' tanhf), 1 − 2/(e^2|x| + 1) elsewhere.
INLINE v16 vtanh(v16 x)
{
	i16 sign = (i16)x & (i16)splat(-0.0f);
	v16 a = (v16)((i16)x ^ sign);
	v16 far = splat(1) - splat(2) / (vexp(a + a) + splat(1));
	v16 z = x * x;
	v16 p = splat(-5.70498872745e-3f);
	p = p * z + splat(2.06390887954e-2f);
	p = p * z + splat(-5.37397155531e-2f);
	p = p * z + splat(1.33314422036e-1f);
	p = p * z + splat(-3.33332819422e-1f);
	v16 near = p * z * x + x;
	return pick(a < splat(0.625f), near, (v16)((i16)far | sign));
}

#endif
