//go:build libav

package video

// #include <stdlib.h>
// #include "encoder.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"unsafe"
)

const nativeEncoder = true

// nativeCoder codes with libav in this process; a Copier writes the file.
type nativeCoder struct {
	ctx     context.Context
	out     *Copier
	e       *C.pinch_encoder
	message [256]C.char
}

func newNative(ctx context.Context, path string, o EncodeOptions) (coder, error) {
	n := &nativeCoder{ctx: ctx}
	preset := C.CString(o.Preset)
	defer C.free(unsafe.Pointer(preset))
	how := C.pinch_encoding{preset: preset, width: C.int(o.Width), height: C.int(o.Height), fps: C.int(o.FPS), gop: C.int(o.GOP),
		crf: C.int(o.CRF), threads: C.int(o.Threads)}
	if n.e = C.pinch_encoder_open(&how, &n.message[0], C.int(len(n.message))); n.e == nil {
		return nil, n.said()
	}
	var err error
	if n.out, err = NewCopier(path, o, Units{}); err != nil {
		C.pinch_encoder_close(n.e)
		return nil, err
	}
	return n, nil
}

func (n *nativeCoder) said() error { return errors.New(C.GoString(&n.message[0])) }

func (n *nativeCoder) write(picture []byte, jpeg bool) error {
	if err := n.ctx.Err(); err != nil {
		return err
	}
	isJPEG := C.int(0)
	if jpeg {
		isJPEG = 1
	}
	p := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(picture)))
	if C.pinch_encoder_send(n.e, p, C.int64_t(len(picture)), isJPEG, &n.message[0], C.int(len(n.message))) < 0 {
		return n.said()
	}
	return n.take()
}

// take writes the coded frames that are ready.
func (n *nativeCoder) take() error {
	for {
		var data *C.uint8_t
		size := C.pinch_encoder_take(n.e, &data, &n.message[0], C.int(len(n.message)))
		switch {
		case size < 0:
			return n.said()
		case size == 0:
			return nil
		}
		if err := n.out.unit(unsafe.Slice((*byte)(unsafe.Pointer(data)), int(size))); err != nil {
			return err
		}
	}
}

func (n *nativeCoder) close(frames int) (Info, error) {
	defer n.abort()
	if C.pinch_encoder_send(n.e, nil, 0, 0, &n.message[0], C.int(len(n.message))) < 0 {
		return Info{}, n.said()
	}
	if err := n.take(); err != nil {
		return Info{}, err
	}
	if got := len(n.out.samples); got != frames {
		return Info{}, fmt.Errorf("the encoder gave %d frames for %d pictures", got, frames)
	}
	return n.out.finish()
}

func (n *nativeCoder) abort() {
	if n.e == nil {
		return
	}
	C.pinch_encoder_close(n.e)
	n.e = nil
	n.out.Abort()
}
