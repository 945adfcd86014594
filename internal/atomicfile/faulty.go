package atomicfile

import (
	"io/fs"
)

// Op names one step of an atomic write.
type Op string

// The steps in the order in which Write takes them. OpRemove is the clean-up after a fault.
const (
	OpCreate  Op = "create"
	OpWrite   Op = "write"
	OpChmod   Op = "chmod"
	OpSync    Op = "sync"
	OpClose   Op = "close"
	OpRename  Op = "rename"
	OpSyncDir Op = "sync directory"
	OpRemove  Op = "remove"
)

// Faulty is a file system that asks Fail before each step and returns its error instead of doing the step. A failing write
// first writes half of the data, as a full disk does. It serves tests of every package that commits files.
type Faulty struct {
	FS
	Fail func(op Op, path string) error
}

// FailOn returns a Fail function that gives err at the n-th step (from 0) and nil at all others.
func FailOn(n int, err error) func(Op, string) error {
	return func(Op, string) error {
		n--
		if n == -1 {
			return err
		}
		return nil
	}
}

// CreateTemp creates a temporary file whose steps can fail too.
func (f Faulty) CreateTemp(dir, pattern string) (File, error) {
	if err := f.Fail(OpCreate, dir); err != nil {
		return nil, err
	}
	file, err := f.FS.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f.Fail}, nil
}

// Chmod sets a file's mode.
func (f Faulty) Chmod(name string, mode fs.FileMode) error {
	if err := f.Fail(OpChmod, name); err != nil {
		return err
	}
	return f.FS.Chmod(name, mode)
}

// Rename renames a file.
func (f Faulty) Rename(oldpath, newpath string) error {
	if err := f.Fail(OpRename, newpath); err != nil {
		return err
	}
	return f.FS.Rename(oldpath, newpath)
}

// Remove deletes a file.
func (f Faulty) Remove(name string) error {
	if err := f.Fail(OpRemove, name); err != nil {
		return err
	}
	return f.FS.Remove(name)
}

// SyncDir syncs a directory.
func (f Faulty) SyncDir(dir string) error {
	if err := f.Fail(OpSyncDir, dir); err != nil {
		return err
	}
	return f.FS.SyncDir(dir)
}

type faultyFile struct {
	File
	fail func(Op, string) error
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.fail(OpWrite, f.Name()); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if err := f.fail(OpSync, f.Name()); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	err := f.fail(OpClose, f.Name())
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}
