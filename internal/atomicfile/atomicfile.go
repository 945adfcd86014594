// Package atomicfile writes files that are either wholly there or not there at all.
//
// The order is the one that survives a power cut: write under a temporary name in the same directory, fsync the file, rename
// it over the target, fsync the directory. A fault at any step leaves the old content in place and removes the temporary
// file; a crash may leave a temporary file behind, which RemoveStale deletes at the next start.
//
// All steps go through FS, so that a test can make any one of them fail (Faulty).
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tempMark is the part of a temporary file's name that RemoveStale looks for.
const tempMark = ".pinch-tmp-"

// File is what Write needs of an open file.
type File interface {
	io.Writer
	Sync() error
	Close() error
	Name() string
}

// FS is the file system under Write. Its methods are those of package os, and SyncDir makes a directory's entries durable.
type FS interface {
	CreateTemp(dir, pattern string) (File, error)
	Chmod(name string, mode fs.FileMode) error
	Rename(oldpath, newpath string) error
	Remove(name string) error
	SyncDir(dir string) error
}

// OS is the machine's file system.
var OS FS = osFS{}

// WriteFile replaces the file at path with data, durably. It creates no directories.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return Write(OS, path, mode, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Write replaces the file at path with what fill writes, durably. When it returns nil the new content survives a power cut; when
// it returns an error from any step before the rename the old content is untouched. An error after the rename (the
// directory's fsync) means that the new content is visible but may be lost in a power cut; it wraps ErrNotDurable.
func Write(fsys FS, path string, mode fs.FileMode, fill func(io.Writer) error) error {
	temp, err := writeTemp(fsys, path, mode, fill)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fsys.Rename(temp, path); err != nil {
		_ = fsys.Remove(temp)
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := fsys.SyncDir(filepath.Dir(path)); err != nil {
		return fmt.Errorf("write %s: %w: %w", path, ErrNotDurable, err)
	}
	return nil
}

// ErrNotDurable marks an error after the new content became visible.
var ErrNotDurable = errors.New("in place, but its directory could not be synced")

// writeTemp writes and syncs the temporary file, and removes it after a fault.
func writeTemp(fsys FS, path string, mode fs.FileMode, fill func(io.Writer) error) (name string, err error) {
	f, err := fsys.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+tempMark+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = fsys.Remove(f.Name())
		}
	}()
	if err := fill(f); err != nil {
		return "", err
	}
	if err := fsys.Chmod(f.Name(), mode); err != nil { // temporary files start as 0600
		return "", err
	}
	if err := f.Sync(); err != nil {
		return "", err
	}
	// Some file systems report a failed write-back only here.
	if err := f.Close(); err != nil {
		return "", err
	}
	return f.Name(), nil
}

// Rename moves a finished file or directory over path and syncs both directories: the commit step of things that are written
// by other means (videos, whole directories). The caller has synced the content.
func Rename(fsys FS, oldpath, newpath string) error {
	if err := fsys.Rename(oldpath, newpath); err != nil {
		return fmt.Errorf("move into place: %w", err)
	}
	dirs := []string{filepath.Dir(newpath)}
	if from := filepath.Dir(oldpath); from != dirs[0] {
		dirs = append(dirs, from)
	}
	for _, d := range dirs {
		if err := fsys.SyncDir(d); err != nil {
			return fmt.Errorf("move %s into place: %w: %w", newpath, ErrNotDurable, err)
		}
	}
	return nil
}

// SyncFile makes the content of an existing file durable.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("sync file: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncDir makes the entries of a directory durable: files made or renamed in it by other means than Write.
func SyncDir(dir string) error {
	if err := OS.SyncDir(dir); err != nil {
		return fmt.Errorf("sync folder %s: %w", dir, err)
	}
	return nil
}

// RemoveStale deletes the temporary files that a crash left in dir and returns their names. No other process may be writing there.
func RemoveStale(dir string) (removed []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("remove left-over temporary files: %w", err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasPrefix(e.Name(), ".") || !strings.Contains(e.Name(), tempMark) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return removed, fmt.Errorf("remove left-over temporary file: %w", err)
		}
		removed = append(removed, e.Name())
	}
	return removed, nil
}

type osFS struct{}

func (osFS) CreateTemp(dir, pattern string) (File, error) { return os.CreateTemp(dir, pattern) }
func (osFS) Chmod(name string, mode fs.FileMode) error    { return os.Chmod(name, mode) }
func (osFS) Rename(oldpath, newpath string) error         { return os.Rename(oldpath, newpath) }
func (osFS) Remove(name string) error                     { return os.Remove(name) }

// SyncDir counts file systems that can not sync a directory as durable: there is no more that one could do.
func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
