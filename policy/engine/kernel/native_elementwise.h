// Element-wise kernels, sums and the optimiser. Included once per kind of processor.

INLINE v16 apply(int kind, v16 a, v16 b) { return kind == 0 ? a + b : kind == 1 ? a - b : a * b; }

INLINE void binary_rows(int kind, float *y, long rows, long cols, const float *a, long ars, int acs, const float *b, long brs, int bcs)
{
	for (long i = 0; i < rows; i++, y += cols, a += ars, b += brs) {
		long j = 0;
		for (; j + LANES <= cols; j += LANES)
			store(y + j, apply(kind, acs ? load(a + j) : splat(*a), bcs ? load(b + j) : splat(*b)));
		long n = cols - j;
		if (n > 0)
			storen(y + j, apply(kind, acs ? loadn(a + j, n, 0) : splat(*a), bcs ? loadn(b + j, n, 0) : splat(*b)), n);
	}
}

static void binary(int kind, float *y, long rows, long cols, const float *a, long ars, long acs, const float *b, long brs, long bcs)
{
	if (acs == 1 && bcs == 1 && ars == cols && brs == cols) { // one long row
		cols *= rows;
		rows = 1;
	}
	if (kind == 0)
		binary_rows(0, y, rows, cols, a, ars, acs != 0, b, brs, bcs != 0);
	else if (kind == 1)
		binary_rows(1, y, rows, cols, a, ars, acs != 0, b, brs, bcs != 0);
	else
		binary_rows(2, y, rows, cols, a, ars, acs != 0, b, brs, bcs != 0);
}

INLINE float sum_row(const float *x, long n)
{
	v16 s = splat(0);
	long j = 0;
	for (; j + LANES <= n; j += LANES)
		s += load(x + j);
	if (j < n)
		s += loadn(x + j, n - j, 0);
	return sum(s);
}

// sum_columns adds the column sums of a·b, or of a alone, to y, four vectors of columns at a time.
INLINE void sum_columns(int product, float *y, const float *a, const float *b, long rows, long cols)
{
	long j = 0;
	for (; j + 4 * LANES <= cols; j += 4 * LANES) {
		v16 s0 = splat(0), s1 = s0, s2 = s0, s3 = s0;
		const float *p = a + j, *q = b + j;
		for (long i = 0; i < rows; i++, p += cols, q += cols) {
			s0 += product ? load(p) * load(q) : load(p);
			s1 += product ? load(p + LANES) * load(q + LANES) : load(p + LANES);
			s2 += product ? load(p + 2 * LANES) * load(q + 2 * LANES) : load(p + 2 * LANES);
			s3 += product ? load(p + 3 * LANES) * load(q + 3 * LANES) : load(p + 3 * LANES);
		}
		store(y + j, load(y + j) + s0);
		store(y + j + LANES, load(y + j + LANES) + s1);
		store(y + j + 2 * LANES, load(y + j + 2 * LANES) + s2);
		store(y + j + 3 * LANES, load(y + j + 3 * LANES) + s3);
	}
	for (; j + LANES <= cols; j += LANES) {
		v16 s = splat(0);
		const float *p = a + j, *q = b + j;
		for (long i = 0; i < rows; i++, p += cols, q += cols)
			s += product ? load(p) * load(q) : load(p);
		store(y + j, load(y + j) + s);
	}
	for (; j < cols; j++) {
		float s = 0;
		for (long i = 0; i < rows; i++)
			s += product ? a[i * cols + j] * b[i * cols + j] : a[i * cols + j];
		y[j] += s;
	}
}

static void sum_to(float *y, long yrs, long ycs, const float *x, long rows, long cols)
{
	if (ycs == 0) {
		for (long i = 0; i < rows; i++)
			y[i * yrs] += sum_row(x + i * cols, cols);
		return;
	}
	if (yrs == 0) {
		sum_columns(0, y, x, x, rows, cols);
		return;
	}
	for (long i = 0; i < rows; i++)
		sum_columns(0, y + i * yrs, x + i * cols, x, 1, cols);
}

static void mul_sum(float *s, const float *a, const float *b, long rows, long d) { sum_columns(1, s, a, b, rows, d); }

static void affine(float *y, const float *x, long n, float scale, float shift)
{
	v16 c = splat(scale), s = splat(shift);
	long j = 0;
	for (; j + LANES <= n; j += LANES)
		store(y + j, load(x + j) * c + s);
	for (; j < n; j++)
		y[j] = x[j] * scale + shift;
}

static void modulate(float *y, const float *x, const float *scale, const float *shift, long rows, long d, long stride)
{
	for (long i = 0; i < rows; i++, y += d, x += d, scale += stride) {
		long j = 0;
		for (; j + LANES <= d; j += LANES) {
			v16 v = load(x + j) * (splat(1) + load(scale + j));
			store(y + j, shift ? v + load(shift + j) : v);
		}
		for (; j < d; j++) {
			float v = x[j] * (1 + scale[j]);
			y[j] = shift ? v + shift[j] : v;
		}
		if (shift)
			shift += stride;
	}
}

static void gate(float *out, const float *x, const float *y, const float *gate, long rows, long d, long stride)
{
	for (long i = 0; i < rows; i++, out += d, x += d, y += d, gate += stride) {
		long j = 0;
		for (; j + LANES <= d; j += LANES)
			store(out + j, load(x + j) + load(gate + j) * load(y + j));
		for (; j < d; j++)
			out[j] = x[j] + gate[j] * y[j];
	}
}

// The activations, in the order of the Go constants.
enum { gelu, silu, tangent };

INLINE v16 activated(int kind, v16 x)
{
	if (kind == tangent)
		return vtanh(x);
	if (kind == silu)
		return x * sigmoid(x);
	v16 u = x * (splat(1.5957691216057308f) + splat(1.5957691216057308f * 0.044715f) * (x * x)); // 2·√(2/π)·(x + 0.044715·x³)
	return x * sigmoid(u);
}

INLINE v16 slope(int kind, v16 x)
{
	if (kind == tangent) {
		v16 h = vtanh(x);
		return splat(1) - h * h;
	}
	if (kind == silu) {
		v16 s = sigmoid(x);
		return s + x * s * (splat(1) - s);
	}
	v16 z = x * x;
	v16 s = sigmoid(x * (splat(1.5957691216057308f) + splat(1.5957691216057308f * 0.044715f) * z));
	return s + x * s * (splat(1) - s) * (splat(1.5957691216057308f) + splat(3 * 1.5957691216057308f * 0.044715f) * z);
}

INLINE void activate_all(int kind, float *y, const float *x, long n)
{
	long j = 0;
	for (; j + LANES <= n; j += LANES)
		store(y + j, activated(kind, load(x + j)));
	if (j < n)
		storen(y + j, activated(kind, loadn(x + j, n - j, 0)), n - j);
}

static void activate(int kind, float *y, const float *x, long n)
{
	if (kind == gelu)
		activate_all(gelu, y, x, n);
	else if (kind == silu)
		activate_all(silu, y, x, n);
	else
		activate_all(tangent, y, x, n);
}

INLINE void activate_grad_all(int kind, float *dx, const float *x, const float *dy, long n)
{
	long j = 0;
	for (; j + LANES <= n; j += LANES)
		store(dx + j, slope(kind, load(x + j)) * load(dy + j));
	if (j < n)
		storen(dx + j, slope(kind, loadn(x + j, n - j, 0)) * loadn(dy + j, n - j, 0), n - j);
}

static void activate_grad(int kind, float *dx, const float *x, const float *dy, long n)
{
	if (kind == gelu)
		activate_grad_all(gelu, dx, x, dy, n);
	else if (kind == silu)
		activate_grad_all(silu, dx, x, dy, n);
	else
		activate_grad_all(tangent, dx, x, dy, n);
}

static void exponential(float *y, const float *x, long n)
{
	long j = 0;
	for (; j + LANES <= n; j += LANES)
		store(y + j, vexp(load(x + j)));
	if (j < n)
		storen(y + j, vexp(loadn(x + j, n - j, 0)), n - j);
}

static void adamw(float *p, const float *g, float *m, float *v, long n, float grad_scale, float beta1, float beta2, float size, float eps, float keep)
{
	for (long i = 0; i < n; i++) {
		float d = g[i] * grad_scale;
		m[i] = beta1 * m[i] + (1 - beta1) * d;
		v[i] = beta2 * v[i] + (1 - beta2) * d * d;
		p[i] = keep * p[i] - size * m[i] / (__builtin_sqrtf(v[i]) + eps);
	}
}

// pinch_sum_squares adds runs of 1024 elements in float lanes and the runs in double.
static double sum_squares(const float *x, long n)
{
	double total = 0;
	while (n > 0) {
		long run = n < 1024 ? n : 1024, j = 0;
		v16 s = splat(0);
		for (; j + LANES <= run; j += LANES)
			s += load(x + j) * load(x + j);
		if (j < run) {
			v16 v = loadn(x + j, run - j, 0);
			s += v * v;
		}
		for (int l = 0; l < LANES; l++)
			total += s[l];
		x += run;
		n -= run;
	}
	return total;
}

static void ema(float *average, const float *x, long n, float decay)
{
	for (long i = 0; i < n; i++)
		average[i] = decay * average[i] + (1 - decay) * x[i];
}
