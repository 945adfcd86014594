package video

import (
	"fmt"
	"os"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// ReaderOptions choose what a Reader returns.
type ReaderOptions struct {
	// Geometry of the returned frames; nil keeps the stored size.
	Geometry *imaging.Geometry
}

// Reader decodes frames of one mp4 by number. Not safe for concurrent use: open one per worker.
type Reader struct {
	path          string
	x             *Index
	width, height int
	d             decoder
}

// decoder is the native or the process-based half of a Reader.
type decoder interface {
	// frame decodes frame i into dst, which has the right size.
	frame(i int, dst []byte) error
	close()
}

// Open opens the video at path. With build tag libav any frame costs a seek and at most one group of pictures. Without
// it the ffmpeg program decodes from the start: frames asked for in rising order stream by, a step back starts over.
func Open(path string, o ReaderOptions) (*Reader, error) {
	x, err := OpenIndex(path)
	if err != nil {
		return nil, err
	}
	r := &Reader{path: path, x: x, width: x.Width, height: x.Height}
	if r.width <= 0 || r.height <= 0 {
		return nil, fmt.Errorf("open %s: frame size %dx%d", path, r.width, r.height)
	}
	if o.Geometry != nil {
		if err := o.Geometry.Check(); err != nil {
			return nil, fmt.Errorf("open %s: %w", path, err)
		}
		r.width, r.height = o.Geometry.Width, o.Geometry.Height
	}
	r.d, err = openSequence(path, x, o.Geometry)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return r, nil
}

// OpenIndex reads the index of the video at path.
func OpenIndex(path string) (*Index, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return ReadIndex(f, st.Size(), path)
}

// Frames is the number of frames.
func (r *Reader) Frames() int { return r.x.Frames() }

// Size of the returned frames in pixels.
func (r *Reader) Size() (width, height int) { return r.width, r.height }

// Frame decodes frame i (in order of presentation) into dst, which must hold width*height*3 bytes: RGB24, rows from the top.
func (r *Reader) Frame(i int, dst []byte) error {
	if i < 0 || i >= r.Frames() {
		return fmt.Errorf("%s has %d frames, no frame %d", r.path, r.Frames(), i)
	}
	if want := r.width * r.height * 3; len(dst) != want {
		return fmt.Errorf("frame %d of %s needs %d bytes, got %d", i, r.path, want, len(dst))
	}
	if err := r.d.frame(i, dst); err != nil {
		return fmt.Errorf("decode frame %d of %s: %w", i, r.path, err)
	}
	return nil
}

// Close releases the decoder.
func (r *Reader) Close() error {
	r.d.close()
	return nil
}

// Each decodes the frames first..first+count-1 in order; rgb is reused between calls.
func Each(path string, o ReaderOptions, first, count int, f func(i int, rgb []byte) error) error {
	r, err := Open(path, o)
	if err != nil {
		return err
	}
	defer r.Close()
	buf := make([]byte, r.width*r.height*3)
	for i := first; i < first+count; i++ {
		if err := r.Frame(i, buf); err != nil {
			return err
		}
		if err := f(i, buf); err != nil {
			return err
		}
	}
	return nil
}
