//go:build libav

#include "area.h"

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2")))
#endif

// Cut each of n source pixels of an axis into m equal parts and each of m target pixels into n: overlaps are whole numbers of
// parts, and those of one target pixel add up to n (package imaging, areaResize).
typedef struct { int first, count; const uint32_t *weight; } span;

struct pinch_area {
	int w, h, width, height;
	span *cols;
	uint32_t *weights;  // of all cols
	uint32_t *sums[2];  // target rows in work and after it: plain at source width, vector at target width with 4 elements a pixel
	uint64_t area;
	uint32_t half, magic;
	int shift;          // v/area is (v*magic)>>shift; 0: divide
	int vector;
	int32_t *groups;    // vector code: groups of four source pixels of each pair of target pixels
	int32_t *offsets;   // vector code: first byte of each target pixel in a source row
	int single;         // all groups are 1
	int16_t *factors;   // and their weights, 32 a group: (first, second) x 3, 0, 0 for both target pixels, then (third, fourth)
	uint8_t *out;
	int k, j;           // next source row, target row in work
};

static int overlap(int k, int j, int n, int m) {
	int lo = k * m > j * n ? k * m : j * n;
	int hi = (k + 1) * m < (j + 1) * n ? (k + 1) * m : (j + 1) * n;
	return hi - lo;
}

// divisor finds the multiplier for v < 256*area. With l the least number with area <= 2^l, v has 8+l bits, and
// magic = floor(2^(8+2l)/area)+1 gives the exact quotient (Granlund and Montgomery 1994, theorem 4.2). It fits 32 bits up to l = 22.
static void divisor(pinch_area *a) {
	int l = 0;
	while ((1ull << l) < a->area) l++;
	if (l > 22) return;
	a->shift = 8 + 2 * l;
	a->magic = (uint32_t)((1ull << a->shift) / a->area + 1);
}

static int can_vector(const pinch_area *a) {
#ifdef AVX2
	const char *plain = getenv("PINCH_PLAIN_AREA");
	return __builtin_cpu_supports("avx2") && a->shift && a->w >= a->width && a->h >= a->height && a->width >= 4 && a->width < 1 << 15 && !(plain && *plain);
#else
	return 0;
#endif
}

// pairs lays out the weights of the columns for two target pixels at a time.
static int pairs(pinch_area *a) {
	int n = (a->width + 1) / 2, total = 0;
	a->groups = calloc(n, sizeof *a->groups);
	a->offsets = calloc(2 * n, sizeof *a->offsets);
	if (!a->groups || !a->offsets) return -1;
	for (int x = 0; x < a->width; x++) {
		int g = (a->cols[x].count + 3) / 4;
		if (g > a->groups[x / 2]) a->groups[x / 2] = g;
		a->offsets[x] = 3 * a->cols[x].first;
	}
	a->single = 1;
	for (int p = 0; p < n; p++) {
		total += a->groups[p];
		a->single &= a->groups[p] == 1;
	}
	a->factors = calloc((size_t)total * 32, sizeof *a->factors);
	if (!a->factors) return -1;
	int16_t *to = a->factors;
	for (int p = 0; p < n; to += 32 * a->groups[p++])
		for (int half = 0; half < 2 && 2 * p + half < a->width; half++) {
			const span *s = &a->cols[2 * p + half];
			for (int i = 0; i < s->count; i++)
				for (int c = 0; c < 3; c++) to[i / 4 * 32 + i % 4 / 2 * 16 + half * 8 + 2 * c + i % 2] = (int16_t)s->weight[i];
		}
	return 0;
}

pinch_area *pinch_area_new(int w, int h, int width, int height) {
	pinch_area *a = calloc(1, sizeof *a);
	if (!a) return NULL;
	a->w = w, a->h = h, a->width = width, a->height = height;
	a->area = (uint64_t)w * h;
	a->half = a->area / 2;
	divisor(a);
	a->cols = calloc(width, sizeof *a->cols);
	a->weights = malloc(((size_t)w + width) * sizeof *a->weights);
	for (int i = 0; i < 2; i++) a->sums[i] = calloc((size_t)w * 3 + (size_t)width * 4 + 16, sizeof **a->sums);
	if (!a->cols || !a->weights || !a->sums[0] || !a->sums[1]) { pinch_area_free(a); return NULL; }
	uint32_t *next = a->weights;
	for (int x = 0; x < width; x++) {
		span *s = &a->cols[x];
		s->first = (int64_t)x * w / width;
		s->count = (int)(((int64_t)(x + 1) * w - 1) / width) - s->first + 1;
		s->weight = next;
		for (int i = 0; i < s->count; i++) *next++ = overlap(s->first + i, x, w, width);
	}
	a->vector = can_vector(a);
	if (a->vector && pairs(a) < 0) { pinch_area_free(a); return NULL; }
	return a;
}

static void empty(pinch_area *a, uint32_t *sums) {
	memset(sums, 0, (a->vector ? ((size_t)a->width + 1) * 4 : (size_t)a->w * 3) * sizeof *sums);
}

void pinch_area_start(pinch_area *a, uint8_t *out) {
	a->out = out, a->k = 0, a->j = 0;
	empty(a, a->sums[0]);
	empty(a, a->sums[1]);
}

static void add(uint32_t *restrict sums, const uint8_t *restrict row, uint32_t weight, int n) {
	for (int i = 0; i < n; i++) sums[i] += weight * row[i];
}

// mix reduces the summed rows to the target's width and divides.
static void mix(const pinch_area *a, const uint32_t *sums, uint8_t *out) {
	for (int x = 0; x < a->width; x++, out += 3) {
		const span *s = &a->cols[x];
		uint64_t red = a->half, green = a->half, blue = a->half;
		for (int i = 0; i < s->count; i++) {
			const uint32_t *at = sums + 3 * (s->first + i);
			red += s->weight[i] * at[0], green += s->weight[i] * at[1], blue += s->weight[i] * at[2];
		}
		out[0] = (uint8_t)(red / a->area), out[1] = (uint8_t)(green / a->area), out[2] = (uint8_t)(blue / a->area);
	}
}

#ifdef AVX2

// reduce_pairs mixes a source row to the target's width, two target pixels at a time, and adds it with weight w to sums and, where
// shared is set, with weight v to after. shared and single (one group for every pair, the usual case) are known to the compiler.
AVX2 static inline __attribute__((always_inline)) void reduce_pairs(const pinch_area *a, const uint8_t *row, uint32_t w, uint32_t *sums, uint32_t v,
	uint32_t *after, const int shared, const int single) {
	const char no = (char)0x80; // gives a zero byte
	const __m256i early = _mm256_setr_epi8(0, no, 3, no, 1, no, 4, no, 2, no, 5, no, no, no, no, no, 0, no, 3, no, 1, no, 4, no, 2, no, 5, no, no, no, no, no);
	const __m256i late = _mm256_setr_epi8(6, no, 9, no, 7, no, 10, no, 8, no, 11, no, no, no, no, no, 6, no, 9, no, 7, no, 10, no, 8, no, 11, no, no, no, no, no);
	const __m256i here = _mm256_set1_epi32(w), there = _mm256_set1_epi32(v);
	const int16_t *f = a->factors;
	const int32_t *at = a->offsets, *groups = a->groups;
	for (int pair = 0, n = (a->width + 1) / 2; pair < n; pair++, at += 2) {
		const uint8_t *left = row + at[0], *right = row + at[1];
		__m256i total = _mm256_setzero_si256();
		for (int g = 0; g < (single ? 1 : groups[pair]); g++, f += 32, left += 12, right += 12) {
			__m256i p = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)left)), _mm_loadu_si128((const __m128i *)right), 1);
			__m256i one = _mm256_madd_epi16(_mm256_shuffle_epi8(p, early), _mm256_loadu_si256((const __m256i *)f));
			__m256i two = _mm256_madd_epi16(_mm256_shuffle_epi8(p, late), _mm256_loadu_si256((const __m256i *)(f + 16)));
			total = single ? _mm256_add_epi32(one, two) : _mm256_add_epi32(total, _mm256_add_epi32(one, two));
		}
		__m256i *to = (__m256i *)(sums + 8 * pair);
		_mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), _mm256_mullo_epi32(total, here)));
		if (shared) {
			to = (__m256i *)(after + 8 * pair);
			_mm256_storeu_si256(to, _mm256_add_epi32(_mm256_loadu_si256(to), _mm256_mullo_epi32(total, there)));
		}
	}
}

AVX2 static void reduce_row(const pinch_area *a, const uint8_t *row, uint32_t w, uint32_t *sums, uint32_t v, uint32_t *after) {
	if (a->single) {
		if (v) reduce_pairs(a, row, w, sums, v, after, 1, 1);
		else reduce_pairs(a, row, w, sums, v, after, 0, 1);
	} else {
		if (v) reduce_pairs(a, row, w, sums, v, after, 1, 0);
		else reduce_pairs(a, row, w, sums, v, after, 0, 0);
	}
}

// quotients of eight sums, which are left empty.
AVX2 static inline __attribute__((always_inline)) __m256i quotients(uint32_t *sums, __m256i half, __m256i magic, __m128i by) {
	__m256i v = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)sums), half);
	_mm256_storeu_si256((__m256i *)sums, _mm256_setzero_si256());
	__m256i even = _mm256_srl_epi64(_mm256_mul_epu32(v, magic), by);
	__m256i odd = _mm256_srl_epi64(_mm256_mul_epu32(_mm256_srli_epi64(v, 32), magic), by);
	return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

// divide writes a target row, four pixels at a time, and leaves its sums empty.
AVX2 static void divide(const pinch_area *a, uint32_t *sums, uint8_t *out) {
	const __m256i half = _mm256_set1_epi32(a->half), magic = _mm256_set1_epi32(a->magic);
	const __m128i by = _mm_cvtsi32_si128(a->shift);
	const __m128i colours = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
	for (int left = a->width; left > 0; left -= 4, out += 12, sums += 16) {
		__m256i words = _mm256_packs_epi32(quotients(sums, half, magic, by), quotients(sums + 8, half, magic, by)); // pixels 0 2 | 1 3
		__m128i bytes = _mm_shuffle_epi8(_mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)), colours);
		if (left > 5) { // the four bytes behind are written over by what follows
			_mm_storeu_si128((__m128i *)out, bytes);
		} else {
			uint8_t last[16];
			_mm_storeu_si128((__m128i *)last, bytes);
			memcpy(out, last, left < 4 ? 3 * left : 12);
		}
	}
}

#else

static void reduce_row(const pinch_area *a, const uint8_t *row, uint32_t w, uint32_t *sums, uint32_t v, uint32_t *after) {}
static void divide(const pinch_area *a, uint32_t *sums, uint8_t *out) {}

#endif

// finish writes the target row in work and goes to the next one.
static void finish(pinch_area *a) {
	uint8_t *out = a->out + (size_t)a->j++ * a->width * 3;
	uint32_t *done = a->sums[0];
	if (a->vector) {
		divide(a, done, out);
	} else {
		mix(a, done, out);
		empty(a, done);
	}
	a->sums[0] = a->sums[1], a->sums[1] = done;
}

void pinch_area_row(pinch_area *a, const uint8_t *row) {
	int64_t end = (int64_t)(a->k + 1) * a->height; // parts of the axis that end with this row
	if (a->vector) { // no row reaches into more than two target rows
		int v = a->j + 1 < a->height ? overlap(a->k, a->j + 1, a->h, a->height) : 0;
		reduce_row(a, row, overlap(a->k, a->j, a->h, a->height), a->sums[0], v > 0 ? v : 0, a->sums[1]);
		if ((int64_t)(a->j + 1) * a->h <= end) finish(a);
	} else {
		while (a->j < a->height && (int64_t)a->j * a->h < end) {
			add(a->sums[0], row, overlap(a->k, a->j, a->h, a->height), a->w * 3);
			if ((int64_t)(a->j + 1) * a->h > end) break; // the target row goes on in the next source row
			finish(a);
		}
	}
	a->k++;
}

void pinch_area_free(pinch_area *a) {
	if (!a) return;
	free(a->cols);
	free(a->weights);
	free(a->groups);
	free(a->offsets);
	free(a->factors);
	free(a->sums[0]);
	free(a->sums[1]);
	free(a);
}
