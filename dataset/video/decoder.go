package video

import (
	"errors"
	"fmt"
	"io"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Decoder turns the packets of any number of videos into pictures. It keeps a few native decoders, one for each way of coding
// it meets, so its memory does not grow with the number of videos. Not safe for concurrent use: make one per worker.
type Decoder struct {
	engine engine
	buf    []byte // packets

	// Where the native decoder stands: it has taken the packets of at before next.
	at   *Index
	next int
}

// engine decodes one run of packets. next is the packet it could take without starting over afterwards, or -1.
type engine interface {
	decode(x *Index, r stretch, data []byte, restart bool, frames []int, t target, dst []byte, at []int) (next int, err error)
	close()
}

// target is the picture wanted: the part crop of a frame in width x height pixels, or with width 0 the frame as it is.
type target struct {
	geometry      imaging.Geometry
	crop          imaging.Rect
	width, height int
}

// NewDecoder makes a decoder. Close it.
func NewDecoder() *Decoder { return &Decoder{engine: newEngine(), next: -1} }

// Frames decodes the given frames (rising, in order of presentation) of a video whose bytes r gives, and writes picture i to
// dst from byte at[i] on: RGB24, rows from the top, in the geometry's size, or in the stored size when it is nil. The bytes
// are those of imaging.Geometry applied to the full frame. After an error the pictures are undefined.
func (d *Decoder) Frames(x *Index, r io.ReaderAt, frames []int, g *imaging.Geometry, dst []byte, at []int) error {
	t, err := x.target(g)
	if err != nil {
		return err
	}
	for i := range frames {
		if size := t.bytes(x); at[i] < 0 || at[i]+size > len(dst) {
			return fmt.Errorf("frame %d of %s needs %d bytes at %d of %d", frames[i], x.name, size, at[i], len(dst))
		}
	}
	if d.at != x {
		d.at, d.next = x, -1
	}
	runs, err := x.plan(frames, d.next)
	if err != nil {
		return err
	}
	for _, run := range runs {
		if err := d.run(x, r, run, frames, t, dst, at); err != nil {
			d.at, d.next = nil, -1
			return err
		}
	}
	return nil
}

func (d *Decoder) run(x *Index, r io.ReaderAt, run stretch, frames []int, t target, dst []byte, at []int) (err error) {
	restart := d.next < 0 || run.first != d.next
	if restart {
		run.first = run.key
	}
	for {
		if d.buf, err = x.read(r, run.first, run.last, d.buf); err != nil {
			return err
		}
		d.next, err = d.engine.decode(x, run, d.buf, restart, frames, t, dst, at)
		if !errors.Is(err, errNotShown) || run.first == 0 {
			break
		}
		// Some encoders mark pictures as key frames from which decoders do not recover (open groups): start one group earlier.
		for run.key--; run.key > 0 && !x.packets[run.key].key; run.key-- {
		}
		run.first, restart = run.key, true
	}
	if err != nil {
		return fmt.Errorf("decode frame %d of %s: %w", frames[run.frames[0]], x.name, err)
	}
	return nil
}

// errNotShown says that a run of packets did not give a picture that is among them.
var errNotShown = errors.New("it does not decode")

// Close releases the native decoders.
func (d *Decoder) Close() { d.engine.close() }

// target of a geometry for this video.
func (x *Index) target(g *imaging.Geometry) (target, error) {
	if x.Width <= 0 || x.Height <= 0 || x.Width > 1<<14 || x.Height > 1<<14 {
		return target{}, fmt.Errorf("%s has frames of %dx%d pixels", x.name, x.Width, x.Height)
	}
	if g == nil {
		return target{}, nil
	}
	if err := g.Check(); err != nil {
		return target{}, err
	}
	t := target{*g, g.Crop(x.Width, x.Height), g.Width, g.Height}
	if t.crop.W*t.crop.H > 1<<24 { // the sums of the area mean have 32 bits
		return target{}, fmt.Errorf("%s: frames of %dx%d pixels are too large to reduce", x.name, x.Width, x.Height)
	}
	return t, nil
}

// bytes of one picture.
func (t target) bytes(x *Index) int {
	if t.width == 0 {
		return x.Width * x.Height * 3
	}
	return t.width * t.height * 3
}
