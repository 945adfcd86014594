// Bare libav: decodes the frames of a list (JSON lines {"path":...,"frame":...}) and does nothing with them: no conversion, no
// copy. Each file is opened once; a frame costs a seek to its key frame unless it lies ahead in the same group. One thread.
// With "rgb" as second argument each frame is also converted and scaled to 224x224 RGB by swscale (fast bilinear).
//
//   cc -O2 bare_libav.c -o bare_libav $(pkg-config --cflags --libs libavformat libavcodec libavutil libswscale)
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libswscale/swscale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

typedef struct { int64_t pts; int key; } entry;
typedef struct {
	char path[1024];
	AVFormatContext *format;
	AVCodecContext *codec;
	struct SwsContext *scaler;
	entry *frames;
	int count, stream, last;
} file;

static file files[4096];
static int file_count, rgb;
static AVPacket *packet;
static AVFrame *frame;
static uint8_t small[224 * 224 * 3 + 64];

static void die(const char *what) { fprintf(stderr, "bare_libav: %s\n", what); exit(1); }

static int by_pts(const void *a, const void *b) {
	int64_t x = ((const entry *)a)->pts, y = ((const entry *)b)->pts;
	return (x > y) - (x < y);
}

static file *open_file(const char *path) {
	for (int i = 0; i < file_count; i++) if (!strcmp(files[i].path, path)) return &files[i];
	if (file_count == 4096) die("too many files");
	file *f = &files[file_count++];
	snprintf(f->path, sizeof f->path, "%s", path);
	if (avformat_open_input(&f->format, path, NULL, NULL) < 0) die(path);
	f->stream = av_find_best_stream(f->format, AVMEDIA_TYPE_VIDEO, -1, -1, NULL, 0);
	AVStream *s = f->format->streams[f->stream];
	const AVCodec *codec = avcodec_find_decoder(s->codecpar->codec_id);
	f->codec = avcodec_alloc_context3(codec);
	avcodec_parameters_to_context(f->codec, s->codecpar);
	f->codec->thread_count = 1;
	if (s->codecpar->codec_id == AV_CODEC_ID_AV1) f->codec->flags |= AV_CODEC_FLAG_LOW_DELAY;
	if (avcodec_open2(f->codec, codec, NULL) < 0) die("open codec");
	while (av_read_frame(f->format, packet) >= 0) {
		if (packet->stream_index == f->stream) {
			f->frames = realloc(f->frames, (f->count + 1) * sizeof *f->frames);
			f->frames[f->count++] = (entry){packet->pts, packet->flags & AV_PKT_FLAG_KEY};
		}
		av_packet_unref(packet);
	}
	qsort(f->frames, f->count, sizeof *f->frames, by_pts);
	f->last = -2;
	return f;
}

static void decode(file *f, int i) {
	int key = i, eof = 0;
	while (key > 0 && !f->frames[key].key) key--;
	if (f->last < 0 || i <= f->last || key > f->last + 1) {
		if (av_seek_frame(f->format, f->stream, f->frames[key].pts, AVSEEK_FLAG_BACKWARD) < 0) die("seek");
		avcodec_flush_buffers(f->codec);
	}
	for (;;) {
		int code = avcodec_receive_frame(f->codec, frame);
		if (code >= 0) {
			if (frame->pts == f->frames[i].pts) break;
			av_frame_unref(frame);
			continue;
		}
		if (code != AVERROR(EAGAIN)) die("decode");
		while ((code = av_read_frame(f->format, packet)) >= 0 && packet->stream_index != f->stream) av_packet_unref(packet);
		eof = code < 0;
		avcodec_send_packet(f->codec, eof ? NULL : packet);
		av_packet_unref(packet);
	}
	if (rgb) {
		f->scaler = sws_getCachedContext(f->scaler, frame->width, frame->height, frame->format, 224, 224, AV_PIX_FMT_RGB24, SWS_FAST_BILINEAR, NULL, NULL, NULL);
		uint8_t *planes[4] = {small};
		int strides[4] = {224 * 3};
		sws_scale(f->scaler, (const uint8_t *const *)frame->data, frame->linesize, 0, frame->height, planes, strides);
	}
	av_frame_unref(frame);
	f->last = eof ? -2 : i;
}

static double cpu(void) {
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double wall(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

typedef struct { file *f; int frame; } want;

int main(int argc, char **argv) {
	if (argc < 2) die("usage: bare_libav LIST [rgb]");
	rgb = argc > 2 && !strcmp(argv[2], "rgb");
	av_log_set_level(AV_LOG_FATAL);
	packet = av_packet_alloc(), frame = av_frame_alloc();
	FILE *list = fopen(argv[1], "r");
	if (!list) die(argv[1]);
	want *wants = NULL;
	int n = 0;
	char line[2048], path[1024];
	while (fgets(line, sizeof line, list)) {
		int k;
		if (sscanf(line, "{\"path\":\"%1023[^\"]\",\"frame\":%d}", path, &k) != 2) die("a line of the list is not understood");
		wants = realloc(wants, (n + 1) * sizeof *wants);
		wants[n++] = (want){open_file(path), k}; // files are open before the clock starts
	}
	double c = cpu(), w = wall();
	for (int i = 0; i < n; i++) decode(wants[i].f, wants[i].frame);
	c = cpu() - c, w = wall() - w;
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	printf("{\"pictures\":%d,\"seconds\":%.4f,\"cpu_seconds\":%.4f,\"pictures_per_second\":%.1f,\"pictures_per_cpu_second\":%.1f,\"peak_memory_mb\":%.1f}\n",
		n, w, c, n / w, n / c, u.ru_maxrss / 1000.0);
	return 0;
}
