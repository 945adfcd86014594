// Kernels that work row by row: norms, softmax, attention scores. Included once per kind of processor.

// Each row is walked in vectors; the last, shorter one is padded so that it adds nothing.
#define EACH(d, body)                                                                                                                  \
	do {                                                                                                                           \
		long j = 0;                                                                                                            \
		for (; j + LANES <= (d); j += LANES) {                                                                                 \
			const long n = LANES;                                                                                          \
			body                                                                                                           \
		}                                                                                                                      \
		if (j < (d)) {                                                                                                         \
			const long n = (d)-j;                                                                                          \
			body                                                                                                           \
		}                                                                                                                      \
	} while (0)

// get and put move n elements, LANES in all rounds but the last.
INLINE v16 get(const float *p, long n, float pad) { return n == LANES ? load(p) : loadn(p, n, pad); }
INLINE void put(float *p, v16 v, long n)
{
	if (n == LANES)
		store(p, v);
	else
		storen(p, v, n);
}

// moments gives a row's mean (0 if not centred) and the reciprocal of its spread.
INLINE void moments(int centre, const float *x, long d, float eps, float *mean, float *scale)
{
	v16 s = splat(0);
	*mean = 0;
	if (centre) {
		EACH(d, s += get(x + j, n, 0););
		*mean = sum(s) / d;
	}
	v16 m = splat(*mean), q = splat(0);
	EACH(d, v16 v = get(x + j, n, *mean) - m; q += v * v;);
	*scale = 1 / __builtin_sqrtf(sum(q) / d + eps);
}

static void norm(int centre, float *y, const float *x, const float *gain, const float *bias, long rows, long d, float eps)
{
	for (long i = 0; i < rows; i++, x += d, y += d) {
		float mean, scale;
		moments(centre, x, d, eps, &mean, &scale);
		v16 m = splat(mean), c = splat(scale);
		EACH(d, v16 v = (get(x + j, n, 0) - m) * c; if (gain) v *= get(gain + j, n, 0); if (bias) v += get(bias + j, n, 0); put(y + j, v, n););
	}
}

static void norm_grad(int centre, float *dx, const float *x, const float *gain, const float *dy, long rows, long d, float eps)
{
	for (long i = 0; i < rows; i++, x += d, dx += d, dy += d) {
		float mean, scale;
		moments(centre, x, d, eps, &mean, &scale);
		v16 m = splat(mean), c = splat(scale), s = splat(0), p = splat(0);
		EACH(d, v16 g = get(dy + j, n, 0); if (gain) g *= get(gain + j, n, 0); s += g; p += g * ((get(x + j, n, mean) - m) * c););
		v16 a = splat(centre ? sum(s) / d : 0), b = splat(sum(p) / d);
		EACH(d, v16 g = get(dy + j, n, 0); if (gain) g *= get(gain + j, n, 0); put(dx + j, c * (g - a - (get(x + j, n, mean) - m) * c * b), n););
	}
}

static void norm_param_grad(int centre, float *dgain, float *dbias, const float *x, const float *dy, long rows, long d, float eps)
{
	for (long i = 0; i < rows; i++, x += d, dy += d) {
		float mean = 0, scale = 0;
		if (dgain)
			moments(centre, x, d, eps, &mean, &scale);
		v16 m = splat(mean), c = splat(scale);
		EACH(d, v16 g = get(dy + j, n, 0); if (dgain) put(dgain + j, get(dgain + j, n, 0) + g * ((get(x + j, n, 0) - m) * c), n);
		     if (dbias) put(dbias + j, get(dbias + j, n, 0) + g, n););
	}
}

// softmax_row turns a row into its softmax in place, given its largest element.
INLINE void softmax_row(float *y, long d, float top)
{
	v16 t = splat(top), s = splat(0);
	EACH(d, v16 e = vexp(get(y + j, n, -__builtin_inff()) - t); put(y + j, e, n); s += e;);
	v16 c = splat(1 / sum(s));
	EACH(d, put(y + j, get(y + j, n, 0) * c, n););
}

static void softmax(float *y, const float *x, long rows, long d)
{
	for (long i = 0; i < rows; i++, x += d, y += d) {
		v16 top = splat(-__builtin_inff());
		EACH(d, v16 v = get(x + j, n, -__builtin_inff()); put(y + j, v, n); top = larger(top, v););
		softmax_row(y, d, largest(top));
	}
}

static void softmax_grad(float *dx, const float *y, const float *dy, long rows, long d, float scale)
{
	for (long i = 0; i < rows; i++, y += d, dx += d, dy += d) {
		v16 s = splat(0), c = splat(scale);
		EACH(d, s += get(y + j, n, 0) * get(dy + j, n, 0););
		v16 dot = splat(sum(s));
		EACH(d, put(dx + j, get(y + j, n, 0) * (get(dy + j, n, 0) - dot) * c, n););
	}
}

// shut_row ends a row without any finite element: zeros if the mask shut all of it, NaN if there is a NaN.
static void shut_row(float *s, long d)
{
	float fill = 0;
	for (long j = 0; j < d; j++)
		if (s[j] != s[j])
			fill = s[j];
	for (long j = 0; j < d; j++)
		s[j] = fill;
}

static void scores(float *s, long rows, long d, float scale, const float *mask, long mask_stride)
{
	v16 c = splat(scale);
	for (long i = 0; i < rows; i++, s += d) {
		v16 top = splat(-__builtin_inff());
		if (mask) {
			EACH(d, v16 v = get(s + j, n, 0) * c + get(mask + j, n, -__builtin_inff()); put(s + j, v, n); top = larger(top, v););
			mask += mask_stride;
		} else {
			EACH(d, v16 v = get(s + j, n, -__builtin_inff()) * c; put(s + j, v, n); top = larger(top, v););
		}
		float most = largest(top);
		if (most == -__builtin_inff())
			shut_row(s, d);
		else
			softmax_row(s, d, most);
	}
}
