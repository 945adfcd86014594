package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// files are the files of one dataset, wherever they lie. Safe for concurrent use.
type files interface {
	// list gives every file below folder (data, videos, meta), with what tells its versions apart.
	list(ctx context.Context, folder string) ([]fileInfo, error)
	// open gives a file by its path relative to the dataset.
	open(ctx context.Context, path string) (blob, error)
	// remote reports whether each read is worth planning.
	remote() bool
	// name of a file for messages.
	name(path string) string
}

// blob is an open file.
type blob interface {
	io.ReaderAt
	size() int64
}

// fileInfo is one file of a listing. version changes when the content does.
type fileInfo struct {
	path    string
	size    int64
	version string
}

// fingerprint of listings: a hash of paths, sizes and versions.
func fingerprint(lists ...[]fileInfo) string {
	h := sha256.New()
	for _, list := range lists {
		for _, f := range list {
			fmt.Fprintf(h, "%q %d %q\n", f.path, f.size, f.version)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// disk are the files of a folder.
type disk struct{ root string }

func (d disk) list(_ context.Context, folder string) ([]fileInfo, error) {
	var out []fileInfo
	err := filepath.WalkDir(filepath.Join(d.root, folder), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if os.IsNotExist(err) {
				return nil
			}
			return err
		}
		if strings.HasPrefix(e.Name(), ".") { // temporary files of a writer at work
			return nil
		}
		st, err := os.Stat(path) // through links: caches of hubs consist of them
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.root, path)
		out = append(out, fileInfo{filepath.ToSlash(rel), st.Size(), st.ModTime().UTC().Format("20060102T150405.000000000")})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", filepath.Join(d.root, folder), err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].path < out[j].path })
	return out, nil
}

func (d disk) open(_ context.Context, path string) (blob, error) {
	f, err := os.Open(d.name(path))
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return diskFile{f, st.Size()}, nil
}

func (disk) remote() bool { return false }

func (d disk) name(path string) string { return filepath.Join(d.root, filepath.FromSlash(path)) }

// diskFile is closed by the garbage collector, so that a file that leaves a cache can still be read by who holds it.
type diskFile struct {
	*os.File
	bytes int64
}

func (f diskFile) size() int64 { return f.bytes }
