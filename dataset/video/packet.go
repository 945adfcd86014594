package video

import (
	"fmt"
	"io"
)

// Packet reads the coded bytes of frame k, in order of presentation, from the file that r gives; buf is used if it is large enough.
func (x *Index) Packet(r io.ReaderAt, k int, buf []byte) ([]byte, error) {
	if k < 0 || k >= x.Frames() {
		return nil, fmt.Errorf("%s has %d frames, no frame %d", x.name, x.Frames(), k)
	}
	b, err := x.read(r, int(x.order[k]), int(x.order[k]), buf)
	if err != nil {
		return nil, fmt.Errorf("read frame %d of %s: %w", k, x.name, err)
	}
	return b, nil
}

// Config is the record by which a decoder starts, as the container has it: avcC (ISO/IEC 14496-15, 5.3.3.1), hvcC or av1C; nil when
// the codec has none.
func (i Info) Config() []byte { return i.stream.extra }
