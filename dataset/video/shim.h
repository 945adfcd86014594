//go:build libav
// Packets in, RGB pictures out. One thread per decoder; no files: the caller brings the bytes.
#ifndef PINCH_SHIM_H
#define PINCH_SHIM_H
#include <stdint.h>

typedef struct pinch_decoder pinch_decoder;

// pinch_stream is what a container says about its video stream. codec is libav's name of it; matrix and full_range are those of
// the container (2 and 0 when it does not tell) and give way to what the stream itself says.
typedef struct {
	const char *codec;
	const uint8_t *extra;
	int extra_size, width, height, matrix, full_range;
} pinch_stream;

// pinch_target is the picture wanted: the part x, y, w, h of the frame as its exact area mean in width*height pixels.
// width 0 keeps the whole frame as it is.
typedef struct { int x, y, w, h, width, height; } pinch_target;

// pinch_packets are packets in decode order, one after the other in data.
typedef struct {
	const uint8_t *data;
	const int32_t *sizes;
	const int64_t *pts;
	const uint8_t *keys;
	int count;
} pinch_packets;

// pinch_open makes a decoder of one thread. NULL and a message on failure.
pinch_decoder *pinch_open(const pinch_stream *s, char *message, int size);

// pinch_decode feeds the packets (after forgetting earlier ones when restart is set) and writes the frames whose times are in
// want, ascending, to out + at[i]. Returns the number written (fewer when a picture does not come out), or a negative number and a message. *drained is set when the
// decoder had to be emptied, after which the next call must restart.
int pinch_decode(pinch_decoder *d, const pinch_packets *p, int restart, const int64_t *want, const int64_t *at, int wants,
	const pinch_target *t, uint8_t *out, int64_t out_size, int *drained, char *message, int size);

// pinch_close frees everything.
void pinch_close(pinch_decoder *d);
#endif
