//go:build libav

#include "encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <libavcodec/avcodec.h>
#include <libavutil/imgutils.h>
#include <libavutil/opt.h>
#include <libswscale/swscale.h>

struct pinch_encoder {
	AVCodecContext *encoder, *jpeg;
	AVPacket *packet, *input;
	AVFrame *frame, *decoded;
	struct SwsContext *scaler;
	int64_t frames;
};

static int fail(char *message, int size, const char *what, int code) {
	char text[128] = "";
	if (code < 0) av_strerror(code, text, sizeof text);
	snprintf(message, size, "%s%s%s", what, code < 0 ? ": " : "", text);
	return code < 0 ? code : -1;
}

// The same settings as the ffmpeg program gets: closed groups of pictures, no B-frames, no scene cuts, limited range BT.601, nothing
// that depends on the day or the machine.
static int open_encoder(pinch_encoder *e, const pinch_encoding *o, char *message, int size) {
	const AVCodec *codec = avcodec_find_encoder_by_name("libx264");
	if (!codec) return fail(message, size, "libav has no encoder libx264 (apt-get install libavcodec-extra)", 0);
	AVCodecContext *c = e->encoder = avcodec_alloc_context3(codec);
	if (!c) return fail(message, size, "out of memory", AVERROR(ENOMEM));
	c->width = o->width, c->height = o->height, c->pix_fmt = AV_PIX_FMT_YUV420P;
	c->time_base = (AVRational){1, o->fps}, c->framerate = (AVRational){o->fps, 1};
	c->gop_size = o->gop, c->keyint_min = o->gop, c->max_b_frames = 0, c->thread_count = o->threads;
	c->color_range = AVCOL_RANGE_MPEG, c->colorspace = AVCOL_SPC_SMPTE170M;
	c->color_primaries = AVCOL_PRI_SMPTE170M, c->color_trc = AVCOL_TRC_SMPTE170M;
	c->flags |= AV_CODEC_FLAG_CLOSED_GOP | AV_CODEC_FLAG_BITEXACT;
	av_opt_set(c->priv_data, "preset", o->preset, 0);
	av_opt_set(c->priv_data, "tune", "fastdecode", 0);
	av_opt_set_double(c->priv_data, "crf", o->crf, 0);
	av_opt_set_int(c, "sc_threshold", 0, AV_OPT_SEARCH_CHILDREN);
	int code = avcodec_open2(c, codec, NULL);
	return code < 0 ? fail(message, size, "open encoder", code) : 0;
}

static int open_jpeg(pinch_encoder *e, char *message, int size) {
	const AVCodec *codec = avcodec_find_decoder(AV_CODEC_ID_MJPEG);
	if (!codec) return fail(message, size, "libav has no JPEG decoder", 0);
	e->jpeg = avcodec_alloc_context3(codec);
	if (!e->jpeg) return fail(message, size, "out of memory", AVERROR(ENOMEM));
	e->jpeg->thread_count = 1;
	int code = avcodec_open2(e->jpeg, codec, NULL);
	return code < 0 ? fail(message, size, "open JPEG decoder", code) : 0;
}

pinch_encoder *pinch_encoder_open(const pinch_encoding *o, char *message, int size) {
	pinch_encoder *e = calloc(1, sizeof *e);
	if (!e) { fail(message, size, "out of memory", AVERROR(ENOMEM)); return NULL; }
	av_log_set_level(AV_LOG_FATAL); // failures come back as messages
	e->packet = av_packet_alloc();
	e->input = av_packet_alloc();
	e->frame = av_frame_alloc();
	e->decoded = av_frame_alloc();
	if (!e->packet || !e->input || !e->frame || !e->decoded) fail(message, size, "out of memory", AVERROR(ENOMEM));
	else if (open_encoder(e, o, message, size) >= 0 && open_jpeg(e, message, size) >= 0) return e;
	pinch_encoder_close(e);
	return NULL;
}

void pinch_encoder_close(pinch_encoder *e) {
	if (!e) return;
	avcodec_free_context(&e->encoder);
	avcodec_free_context(&e->jpeg);
	av_packet_free(&e->packet);
	av_packet_free(&e->input);
	av_frame_free(&e->frame);
	av_frame_free(&e->decoded);
	sws_freeContext(e->scaler);
	free(e);
}

// decode makes e->decoded of one JPEG.
static int decode(pinch_encoder *e, const uint8_t *picture, int64_t length) {
	int code = av_new_packet(e->input, length);
	if (code < 0) return code;
	memcpy(e->input->data, picture, length);
	code = avcodec_send_packet(e->jpeg, e->input);
	av_packet_unref(e->input);
	return code < 0 ? code : avcodec_receive_frame(e->jpeg, e->decoded);
}

// wrap lets e->decoded refer to RGB rows of the caller.
static void wrap(pinch_encoder *e, const uint8_t *rgb) {
	AVFrame *f = e->decoded;
	av_frame_unref(f);
	f->width = e->encoder->width, f->height = e->encoder->height, f->format = AV_PIX_FMT_RGB24;
	f->data[0] = (uint8_t *)rgb, f->linesize[0] = 3 * f->width;
}

// convert fills e->frame from e->decoded.
static int convert(pinch_encoder *e) {
	AVCodecContext *c = e->encoder;
	AVFrame *in = e->decoded, *out = e->frame;
	if (in->width != c->width || in->height != c->height) return AVERROR_INVALIDDATA;
	out->width = c->width, out->height = c->height, out->format = c->pix_fmt;
	out->color_range = c->color_range, out->colorspace = c->colorspace;
	int code = out->buf[0] ? av_frame_make_writable(out) : av_frame_get_buffer(out, 0); // the encoder copies: one buffer serves all
	if (code < 0) return code;
	e->scaler = sws_getCachedContext(e->scaler, in->width, in->height, in->format, c->width, c->height, c->pix_fmt, SWS_FAST_BILINEAR, NULL, NULL, NULL);
	if (!e->scaler) return AVERROR(EINVAL);
	const int *matrix = sws_getCoefficients(SWS_CS_ITU601);
	sws_setColorspaceDetails(e->scaler, matrix, in->format == AV_PIX_FMT_RGB24 || in->color_range == AVCOL_RANGE_JPEG, matrix, 0, 0, 1 << 16, 1 << 16);
	code = sws_scale(e->scaler, (const uint8_t *const *)in->data, in->linesize, 0, in->height, out->data, out->linesize);
	out->pts = e->frames++;
	return code < 0 ? code : 0;
}

int pinch_encoder_send(pinch_encoder *e, const uint8_t *picture, int64_t length, int jpeg, char *message, int size) {
	int code = 0;
	if (!picture) {
		code = avcodec_send_frame(e->encoder, NULL);
		return code < 0 ? fail(message, size, "end the stream", code) : 0;
	}
	if (jpeg) code = decode(e, picture, length);
	else wrap(e, picture);
	if (code < 0) return fail(message, size, "the picture does not decode", code);
	code = convert(e);
	if (code < 0) return fail(message, size, "convert the picture", code);
	code = avcodec_send_frame(e->encoder, e->frame);
	return code < 0 ? fail(message, size, "encode the picture", code) : 0;
}

int pinch_encoder_take(pinch_encoder *e, const uint8_t **data, char *message, int size) {
	av_packet_unref(e->packet);
	int code = avcodec_receive_packet(e->encoder, e->packet);
	if (code == AVERROR(EAGAIN) || code == AVERROR_EOF) return 0;
	if (code < 0) return fail(message, size, "take a coded frame", code);
	*data = e->packet->data;
	return e->packet->size;
}
