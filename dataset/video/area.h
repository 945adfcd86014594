//go:build libav
// The exact area mean of package imaging, row by row: the same integers, so the same bytes.
#ifndef PINCH_AREA_H
#define PINCH_AREA_H
#include <stdint.h>

typedef struct pinch_area pinch_area;

// pinch_area_new reduces pictures of w x h pixels to width x height; NULL when memory is short. With PINCH_PLAIN_AREA=1 in the
// environment it does without vector instructions.
pinch_area *pinch_area_new(int w, int h, int width, int height);
// pinch_area_start begins a picture at out, width*height*3 bytes.
void pinch_area_start(pinch_area *a, uint8_t *out);
// pinch_area_row takes the next source row, w*3 bytes; up to 64 bytes behind it may be read.
void pinch_area_row(pinch_area *a, const uint8_t *row);
void pinch_area_free(pinch_area *a);
#endif
