package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// infoFile makes a folder a dataset; it is moved last.
const infoFile = "meta/info.json"

// Options choose what is moved, and how. The zero value moves everything, four files at a time.
type Options struct {
	// Episodes to pull, by index; nil means all.
	Episodes []int
	// Workers is how many files are moved at the same time; 0 means 4.
	Workers int
	// Prune lets Push remove files of the remote's data, videos and meta folders that the dataset does not have (an older version of it).
	Prune bool
	// Public makes a repository that Push creates readable for everybody; default private.
	Public bool
	// Message describes a push to the Hub.
	Message string
	// Progress is called, from one goroutine at a time, as files are finished; may be nil.
	Progress func(Progress)
	// Client does the requests to the Hub; nil is http.DefaultClient.
	Client *http.Client

	sleep func(context.Context, time.Duration) error // tests only
}

func (o Options) fill() Options {
	if o.Workers <= 0 {
		o.Workers = 4
	}
	if o.Client == nil {
		o.Client = http.DefaultClient
	}
	if o.sleep == nil {
		o.sleep = sleep
	}
	return o
}

// Progress is one step of a transfer.
type Progress struct {
	// Files and Bytes of TotalFiles and TotalBytes are done; Path was the last one.
	Files, TotalFiles int
	Bytes, TotalBytes int64
	Path              string
}

// Report is the outcome of a transfer.
type Report struct {
	Remote string `json:"remote"`
	Local  string `json:"local"`
	// Version is the commit of a repository that was read or made; empty for buckets.
	Version string `json:"version,omitempty"`
	// Moved files and bytes crossed the network; Kept files were there already, with the right hash.
	Moved      int   `json:"moved"`
	MovedBytes int64 `json:"moved_bytes"`
	Kept       int   `json:"kept"`
	KeptBytes  int64 `json:"kept_bytes"`
	// Removed files of the remote that the dataset does not have (Push with Prune).
	Removed []string `json:"removed,omitempty"`
	// Unverified files have no hash at the remote that can be computed here; only their size was compared.
	Unverified []string `json:"unverified,omitempty"`
	// Faults that Verify found.
	Faults []Fault `json:"faults,omitempty"`
}

// Fault is one difference between a remote and a folder.
type Fault struct {
	Path string `json:"path"`
	// What is missing, extra, size or content.
	What string `json:"what"`
	Text string `json:"text"`
}

// File is a file of a remote. Path is relative to the dataset's folder, with slashes.
type File struct {
	Path string
	Size int64
	Hash Hash
}

// remote is a place that holds a dataset.
type remote interface {
	// list gives all files of the dataset, and the version that they are of, which get then reads.
	list(ctx context.Context) (files []File, version string, err error)
	// get reads a file from byte from on.
	get(ctx context.Context, f File, from int64) (body, error)
	// push sends files; keep are there already. It removes the paths in remove and makes everything visible, infoFile last. done is
	// called for each file sent.
	push(ctx context.Context, files, keep []local, remove []string, done func(local)) (version string, err error)
	// String is the address, without secrets.
	String() string
}

// run is one transfer.
type run struct {
	o      Options
	report Report
	mu     sync.Mutex // guards the progress and the report while files are moved side by side
	p      Progress
}

func (r *run) finished(path string, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.p.Files, r.p.Bytes, r.p.Path = r.p.Files+1, r.p.Bytes+size, path
	if r.o.Progress != nil {
		r.o.Progress(r.p)
	}
}

// Pull copies a dataset from a remote into a folder. What is there with the right hash stays; files of the folder that the remote does
// not have are an error, as they would belong to another dataset.
func Pull(ctx context.Context, from, to string, o Options) (Report, error) {
	o = o.fill()
	r := &run{o: o, report: Report{Remote: from, Local: to}}
	src, err := openRemote(from, o)
	if err != nil {
		return r.report, err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return r.report, fmt.Errorf("pull %s: %w", from, err)
	}
	lock, err := folderlock.Take(to)
	if err != nil {
		return r.report, fmt.Errorf("pull into %s: %w", to, err)
	}
	defer lock.Release()
	if err := r.pull(ctx, src, to); err != nil {
		return r.report, fmt.Errorf("pull %s: %w", src, err)
	}
	return r.report, nil
}

func (r *run) pull(ctx context.Context, src remote, to string) error {
	files, version, err := src.list(ctx)
	if err != nil {
		return err
	}
	r.report.Version = version
	if !slices.ContainsFunc(files, func(f File) bool { return f.Path == infoFile }) {
		return fmt.Errorf("no dataset there: it has no %s (%d files)", infoFile, len(files))
	}
	if err := foreign(to, files); err != nil {
		return err
	}
	metadata, others := split(files)
	if err := r.fetch(ctx, src, metadata, to); err != nil {
		return err
	}
	if others, err = r.chosen(others, to); err != nil {
		return err
	}
	if err := r.fetch(ctx, src, others, to); err != nil {
		return err
	}
	return publishInfo(to)
}

// split parts the metadata, which tells where episodes lie, from the rest.
func split(files []File) (metadata, others []File) {
	for _, f := range files {
		if inFolder(f.Path, "meta") {
			metadata = append(metadata, f)
		} else {
			others = append(others, f)
		}
	}
	return metadata, others
}

// fetch downloads files side by side.
func (r *run) fetch(ctx context.Context, src remote, files []File, to string) error {
	r.p.TotalFiles += len(files)
	for _, f := range files {
		r.p.TotalBytes += f.Size
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.o.Workers)
	for _, f := range files {
		g.Go(func() error {
			moved, err := r.download(ctx, src, f, to)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Path, err)
			}
			r.mu.Lock()
			if moved < 0 {
				r.report.Kept, r.report.KeptBytes = r.report.Kept+1, r.report.KeptBytes+f.Size
			} else {
				r.report.Moved, r.report.MovedBytes = r.report.Moved+1, r.report.MovedBytes+moved
			}
			if f.Hash.Kind == "" {
				r.report.Unverified = append(r.report.Unverified, f.Path)
			}
			r.mu.Unlock()
			r.finished(f.Path, f.Size)
			return nil
		})
	}
	err := g.Wait()
	slices.Sort(r.report.Unverified)
	return err
}

// Push copies a complete dataset to a remote.
func Push(ctx context.Context, from, to string, o Options) (Report, error) {
	o = o.fill()
	r := &run{o: o, report: Report{Remote: to, Local: from}}
	if o.Episodes != nil {
		return r.report, errors.New("push: a dataset is pushed as a whole; make one of the episodes first (pinch dataset extract)")
	}
	dst, err := openRemote(to, o)
	if err != nil {
		return r.report, err
	}
	if err := r.push(ctx, from, dst); err != nil {
		return r.report, fmt.Errorf("push %s to %s: %w", from, dst, err)
	}
	return r.report, nil
}

func (r *run) push(ctx context.Context, from string, dst remote) error {
	if err := complete(from); err != nil {
		return err
	}
	files, err := scan(ctx, from, r.o.Workers)
	if err != nil {
		return err
	}
	have, _, err := dst.list(ctx)
	if err != nil && !errors.Is(err, errAbsent) {
		return err
	}
	there := map[string]File{}
	for _, f := range have {
		there[f.Path] = f
	}
	var send, keep []local
	for _, f := range files {
		old, ok := there[f.path]
		delete(there, f.path)
		if ok && old.Size == f.size && old.Hash.Kind != "" && old.Hash == f.hash(old.Hash.Kind) {
			keep = append(keep, f)
			r.report.Kept, r.report.KeptBytes = r.report.Kept+1, r.report.KeptBytes+f.size
			continue
		}
		send = append(send, f)
		r.p.TotalFiles, r.p.TotalBytes = r.p.TotalFiles+1, r.p.TotalBytes+f.size
	}
	remove, err := r.stale(there)
	if err != nil {
		return err
	}
	if len(send) == 0 && len(remove) == 0 {
		return nil
	}
	r.report.Version, err = dst.push(ctx, send, keep, remove, func(f local) {
		r.finished(f.path, f.size)
		r.mu.Lock()
		r.report.Moved, r.report.MovedBytes = r.report.Moved+1, r.report.MovedBytes+f.size
		r.mu.Unlock()
	})
	if err == nil {
		r.report.Removed = remove
	}
	return err
}

// stale are the remote's dataset files that the folder does not have. A reader would take them for rows of the dataset.
func (r *run) stale(left map[string]File) (out []string, err error) {
	for path := range left {
		if slices.ContainsFunc(datasetFolders, func(folder string) bool { return inFolder(path, folder) }) {
			out = append(out, path)
		}
	}
	slices.Sort(out)
	if len(out) > 0 && !r.o.Prune {
		return nil, fmt.Errorf("the remote has %d files in data, videos or meta that the dataset does not have (%s ...); push with --prune to remove them, or to another place",
			len(out), out[0])
	}
	return out, nil
}

// Verify compares every file of a folder with a remote. With Episodes only the files of these are wanted. Differences are faults of
// the report, not an error.
func Verify(ctx context.Context, at, folder string, o Options) (Report, error) {
	o = o.fill()
	r := &run{o: o, report: Report{Remote: at, Local: folder}}
	src, err := openRemote(at, o)
	if err != nil {
		return r.report, err
	}
	if err := r.verify(ctx, src, folder); err != nil {
		return r.report, fmt.Errorf("verify %s against %s: %w", folder, src, err)
	}
	return r.report, nil
}

func (r *run) verify(ctx context.Context, src remote, folder string) error {
	files, version, err := src.list(ctx)
	if err != nil {
		return err
	}
	r.report.Version = version
	metadata, others := split(files)
	if others, err = r.chosen(others, folder); err != nil {
		return err
	}
	wanted := append(metadata, others...)
	slices.SortFunc(wanted, func(a, b File) int { return compare(a.Path, b.Path) })
	r.p.TotalFiles = len(wanted)
	faults := make([]*Fault, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(r.o.Workers)
	for i, f := range wanted {
		r.p.TotalBytes += f.Size
		g.Go(func() error {
			fault, err := differs(ctx, f, folder)
			faults[i] = fault
			r.finished(f.Path, f.Size)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i, f := range wanted {
		switch {
		case faults[i] != nil:
			r.report.Faults = append(r.report.Faults, *faults[i])
		case f.Hash.Kind == "":
			r.report.Unverified = append(r.report.Unverified, f.Path)
		default:
			r.report.Kept, r.report.KeptBytes = r.report.Kept+1, r.report.KeptBytes+f.Size
		}
	}
	return r.extra(files, folder)
}

// extra notes dataset files of the folder that the remote does not have.
func (r *run) extra(files []File, folder string) error {
	known := map[string]bool{}
	for _, f := range files {
		known[f.Path] = true
	}
	there, err := paths(folder)
	if err != nil {
		return err
	}
	for _, p := range there {
		if !known[p] && slices.ContainsFunc(datasetFolders, func(folder string) bool { return inFolder(p, folder) }) {
			r.report.Faults = append(r.report.Faults, Fault{p, "extra", "the remote does not have it"})
		}
	}
	return nil
}

// differs compares one file.
func differs(ctx context.Context, f File, folder string) (*Fault, error) {
	path := filepath.Join(folder, filepath.FromSlash(f.Path))
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &Fault{f.Path, "missing", fmt.Sprintf("the folder lacks it (%d bytes)", f.Size)}, nil
	case err != nil:
		return nil, err
	case st.Size() != f.Size:
		return &Fault{f.Path, "size", fmt.Sprintf("%d bytes here, %d at the remote", st.Size(), f.Size)}, nil
	case f.Hash.Kind == "":
		return nil, nil
	}
	h, err := hashFile(ctx, path, f.Hash.Kind)
	if err != nil || h == f.Hash {
		return nil, err
	}
	return &Fault{f.Path, "content", fmt.Sprintf("%s is %s here, %s at the remote", h.Kind, h.Hex, f.Hash.Hex)}, nil
}
