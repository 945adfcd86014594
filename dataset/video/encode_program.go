package video

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// programCoder codes with the ffmpeg program, which is started with the first picture.
type programCoder struct {
	ctx  context.Context
	path string
	o    EncodeOptions
	p    *program
	in   io.WriteCloser
}

func (c *programCoder) part() string { return c.path + ".part" }

// start runs ffmpeg with the input format of the first frame.
func (c *programCoder) start(jpeg bool) error {
	rate := strconv.Itoa(c.o.FPS)
	input := []string{"-f", "mjpeg", "-framerate", rate, "-threads", "1", "-i", "pipe:0"}
	if !jpeg {
		input = []string{"-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", fmt.Sprintf("%dx%d", c.o.Width, c.o.Height), "-framerate", rate, "-i", "pipe:0"}
	}
	p, err := ffmpeg(c.ctx, append(input, c.o.args(c.part())...)...)
	if err != nil {
		return err
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	widen(in)
	if err := p.cmd.Start(); err != nil {
		return p.fail(err)
	}
	c.p, c.in = p, in
	return nil
}

func (c *programCoder) write(picture []byte, jpeg bool) error {
	if c.p == nil {
		if err := c.start(jpeg); err != nil {
			return err
		}
	}
	if _, err := c.in.Write(picture); err != nil {
		if ended := c.p.cmd.Wait(); ended != nil { // why the pipe broke
			err = ended
		}
		return c.p.fail(err)
	}
	return nil
}

func (c *programCoder) close(frames int) (Info, error) {
	err := errors.Join(c.in.Close(), c.p.fail(c.p.cmd.Wait()))
	var info Info
	if err == nil {
		info, err = c.verify(frames)
	}
	if err == nil {
		err = publish(c.part(), c.path)
	}
	if err != nil {
		os.Remove(c.part())
		return Info{}, err
	}
	return info, nil
}

func (c *programCoder) verify(frames int) (Info, error) {
	info, err := Probe(c.part())
	if err == nil && strings.Contains(c.p.stderr.String(), noSpace) {
		err = errors.New("not written to its end")
	}
	if err != nil {
		return Info{}, c.p.fail(err)
	}
	if info.Frames() != frames {
		return Info{}, fmt.Errorf("holds %d frames, %d were written: a frame did not decode (%s)", info.Frames(), frames, c.p.stderr.String())
	}
	if k, off := info.WorstTime(c.o.FPS); off > 1e-9 {
		return Info{}, fmt.Errorf("frame %d is %.6f s away from its time", k, off)
	}
	return info, nil
}

func (c *programCoder) abort() {
	if c.p == nil {
		return
	}
	c.p.cmd.Process.Kill()
	c.in.Close()
	c.p.cmd.Wait()
	os.Remove(c.part())
}
