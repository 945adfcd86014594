package video

import (
	"bufio"
	"context"
	"fmt"
	"io"
)

// cliDecoder streams a file through the ffmpeg program.
type cliDecoder struct {
	path   string
	filter string
	size   int // bytes of a frame
	p      *program
	out    *bufio.Reader
	cancel context.CancelFunc
	next   int // number of the frame that the stream gives next
}

func newCLIDecoder(path string, info Info, width, height int) *cliDecoder {
	d := &cliDecoder{path: path, filter: "format=rgb24", size: width * height * 3}
	if width != info.Width || height != info.Height {
		d.filter = fmt.Sprintf("scale=%d:%d:flags=fast_bilinear,format=rgb24", width, height)
	}
	return d
}

func (d *cliDecoder) frame(i int, dst []byte) error {
	if d.p == nil || i < d.next {
		if err := d.start(); err != nil {
			return err
		}
	}
	for ; d.next < i; d.next++ {
		if _, err := d.out.Discard(d.size); err != nil {
			return d.ended(err)
		}
	}
	if _, err := io.ReadFull(d.out, dst); err != nil {
		return d.ended(err)
	}
	d.next++
	return nil
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
	p, err := ffmpeg(ctx, "-threads", "1", "-i", d.path, "-map", "0:v:0", "-vsync", "passthrough", "-vf", d.filter, "-f", "rawvideo", "pipe:1")
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
