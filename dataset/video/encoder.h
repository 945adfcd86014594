//go:build libav
// Pictures in, coded frames out, one thread per encoder; no files.
#ifndef PINCH_ENCODER_H
#define PINCH_ENCODER_H
#include <stdint.h>

typedef struct pinch_encoder pinch_encoder;

// pinch_encoding is how to code: x264's preset, constant rate factor and tune; gop is the key-frame distance.
typedef struct {
	const char *preset;
	int width, height, fps, gop, crf, threads;
} pinch_encoding;

// pinch_encoder_open makes an H.264 encoder. NULL and a message on failure.
pinch_encoder *pinch_encoder_open(const pinch_encoding *o, char *message, int size);

// pinch_encoder_send gives one picture, a JPEG or RGB24 rows without gaps, or NULL to say that there are no more. Negative and a message on failure.
int pinch_encoder_send(pinch_encoder *e, const uint8_t *picture, int64_t length, int jpeg, char *message, int size);

// pinch_encoder_take gives the next coded frame as Annex B in *data, valid until the next call. Its size, 0 when there is none yet, or
// negative and a message.
int pinch_encoder_take(pinch_encoder *e, const uint8_t **data, char *message, int size);

// pinch_encoder_close frees everything.
void pinch_encoder_close(pinch_encoder *e);
#endif
