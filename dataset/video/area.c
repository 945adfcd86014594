//go:build libav

#include "area.h"

#include <stdlib.h>
#include <string.h>

// One source serves every x86-64 machine: the loops that cost are compiled twice and chosen at start.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CLONES
#endif

typedef uint32_t lanes __attribute__((vector_size(16), aligned(4)));

// Cut each of n source pixels of an axis into m equal parts and each of m target pixels into n: overlaps are whole numbers of
// parts, and those of one target pixel add up to n (package imaging, areaResize).
typedef struct { int first, count; uint32_t *weight; } span;

struct pinch_area {
	int w, h, width, height;
	span *cols;
	uint32_t *weights;  // of all cols
	uint32_t *sums;     // one target row at source width, one pixel of room behind it
	uint32_t *mixed;    // one target row before the division, room likewise
	uint32_t half, magic;
	int shift;          // v/area is (v*magic)>>shift; 0: divide
	uint64_t area;
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

pinch_area *pinch_area_new(int w, int h, int width, int height) {
	pinch_area *a = calloc(1, sizeof *a);
	if (!a) return NULL;
	a->w = w, a->h = h, a->width = width, a->height = height;
	a->area = (uint64_t)w * h;
	a->half = a->area / 2;
	divisor(a);
	a->cols = calloc(width, sizeof *a->cols);
	a->weights = malloc(((size_t)w + width) * sizeof *a->weights);
	a->sums = calloc((size_t)w * 3 + 4, sizeof *a->sums);
	a->mixed = calloc((size_t)width * 3 + 4, sizeof *a->mixed);
	if (!a->cols || !a->weights || !a->sums || !a->mixed) { pinch_area_free(a); return NULL; }
	uint32_t *next = a->weights;
	for (int x = 0; x < width; x++) {
		span *s = &a->cols[x];
		s->first = (int64_t)x * w / width;
		s->count = (int)(((int64_t)(x + 1) * w - 1) / width) - s->first + 1;
		s->weight = next;
		for (int i = 0; i < s->count; i++) *next++ = overlap(s->first + i, x, w, width);
	}
	return a;
}

void pinch_area_start(pinch_area *a, uint8_t *out) {
	a->out = out, a->k = 0, a->j = 0;
	memset(a->sums, 0, (size_t)a->w * 3 * sizeof *a->sums);
}

CLONES static void add(uint32_t *restrict sums, const uint8_t *restrict row, uint32_t weight, int n) {
	for (int i = 0; i < n; i++) sums[i] += weight * row[i];
}

CLONES static void mix(const pinch_area *a) {
	for (int x = 0; x < a->width; x++) {
		const span *s = &a->cols[x];
		const uint32_t *at = a->sums + 3 * s->first;
		lanes total = {0};
		for (int i = 0; i < s->count; i++) total += s->weight[i] * *(const lanes *)(at + 3 * i);
		*(lanes *)(a->mixed + 3 * x) = total; // the fourth lane is overwritten by the next pixel
	}
}

CLONES static void divide(uint8_t *restrict out, const uint32_t *restrict v, int n, uint32_t half, uint32_t magic, int shift) {
	for (int i = 0; i < n; i++) out[i] = (uint8_t)(((uint64_t)(v[i] + half) * magic) >> shift);
}

static void finish(pinch_area *a) {
	mix(a);
	uint8_t *out = a->out + (size_t)a->j * a->width * 3;
	if (a->shift) {
		divide(out, a->mixed, a->width * 3, a->half, a->magic, a->shift);
	} else {
		for (int i = 0; i < a->width * 3; i++) out[i] = (uint8_t)(((uint64_t)a->mixed[i] + a->half) / a->area);
	}
	memset(a->sums, 0, (size_t)a->w * 3 * sizeof *a->sums);
	a->j++;
}

void pinch_area_row(pinch_area *a, const uint8_t *row) {
	int64_t end = (int64_t)(a->k + 1) * a->height; // parts of the axis that end with this row
	while (a->j < a->height && (int64_t)a->j * a->h < end) {
		add(a->sums, row, overlap(a->k, a->j, a->h, a->height), a->w * 3);
		if ((int64_t)(a->j + 1) * a->h > end) break; // the target row goes on in the next source row
		finish(a);
	}
	a->k++;
}

void pinch_area_free(pinch_area *a) {
	if (!a) return;
	free(a->cols);
	free(a->weights);
	free(a->sums);
	free(a->mixed);
	free(a);
}
