//go:build libav

#include "shim.h"
#include "area.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>

// Rows converted to RGB at a time before they are reduced: 16 rows of 640 pixels stay in the first cache.
enum { BAND = 16 };

struct pinch_decoder {
	AVCodecContext *codec;
	AVPacket *packet;
	AVFrame *frame;
	struct SwsContext *scaler;
	uint8_t *band; // BAND rows of RGB, or a whole frame where rows can not be converted by themselves
	size_t band_size;
	pinch_area *area;
	pinch_target target; // that area was made for
};

static int fail(char *message, int size, const char *what, int code) {
	char text[128] = "";
	if (code < 0) av_strerror(code, text, sizeof text);
	snprintf(message, size, "%s%s%s", what, code < 0 ? ": " : "", text);
	return code < 0 ? code : -1;
}

static int open_codec(pinch_decoder *d, const pinch_stream *s, char *message, int size) {
	const AVCodecDescriptor *named = avcodec_descriptor_get_by_name(s->codec);
	const AVCodec *codec = named ? avcodec_find_decoder(named->id) : NULL;
	if (!codec) return fail(message, size, "libav has no decoder for this codec", 0);
	d->codec = avcodec_alloc_context3(codec);
	d->packet = av_packet_alloc();
	d->frame = av_frame_alloc();
	if (!d->codec || !d->packet || !d->frame) return fail(message, size, "out of memory", AVERROR(ENOMEM));
	AVCodecContext *c = d->codec;
	c->width = s->width, c->height = s->height;
	c->colorspace = s->matrix, c->color_range = s->full_range ? AVCOL_RANGE_JPEG : AVCOL_RANGE_UNSPECIFIED;
	c->thread_count = 1; // one decoder per worker scales better than threads inside it
	if (named->id == AV_CODEC_ID_AV1) c->flags |= AV_CODEC_FLAG_LOW_DELAY; // one frame in, one out
	if (s->extra_size > 0) {
		c->extradata = av_mallocz(s->extra_size + AV_INPUT_BUFFER_PADDING_SIZE);
		if (!c->extradata) return fail(message, size, "out of memory", AVERROR(ENOMEM));
		memcpy(c->extradata, s->extra, s->extra_size);
		c->extradata_size = s->extra_size;
	}
	int code = avcodec_open2(c, codec, NULL);
	return code < 0 ? fail(message, size, "open decoder", code) : 0;
}

pinch_decoder *pinch_open(const pinch_stream *s, char *message, int size) {
	pinch_decoder *d = calloc(1, sizeof *d);
	if (!d) { fail(message, size, "out of memory", AVERROR(ENOMEM)); return NULL; }
	av_log_set_level(AV_LOG_FATAL); // failures come back as messages
	if (open_codec(d, s, message, size) < 0) { pinch_close(d); return NULL; }
	return d;
}

// bands reports whether swscale converts rows of this format one pair at a time, so that a band is as good as the frame.
static int bands(const AVFrame *f) {
	return (f->format == AV_PIX_FMT_YUV420P || f->format == AV_PIX_FMT_YUVJ420P) && f->height % 2 == 0;
}

static int room(pinch_decoder *d, size_t want) {
	if (d->band_size >= want) return 0;
	av_free(d->band);
	d->band = av_malloc(want);
	d->band_size = d->band ? want : 0;
	return d->band ? 0 : AVERROR(ENOMEM);
}

static int scaler(pinch_decoder *d) {
	AVFrame *f = d->frame;
	d->scaler = sws_getCachedContext(d->scaler, f->width, f->height, f->format, f->width, f->height, AV_PIX_FMT_RGB24, SWS_BICUBIC, NULL, NULL, NULL);
	if (!d->scaler) return AVERROR(EINVAL);
	const int *matrix = sws_getCoefficients(f->colorspace);
	sws_setColorspaceDetails(d->scaler, matrix, f->color_range == AVCOL_RANGE_JPEG, matrix, 1, 0, 1 << 16, 1 << 16);
	return 0;
}

// rows converts h rows from y on; rgb is where row 0 of the frame would be.
static int rows(pinch_decoder *d, int y, int h, uint8_t *rgb) {
	AVFrame *f = d->frame;
	const uint8_t *planes[4] = {f->data[0], f->data[1], f->data[2], f->data[3]};
	if (y > 0) { // only formats with half-size chroma planes come in bands
		planes[0] += (ptrdiff_t)y * f->linesize[0];
		planes[1] += (ptrdiff_t)(y / 2) * f->linesize[1];
		planes[2] += (ptrdiff_t)(y / 2) * f->linesize[2];
	}
	uint8_t *dst[4] = {rgb};
	int strides[4] = {3 * f->width};
	return sws_scale(d->scaler, planes, f->linesize, y, h, dst, strides);
}

static int reduce(pinch_decoder *d, const pinch_target *t, uint8_t *out) {
	AVFrame *f = d->frame;
	if (t->x < 0 || t->y < 0 || t->x + t->w > f->width || t->y + t->h > f->height) return AVERROR(EINVAL);
	if (!d->area || memcmp(t, &d->target, sizeof *t)) {
		pinch_area_free(d->area);
		d->area = pinch_area_new(t->w, t->h, t->width, t->height);
		d->target = *t;
	}
	int stride = 3 * f->width, step = bands(f) ? BAND : f->height;
	if (!d->area || room(d, (size_t)step * stride + 64) < 0) return AVERROR(ENOMEM);
	pinch_area_start(d->area, out);
	for (int y = 0; y < f->height && y < t->y + t->h; y += step) {
		int h = f->height - y < step ? f->height - y : step;
		int code = rows(d, y, h, d->band - (ptrdiff_t)y * stride);
		if (code < 0) return code;
		for (int k = 0; k < h; k++)
			if (y + k >= t->y && y + k < t->y + t->h) pinch_area_row(d->area, d->band + (ptrdiff_t)k * stride + 3 * t->x);
	}
	return 0;
}

// write puts the decoded frame, reduced to the target, at out.
static int write(pinch_decoder *d, const pinch_target *t, uint8_t *out, int64_t left) {
	AVFrame *f = d->frame;
	int64_t need = t->width ? 3LL * t->width * t->height : 3LL * f->width * f->height;
	if (left < need) return AVERROR(EINVAL); // the stream changed its size
	int code = scaler(d);
	if (code < 0) return code;
	return t->width ? reduce(d, t, out) : rows(d, 0, f->height, out);
}

typedef struct {
	const int64_t *want, *at;
	int wants, got;
	const pinch_target *target;
	uint8_t *out;
	int64_t out_size;
} request;

// receive takes all frames that are ready and writes the wanted ones.
static int receive(pinch_decoder *d, request *r, char *message, int size) {
	for (;;) {
		int code = avcodec_receive_frame(d->codec, d->frame);
		if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return 0;
		if (code < 0) return fail(message, size, "decode", code);
		int64_t pts = d->frame->pts;
		if (r->got < r->wants && pts > r->want[r->got]) r->got = r->wants + 1; // a later one came: it will not
		else if (r->got < r->wants && pts == r->want[r->got]) {
			if (d->frame->decode_error_flags || d->frame->flags & AV_FRAME_FLAG_CORRUPT) code = fail(message, size, "the frame is damaged", 0);
			else if ((code = write(d, r->target, r->out + r->at[r->got], r->out_size - r->at[r->got])) < 0) fail(message, size, "convert", code);
			else r->got++;
		}
		av_frame_unref(d->frame);
		if (code < 0) return code;
	}
}

static int send(pinch_decoder *d, const uint8_t *data, int size, int64_t pts, int key) {
	int code = av_new_packet(d->packet, size); // a copy: decoders read beyond the end and want zeros there
	if (code < 0) return code;
	memcpy(d->packet->data, data, size);
	d->packet->pts = pts;
	if (key) d->packet->flags |= AV_PKT_FLAG_KEY;
	code = avcodec_send_packet(d->codec, d->packet);
	av_packet_unref(d->packet);
	return code;
}

int pinch_decode(pinch_decoder *d, const pinch_packets *p, int restart, const int64_t *want, const int64_t *at, int wants,
	const pinch_target *t, uint8_t *out, int64_t out_size, int *drained, char *message, int size) {
	request r = {want, at, wants, 0, t, out, out_size};
	const uint8_t *data = p->data;
	int code = 0;
	if (restart) avcodec_flush_buffers(d->codec);
	*drained = 0;
	for (int i = 0; i < p->count; data += p->sizes[i++]) {
		if ((code = send(d, data, p->sizes[i], p->pts[i], p->keys[i])) < 0) return fail(message, size, "decode", code);
		if ((code = receive(d, &r, message, size)) < 0) return code;
	}
	if (r.got < wants) {
		*drained = 1;
		if ((code = avcodec_send_packet(d->codec, NULL)) < 0) return fail(message, size, "decode", code);
		if ((code = receive(d, &r, message, size)) < 0) return code;
	}
	return r.got > wants ? 0 : r.got;
}

void pinch_close(pinch_decoder *d) {
	if (!d) return;
	sws_freeContext(d->scaler);
	av_free(d->band);
	pinch_area_free(d->area);
	av_frame_free(&d->frame);
	av_packet_free(&d->packet);
	avcodec_free_context(&d->codec);
	free(d);
}
