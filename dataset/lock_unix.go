//go:build unix

package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock takes the dataset's writer lock; the kernel frees it when the process dies.
func (d disk) lock() (*os.File, error) {
	path := d.abs(lockFile)
	for {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return nil, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", d.root, ErrLocked)
		}
		held, err1 := f.Stat()
		named, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(held, named) {
			return f, nil
		}
		f.Close() // the previous writer removed the file between our open and our lock
	}
}
