package ingest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"golang.org/x/sync/errgroup"
)

// decodeH264 sends access units to the ffmpeg program and hands on the pictures whose ordinal is in uses, as RGB24. Our streams have
// no B-frames, so picture i of the output is the i-th unit of the input; the counts are compared at the end.
func decodeH264(ctx context.Context, c *camera, in <-chan frame, uses map[int]int, out chan<- frame) error {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return fmt.Errorf("the ffmpeg program is not installed (apt-get install ffmpeg): %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "-hide_banner", "-loglevel", "error", "-nostdin", "-threads", "1", "-f", "h264", "-i", "pipe:0",
		"-vsync", "passthrough", "-sws_flags", "bicubic+accurate_rnd+full_chroma_int", "-f", "rawvideo", "-pix_fmt", "rgb24", "pipe:1")
	var said strings.Builder
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("decode camera %s: %w", c.name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("decode camera %s: %w", c.name, err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("decode camera %s: %w", c.name, err)
	}
	sent := make(chan int, 1<<16) // ordinals on their way through the decoder; bounded by its delay of a few frames
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(sent)
		defer stdin.Close()
		return sendUnits(ctx, in, stdin, sent)
	})
	g.Go(func() error { return takePictures(ctx, stdout, c.width*c.height*3, sent, uses, out) })
	err = g.Wait()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	if werr := cmd.Wait(); err == nil && werr != nil {
		err = werr
	}
	if err != nil {
		return fmt.Errorf("decode camera %s (%s): %w%s", c.name, c.topic, err, quoted(said.String()))
	}
	return nil
}

func quoted(said string) string {
	if said = strings.TrimSpace(said); said == "" {
		return ""
	}
	return " (ffmpeg: " + strings.ReplaceAll(said, "\n", "; ") + ")"
}

func sendUnits(ctx context.Context, in <-chan frame, stdin io.Writer, sent chan<- int) error {
	for {
		select {
		case f, ok := <-in:
			if !ok {
				return nil
			}
			if _, err := stdin.Write(f.data); err != nil {
				return fmt.Errorf("record %d: %w", f.ordinal, err)
			}
			select {
			case sent <- f.ordinal:
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// takePictures reads one picture for each unit sent.
func takePictures(ctx context.Context, stdout io.Reader, size int, sent <-chan int, uses map[int]int, out chan<- frame) error {
	buf := make([]byte, size)
	for ordinal := range sent {
		if _, err := io.ReadFull(stdout, buf); err != nil {
			return fmt.Errorf("record %d has no picture (a unit was lost or is damaged): %w", ordinal, err)
		}
		if uses[ordinal] == 0 {
			continue
		}
		select {
		case out <- frame{ordinal, buf}:
			buf = make([]byte, size)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if n, err := io.ReadFull(stdout, buf); !errors.Is(err, io.EOF) {
		return fmt.Errorf("the decoder gave more pictures than units (%d bytes)", n)
	}
	return nil
}
