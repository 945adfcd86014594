//go:build unix

package loader

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps a file of exactly size bytes for reading, so that a cache larger than memory still works.
func mapFile(path string, size int) (pix []byte, unmap func() error, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() != int64(size) || size == 0 {
		return nil, nil, fmt.Errorf("frame cache %s has %d bytes, want %d", path, info.Size(), size)
	}
	pix, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map frame cache %s: %w", path, err)
	}
	return pix, func() error { return unix.Munmap(pix) }, nil
}
