// Matrix products of the sizes that a policy has: tens to hundreds of rows, inner and outer axes of 16 to 400. OpenBLAS packs both operands
// and reaches about 100 GFLOP/s a core on them; this reads a where it lies and packs only b, panel by panel into the first level cache, and
// reaches 110 to 145 (Xeon of the Ice Lake generation, AVX-512). Only compiled where a vector is one register.

// Panels of b are 4, 2 or 1 vectors wide; a tile of c has as many rows as registers allow.
#define DEPTH 128 // rows of a panel: 32 KiB at most, in the first level cache

INLINE void transpose16(v16 r[LANES])
{
	const i16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#pragma GCC unroll 4
	for (int s = 8; s > 0; s /= 2) {
		// Swap the off-diagonal blocks of s by s.
		i16 high = (lane & s) != 0;
		i16 first = (lane & ~high) | ((lane - s + 16) & high);
		i16 second = ((lane + s) & ~high) | ((lane + 16) & high);
#pragma GCC unroll 16
		for (int i = 0; i < LANES; i++) {
			if (i & s)
				continue;
			v16 a = r[i], b = r[i + s];
			r[i] = __builtin_shuffle(a, b, first);
			r[i + s] = __builtin_shuffle(a, b, second);
		}
	}
}

// pack writes columns [0, cols) of op(b), depth rows of them, into a panel of the given width, filled up with zeros.
INLINE void pack(int trans, float *panel, const float *b, long ldb, long depth, long cols, long width)
{
	for (long v = 0; v < width; v += LANES) {
		long n = cols <= v ? 0 : cols - v < LANES ? cols - v : LANES;
		if (!trans) {
			for (long l = 0; l < depth; l++)
				store(panel + l * width + v, n == LANES ? load(b + l * ldb + v) : loadn(b + l * ldb + v, n, 0));
			continue;
		}
		for (long l = 0; l < depth; l += LANES) {
			long m = depth - l < LANES ? depth - l : LANES;
			v16 r[LANES];
#pragma GCC unroll 16
			for (int i = 0; i < LANES; i++) {
				const float *p = b + (v + i) * ldb + l;
				r[i] = i >= n ? splat(0) : m == LANES ? load(p) : loadn(p, m, 0);
			}
			transpose16(r);
#pragma GCC unroll 16
			for (int i = 0; i < LANES; i++)
				if (i < m)
					store(panel + (l + i) * width + v, r[i]);
		}
	}
}

// tile computes rows by vecs vectors of c. start holds what every row begins with: the bias, or zeros.
INLINE void tile(const int rows, const int vecs, const int trans, const float *a, long lda, const float *panel, const float *start, long depth, int add, float *c, long ldc, long cols)
{
	v16 acc[12][4];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vecs; v++)
			acc[i][v] = load(start + v * LANES);
	for (long l = 0; l < depth; l++) {
		v16 b[4];
#pragma GCC unroll 4
		for (int v = 0; v < vecs; v++)
			b[v] = load(panel + (l * vecs + v) * LANES);
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++) {
			v16 x = splat(trans ? a[l * lda + i] : a[i * lda + l]);
#pragma GCC unroll 4
			for (int v = 0; v < vecs; v++)
				acc[i][v] += x * b[v];
		}
	}
	if (cols >= vecs * LANES) {
#pragma GCC unroll 16
		for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
			for (int v = 0; v < vecs; v++) {
				float *p = c + i * ldc + v * LANES;
				store(p, add ? load(p) + acc[i][v] : acc[i][v]);
			}
		return;
	}
	float edge[12 * 4 * LANES];
#pragma GCC unroll 16
	for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
		for (int v = 0; v < vecs; v++)
			store(edge + (i * vecs + v) * LANES, acc[i][v]);
	for (int i = 0; i < rows; i++)
		for (long j = 0; j < cols; j++)
			c[i * ldc + j] = edge[i * vecs * LANES + j] + (add ? c[i * ldc + j] : 0);
}

#define TILES(rows, vecs)                                                                                                              \
	for (; m >= rows; m -= rows, a += trans ? rows : rows * lda, c += rows * ldc)                                                  \
		tile(rows, vecs, trans, a, lda, panel, start, depth, add, c, ldc, cols);

INLINE void panel4(const int trans, long m, const float *a, long lda, const float *panel, const float *start, long depth, int add, float *c, long ldc, long cols)
{
	TILES(6, 4)
	TILES(4, 4)
	TILES(2, 4)
	TILES(1, 4)
}

INLINE void panel2(const int trans, long m, const float *a, long lda, const float *panel, const float *start, long depth, int add, float *c, long ldc, long cols)
{
	TILES(12, 2)
	TILES(8, 2)
	TILES(4, 2)
	TILES(1, 2)
}

INLINE void panel1(const int trans, long m, const float *a, long lda, const float *panel, const float *start, long depth, int add, float *c, long ldc, long cols)
{
	TILES(12, 1)
	TILES(8, 1)
	TILES(4, 1)
	TILES(1, 1)
}

INLINE void product(const int trans, int trans_b, long m, long n, long k, const float *a, long lda, const float *b, long ldb, const float *bias, int add, float *c, long ldc)
{
	float panel[DEPTH * 4 * LANES] __attribute__((aligned(64)));
	float start[4 * LANES] __attribute__((aligned(64))) = {0};
	for (long l = 0; l < k; l += DEPTH, add = 1, bias = 0) {
		long depth = k - l < DEPTH ? k - l : DEPTH;
		const float *al = a + (trans ? l * lda : l), *bl = b + (trans_b ? l : l * ldb);
		for (long j = 0; j < n;) {
			long left = n - j, width = left > 2 * LANES ? 4 * LANES : left > LANES ? 2 * LANES : LANES;
			long cols = left < width ? left : width;
			memset(start, 0, sizeof start);
			if (bias)
				memcpy(start, bias + j, cols * sizeof(float));
			pack(trans_b, panel, bl + (trans_b ? j * ldb : j), ldb, depth, cols, width);
			if (width == 4 * LANES)
				panel4(trans, m, al, lda, panel, start, depth, add, c + j, ldc, cols);
			else if (width == 2 * LANES)
				panel2(trans, m, al, lda, panel, start, depth, add, c + j, ldc, cols);
			else
				panel1(trans, m, al, lda, panel, start, depth, add, c + j, ldc, cols);
			j += cols;
		}
	}
}

static void product_any(int trans_a, int trans_b, long m, long n, long k, const float *a, long lda, const float *b, long ldb, const float *bias, int add, float *c, long ldc)
{
	if (trans_a)
		product(1, trans_b, m, n, k, a, lda, b, ldb, bias, add, c, ldc);
	else
		product(0, trans_b, m, n, k, a, lda, b, ldb, bias, add, c, ldc);
}
