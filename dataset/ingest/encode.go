package ingest

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"golang.org/x/sync/errgroup"
)

// frame is one picture on its way to an encoder: a JPEG, or RGB24 when it was decoded from H.264.
type frame struct {
	ordinal int
	data    []byte
}

// film writes the mp4 files of one camera, one for each episode.
type film struct {
	c     *camera
	spans []span
	// shown is the ordinal of the picture of each row, all episodes after one another; uses counts the rows still to come by ordinal.
	shown []int
	uses  map[int]int
	last  int // greatest ordinal shown
	path  func(episode int) string
	opt   video.EncodeOptions
	// copies: the H.264 units go into the videos as they are.
	copies bool
}

// queued is how many pictures wait between the log's reader and each encoder.
const queued = 4

// encodeVideos reads the log a second time and encodes the chosen pictures of all cameras at the same time. It returns, for each
// span, the mp4 of each camera by name.
func (r *resampled) encodeVideos(ctx context.Context, log *rawlog.Reader, spans []span, dir, prefix string, o video.EncodeOptions) ([]map[string]string, error) {
	out := make([]map[string]string, len(spans))
	for i := range out {
		out[i] = map[string]string{}
	}
	g, ctx := errgroup.WithContext(ctx)
	feeds := map[string]chan frame{}
	films := map[string]*film{}
	var topics []string
	for _, c := range r.s.cameras {
		f := r.film(c, spans, o)
		f.path = func(i int) string {
			return filepath.Join(dir, fmt.Sprintf("%s-%d-%s.mp4", prefix, spans[i].index, c.name))
		}
		for i := range spans {
			out[i][c.name] = f.path(i)
		}
		feed := make(chan frame, queued)
		films[c.topic], feeds[c.topic] = f, feed
		topics = append(topics, c.topic)
		g.Go(func() error { return f.run(ctx, feed) })
	}
	g.Go(func() error {
		defer func() {
			for _, feed := range feeds {
				close(feed)
			}
		}()
		return deliver(ctx, log, topics, films, feeds)
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}

// film lists which pictures a camera shows.
func (r *resampled) film(c *camera, spans []span, o video.EncodeOptions) *film {
	o.Width, o.Height, o.FPS = c.width, c.height, r.tl.FPS
	f := &film{c: c, spans: spans, uses: map[int]int{}, opt: o}
	for _, sp := range spans {
		for k := sp.first; k < sp.end; k++ {
			n := c.samples[r.cameras[c.name][k].Index].ordinal
			f.shown = append(f.shown, n)
			f.uses[n]++
			f.last = max(f.last, n)
		}
	}
	f.copies = r.mayCopy(c, spans, o)
	return f
}

// mayCopy tells whether a camera's H.264 stream may be copied instead of decoded and encoded: the videos keep all that is promised of
// them. Every row shows the unit after that of the row before, each episode starts with a key frame, key frames are at most two
// apart, there are no B-frames, and no other codec or quality is asked for.
func (r *resampled) mayCopy(c *camera, spans []span, o video.EncodeOptions) bool {
	if !c.video || o.Codec == video.AV1 || o.CRF != 0 || o.Preset != "" || c.units.Refusal() != "" {
		return false
	}
	const gop = 2 // of package video
	for _, sp := range spans {
		lastKey := sp.first - gop
		for k := sp.first; k < sp.end; k++ {
			now := c.samples[r.cameras[c.name][k].Index]
			if k > sp.first && now.ordinal != c.samples[r.cameras[c.name][k-1].Index].ordinal+1 {
				return false
			}
			if now.key {
				lastKey = k
			}
			if k-lastKey >= gop {
				return false
			}
		}
	}
	return true
}

// deliver hands copies of the pictures that films need to their feeds, in file order. H.264 films need every unit up to the last
// shown one, as frames rest on those before.
func deliver(ctx context.Context, log *rawlog.Reader, topics []string, films map[string]*film, feeds map[string]chan frame) error {
	count := map[string]int{}
	left := len(topics)
	for m, err := range log.Messages(topics...) {
		switch {
		case isLoss(err):
			continue
		case err != nil:
			return err
		}
		topic := m.Channel.Topic
		f, n := films[topic], count[topic]
		count[topic]++
		if f.uses[n] > 0 || (f.c.video && n >= f.c.skipped && n <= f.last) {
			data, err := pictureData(f.c, m)
			if err != nil {
				continue // a broken record that the survey left out too
			}
			select {
			case feeds[topic] <- frame{n, bytes.Clone(data)}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if n == f.last {
			if left--; left == 0 {
				return nil
			}
		}
	}
	return nil
}

// run encodes or copies the feed's pictures until the feed is closed or every row is written.
func (f *film) run(ctx context.Context, feed <-chan frame) error {
	if f.copies {
		return f.write(ctx, feed)
	}
	if f.c.video {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		rgb := make(chan frame, queued)
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error {
			defer close(rgb)
			return decodeH264(ctx, f.c, feed, f.uses, rgb)
		})
		g.Go(func() error { return f.write(ctx, rgb) })
		return g.Wait()
	}
	return f.write(ctx, feed)
}

// write goes through the rows in order. Pictures mostly come in the order they are shown; one that comes early waits in memory.
func (f *film) write(ctx context.Context, in <-chan frame) error {
	waiting := map[int][]byte{}
	left := map[int]int{}
	for n, u := range f.uses {
		left[n] = u
	}
	row := 0
	for i, sp := range f.spans {
		enc, add, err := f.sink(ctx, f.path(i))
		if err != nil {
			return err
		}
		for range sp.len() {
			n := f.shown[row]
			err := receive(ctx, in, waiting, left, n)
			if err == nil {
				err = add(waiting[n])
			}
			if err != nil {
				enc.Abort()
				return fmt.Errorf("%s record %d: %w", f.c.topic, n, err)
			}
			if left[n]--; left[n] == 0 {
				delete(waiting, n)
			}
			row++
		}
		if _, err := enc.Close(); err != nil { // it verifies that every frame is there
			return fmt.Errorf("camera %s: %w", f.c.name, err)
		}
	}
	return nil
}

// sink is a video under way: Encoder or Copier.
type sink interface {
	Close() (video.Info, error)
	Abort()
}

// sink starts the video of one episode and tells how it takes pictures.
func (f *film) sink(ctx context.Context, path string) (sink, func([]byte) error, error) {
	if f.copies {
		c, err := video.NewCopier(path, f.opt, f.c.units)
		if err != nil {
			return nil, nil, err
		}
		return c, c.WriteUnit, nil
	}
	e, err := video.NewEncoder(ctx, path, f.opt)
	if err != nil {
		return nil, nil, err
	}
	if f.c.video {
		return e, e.WriteRGB, nil
	}
	return e, e.WriteJPEG, nil
}

// receive waits until picture n is there.
func receive(ctx context.Context, in <-chan frame, waiting map[int][]byte, left map[int]int, n int) error {
	for waiting[n] == nil {
		select {
		case f, ok := <-in:
			if !ok {
				return fmt.Errorf("the picture is missing: the log changed while it was read, or the stream cannot be decoded")
			}
			if left[f.ordinal] > 0 {
				waiting[f.ordinal] = f.data
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
