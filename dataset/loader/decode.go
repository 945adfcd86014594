package loader

import (
	"context"
	"fmt"
	"io"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// runFrames are decoded at a time when a whole episode is: a few megabytes at the network's size.
const runFrames = 32

// decodeRun writes count frames of a video, from first on, one after the other.
func decodeRun(ctx context.Context, d *video.Decoder, x *video.Index, r io.ReaderAt, first, count int, im Images, w io.Writer) error {
	if first+count > x.Frames() {
		return fmt.Errorf("the video has %d frames, the episode wants %d from frame %d on", x.Frames(), count, first)
	}
	size := im.bytes()
	buf, at := make([]byte, runFrames*size), make([]int, runFrames)
	for i := range at {
		at[i] = i * size
	}
	frames := make([]int, 0, runFrames)
	for done := 0; done < count; done += len(frames) {
		if err := ctx.Err(); err != nil {
			return err
		}
		frames = frames[:0]
		for i := done; i < min(done+runFrames, count); i++ {
			frames = append(frames, first+i)
		}
		if err := d.Frames(x, r, frames, &im.Geometry, buf, at[:len(frames)]); err != nil {
			return err
		}
		if _, err := w.Write(buf[:len(frames)*size]); err != nil {
			return err
		}
	}
	return nil
}
