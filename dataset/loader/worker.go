package loader

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// worker makes one batch at a time with decoders of its own.
type worker struct {
	l       *Loader
	decoder *video.Decoder
	picture []byte // before augmentation
}

func newWorker(l *Loader) *worker { return &worker{l: l, decoder: video.NewDecoder()} }

func (w *worker) close() { w.decoder.Close() }

// clipRequest is one window's pictures of one camera.
type clipRequest struct {
	sample, image, set int
	s                  *set
	at                 int // place of the episode in s
	clip               clip
	frames             []int // of the video, rising, each once
	to                 []int // places of frames[i] in the array of the image, in bytes; the first of possibly several
	spans              spanReader
}

func (w *worker) batch(ctx context.Context, step int) (_ *Batch, err error) {
	l := w.l
	b := l.newBatch(step)
	defer func() {
		if err != nil {
			b.Release()
		}
	}()
	first := l.first(step)
	var clips []clipRequest
	for i := range b.Samples {
		sample, s, at := l.place(first + uint64(i))
		b.Samples[i] = sample
		if err := l.numbers(b, i, s, at); err != nil {
			return nil, sample.fault(s, err)
		}
		for k := range l.cfg.Images {
			clips = append(clips, l.request(b, i, k, s, at))
		}
	}
	if err := w.pictures(ctx, b, clips); err != nil {
		return nil, err
	}
	return b, w.augment(b)
}

// fault names the window.
func (s Sample) fault(from *set, err error) error {
	return fmt.Errorf("load dataset %s: episode %d, frame %d: %w", from.path, s.Episode, s.Frame, err)
}

// numbers fills the columns and the task of window i.
func (l *Loader) numbers(b *Batch, i int, s *set, at int) (err error) {
	e, frame := s.episodes[at], b.Samples[i].Frame
	if b.Tasks[i], err = s.taskOf(e.row + int64(frame)); err != nil {
		return err
	}
	for k, c := range l.cfg.Columns {
		a := &b.Columns[k]
		for t, offset := range c.Offsets {
			row, outside := clamp(frame+offset, e.length)
			n := i*a.Times + t
			a.Pad[n] = outside
			if err := s.columns[k].row(a.Values[n*a.Dim:(n+1)*a.Dim], e.row+int64(row)); err != nil {
				return fmt.Errorf("feature %q at frame %d: %w", c.Feature, row, err)
			}
		}
	}
	return nil
}

// clamp gives the nearest frame of an episode and whether it had to be moved.
func clamp(frame, length int) (inside int, outside bool) {
	inside = min(max(frame, 0), length-1)
	return inside, inside != frame
}

// request plans the pictures of window i of one camera.
func (l *Loader) request(b *Batch, i, image int, s *set, at int) clipRequest {
	im, e, a := l.cfg.Images[image], s.episodes[at], &b.Images[image]
	r := clipRequest{sample: i, image: image, set: b.Samples[i].Set, s: s, at: at, clip: s.videos[image][at]}
	size := im.bytes()
	type want struct{ frame, to int }
	wants := make([]want, len(im.Offsets))
	for t, offset := range im.Offsets {
		frame, outside := clamp(b.Samples[i].Frame+offset, e.length)
		n := i*a.Times + t
		a.Pad[n] = outside
		wants[t] = want{frame, n * size}
	}
	slices.SortStableFunc(wants, func(a, b want) int { return cmp.Compare(a.frame, b.frame) })
	for k, v := range wants {
		if k == 0 || v.frame != wants[k-1].frame {
			r.frames, r.to = append(r.frames, v.frame), append(r.to, v.to)
		}
	}
	return r
}

// pictures fills the images, window by window in the order of files and frames, so that a file's pages and a decoder's state
// serve neighbours.
func (w *worker) pictures(ctx context.Context, b *Batch, clips []clipRequest) error {
	slices.SortFunc(clips, func(a, b clipRequest) int {
		return cmp.Or(cmp.Compare(a.s.path, b.s.path), cmp.Compare(a.clip.path, b.clip.path), cmp.Compare(a.clip.frame, b.clip.frame),
			cmp.Compare(a.frames[0], b.frames[0]), cmp.Compare(a.sample, b.sample), cmp.Compare(a.image, b.image))
	})
	if err := w.prefetch(ctx, b, clips); err != nil {
		return err
	}
	for i := range clips {
		r := &clips[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := w.fill(ctx, b, r); err != nil {
			return b.Samples[r.sample].fault(r.s, fmt.Errorf("camera %q: %w", w.l.cfg.Images[r.image].Feature, err))
		}
		r.spans = spanReader{}
		w.repeat(b, r)
	}
	return nil
}

// fill brings the distinct frames of a request, from the cache or by decoding.
func (w *worker) fill(ctx context.Context, b *Batch, r *clipRequest) error {
	l, a := w.l, &b.Images[r.image]
	if l.frames != nil && l.frames.read(r, l.cfg.Images[r.image].bytes(), a.Pix) {
		l.cached.Add(int64(len(r.frames)))
		return nil
	}
	v, err := l.videos.get(ctx, r.s, r.s.paths[r.clip.path])
	if err != nil {
		return err
	}
	r.spans.file = v.blob
	if err := w.decoder.Frames(v.index, r.spans, shifted(r.frames, int(r.clip.frame)), &l.cfg.Images[r.image].Geometry, a.Pix, r.to); err != nil {
		return err
	}
	l.decoded.Add(int64(len(r.frames)))
	return nil
}

// shifted adds n to each frame.
func shifted(frames []int, n int) []int {
	out := make([]int, len(frames))
	for i, f := range frames {
		out[i] = f + n
	}
	return out
}

// repeat copies frames that a window holds more than once: at an episode's ends several offsets mean the same frame.
func (w *worker) repeat(b *Batch, r *clipRequest) {
	im, a := w.l.cfg.Images[r.image], &b.Images[r.image]
	if len(r.frames) == len(im.Offsets) {
		return
	}
	size := im.bytes()
	for t, offset := range im.Offsets {
		frame, _ := clamp(b.Samples[r.sample].Frame+offset, r.s.episodes[r.at].length)
		k, _ := slices.BinarySearch(r.frames, frame)
		if to := (r.sample*a.Times + t) * size; to != r.to[k] {
			copy(a.Pix[to:to+size], a.Pix[r.to[k]:r.to[k]+size])
		}
	}
}

// fetches is how many ranges of a bucket are read at a time for one batch.
const fetches = 16

// prefetch reads the bytes of requests that lie in buckets, all together: one after the other they would wait a round trip each.
func (w *worker) prefetch(ctx context.Context, b *Batch, clips []clipRequest) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fetches)
	for i := range clips {
		r := &clips[i]
		if !r.s.files.remote() || w.l.frames != nil && w.l.frames.has(r) {
			continue
		}
		g.Go(func() error {
			if err := w.fetch(ctx, r); err != nil {
				return b.Samples[r.sample].fault(r.s, fmt.Errorf("camera %q: %w", w.l.cfg.Images[r.image].Feature, err))
			}
			return nil
		})
	}
	return g.Wait()
}

func (w *worker) fetch(ctx context.Context, r *clipRequest) error {
	v, err := w.l.videos.get(ctx, r.s, r.s.paths[r.clip.path])
	if err != nil {
		return err
	}
	spans, err := v.index.Spans(shifted(r.frames, int(r.clip.frame)))
	if err != nil {
		return err
	}
	for _, s := range spans {
		data := make([]byte, s.Length)
		if _, err := v.blob.ReadAt(data, s.Offset); err != nil {
			return err
		}
		r.spans.spans = append(r.spans.spans, fetched{s.Offset, data})
	}
	return nil
}

// augmentStream separates the draws of augmentation from those of the order.
const augmentStream = 0x617567

// augment changes the pictures of each window; every frame of one camera the same way.
func (w *worker) augment(b *Batch) error {
	if w.l.cfg.Augment == (Augment{}) {
		return nil
	}
	for i, s := range b.Samples {
		for k := range b.Images {
			a := &b.Images[k]
			size := a.Height * a.Width * 3
			for t := range a.Times {
				rng := rand.New(rand.NewPCG(mix(w.l.cfg.Seed^augmentStream, uint64(k)), s.Number))
				pix := a.Pix[(i*a.Times+t)*size:][:size]
				w.picture = append(w.picture[:0], pix...)
				w.l.cfg.Augment.Apply(pix, imaging.RGB{Width: a.Width, Height: a.Height, Pix: w.picture}, rng)
			}
		}
	}
	return nil
}
