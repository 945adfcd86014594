//go:build !unix

package loader

import (
	"fmt"
	"os"
)

// mapFile reads a file of exactly size bytes; systems without mmap keep it in memory.
func mapFile(path string, size int) (pix []byte, unmap func() error, err error) {
	pix, err = os.ReadFile(path)
	if err == nil && (len(pix) != size || size == 0) {
		err = fmt.Errorf("frame cache %s has %d bytes, want %d", path, len(pix), size)
	}
	return pix, func() error { return nil }, err
}
