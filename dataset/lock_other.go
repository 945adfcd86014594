//go:build !unix

package dataset

import (
	"os"
	"path/filepath"
)

// lock opens the lock file. Without flock nothing holds two writers apart here.
func (d disk) lock() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(d.abs(lockFile)), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(d.abs(lockFile), os.O_CREATE|os.O_RDWR, 0o644)
}
