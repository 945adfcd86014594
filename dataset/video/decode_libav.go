//go:build libav

package video

// #cgo pkg-config: libavcodec libavutil libswscale
// #cgo CFLAGS: -O3
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// RandomAccess tells whether Reader decodes any frame directly (build tag libav) or by decoding from the start.
const RandomAccess = true

// keptDecoders bounds the native decoders of one engine. Videos of one set are coded alike, so one or two serve it.
const keptDecoders = 4

// libav keeps native decoders, most recently used last.
type libav struct{ kept []*native }

// native is one libav decoder and the way of coding that it was opened for.
type native struct {
	codec         Codec
	extra         string
	width, height int
	d             *C.pinch_decoder
}

func newEngine() engine { return &libav{} }

// native finds or opens the decoder for a video; fresh when it did not decode the last run.
func (l *libav) native(x *Index) (n *native, fresh bool, err error) {
	for i := len(l.kept) - 1; i >= 0; i-- {
		if n := l.kept[i]; n.codec == x.Codec && n.extra == string(x.stream.extra) && n.width == x.Width && n.height == x.Height {
			fresh = i < len(l.kept)-1
			l.kept = append(slices.Delete(l.kept, i, i+1), n)
			return n, fresh, nil
		}
	}
	n = &native{codec: x.Codec, extra: string(x.stream.extra), width: x.Width, height: x.Height}
	name := C.CString(string(x.Codec))
	defer C.free(unsafe.Pointer(name))
	extra := C.CBytes(x.stream.extra)
	defer C.free(extra)
	full := C.int(0)
	if x.stream.full {
		full = 1
	}
	s := C.pinch_stream{codec: name, extra: (*C.uint8_t)(extra), extra_size: C.int(len(x.stream.extra)),
		width: C.int(x.Width), height: C.int(x.Height), matrix: C.int(x.stream.matrix), full_range: full}
	var message [256]C.char
	if n.d = C.pinch_open(&s, &message[0], C.int(len(message))); n.d == nil {
		return nil, false, fmt.Errorf("%s: %s", x.Codec, C.GoString(&message[0]))
	}
	if len(l.kept) == keptDecoders {
		C.pinch_close(l.kept[0].d)
		l.kept = slices.Delete(l.kept, 0, 1)
	}
	l.kept = append(l.kept, n)
	return n, true, nil
}

func (l *libav) decode(x *Index, r stretch, data []byte, restart bool, frames []int, t target, dst []byte, at []int) (int, error) {
	n, fresh, err := l.native(x)
	if err != nil {
		return -1, err
	}
	if fresh && !restart {
		return -1, errors.New("the decoder was taken away in the middle of a group")
	}
	count := r.last - r.first + 1
	sizes, pts, keys := make([]C.int32_t, count), make([]C.int64_t, count), make([]C.uint8_t, count)
	for i, p := range x.packets[r.first : r.last+1] {
		sizes[i], pts[i] = C.int32_t(p.size), C.int64_t(p.pts)
		if p.key {
			keys[i] = 1
		}
	}
	want, to := make([]C.int64_t, len(r.frames)), make([]C.int64_t, len(r.frames))
	for i, f := range r.frames {
		want[i], to[i] = C.int64_t(x.PTS[frames[f]]), C.int64_t(at[f])
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	p := C.pinch_packets{data: (*C.uint8_t)(unsafe.SliceData(data)), sizes: &sizes[0], pts: &pts[0], keys: &keys[0], count: C.int(count)}
	pin.Pin(p.data)
	pin.Pin(p.sizes)
	pin.Pin(p.pts)
	pin.Pin(p.keys)
	ct := C.pinch_target{C.int(t.crop.X), C.int(t.crop.Y), C.int(t.crop.W), C.int(t.crop.H), C.int(t.width), C.int(t.height)}
	again, drained := C.int(0), C.int(0)
	if restart {
		again = 1
	}
	var message [256]C.char
	got := C.pinch_decode(n.d, &p, again, &want[0], &to[0], C.int(len(want)), &ct, (*C.uint8_t)(unsafe.Pointer(&dst[0])), C.int64_t(len(dst)),
		&drained, &message[0], C.int(len(message)))
	switch {
	case got < 0:
		return -1, errors.New(C.GoString(&message[0]))
	case int(got) < len(want):
		return -1, errNotShown
	case drained != 0:
		return -1, nil
	}
	return r.last + 1, nil
}

func (l *libav) close() {
	for _, n := range l.kept {
		C.pinch_close(n.d)
	}
	l.kept = nil
}

// sequence decodes frame by frame for a Reader.
type sequence struct {
	f *os.File
	x *Index
	d *Decoder
	g *imaging.Geometry
}

func openSequence(path string, x *Index, g *imaging.Geometry) (decoder, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	return &sequence{f, x, NewDecoder(), g}, nil
}

func (s *sequence) frame(i int, dst []byte) error {
	return s.d.Frames(s.x, s.f, []int{i}, s.g, dst, []int{0})
}

func (s *sequence) close() {
	s.d.Close()
	s.f.Close()
}
