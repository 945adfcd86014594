package dataset

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// disk is the file system as the writer uses it. Every operation that can fail asks fault first, so a test can make the
// disk full, or dead, at any step.
type disk struct {
	root  string
	fault func(op, path string) error
	trace func(op, path, to string) // what was done, for the model of a disk that loses unsynced writes
}

func (d disk) did(op, path, to string) {
	if d.trace != nil {
		d.trace(op, path, to)
	}
}

func (d disk) try(op, path string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(op, path)
}

func (d disk) abs(path string) string { return filepath.Join(d.root, filepath.FromSlash(path)) }

// write creates a file with what f writes, and syncs it.
func (d disk) write(path string, f func(io.Writer) error) error {
	if err := d.mkdir(filepath.ToSlash(filepath.Dir(path))); err != nil {
		return err
	}
	if err := d.try("write", path); err != nil {
		return fmt.Errorf("write %s: %w", d.abs(path), err)
	}
	file, err := os.Create(d.abs(path))
	if err != nil {
		return err
	}
	err = f(file)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", d.abs(path), err)
	}
	d.did("write", path, "")
	return nil
}

// link gives a file of the same file system a second name in the dataset.
func (d disk) link(from, to string) error {
	if err := d.try("link", to); err != nil {
		return fmt.Errorf("link %s: %w", d.abs(to), err)
	}
	if err := os.Link(from, d.abs(to)); err != nil {
		return err
	}
	d.did("link", from, to)
	return nil
}

func (d disk) writeBytes(path string, b []byte) error {
	return d.write(path, func(w io.Writer) error { _, err := w.Write(b); return err })
}

func (d disk) mkdir(path string) error {
	if err := d.try("mkdir", path); err != nil {
		return fmt.Errorf("make folder %s: %w", d.abs(path), err)
	}
	if err := os.MkdirAll(d.abs(path), 0o755); err != nil {
		return err
	}
	d.did("mkdir", path, "")
	return nil
}

func (d disk) rename(from, to string) error {
	if err := d.try("rename", to); err != nil {
		return fmt.Errorf("rename to %s: %w", d.abs(to), err)
	}
	if err := os.Rename(d.abs(from), d.abs(to)); err != nil {
		return err
	}
	d.did("rename", from, to)
	return nil
}

func (d disk) remove(path string) error {
	if err := d.try("remove", path); err != nil {
		return fmt.Errorf("remove %s: %w", d.abs(path), err)
	}
	if err := os.RemoveAll(d.abs(path)); err != nil {
		return err
	}
	d.did("remove", path, "")
	return nil
}

// syncDir makes renames in a folder durable.
func (d disk) syncDir(path string) error {
	if err := d.try("sync", path); err != nil {
		return fmt.Errorf("sync folder %s: %w", d.abs(path), err)
	}
	f, err := os.Open(d.abs(path))
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("sync folder %s: %w", d.abs(path), err)
	}
	d.did("sync", path, "")
	return nil
}

func (d disk) exists(path string) bool {
	_, err := os.Lstat(d.abs(path))
	return err == nil
}

// copyIn brings a file into the dataset, by a copy or by moving it, with its content on the disk when it returns.
func (d disk) copyIn(from, to string, move bool) error {
	if move {
		if err := d.mkdir(filepath.ToSlash(filepath.Dir(to))); err != nil {
			return err
		}
		if err := d.try("move", to); err != nil {
			return fmt.Errorf("move %s: %w", from, err)
		}
		if err := atomicfile.SyncFile(from); err != nil { // its writer need not have done so
			return err
		}
		if err := os.Rename(from, d.abs(to)); err != nil {
			return err
		}
		d.did("write", to, "")
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return d.write(to, func(w io.Writer) error { _, err := io.Copy(w, in); return err })
}
