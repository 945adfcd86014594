package video

import (
	"context"
	"errors"
)

// Codec of a video stream, by LeRobot's name.
type Codec string

// Codecs that Encoder writes. Probe may report others (hevc, mpeg4, mjpeg, vp9).
const (
	H264 Codec = "h264"
	AV1  Codec = "av1"
)

// EncodeOptions describe the mp4 that an Encoder writes.
type EncodeOptions struct {
	// Codec: default H264.
	Codec Codec
	// FPS is the constant frame rate in Hz.
	FPS int
	// Width and Height of the frames in pixels, even numbers. Frames of another size are an error.
	Width, Height int
	// GOP is the key-frame distance in frames; default 2, so that any frame costs at most two decodes.
	GOP int
	// CRF is the quality (lower is better); default 23 for H264, 30 for AV1.
	CRF int
	// Preset of the encoder; default "veryfast" for H264, "12" for AV1.
	Preset string
	// Threads of one encoder; default 1, so that the bytes do not depend on the machine. Encode cameras in parallel instead.
	Threads int
}

var errNotBuilt = errors.New("not available yet")

// Encoder writes one mp4. WriteJPEG and WriteRGB must not be mixed. Not safe for concurrent use.
type Encoder struct{}

// NewEncoder starts an encoder that writes to path when closed. A killed program leaves only a temporary file.
func NewEncoder(ctx context.Context, path string, o EncodeOptions) (*Encoder, error) {
	return nil, errNotBuilt
}

// WriteJPEG adds one frame as a baseline JPEG; writing the same picture again repeats the frame.
func (e *Encoder) WriteJPEG(jpeg []byte) error { return errNotBuilt }

// WriteRGB adds one frame as Width*Height*3 bytes, rows from the top, R G B.
func (e *Encoder) WriteRGB(rgb []byte) error { return errNotBuilt }

// Close finishes the file, verifies that it holds exactly the frames that were written, and returns what Probe sees.
func (e *Encoder) Close() (Info, error) { return Info{}, errNotBuilt }

// Abort stops the encoder and removes what it wrote. After Close it does nothing.
func (e *Encoder) Abort() {}

// Cut copies count frames of src starting at frame first to dst without re-encoding, first frame at time 0. First must
// be a key frame.
func Cut(ctx context.Context, src, dst string, first, count int) (Info, error) {
	return Info{}, errNotBuilt
}
