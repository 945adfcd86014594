package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// rebuild is one run of Rebuild. The new dataset grows in nextDir of the target; each finished file has its own name there, so a run that
// is repeated after an interruption goes on behind the last one. In the end the folders change places (see change.Swap).
type rebuild struct {
	p      Plan
	o      RebuildOptions
	d      disk
	l      *layout
	tasks  []string
	info   Info
	staged *Dataset // what lies in nextDir, once rows and pictures are there
	result *RebuildResult
	times  map[int]Stats // of the column timestamp by length
	frames map[int]Stats // of frame_index by length

	mu    sync.Mutex
	done  int
	total int
	same  map[columnKey]bool
}

// columnKey is a column of an open file.
type columnKey struct {
	f    *pq.File
	name string
}

// rebuildWorkers is how many files are made at a time.
const rebuildWorkers = 2

// Rebuild writes the dataset that the plan describes to dst: a new folder, or with InPlace over the source there. The sources are not
// touched before everything is on disk. After an error a new target is gone and a source as before; after an interruption (ctx) the
// finished files stay in dst/.pinch and the same call goes on with them.
func Rebuild(ctx context.Context, dst string, p Plan, o RebuildOptions) (*RebuildResult, error) {
	r := &rebuild{p: p, o: o, d: disk{root: dst, fault: o.fault, trace: o.trace}, result: &RebuildResult{},
		times: map[int]Stats{}, frames: map[int]Stats{}, same: map[columnKey]bool{}}
	if o.Logger == nil {
		r.o.Logger = slog.New(slog.DiscardHandler)
	}
	err := p.check()
	if err == nil {
		err = r.checkTarget()
	}
	if err != nil {
		return nil, fmt.Errorf("make dataset %s: %w", dst, err)
	}
	_, statErr := os.Stat(dst)
	fresh := os.IsNotExist(statErr)
	lock, err := r.d.lock()
	if err != nil {
		return nil, fmt.Errorf("make dataset %s: %w", dst, err)
	}
	defer lock.Close()
	if err := r.run(ctx); err != nil {
		r.abandon(fresh, err, ctx.Err() != nil)
		if ctx.Err() != nil {
			return nil, fmt.Errorf("make dataset %s: %w; the same command goes on where it stopped", dst, err)
		}
		return nil, fmt.Errorf("make dataset %s: %w", dst, err)
	}
	if err := r.d.remove(workDir); err != nil {
		return nil, fmt.Errorf("make dataset %s: it is complete, but its working folder stays: %w", dst, err)
	}
	return r.result, nil
}

// checkTarget refuses a target that is neither new nor meant to be replaced.
func (r *rebuild) checkTarget() error {
	for _, pe := range r.p.Episodes {
		if same, err := samePlace(pe.From.root, r.d.root); err == nil && same {
			if r.o.InPlace {
				return nil
			}
			return errors.New("it is a source of the edit; choose another folder, or ask for the edit in place")
		}
	}
	if r.o.InPlace {
		return errors.New("it is no source of the edit, so it can not be edited in place")
	}
	left, err := os.ReadDir(r.d.root)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	for _, e := range left {
		if e.Name() != workDir {
			return fmt.Errorf("the folder is not empty (it holds %s); choose another", e.Name())
		}
	}
	return nil
}

func samePlace(a, b string) (bool, error) {
	x, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y), err
}

// abandon cleans up after an error. Finished files stay after an interruption, and everything stays while the swap is undecided.
func (r *rebuild) abandon(fresh bool, err error, interrupted bool) {
	if interrupted || errors.Is(err, errUndecided) {
		return
	}
	if fresh {
		os.RemoveAll(r.d.root)
		return
	}
	os.RemoveAll(r.d.abs(workDir))
}

func (r *rebuild) run(ctx context.Context) (err error) {
	if did, err := r.d.recover(); err != nil {
		return err
	} else if did != "" {
		r.o.Logger.Warn("recovered after a crash", "dataset", r.d.root, "did", did)
	}
	note := func(format string, args ...any) {
		r.result.Changes = append(r.result.Changes, fmt.Sprintf(format, args...))
	}
	if r.l, err = r.p.place(note); err != nil {
		return err
	}
	if r.tasks, err = r.p.tasks(); err != nil {
		return err
	}
	r.makeInfo()
	if err := r.resume(); err != nil {
		return err
	}
	if err := r.makeFiles(ctx); err != nil {
		return err
	}
	if err := r.stage(); err != nil {
		return err
	}
	if r.p.v21() {
		err = r.makeMetaV21(ctx)
	} else {
		err = r.makeMeta(ctx)
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.result.Episodes, r.result.Frames = r.info.TotalEpisodes, r.info.TotalFrames
	return r.swapIn()
}

// makeInfo is the result's info.json; what it says of videos follows when they are there.
func (r *rebuild) makeInfo() {
	n := len(r.p.Episodes)
	r.info = Info{CodebaseVersion: Version, RobotType: r.p.RobotType, TotalEpisodes: n, TotalTasks: len(r.tasks), ChunksSize: defaultChunksSize,
		DataFilesSizeMB: defaultDataFileMB, VideoFilesSizeMB: defaultVideoFileMB, FPS: r.p.FPS, DataPath: defaultDataPath,
		Splits: map[string]string{"train": fmt.Sprintf("0:%d", n)}}
	r.info.TotalFrames = r.l.from[n-1] + r.l.lengths[n-1]
	for _, f := range r.p.Features {
		g := f.Feature
		if g.DType == Video {
			r.info.VideoPath = r.videoTemplate()
			g.Names = []string{"height", "width", "channels"}
		}
		r.info.Features = append(r.info.Features, g)
	}
	r.info.Features = append(r.info.Features, DefaultFeatures()...)
	if r.p.v21() {
		r.info.CodebaseVersion, r.info.DataPath = v21Version, v21DataPath
		r.info.DataFilesSizeMB, r.info.VideoFilesSizeMB = 0, 0
	}
}

func (r *rebuild) videoTemplate() string {
	if r.p.v21() {
		return v21VideoPath
	}
	return defaultVideoPath
}

// dataPath and videoPath are where a file of the result stands.
func (r *rebuild) dataPath(f run) string {
	if r.p.v21() {
		return expand(v21DataPath, v21Values(f.lo, ""))
	}
	return f.file.path(defaultDataPath, "")
}

func (r *rebuild) videoPath(f run, camera string) string {
	if r.p.v21() {
		return expand(v21VideoPath, v21Values(f.lo, camera))
	}
	return f.file.path(defaultVideoPath, camera)
}

// fingerprint tells whether the files of an interrupted run belong to this plan.
func (r *rebuild) fingerprint() (string, error) {
	type part struct {
		PlanFeature
		Values, Function bool
	}
	h := sha256.New()
	e := json.NewEncoder(h)
	var features []part
	for _, f := range r.p.Features {
		g := part{PlanFeature: f, Function: f.Values != nil}
		g.PlanFeature.Values = nil
		features = append(features, g)
	}
	err := e.Encode([]any{identityVersion, r.p.FPS, r.p.RobotType, r.p.Note, r.p.Pack, r.p.Version, r.p.Recompute, r.p.Task != nil, r.tasks})
	for _, f := range features {
		err = errors.Join(err, e.Encode([]any{f.Feature, f.From, f.Elements, f.Function, f.Encode}))
	}
	seen := map[*Dataset]bool{}
	for _, pe := range r.p.Episodes {
		root := ""
		if !seen[pe.From] {
			seen[pe.From] = true
			stats, _ := os.ReadFile(filepath.Join(pe.From.root, statsPath))
			root = fmt.Sprintf("%s %x", pe.From.root, sha256.Sum256(stats))
		}
		err = errors.Join(err, e.Encode([]any{root, pe.Index, pe.Extra}))
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// resume keeps the finished files of an interrupted run of the same plan and removes any others.
func (r *rebuild) resume() error {
	const log = workDir + "/next.plan"
	want, err := r.fingerprint()
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(r.d.abs(log)); err == nil && string(have) == want {
		return nil
	}
	if err := r.d.remove(nextDir); err != nil {
		return err
	}
	return r.d.writeBytes(log, []byte(want))
}

// makeFiles makes the data files and videos that are not there yet.
func (r *rebuild) makeFiles(ctx context.Context) error {
	r.total = len(r.l.data)
	for _, c := range r.l.cameras {
		r.total += len(c.files)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rebuildWorkers)
	for _, f := range r.l.data {
		to := r.dataPath(f)
		g.Go(func() error { return r.make(ctx, to, f.whole, func(tmp string) error { return r.rows(ctx, f, tmp) }) })
	}
	for _, c := range r.l.cameras {
		for _, f := range c.files {
			to := r.videoPath(f, c.f.Name)
			g.Go(func() error {
				return r.make(ctx, to, f.whole, func(tmp string) error { return r.pictures(ctx, c, f, tmp) })
			})
		}
	}
	return g.Wait()
}

// make makes one file under a temporary name and gives it its own when it is complete.
func (r *rebuild) make(ctx context.Context, to string, whole bool, fill func(tmp string) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := nextDir + "/" + to
	if !r.d.exists(at) {
		if err := r.d.mkdir(path.Dir(at)); err != nil {
			return err
		}
		tmp := at + ".part"
		if err := r.d.remove(tmp); err != nil {
			return err
		}
		if err := fill(tmp); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		if err := r.d.rename(tmp, at); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done++; whole {
		r.result.Copied++
	} else {
		r.result.Made++
	}
	if r.o.Progress != nil {
		r.o.Progress("files", r.done, r.total)
	}
	return nil
}

// take brings a whole file of a source to tmp: in place by a second name, since the source goes; else by a copy.
func (r *rebuild) take(from *Dataset, file, tmp string) error {
	src := filepath.Join(from.root, file)
	if r.o.InPlace {
		if same, err := samePlace(from.root, r.d.root); err == nil && same && r.d.link(src, tmp) == nil {
			return nil
		}
	}
	return r.d.copyIn(src, tmp, false)
}

// pictures makes one video file.
func (r *rebuild) pictures(ctx context.Context, c *camera, f run, tmp string) error {
	if f.whole {
		s, err := c.f.source(r.p.Episodes[f.lo])
		if err != nil {
			return err
		}
		return r.take(s.key.d, s.key.path, tmp)
	}
	var parts []video.Part
	var encoded []string
	defer func() {
		for _, p := range encoded {
			os.Remove(p)
		}
	}()
	for i := f.lo; i < f.hi; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if c.f.Encode == nil {
			s, err := c.f.source(r.p.Episodes[i])
			if err != nil {
				return err
			}
			parts = append(parts, video.Part{Path: filepath.Join(s.key.d.root, s.key.path), First: s.first, Count: r.l.lengths[i]})
			continue
		}
		out := r.d.abs(fmt.Sprintf("%s.%d.mp4", tmp, i))
		encoded = append(encoded, out)
		if err := r.encode(ctx, c, i, out); err != nil {
			return fmt.Errorf("episode %d of %s: %w", r.p.Episodes[i].Index, r.p.Episodes[i].From.root, err)
		}
		parts = append(parts, video.Part{Path: out, Count: r.l.lengths[i]})
	}
	if err := r.d.try("write", tmp); err != nil {
		return err
	}
	if err := video.Join(r.d.abs(tmp), parts, r.p.FPS); err != nil {
		return err
	}
	r.d.did("write", tmp, "")
	return nil
}

// swapIn syncs the folders of the new dataset and lets them change places with the old ones.
func (r *rebuild) swapIn() error {
	c := &change{d: r.d}
	for _, name := range []string{"data", "videos", "meta"} { // meta last: with it the dataset is there
		if r.d.exists(nextDir + "/" + name) {
			c.Swap = append(c.Swap, name)
		} else if r.d.exists(name) {
			c.Gone = append(c.Gone, name)
		}
	}
	if r.d.exists("images") { // staging pictures of a recorder, or those of an old format
		c.Gone = append(c.Gone, "images")
	}
	var folders []string
	err := filepath.WalkDir(r.d.abs(nextDir), func(p string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			rel, _ := filepath.Rel(r.d.root, p)
			folders = append(folders, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		return err
	}
	folders = append([]string{workDir}, folders...)
	for _, f := range slices.Backward(folders) { // what is inside first
		if err := r.d.syncDir(f); err != nil {
			return err
		}
	}
	return c.publishSwap()
}
