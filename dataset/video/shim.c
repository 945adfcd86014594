//go:build libav

#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>

typedef struct { int64_t pts; int key; } frame_entry;

struct pinch_reader {
	AVFormatContext *format;
	AVCodecContext *codec;
	AVPacket *packet;
	AVFrame *frame;
	struct SwsContext *scaler;
	int stream, width, height;
	frame_entry *frames; // in presentation order
	int count;
	int last;     // frame that the decoder gave last; -1 after a seek
	int draining; // the end of the file was sent to the decoder
};

static int fail(char *message, int size, const char *what, int code) {
	char text[128] = "";
	if (code < 0) av_strerror(code, text, sizeof text);
	snprintf(message, size, "%s%s%s", what, code < 0 ? ": " : "", text);
	return code < 0 ? code : -1;
}

static int by_pts(const void *a, const void *b) {
	int64_t x = ((const frame_entry *)a)->pts, y = ((const frame_entry *)b)->pts;
	return (x > y) - (x < y);
}

// scan lists time and key flag of each packet and rewinds.
static int scan(pinch_reader *r) {
	int room = 0, code;
	while ((code = av_read_frame(r->format, r->packet)) >= 0) {
		if (r->packet->stream_index == r->stream && !(r->packet->flags & AV_PKT_FLAG_DISCARD)) {
			if (r->count == room) {
				room = room ? 2 * room : 1024;
				frame_entry *grown = realloc(r->frames, room * sizeof *grown);
				if (!grown) return AVERROR(ENOMEM);
				r->frames = grown;
			}
			r->frames[r->count++] = (frame_entry){r->packet->pts, r->packet->flags & AV_PKT_FLAG_KEY};
		}
		av_packet_unref(r->packet);
	}
	if (code != AVERROR_EOF) return code;
	qsort(r->frames, r->count, sizeof *r->frames, by_pts);
	return 0;
}

static int open_reader(pinch_reader *r, const char *path, char *message, int size) {
	int code = avformat_open_input(&r->format, path, NULL, NULL);
	if (code < 0) return fail(message, size, "open", code);
	r->stream = -1;
	for (unsigned i = 0; i < r->format->nb_streams && r->stream < 0; i++)
		if (r->format->streams[i]->codecpar->codec_type == AVMEDIA_TYPE_VIDEO) r->stream = i;
	if (r->stream < 0) return fail(message, size, "no video stream", 0);
	AVStream *s = r->format->streams[r->stream];
	const AVCodec *codec = avcodec_find_decoder(s->codecpar->codec_id);
	if (!codec) return fail(message, size, "no decoder for this codec", 0);
	r->codec = avcodec_alloc_context3(codec);
	r->packet = av_packet_alloc();
	r->frame = av_frame_alloc();
	if (!r->codec || !r->packet || !r->frame) return fail(message, size, "out of memory", AVERROR(ENOMEM));
	if ((code = avcodec_parameters_to_context(r->codec, s->codecpar)) < 0) return fail(message, size, "codec parameters", code);
	r->codec->pkt_timebase = s->time_base;
	r->codec->thread_count = 1; // one decoder per worker scales better than threads inside it
	if (s->codecpar->codec_id == AV_CODEC_ID_AV1) r->codec->flags |= AV_CODEC_FLAG_LOW_DELAY; // one frame in, one out
	if ((code = avcodec_open2(r->codec, codec, NULL)) < 0) return fail(message, size, "open decoder", code);
	if ((code = scan(r)) < 0) return fail(message, size, "read packets", code);
	r->draining = 1; // the demuxer stands at the end: the first frame seeks
	return 0;
}

pinch_reader *pinch_open(const char *path, int width, int height, char *message, int size) {
	pinch_reader *r = calloc(1, sizeof *r);
	if (!r) { fail(message, size, "out of memory", AVERROR(ENOMEM)); return NULL; }
	av_log_set_level(AV_LOG_FATAL); // failures come back as messages
	r->width = width, r->height = height, r->last = -1;
	if (open_reader(r, path, message, size) < 0) { pinch_close(r); return NULL; }
	return r;
}

int pinch_frames(const pinch_reader *r) { return r->count; }

// next_frame decodes one more frame; AVERROR_EOF at the end.
static int next_frame(pinch_reader *r) {
	for (;;) {
		int code = avcodec_receive_frame(r->codec, r->frame);
		if (code != AVERROR(EAGAIN)) return code;
		while ((code = av_read_frame(r->format, r->packet)) >= 0 && r->packet->stream_index != r->stream) av_packet_unref(r->packet);
		if (code == AVERROR_EOF) {
			r->draining = 1;
			code = avcodec_send_packet(r->codec, NULL);
		} else if (code >= 0) {
			code = avcodec_send_packet(r->codec, r->packet);
			av_packet_unref(r->packet);
		}
		if (code < 0) return code;
	}
}

static int convert(pinch_reader *r, uint8_t *rgb) {
	AVFrame *f = r->frame;
	int same = f->width == r->width && f->height == r->height;
	r->scaler = sws_getCachedContext(r->scaler, f->width, f->height, f->format, r->width, r->height, AV_PIX_FMT_RGB24,
		same ? SWS_BICUBIC : SWS_FAST_BILINEAR, NULL, NULL, NULL);
	if (!r->scaler) return AVERROR(EINVAL);
	const int *matrix = sws_getCoefficients(f->colorspace);
	sws_setColorspaceDetails(r->scaler, matrix, f->color_range == AVCOL_RANGE_JPEG, matrix, 1, 0, 1 << 16, 1 << 16);
	uint8_t *planes[4] = {rgb};
	int strides[4] = {3 * r->width};
	return sws_scale(r->scaler, (const uint8_t *const *)f->data, f->linesize, 0, f->height, planes, strides);
}

int pinch_frame(pinch_reader *r, int i, uint8_t *rgb, char *message, int size) {
	int64_t want = r->frames[i].pts;
	int key = i, code;
	while (key > 0 && !r->frames[key].key) key--;
	if (r->draining || r->last < 0 || i <= r->last || key > r->last + 1) { // not ahead in the same group of pictures
		code = av_seek_frame(r->format, r->stream, r->frames[key].pts, AVSEEK_FLAG_BACKWARD);
		if (code < 0) return fail(message, size, "seek", code);
		avcodec_flush_buffers(r->codec);
		r->draining = 0;
	}
	r->last = -1;
	for (;;) {
		code = next_frame(r);
		if (code < 0) return fail(message, size, code == AVERROR_EOF ? "the frame does not decode" : "decode", code);
		int64_t pts = r->frame->best_effort_timestamp;
		if (pts == want) break;
		if (pts > want) return fail(message, size, "the frame is missing: a later one came", 0);
		av_frame_unref(r->frame);
	}
	code = convert(r, rgb);
	av_frame_unref(r->frame);
	if (code < 0) return fail(message, size, "convert", code);
	r->last = i;
	return 0;
}

void pinch_close(pinch_reader *r) {
	if (!r) return;
	sws_freeContext(r->scaler);
	av_frame_free(&r->frame);
	av_packet_free(&r->packet);
	avcodec_free_context(&r->codec);
	avformat_close_input(&r->format);
	free(r->frames);
	free(r);
}
