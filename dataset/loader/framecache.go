package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// frameCache keeps decoded frames on disk, one file for each episode and camera (see store), and maps them into memory. A
// goroutine fills it in the order of the sets while training already runs. When its limit is reached, files that this Loader
// does not need go, those of the folder unused for longest first; then it stops: under random access an episode that would be
// replaced is worth as much as the one that replaces it.
type frameCache struct {
	l     *Loader
	ready [][][]atomic.Bool // set, image, episode: its file was there when last looked

	mu    sync.RWMutex // guards maps; held for reading while frames are copied
	maps  map[frameKey]*mapped
	clock atomic.Uint64

	stop   context.CancelFunc
	done   chan struct{}
	filled atomic.Int64 // episodes of cameras that are there or that there is no room for
	total  int64
	err    error // of the goroutine, once done is closed
}

type frameKey struct {
	s         *set
	image, at int
}

type mapped struct {
	pix   []byte
	unmap func() error
	used  atomic.Uint64
}

// mappedFiles bounds the files that are mapped at a time; systems allow some ten thousand.
const mappedFiles = 4096

// lookAgain is how often a process that another one makes the cache for looks for new files.
const lookAgain = 2 * time.Second

func newFrameCache(l *Loader) (*frameCache, error) {
	c := &frameCache{l: l, maps: map[frameKey]*mapped{}, done: make(chan struct{})}
	for _, s := range l.sets {
		var images [][]atomic.Bool
		for i := range l.cfg.Images {
			images = append(images, make([]atomic.Bool, len(s.episodes)))
			c.total += int64(len(s.episodes))
			folder := c.folder(s, i)
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return nil, fmt.Errorf("make frame cache: %w", err)
			}
			now := time.Now()
			_ = os.Chtimes(folder, now, now) // says when it was used last
		}
		c.ready = append(c.ready, images)
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go func() {
		defer close(c.done)
		if c.err = c.fill(ctx); errors.Is(c.err, context.Canceled) {
			c.err = nil
		}
	}()
	return c, nil
}

func (c *frameCache) folder(s *set, image int) string {
	im := c.l.cfg.Images[image]
	return filepath.Join(s.cache, im.Feature+"-"+im.Geometry.Hash())
}

func (c *frameCache) path(k frameKey) string {
	return filepath.Join(c.folder(k.s, k.image), frameFile(k.s.episodes[k.at].index))
}

// frameFile is the name of an episode's frames.
func frameFile(episode int) string { return fmt.Sprintf("episode-%06d.rgb", episode) }

func (c *frameCache) bytes(k frameKey) int64 {
	return int64(k.s.episodes[k.at].length) * int64(c.l.cfg.Images[k.image].bytes())
}

func (c *frameCache) flag(k frameKey) *atomic.Bool {
	return &c.ready[slices.Index(c.l.sets, k.s)][k.image][k.at]
}

// has reports whether a request needs no decoding.
func (c *frameCache) has(r *clipRequest) bool {
	return c.ready[r.set][r.image][r.at].Load()
}

// read copies the frames of a request; false when they are not there.
func (c *frameCache) read(r *clipRequest, size int, pix []byte) bool {
	if !c.has(r) {
		return false
	}
	k := frameKey{r.s, r.image, r.at}
	c.mu.RLock()
	m := c.maps[k]
	if m == nil {
		c.mu.RUnlock()
		if err := c.mapIn(k); err != nil { // removed or cut since
			c.ready[r.set][r.image][r.at].Store(false)
			return false
		}
		c.mu.RLock()
		if m = c.maps[k]; m == nil { // pushed out again at once
			c.mu.RUnlock()
			return false
		}
	}
	m.used.Store(c.clock.Add(1))
	for i, f := range r.frames {
		copy(pix[r.to[i]:r.to[i]+size], m.pix[f*size:])
	}
	c.mu.RUnlock()
	return true
}

// mapIn maps a file, and lets the one unused for longest go when there are too many.
func (c *frameCache) mapIn(k frameKey) error {
	pix, unmap, err := mapFile(c.path(k), int(c.bytes(k)))
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.maps[k] != nil {
		return unmap()
	}
	if len(c.maps) >= mappedFiles {
		var oldest frameKey
		var found *mapped
		for key, m := range c.maps {
			if found == nil || m.used.Load() < found.used.Load() {
				oldest, found = key, m
			}
		}
		delete(c.maps, oldest)
		if err := found.unmap(); err != nil {
			return err
		}
	}
	m := &mapped{pix: pix, unmap: unmap}
	m.used.Store(c.clock.Add(1))
	c.maps[k] = m
	return nil
}

// fill makes what is missing, set by set.
func (c *frameCache) fill(ctx context.Context) error {
	decoder := video.NewDecoder()
	defer decoder.Close()
	full := map[string]bool{} // cache folders without room
	for n, s := range c.l.sets {
		root := filepath.Dir(s.cache)
		lock, err := c.lock(ctx, n, root)
		if err != nil {
			return err
		}
		if lock == nil { // another process made all of it
			continue
		}
		err = c.fillSet(ctx, decoder, s, full)
		lock.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// lock takes the cache folder for writing. While another process has it, the files that it makes are found; nil when it made all.
func (c *frameCache) lock(ctx context.Context, n int, root string) (*folderlock.Lock, error) {
	before := c.filled.Load()
	for {
		c.filled.Store(before + c.look(n))
		lock, err := folderlock.Take(root)
		if err == nil {
			c.filled.Store(before)
			return lock, nil
		}
		if !errors.Is(err, folderlock.ErrHeld) {
			return nil, err
		}
		if c.filled.Load() == before+int64(len(c.l.cfg.Images)*len(c.l.sets[n].episodes)) {
			return nil, nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// look marks the files of set n that are there and counts them.
func (c *frameCache) look(n int) (found int64) {
	s := c.l.sets[n]
	for i := range c.l.cfg.Images {
		sizes := map[string]int64{}
		entries, _ := os.ReadDir(c.folder(s, i)) // an absent folder has none
		for _, e := range entries {
			if st, err := e.Info(); err == nil {
				sizes[e.Name()] = st.Size()
			}
		}
		for at, e := range s.episodes {
			if size, ok := sizes[frameFile(e.index)]; ok && size == c.bytes(frameKey{s, i, at}) {
				c.ready[n][i][at].Store(true)
				found++
			}
		}
	}
	return found
}

func (c *frameCache) fillSet(ctx context.Context, d *video.Decoder, s *set, full map[string]bool) error {
	root := filepath.Dir(s.cache)
	used, err := c.used(root)
	if err != nil {
		return err
	}
	for i := range c.l.cfg.Images {
		if _, err := atomicfile.RemoveStale(c.folder(s, i)); err != nil {
			return err
		}
		for at := range s.episodes {
			k := frameKey{s, i, at}
			need := c.bytes(k)
			if flag := c.flag(k); !flag.Load() && !full[root] {
				if used+need > c.l.cfg.FrameCache {
					used -= c.makeRoom(root, used+need-c.l.cfg.FrameCache)
				}
				if full[root] = used+need > c.l.cfg.FrameCache; full[root] {
					c.l.log.Info("the frame cache is full", "folder", root, "bytes", used, "limit", c.l.cfg.FrameCache)
				} else if err := c.write(ctx, d, k); err != nil {
					return fmt.Errorf("frame cache of %s: episode %d, camera %q: %w", s.path, s.episodes[at].index, c.l.cfg.Images[i].Feature, err)
				} else {
					used += need
					flag.Store(true)
				}
			}
			c.filled.Add(1)
		}
	}
	return nil
}

// write decodes an episode from its first frame to its last into a file.
func (c *frameCache) write(ctx context.Context, d *video.Decoder, k frameKey) error {
	e, im, clip := k.s.episodes[k.at], c.l.cfg.Images[k.image], k.s.videos[k.image][k.at]
	v, err := c.l.videos.get(ctx, k.s, k.s.paths[clip.path])
	if err != nil {
		return err
	}
	return atomicfile.Write(atomicfile.OS, c.path(k), 0o644, func(w io.Writer) error {
		return decodeRun(ctx, d, v.index, v.blob, int(clip.frame), e.length, im, w)
	})
}

// used is what the frame files below a cache folder take.
func (c *frameCache) used(root string) (total int64, err error) {
	err = walkFrames(root, func(_ string, st fs.FileInfo) error { total += st.Size(); return nil })
	return total, err
}

func walkFrames(root string, f func(path string, st fs.FileInfo) error) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, ".rgb") {
			return err
		}
		st, err := e.Info()
		if err != nil { // gone since
			return nil
		}
		return f(path, st)
	})
}

// makeRoom removes frames that this Loader does not need, of the folders unused for longest, and returns the bytes freed.
func (c *frameCache) makeRoom(root string, need int64) (freed int64) {
	mine := map[string]bool{}
	for _, s := range c.l.sets {
		for i := range c.l.cfg.Images {
			mine[c.folder(s, i)] = true
		}
	}
	type victim struct {
		path string
		size int64
		used time.Time // of its folder
	}
	var victims []victim
	_ = walkFrames(root, func(path string, st fs.FileInfo) error {
		if folder := filepath.Dir(path); !mine[folder] {
			if d, err := os.Stat(folder); err == nil {
				victims = append(victims, victim{path, st.Size(), d.ModTime()})
			}
		}
		return nil
	})
	slices.SortStableFunc(victims, func(a, b victim) int { return a.used.Compare(b.used) })
	for _, v := range victims {
		if freed >= need {
			break
		}
		if os.Remove(v.path) == nil {
			freed += v.size
		}
	}
	return freed
}

// wait for the goroutine.
func (c *frameCache) wait(ctx context.Context, progress func(done, total int)) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		if progress != nil {
			progress(int(c.filled.Load()), int(c.total))
		}
		select {
		case <-c.done:
			if progress != nil {
				progress(int(c.filled.Load()), int(c.total))
			}
			return c.err
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (c *frameCache) close() error {
	c.stop()
	<-c.done
	errs := []error{c.err}
	for _, m := range c.maps {
		errs = append(errs, m.unmap())
	}
	c.maps = nil
	return errors.Join(errs...)
}
