//go:build libav
// One mp4 open for decoding frames by number to RGB24. One thread per reader.
#ifndef PINCH_SHIM_H
#define PINCH_SHIM_H
#include <stdint.h>

typedef struct pinch_reader pinch_reader;

// pinch_open opens the first video stream of path and lists its frames. NULL and a message on failure.
pinch_reader *pinch_open(const char *path, int width, int height, char *message, int size);
// pinch_frames is the number of frames.
int pinch_frames(const pinch_reader *r);
// pinch_frame decodes frame i, counted in presentation order, into width*height*3 bytes. Negative and a message on failure.
int pinch_frame(pinch_reader *r, int i, uint8_t *rgb, char *message, int size);
// pinch_close frees everything.
void pinch_close(pinch_reader *r);
#endif
