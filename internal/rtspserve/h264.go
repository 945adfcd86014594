package rtspserve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"sync"

	"github.com/pinch-robotics/pinch/frames"
)

// H264Encoder turns RGB frames into H.264 access units with an ffmpeg process: one access unit per frame, no B-frames, one thread so that
// equal frames give equal bytes. The output travels as FLV, which frames each access unit with its length, so that it can be
// passed on the moment it is encoded.
type H264Encoder struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	stderr bytes.Buffer
	done   chan struct{} // the reader has left
	err    error         // of the reader, valid after done

	frameBytes int

	mu    sync.Mutex
	times []frames.DeviceTime // of the frames inside the encoder
}

// keyEvery is the distance of IDR frames: one second at the simulated centre camera's 10 Hz.
const keyEvery = 10

// StartH264 starts ffmpeg for frames of width x height pixels (even numbers). out is called for each access unit, from one goroutine: NAL
// units without start codes, with SPS and PPS before each IDR.
func StartH264(ctx context.Context, width, height int, rateHz float64, out func(nalus [][]byte, at frames.DeviceTime) error) (*H264Encoder, error) {
	path, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, fmt.Errorf("H.264 encoder: ffmpeg is needed to encode H.264 and was not found; install the Debian package ffmpeg: %w", err)
	}
	e := &H264Encoder{done: make(chan struct{}), frameBytes: 3 * width * height}
	e.cmd = exec.CommandContext(ctx, path, "-hide_banner", "-loglevel", "error", "-nostdin",
		// Not -fflags nobuffer: it loses the frame that was read to probe the input.
		"-probesize", "32", "-analyzeduration", "0",
		"-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", fmt.Sprintf("%dx%d", width, height),
		"-framerate", strconv.FormatFloat(rateHz, 'f', -1, 64), "-i", "pipe:0",
		"-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-crf", "23", "-bf", "0",
		"-g", strconv.Itoa(keyEvery), "-threads", "1", "-x264-params", "scenecut=0:sliced-threads=0",
		"-vsync", "passthrough", "-flush_packets", "1", "-flvflags", "no_duration_filesize", "-f", "flv", "pipe:1")
	e.cmd.Stderr = &e.stderr
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("H.264 encoder: %w", err)
	}
	stdout, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("H.264 encoder: %w", err)
	}
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("H.264 encoder: start ffmpeg: %w", err)
	}
	go func() {
		defer close(e.done)
		e.err = readFLV(stdout, func(nalus [][]byte) error { return out(nalus, e.nextTime()) })
		_, _ = io.Copy(io.Discard, stdout) // after a failure ffmpeg must not block on us
	}()
	return e, nil
}

func (e *H264Encoder) nextTime() frames.DeviceTime {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.times) == 0 {
		return -1
	}
	t := e.times[0]
	e.times = e.times[1:]
	return t
}

// Write encodes one frame: 3 bytes a pixel, rows from the top.
func (e *H264Encoder) Write(rgb []byte, at frames.DeviceTime) error {
	if len(rgb) != e.frameBytes {
		return fmt.Errorf("H.264 encoder: a frame of %d bytes, want %d", len(rgb), e.frameBytes)
	}
	select {
	case <-e.done:
		if err := e.Close(); err != nil {
			return err
		}
		return errors.New("H.264 encoder: ffmpeg ended before its last frame")
	default:
	}
	e.mu.Lock()
	e.times = append(e.times, at)
	e.mu.Unlock()
	if _, err := e.in.Write(rgb); err != nil {
		return fmt.Errorf("H.264 encoder: encode: %w", err)
	}
	return nil
}

// Kill ends ffmpeg at once; call Close after it.
func (e *H264Encoder) Kill() { _ = e.cmd.Process.Kill() }

// Close encodes what is left, waits until it has been passed on, and ends ffmpeg. It is an error when a frame did not come out.
func (e *H264Encoder) Close() error {
	_ = e.in.Close()
	<-e.done
	if err := e.cmd.Wait(); err != nil {
		return fmt.Errorf("H.264 encoder: ffmpeg: %w %s", err, e.stderr.Bytes())
	}
	if e.err != nil {
		return fmt.Errorf("H.264 encoder: %w", e.err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.times) > 0 {
		return fmt.Errorf("H.264 encoder: %d frames went into the encoder and did not come out", len(e.times))
	}
	return nil
}

const (
	flvHeaderBytes = 9 + 4 // file header and the first previous-tag size
	flvTagBytes    = 11
	flvVideo       = 9
	flvMaxTag      = 16 << 20
)

// readFLV reads H.264 from an FLV stream. Specification: Adobe Flash Video File Format 10.1, annex E; the sequence header is an
// AVCDecoderConfigurationRecord, ISO/IEC 14496-15.
func readFLV(r io.Reader, out func(nalus [][]byte) error) error {
	if _, err := io.ReadFull(r, make([]byte, flvHeaderBytes)); err != nil {
		return fmt.Errorf("read encoder output: %w", err)
	}
	var sets [][]byte
	head := make([]byte, flvTagBytes)
	for {
		if _, err := io.ReadFull(r, head); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read encoder output: %w", err)
		}
		size := int(head[1])<<16 | int(head[2])<<8 | int(head[3])
		if size > flvMaxTag {
			return fmt.Errorf("read encoder output: a tag of %d bytes", size)
		}
		body := make([]byte, size+4) // and the previous-tag size behind it
		if _, err := io.ReadFull(r, body); err != nil {
			return fmt.Errorf("read encoder output: %w", err)
		}
		body = body[:size]
		if head[0] != flvVideo || size < 5 || body[0]&0x0f != 7 {
			continue // metadata
		}
		switch body[1] {
		case 0:
			var err error
			if sets, err = parameterSets(body[5:]); err != nil {
				return err
			}
		case 1:
			nalus, key, err := splitAVCC(body[5:])
			if err != nil {
				return err
			}
			if key {
				nalus = append(append([][]byte{}, sets...), nalus...)
			}
			if err := out(nalus); err != nil {
				return err
			}
		}
	}
}

var errAVCC = errors.New("read encoder output: broken H.264 packet")

// parameterSets reads SPS and PPS out of an AVCDecoderConfigurationRecord.
func parameterSets(b []byte) (sets [][]byte, err error) {
	if len(b) < 6 {
		return nil, errAVCC
	}
	count := int(b[5] & 0x1f)
	b = b[6:]
	for range 2 { // first the SPS list, then the PPS list
		for range count {
			if len(b) < 2 {
				return nil, errAVCC
			}
			n := int(binary.BigEndian.Uint16(b))
			if len(b) < 2+n {
				return nil, errAVCC
			}
			sets = append(sets, bytes.Clone(b[2:2+n]))
			b = b[2+n:]
		}
		if len(b) == 0 {
			break
		}
		count, b = int(b[0]), b[1:]
	}
	return sets, nil
}

// splitAVCC splits length-prefixed NAL units, leaving out SEI, and tells whether there is an IDR among them.
func splitAVCC(b []byte) (nalus [][]byte, key bool, err error) {
	const sei, idr = 6, 5
	for len(b) > 0 {
		if len(b) < 5 {
			return nil, false, errAVCC
		}
		n := int(binary.BigEndian.Uint32(b))
		if n < 1 || n > len(b)-4 {
			return nil, false, errAVCC
		}
		u := b[4 : 4+n]
		if u[0]&0x1f != sei {
			nalus = append(nalus, u)
		}
		key = key || u[0]&0x1f == idr
		b = b[4+n:]
	}
	return nalus, key, nil
}
