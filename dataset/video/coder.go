package video

import "context"

// coder is the work behind an Encoder: pictures of the right size in, one mp4 at a path out.
type coder interface {
	// write adds a picture, a JPEG or RGB24.
	write(picture []byte, jpeg bool) error
	// close finishes the file of that many frames, verifies, syncs and publishes it.
	close(frames int) (Info, error)
	// abort stops and removes what was written.
	abort()
}

// newCoder chooses who codes: libav in this process for H.264 where it is built in, otherwise the ffmpeg program. Both give the same
// coded frames; the program's start takes longer than coding a second of video.
func newCoder(ctx context.Context, path string, o EncodeOptions) (coder, error) {
	if o.Codec == H264 && nativeEncoder {
		return newNative(ctx, path, o)
	}
	return &programCoder{ctx: ctx, path: path, o: o}, nil
}
