//go:build libav

package video

// #cgo pkg-config: libavformat libavcodec libavutil libswscale
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// RandomAccess tells whether Reader decodes any frame directly (build tag libav) or by decoding from the start.
const RandomAccess = true

// libavDecoder owns one demuxer, one decoder thread and one scaler.
type libavDecoder struct{ r *C.pinch_reader }

func openDecoder(path string, info Info, width, height int) (decoder, error) {
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var message [256]C.char
	r := C.pinch_open(cpath, C.int(width), C.int(height), &message[0], C.int(len(message)))
	if r == nil {
		return nil, errors.New(C.GoString(&message[0]))
	}
	d := &libavDecoder{r}
	if n := int(C.pinch_frames(r)); n != info.Frames() {
		d.close()
		return nil, fmt.Errorf("libav finds %d frames, the index has %d", n, info.Frames())
	}
	return d, nil
}

func (d *libavDecoder) frame(i int, dst []byte) error {
	var message [256]C.char
	if C.pinch_frame(d.r, C.int(i), (*C.uint8_t)(unsafe.Pointer(&dst[0])), &message[0], C.int(len(message))) < 0 {
		return errors.New(C.GoString(&message[0]))
	}
	return nil
}

func (d *libavDecoder) close() {
	if d.r != nil {
		C.pinch_close(d.r)
		d.r = nil
	}
}
