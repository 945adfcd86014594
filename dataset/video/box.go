package video

import (
	"encoding/binary"
	"fmt"
	"io"
)

type readerAt = io.ReaderAt

// maxMoov bounds the index that is read into memory: 256 MiB are about ten million frames.
const maxMoov = 256 << 20

// box is the payload of an ISO base media box held in memory.
type box []byte

// findMoov walks the top-level boxes and reads the one that holds the index.
func findMoov(r readerAt, size int64) (box, error) {
	for at := int64(0); at < size; {
		kind, header, length, err := boxHeader(r, at, size)
		if err != nil {
			return nil, err
		}
		if kind == "moov" {
			if length-header > maxMoov {
				return nil, fmt.Errorf("index of %d bytes is not plausible", length)
			}
			b := make(box, length-header)
			if _, err := r.ReadAt(b, at+header); err != nil {
				return nil, fmt.Errorf("read index: %w", err)
			}
			return b, nil
		}
		at += length
	}
	return nil, fmt.Errorf("no index (moov): the file is no mp4 or was not finished")
}

func boxHeader(r readerAt, at, size int64) (kind string, header, length int64, err error) {
	var h [16]byte
	if n, err := r.ReadAt(h[:], at); n < 8 {
		return "", 0, 0, fmt.Errorf("box header at byte %d: %w", at, err)
	}
	kind, header, length = string(h[4:8]), 8, int64(binary.BigEndian.Uint32(h[:]))
	switch length {
	case 0:
		length = size - at
	case 1:
		header, length = 16, int64(binary.BigEndian.Uint64(h[8:]))
	}
	if length < header || length > size-at {
		return "", 0, 0, fmt.Errorf("box %q at byte %d claims %d bytes of a file of %d: it was cut off or is no mp4", kind, at, length, size)
	}
	return kind, header, length, nil
}

// children returns the payloads of the boxes called kind directly inside b. Broken sizes end the walk.
func (b box) children(kind string) []box {
	var found []box
	for len(b) >= 8 {
		n := int(binary.BigEndian.Uint32(b))
		if n < 8 || n > len(b) {
			break
		}
		if string(b[4:8]) == kind {
			found = append(found, b[8:n])
		}
		b = b[n:]
	}
	return found
}

// at follows a path of box names, first of each kind; nil when there is none.
func (b box) at(path ...string) box {
	for _, kind := range path {
		c := b.children(kind)
		if len(c) == 0 {
			return nil
		}
		b = c[0]
	}
	return b
}

func (b box) u32(at int) int64 {
	if at+4 > len(b) {
		return 0
	}
	return int64(binary.BigEndian.Uint32(b[at:]))
}

func (b box) i32(at int) int64 { return int64(int32(b.u32(at))) }

func (b box) u64(at int) int64 {
	if at+8 > len(b) {
		return 0
	}
	return int64(binary.BigEndian.Uint64(b[at:]))
}

func (b box) u16(at int) int {
	if at+2 > len(b) {
		return 0
	}
	return int(binary.BigEndian.Uint16(b[at:]))
}

// entries is the number of fixed-size entries of a full box whose count stands at byte countAt, bounded by what fits.
func (b box) entries(countAt, size int) int {
	n := b.u32(countAt)
	if fit := int64(max(0, len(b)-countAt-4) / size); n > fit {
		n = fit
	}
	return int(n)
}

func movieTimescale(moov box) int {
	h := moov.at("mvhd")
	if len(h) > 0 && h[0] == 1 {
		return int(h.u32(20))
	}
	return int(h.u32(12))
}
