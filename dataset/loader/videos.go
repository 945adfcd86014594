package loader

import (
	"context"
	"sync"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// videos keeps the indices of the videos used last, bounded by bytes, and their open files. Safe for concurrent use.
type videos struct {
	mu    sync.Mutex
	held  map[videoKey]*openVideo
	bytes int
	clock uint64
}

type videoKey struct {
	s    *set
	path string
}

// openVideo is a video that is being opened or open.
type openVideo struct {
	once  sync.Once
	blob  blob
	index *video.Index
	err   error
	bytes int
	used  uint64
}

// Bounds of what is kept: the indices of about 1.4 million frames.
const (
	indexBytes = 64 << 20
	openVideos = 512
)

func newVideos() *videos { return &videos{held: map[videoKey]*openVideo{}} }

// get opens a video or finds it open.
func (v *videos) get(ctx context.Context, s *set, path string) (*openVideo, error) {
	key := videoKey{s, path}
	v.mu.Lock()
	o := v.held[key]
	if o == nil {
		o = &openVideo{}
		v.held[key] = o
	}
	v.clock++
	o.used = v.clock
	v.mu.Unlock()
	o.once.Do(func() {
		o.open(ctx, s, path)
		v.keep(key, o)
	})
	return o, o.err
}

func (o *openVideo) open(ctx context.Context, s *set, path string) {
	if o.blob, o.err = s.files.open(ctx, path); o.err != nil {
		return
	}
	r := o.blob
	if s.files.remote() {
		r = newBlocks(r)
	}
	o.index, o.err = video.ReadIndex(r, r.size(), s.files.name(path))
}

// keep counts a video that was opened and lets those go that were not used for longest. A failed one is tried again next time.
func (v *videos) keep(key videoKey, o *openVideo) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if o.err != nil {
		if v.held[key] == o {
			delete(v.held, key)
		}
		return
	}
	o.bytes = o.index.Bytes()
	v.bytes += o.bytes
	for v.bytes > indexBytes || len(v.held) > openVideos {
		var oldest videoKey
		var found *openVideo
		for k, c := range v.held {
			if c != o && c.bytes > 0 && (found == nil || c.used < found.used) {
				oldest, found = k, c
			}
		}
		if found == nil {
			return
		}
		v.bytes -= found.bytes
		delete(v.held, oldest)
	}
}
