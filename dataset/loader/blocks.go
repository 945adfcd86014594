package loader

import (
	"io"
	"sync"
)

// blocks reads a remote file in aligned blocks and keeps the last few, for readers that take many small bites: container
// headers and Parquet pages.
type blocks struct {
	blob
	mu    sync.Mutex
	kept  map[int64][]byte
	order []int64
}

const (
	blockSize  = 64 << 10
	keptBlocks = 64
)

func newBlocks(b blob) *blocks { return &blocks{blob: b, kept: map[int64][]byte{}} }

// ReadAt implements io.ReaderAt. Missing neighbours are fetched together.
func (b *blocks) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.size() {
		return 0, io.EOF
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	end := min(off+int64(len(p)), b.size())
	if end-off > keptBlocks/2*blockSize { // larger than what is worth keeping
		return b.blob.ReadAt(p, off)
	}
	if err := b.fill(off/blockSize, (end-1)/blockSize); err != nil {
		return 0, err
	}
	n := 0
	for at := off; at < end; {
		block := b.kept[at/blockSize]
		c := copy(p[n:end-off], block[at%blockSize:])
		n, at = n+c, at+int64(c)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// fill fetches what is missing of the blocks first..last, in one read from the first missing one to the last.
func (b *blocks) fill(first, last int64) error {
	for first <= last && b.kept[first] != nil {
		first++
	}
	for last >= first && b.kept[last] != nil {
		last--
	}
	if first > last {
		return nil
	}
	data := make([]byte, min((last+1)*blockSize, b.size())-first*blockSize)
	if _, err := b.blob.ReadAt(data, first*blockSize); err != nil && err != io.EOF {
		return err
	}
	for i := first; i <= last; i++ {
		if b.kept[i] == nil {
			b.order = append(b.order, i)
		}
		b.kept[i] = data[(i-first)*blockSize : min((i+1-first)*blockSize, int64(len(data)))]
	}
	for len(b.order) > keptBlocks {
		if old := b.order[0]; old < first || old > last {
			delete(b.kept, old)
			b.order = b.order[1:]
			continue
		}
		break
	}
	return nil
}

// spanReader gives bytes that were fetched before, and asks the file for others.
type spanReader struct {
	file  io.ReaderAt
	spans []fetched
}

type fetched struct {
	offset int64
	data   []byte
}

// ReadAt implements io.ReaderAt.
func (s spanReader) ReadAt(p []byte, off int64) (int, error) {
	for _, f := range s.spans {
		if off >= f.offset && off+int64(len(p)) <= f.offset+int64(len(f.data)) {
			return copy(p, f.data[off-f.offset:]), nil
		}
	}
	return s.file.ReadAt(p, off)
}
