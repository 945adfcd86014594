// Package folderlock keeps two processes from writing into one folder at the same time. The lock lies on the folder itself, so it
// leaves no file behind, and the kernel frees it when its process dies, however it dies.
package folderlock

import (
	"errors"
	"fmt"
	"os"
)

// ErrHeld is returned when another process, or another Lock of this one, holds the folder.
var ErrHeld = errors.New("another process is writing there; wait for it to end, or choose another folder")

// Lock is a held folder.
type Lock struct{ dir *os.File }

// Take locks the folder dir, which must exist, without waiting. The error wraps ErrHeld when it is taken. Where the file system has
// no locks (some network file systems) it succeeds and holds nobody off.
func Take(dir string) (*Lock, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock folder: %w", err)
	}
	if held(f) {
		f.Close()
		return nil, fmt.Errorf("folder %s: %w", dir, ErrHeld)
	}
	return &Lock{f}, nil
}

// Release frees the folder. A nil Lock is fine, and so is a second call.
func (l *Lock) Release() {
	if l != nil {
		l.dir.Close()
	}
}
