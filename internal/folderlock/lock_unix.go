//go:build unix

package folderlock

import (
	"errors"
	"os"
	"syscall"
)

// held locks f and tells whether somebody else holds it.
func held(f *os.File) bool {
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}
