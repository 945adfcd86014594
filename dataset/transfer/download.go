package transfer

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// body is what a remote sends of a file.
type body interface {
	io.ReadCloser
	// from is the byte of the file that it starts with: 0 when the remote sends the whole file although a part was asked for.
	from() int64
}

// pulledInfo is the name of meta/info.json until everything else is there.
const pulledInfo = ".pulled-info.json"

// place is where a file goes.
func place(root string, f File) string {
	if f.Path == infoFile {
		return filepath.Join(root, "meta", pulledInfo)
	}
	return filepath.Join(root, filepath.FromSlash(f.Path))
}

// publishInfo makes the folder a dataset, once its other files are there.
func publishInfo(root string) error {
	from, to := filepath.Join(root, "meta", pulledInfo), filepath.Join(root, filepath.FromSlash(infoFile))
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return nil // it was there already
	}
	return atomicfile.Rename(atomicfile.OS, from, to)
}

// openPulled opens the metadata that is on its way. The caller calls forget when it needs the dataset no more.
func openPulled(root string) (d *dataset.Dataset, forget func(), err error) {
	forget = func() {}
	if _, err := os.Stat(filepath.Join(root, "meta", pulledInfo)); err != nil {
		d, err := dataset.Open(root)
		return d, forget, err
	}
	tmp, err := os.MkdirTemp("", "pinch-pull-")
	if err != nil {
		return nil, forget, err
	}
	forget = func() { os.RemoveAll(tmp) }
	err = os.CopyFS(filepath.Join(tmp, "meta"), os.DirFS(filepath.Join(root, "meta")))
	if err == nil {
		err = os.Rename(filepath.Join(tmp, "meta", pulledInfo), filepath.Join(tmp, filepath.FromSlash(infoFile)))
	}
	if err == nil {
		d, err = dataset.Open(tmp)
	}
	if err != nil {
		forget()
		return nil, func() {}, err
	}
	return d, forget, nil
}

// download brings one file, or finds it there: moved is then -1, else the bytes that crossed the network.
func (r *run) download(ctx context.Context, src remote, f File, root string) (moved int64, err error) {
	path := place(root, f)
	final := filepath.Join(root, filepath.FromSlash(f.Path))
	if fault, err := differs(ctx, f, root); err != nil || fault == nil {
		return -1, err
	}
	if f.Path == infoFile { // another version comes: until it is whole there is no dataset
		if err := os.Remove(final); err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return 0, err
	}
	part := path + "." + f.key() + partSuffix
	for try := 0; ; try++ {
		n, whole, err := r.part(ctx, src, f, part)
		moved += n
		switch {
		case err == nil && whole:
			if err := atomicfile.SyncFile(part); err != nil {
				return moved, err
			}
			return moved, atomicfile.Rename(atomicfile.OS, part, path)
		case err == nil: // a wrong hash: what lay there was of something else
			if err := os.Remove(part); err != nil {
				return moved, err
			}
			if try >= 1 {
				return moved, fmt.Errorf("it has another %s than the remote says, twice: the remote is damaged, or changes; run `pinch data pull` again later", f.Hash.Kind)
			}
		case !errors.Is(err, errTransient) || try >= attempts:
			return moved, err
		default:
			if err := r.o.sleep(ctx, backoff(try)); err != nil {
				return moved, err
			}
		}
	}
}

// key is a part of the file's name while it is under way, so that a part of another version is not gone on with.
func (f File) key() string {
	if f.Hash.Kind == "" {
		return fmt.Sprint(f.Size)
	}
	return f.Hash.Hex[:12]
}

// part goes on with a download where it stopped, and tells whether the file is whole.
func (r *run) part(ctx context.Context, src remote, f File, path string) (moved int64, whole bool, err error) {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return 0, false, err
	}
	defer func() {
		if cerr := out.Close(); err == nil {
			err = cerr
		}
	}()
	h := newHash(f.Hash.Kind, f.Size)
	have, err := io.Copy(h, &interruptible{ctx, out})
	if err != nil {
		return 0, false, err
	}
	if have < f.Size {
		in, err := src.get(ctx, f, have)
		if err != nil {
			return 0, false, err
		}
		defer in.Close()
		if in.from() != have { // it sends the whole file
			have = 0
			h.Reset()
			if f.Hash.Kind == GitBlob {
				h = newHash(GitBlob, f.Size)
			}
			if _, err := out.Seek(0, io.SeekStart); err != nil {
				return 0, false, err
			}
			if err := out.Truncate(0); err != nil {
				return 0, false, err
			}
		}
		moved, err = io.Copy(io.MultiWriter(out, h), &interruptible{ctx, io.LimitReader(in, f.Size-have+1)})
		if err != nil {
			return moved, false, transient(err)
		}
		have += moved
	}
	if have < f.Size {
		return moved, false, transient(io.ErrUnexpectedEOF)
	}
	right := have == f.Size && (f.Hash.Kind == "" || hex.EncodeToString(h.Sum(nil)) == f.Hash.Hex)
	return moved, right, nil
}
