package transfer

import (
	"cmp"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
)

// datasetFolders hold what readers take for the dataset, file by file.
var datasetFolders = []string{"data", "videos", "meta", "images"}

// partSuffix ends the name of a file that is being downloaded.
const partSuffix = ".part"

// local is a file of the folder with all hashes that a remote may know.
type local struct {
	path   string // relative, with slashes
	file   string // where it is
	size   int64
	sha256 string
	git    string
	md5    string
}

func (l local) hash(kind string) Hash {
	switch kind {
	case SHA256:
		return Hash{kind, l.sha256}
	case GitBlob:
		return Hash{kind, l.git}
	case MD5:
		return Hash{kind, l.md5}
	}
	return Hash{}
}

func compare(a, b string) int { return cmp.Compare(a, b) }

// inFolder tells whether a path lies below a top-level folder.
func inFolder(path, folder string) bool { return strings.HasPrefix(path, folder+"/") }

// paths lists what belongs to a dataset in a folder: the files of its folders and its README.md, in order; no hidden files, no
// unfinished downloads.
func paths(root string) (out []string, err error) {
	for _, folder := range datasetFolders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case strings.HasPrefix(d.Name(), ".") && d.IsDir():
				return fs.SkipDir
			case d.IsDir() || strings.HasPrefix(d.Name(), ".") || strings.HasSuffix(d.Name(), partSuffix):
				return nil
			}
			rel, err := filepath.Rel(root, path)
			out = append(out, filepath.ToSlash(rel))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(filepath.Join(root, "README.md")); err == nil {
		out = append(out, "README.md")
	}
	slices.Sort(out)
	return out, nil
}

// scan hashes the dataset's files.
func scan(ctx context.Context, root string, workers int) ([]local, error) {
	list, err := paths(root)
	if err != nil {
		return nil, err
	}
	out := make([]local, len(list))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	for i, p := range list {
		g.Go(func() (err error) {
			out[i], err = describe(ctx, root, p)
			return err
		})
	}
	return out, g.Wait()
}

func describe(ctx context.Context, root, rel string) (local, error) {
	l := local{path: rel, file: filepath.Join(root, filepath.FromSlash(rel))}
	f, err := os.Open(l.file)
	if err != nil {
		return l, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return l, err
	}
	l.size = st.Size()
	sha, git, md := sha256.New(), newHash(GitBlob, l.size), md5.New()
	n, err := io.Copy(io.MultiWriter(sha, git, md), &interruptible{ctx, f})
	if err != nil {
		return l, fmt.Errorf("read %s: %w", l.file, err)
	}
	if n != l.size {
		return l, fmt.Errorf("read %s: it changed while it was read; is something writing into the dataset?", l.file)
	}
	l.sha256, l.git, l.md5 = hex.EncodeToString(sha.Sum(nil)), hex.EncodeToString(git.Sum(nil)), hex.EncodeToString(md.Sum(nil))
	return l, nil
}

// complete refuses to push a folder that others could not read: no dataset, one with missing files, or one that is being written.
func complete(root string) error {
	if left, err := os.ReadDir(filepath.Join(root, ".pinch")); err == nil && len(left) > 0 {
		return fmt.Errorf("%s is open for writing, or a writer was killed: end it, or let the next `pinch ingest` or `pinch dataset repair` finish its work", root)
	}
	d, err := dataset.Open(root)
	if err != nil {
		return err
	}
	for i := range d.NumEpisodes() {
		if missing := d.Missing(i); len(missing) > 0 {
			return fmt.Errorf("episode %d lacks %s: an incomplete copy is not pushed; pull the rest, or extract what is there (pinch dataset extract)", i, missing[0])
		}
	}
	return nil
}

// foreign refuses a folder with dataset files that the remote does not know.
func foreign(root string, files []File) error {
	known := map[string]bool{}
	for _, f := range files {
		known[f.Path] = true
	}
	there, err := paths(root)
	if err != nil {
		return err
	}
	for _, p := range there {
		if !known[p] {
			return fmt.Errorf("folder %s has %s, which the remote does not have: it holds another dataset, or another version; choose a new folder or remove that file", root, p)
		}
	}
	return nil
}

// chosen keeps the files that hold rows or pictures of the episodes asked for, by the metadata in the folder, and what belongs to no
// episode (README.md).
func (r *run) chosen(files []File, root string) ([]File, error) {
	if r.o.Episodes == nil {
		return files, nil
	}
	d, forget, err := openPulled(root)
	if err != nil {
		return nil, err
	}
	defer forget()
	want := map[string]bool{}
	for _, i := range r.o.Episodes {
		e, err := d.Episode(i)
		if err != nil {
			return nil, err
		}
		want[e.DataPath] = true
		for _, v := range e.Videos {
			want[v.Path] = true
		}
	}
	var out []File
	for _, f := range files {
		if folder, _, deep := strings.Cut(f.Path, "/"); want[f.Path] || !deep || !slices.Contains(datasetFolders, folder) {
			out = append(out, f)
			delete(want, f.Path)
		}
	}
	if len(want) > 0 {
		for p := range want {
			return nil, fmt.Errorf("the remote lacks %s, which its own metadata names", p)
		}
	}
	return out, nil
}
