package video

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// cliDecoder streams a file through the ffmpeg program.
type cliDecoder struct {
	path   string
	width  int
	height int
	full   []byte // one frame
	g      *imaging.Geometry
	p      *program
	out    *bufio.Reader
	cancel context.CancelFunc
	next   int // number of the frame that the stream gives next
}

func newCLIDecoder(path string, width, height int, g *imaging.Geometry) *cliDecoder {
	return &cliDecoder{path: path, width: width, height: height, full: make([]byte, width*height*3), g: g}
}

func (d *cliDecoder) frame(i int, dst []byte) error {
	if d.p == nil || i < d.next {
		if err := d.start(); err != nil {
			return err
		}
	}
	for ; d.next < i; d.next++ {
		if _, err := d.out.Discard(len(d.full)); err != nil {
			return d.ended(err)
		}
	}
	if _, err := io.ReadFull(d.out, d.full); err != nil {
		return d.ended(err)
	}
	d.next++
	if d.g == nil {
		copy(dst, d.full)
		return nil
	}
	return d.g.ApplyInto(dst, imaging.RGB{Width: d.width, Height: d.height, Pix: d.full})
}

// ended explains a stream that stopped before the frame.
func (d *cliDecoder) ended(err error) error {
	d.p.cmd.Wait()
	n := d.next
	err = d.p.fail(fmt.Errorf("only %d frames decode: %w", n, err))
	d.close()
	return err
}

func (d *cliDecoder) start() error {
	d.close()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := ffmpeg(ctx, "-threads", "1", "-i", d.path, "-map", "0:v:0", "-vsync", "passthrough", "-vf", "format=rgb24", "-f", "rawvideo", "pipe:1")
	if err != nil {
		cancel()
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		return p.fail(err)
	}
	d.p, d.out, d.cancel, d.next = p, bufio.NewReaderSize(out, 1<<20), cancel, 0
	return nil
}

func (d *cliDecoder) close() {
	if d.p == nil {
		return
	}
	d.cancel()
	d.p.cmd.Wait()
	d.p = nil
}

// piped decodes runs of packets with the ffmpeg program, one process a run: right everywhere, fast nowhere.
type piped struct{}

func (piped) decode(x *Index, r stretch, data []byte, _ bool, frames []int, t target, dst []byte, at []int) (int, error) {
	p, err := ffmpeg(context.Background(), "-threads", "1", "-f", "mp4", "-i", "pipe:0", "-map", "0:v:0", "-vsync", "passthrough",
		"-vf", "format=rgb24", "-f", "rawvideo", "pipe:1")
	if err != nil {
		return -1, err
	}
	var out bytes.Buffer
	p.cmd.Stdin, p.cmd.Stdout = bytes.NewReader(miniMP4(x, r.first, r.last, data)), &out
	if err := p.fail(p.cmd.Run()); err != nil {
		return -1, errors.Join(errNotShown, err)
	}
	size, packets := x.Width*x.Height*3, x.packets[r.first:r.last+1]
	if out.Len() != size*len(packets) {
		return -1, fmt.Errorf("%d packets gave %d bytes, want %d of %d each: %w", len(packets), out.Len(), len(packets), size, errNotShown)
	}
	for _, f := range r.frames {
		rank := 0
		for _, q := range packets {
			if q.pts < x.PTS[frames[f]] {
				rank++
			}
		}
		full := out.Bytes()[rank*size : (rank+1)*size]
		if t.width == 0 {
			copy(dst[at[f]:], full)
		} else if err := t.geometry.ApplyInto(dst[at[f]:at[f]+t.bytes(x)], imaging.RGB{Width: x.Width, Height: x.Height, Pix: full}); err != nil {
			return -1, err
		}
	}
	return -1, nil
}

func (piped) close() {}
