package video

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
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
	// Preset of the encoder; default "ultrafast" for H264, "12" for AV1.
	Preset string
	// Threads of one encoder; default 1, so that the bytes do not depend on the machine. Encode cameras in parallel instead.
	Threads int
}

// fill checks the options and sets the defaults.
func (o EncodeOptions) fill() (EncodeOptions, error) {
	if err := o.Check(); err != nil {
		return o, err
	}
	if o.Codec == "" {
		o.Codec = H264
	}
	if o.FPS <= 0 {
		return o, fmt.Errorf("frame rate %d Hz: want a positive whole number", o.FPS)
	}
	if o.Width <= 0 || o.Height <= 0 || o.Width%2 != 0 || o.Height%2 != 0 {
		return o, fmt.Errorf("frame size %dx%d: want positive even numbers", o.Width, o.Height)
	}
	if o.GOP == 0 {
		o.GOP = 2
	}
	if o.Threads == 0 {
		o.Threads = 1
	}
	switch o.Codec {
	case H264:
		o.CRF, o.Preset = cmp.Or(o.CRF, 23), cmp.Or(o.Preset, "ultrafast")
	case AV1:
		o.CRF, o.Preset = cmp.Or(o.CRF, 30), cmp.Or(o.Preset, "12")
	default:
		return o, fmt.Errorf("codec %q can not be written; choose %s or %s", o.Codec, H264, AV1)
	}
	return o, nil
}

// args are ffmpeg's arguments after the input: closed groups of pictures, no B-frames, no scene cuts, limited-range
// BT.601 as cameras and decoders assume for this size, time base fps*512 (so frame k has exactly k*512 ticks), and
// nothing in the file that depends on the day or the machine.
func (o EncodeOptions) args(path string) []string {
	n := strconv.Itoa
	a := []string{"-an", "-vf", "scale=out_range=limited:out_color_matrix=bt601:flags=fast_bilinear,format=yuv420p",
		"-color_range", "tv", "-colorspace", "smpte170m", "-color_primaries", "smpte170m", "-color_trc", "smpte170m",
		"-threads", n(o.Threads), "-g", n(o.GOP), "-crf", n(o.CRF), "-preset", o.Preset}
	if o.Codec == AV1 {
		a = append(a, "-c:v", "libsvtav1", "-svtav1-params", "irefresh-type=2:lp="+n(o.Threads))
	} else {
		a = append(a, "-c:v", "libx264", "-tune", "fastdecode", "-bf", "0", "-keyint_min", n(o.GOP), "-sc_threshold", "0", "-flags", "+cgop")
	}
	return append(a, "-map_metadata", "-1", "-fflags", "+bitexact", "-flags:v", "+bitexact+cgop",
		"-video_track_timescale", n(o.FPS*512), "-movflags", "+faststart", "-f", "mp4", path)
}

// Encoder writes one mp4. WriteJPEG and WriteRGB must not be mixed. Not safe for concurrent use.
type Encoder struct {
	path   string
	o      EncodeOptions
	c      coder
	jpeg   bool // what the pictures so far were
	frames int
	done   bool
}

// NewEncoder makes an encoder that writes to path when closed. A killed program leaves only files beside it: path + ".part" or ".units".
func NewEncoder(ctx context.Context, path string, o EncodeOptions) (*Encoder, error) {
	o, err := o.fill()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	c, err := newCoder(ctx, path, o)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", path, err)
	}
	return &Encoder{path: path, o: o, c: c}, nil
}

func (e *Encoder) write(picture []byte, jpeg bool) error {
	switch {
	case e.done:
		return fmt.Errorf("encode %s: already closed", e.path)
	case e.frames > 0 && jpeg != e.jpeg:
		return fmt.Errorf("encode %s: JPEG and raw frames mixed at frame %d", e.path, e.frames)
	}
	if err := e.c.write(picture, jpeg); err != nil {
		e.Abort()
		return fmt.Errorf("encode %s: frame %d: %w", e.path, e.frames, err)
	}
	e.jpeg = jpeg
	e.frames++
	return nil
}

// WriteJPEG adds one frame as a baseline JPEG; writing the same picture again repeats the frame.
func (e *Encoder) WriteJPEG(jpeg []byte) error {
	w, h, err := jpegSize(jpeg)
	if err != nil {
		return fmt.Errorf("encode %s: frame %d: %w", e.path, e.frames, err)
	}
	if w != e.o.Width || h != e.o.Height {
		return fmt.Errorf("encode %s: frame %d is %dx%d, want %dx%d", e.path, e.frames, w, h, e.o.Width, e.o.Height)
	}
	return e.write(jpeg, true)
}

// WriteRGB adds one frame as Width*Height*3 bytes, rows from the top, R G B.
func (e *Encoder) WriteRGB(rgb []byte) error {
	if want := e.o.Width * e.o.Height * 3; len(rgb) != want {
		return fmt.Errorf("encode %s: frame %d has %d bytes, want %d", e.path, e.frames, len(rgb), want)
	}
	return e.write(rgb, false)
}

// Close finishes the file, verifies that it holds exactly the frames that were written, each at time k/FPS, syncs it and
// returns what Probe sees.
func (e *Encoder) Close() (Info, error) {
	if e.done {
		return Info{}, fmt.Errorf("encode %s: already closed", e.path)
	}
	if e.frames == 0 {
		e.Abort()
		return Info{}, fmt.Errorf("encode %s: no frames", e.path)
	}
	e.done = true
	info, err := e.c.close(e.frames)
	if err != nil {
		return Info{}, fmt.Errorf("encode %s: %w", e.path, err)
	}
	return info, nil
}

// Abort stops the encoder and removes what it wrote. After Close it does nothing.
func (e *Encoder) Abort() {
	if !e.done {
		e.done = true
		e.c.abort()
	}
}

// publish gives a finished file its name; both are on the disk when it returns.
func publish(part, path string) error {
	if err := atomicfile.SyncFile(part); err != nil {
		return err
	}
	return atomicfile.Rename(atomicfile.OS, part, path)
}

// jpegSize reads width and height from the frame header, and checks that the picture starts and ends as a JPEG does.
// Specification: ITU-T T.81, annex B.
func jpegSize(b []byte) (w, h int, err error) {
	if len(b) < 4 || b[0] != 0xff || b[1] != 0xd8 {
		return 0, 0, errors.New("no JPEG: it does not start with FF D8")
	}
	if !bytes.Contains(b[max(0, len(b)-64):], []byte{0xff, 0xd9}) {
		return 0, 0, fmt.Errorf("JPEG of %d bytes is cut off: no end marker", len(b))
	}
	for i := 2; i+9 < len(b); {
		if b[i] != 0xff {
			return 0, 0, fmt.Errorf("JPEG marker expected at byte %d", i)
		}
		m := b[i+1]
		if m == 0xff { // fill byte
			i++
			continue
		}
		if m >= 0xc0 && m <= 0xcf && m != 0xc4 && m != 0xc8 && m != 0xcc {
			return int(b[i+7])<<8 | int(b[i+8]), int(b[i+5])<<8 | int(b[i+6]), nil
		}
		i += 2 + int(b[i+2])<<8 + int(b[i+3])
	}
	return 0, 0, errors.New("JPEG without frame header")
}

// Cut copies count frames of src starting at frame first to dst without re-encoding, first frame at time 0. First must
// be a key frame, and the file must be free of B-frames.
func Cut(ctx context.Context, src, dst string, first, count int) (Info, error) {
	info, err := Probe(src)
	if err != nil {
		return Info{}, err
	}
	if first < 0 || count < 1 || first+count > info.Frames() {
		return Info{}, fmt.Errorf("cut %s: frames %d to %d, but it has %d", src, first, first+count, info.Frames())
	}
	if !info.Key[first] || info.HasBFrames {
		return Info{}, fmt.Errorf("cut %s: frame %d can not start a copy (key frame %t, B-frames %t): re-encode it", src, first, info.Key[first], info.HasBFrames)
	}
	out, err := cut(ctx, src, dst, info, first, count)
	if err != nil {
		os.Remove(dst + ".part")
		return Info{}, fmt.Errorf("cut %s: %w", src, err)
	}
	return out, nil
}

func cut(ctx context.Context, src, dst string, info Info, first, count int) (Info, error) {
	args := []string{}
	if first > 0 { // seek to just after the frame's time; the demuxer goes to the key frame at or before it
		args = append(args, "-ss", fmt.Sprintf("%.6f", info.Time(first)+0.25/max(info.Rate(), 1)))
	}
	args = append(args, "-i", src, "-map", "0:v:0", "-c", "copy", "-frames:v", strconv.Itoa(count), "-avoid_negative_ts", "make_zero",
		"-map_metadata", "-1", "-fflags", "+bitexact", "-video_track_timescale", strconv.Itoa(info.Timescale), "-movflags", "+faststart", "-f", "mp4", dst+".part")
	if err := run(ctx, args...); err != nil {
		return Info{}, err
	}
	out, err := Probe(dst + ".part")
	if err != nil {
		return Info{}, err
	}
	if out.Frames() != count || out.PTS[0] != 0 {
		return Info{}, fmt.Errorf("the copy holds %d frames from tick %d, want %d from 0", out.Frames(), out.PTS[0], count)
	}
	if err := samePackets(src, dst+".part", first, count); err != nil {
		return Info{}, err
	}
	return out, publish(dst+".part", dst)
}

// samePackets verifies that the copy holds exactly the packets first..first+count-1 of the source.
func samePackets(src, dst string, first, count int) error {
	sums := func(path string, first int) (map[int][]byte, error) {
		got := map[int][]byte{}
		err := Packets(path, func(i int, data []byte) error {
			if i >= first && i < first+count {
				got[i-first] = bytes.Clone(data)
			}
			return nil
		})
		return got, err
	}
	a, err := sums(src, first)
	if err != nil {
		return err
	}
	b, err := sums(dst, 0)
	if err != nil {
		return err
	}
	for i := range count {
		if !bytes.Equal(a[i], b[i]) {
			return fmt.Errorf("packet %d of the copy differs from packet %d of the source", i, first+i)
		}
	}
	return nil
}
