package video

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bluenviron/mediacommon/v2/pkg/bits"
	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
	"github.com/bluenviron/mediacommon/v2/pkg/formats/mp4/codecs"
	"github.com/bluenviron/mediacommon/v2/pkg/formats/pmp4"
)

// Units looks at the access units of an H.264 stream, in order, and says whether they may be copied into dataset videos as they are.
// The zero value is ready.
type Units struct {
	sps, pps []byte
	why      string
}

// See looks at one access unit (its NAL units without start codes) and tells whether it is an IDR picture, which a copy may start with.
func (u *Units) See(au [][]byte) (key bool) {
	for _, n := range au {
		if len(n) == 0 {
			continue
		}
		switch kind := h264.NALUType(n[0] & 0x1f); kind {
		case h264.NALUTypeIDR:
			key = true
		case h264.NALUTypeSPS:
			u.parameter(&u.sps, n)
		case h264.NALUTypePPS:
			u.parameter(&u.pps, n)
		case h264.NALUTypeNonIDR:
			if b, err := isBSlice(n); err != nil || b {
				u.why = "it has B-frames, or slices that cannot be read"
			}
		case h264.NALUTypeDataPartitionA, h264.NALUTypeDataPartitionB, h264.NALUTypeDataPartitionC:
			u.why = "it has data partitions"
		}
	}
	return key
}

// parameter keeps the first parameter set; a copy has room for one.
func (u *Units) parameter(have *[]byte, n []byte) {
	switch {
	case *have == nil:
		*have = bytes.Clone(n)
		var sps h264.SPS
		if have == &u.sps && (sps.Unmarshal(n) != nil || sps.ChromaFormatIdc != 1 || sps.BitDepthLumaMinus8 != 0 ||
			(sps.VUI != nil && sps.VUI.VideoFullRangeFlag)) {
			u.why = "its pixel format is not yuv420p in limited range"
		}
	case !bytes.Equal(*have, n):
		u.why = "its parameter sets change"
	}
}

// Refusal says why the stream may not be copied; empty when it may.
func (u *Units) Refusal() string {
	if u.why == "" && (u.sps == nil || u.pps == nil) {
		return "it has no parameter sets"
	}
	return u.why
}

// isBSlice reads the slice type. Specification: ITU-T H.264, 7.3.3 and table 7-6.
func isBSlice(nalu []byte) (bool, error) {
	body := h264.EmulationPreventionRemove(nalu[1:min(len(nalu), 32)])
	pos := 0
	if _, err := bits.ReadGolombUnsigned(body, &pos); err != nil { // first_mb_in_slice
		return false, err
	}
	kind, err := bits.ReadGolombUnsigned(body, &pos)
	return kind%5 == 1, err
}

// Copier writes one mp4 of H.264 access units as they are; nothing is decoded or encoded. The file keeps what Encoder promises: frame k
// at time k/FPS, closed groups of at most GOP pictures, no B-frames, the number of frames verified. Not safe for concurrent use.
type Copier struct {
	path    string
	o       EncodeOptions
	spool   *os.File
	samples []*pmp4.Sample
	sps     []byte
	pps     []byte
	at      int64
	lastKey int
	done    bool
}

// NewCopier makes a copier that writes to path when closed. Of the options FPS, Width, Height and GOP count. seen has looked at the
// stream: its parameter sets serve where the units do not repeat them.
func NewCopier(path string, o EncodeOptions, seen Units) (*Copier, error) {
	o, err := o.fill()
	if err != nil {
		return nil, fmt.Errorf("copy to %s: %w", path, err)
	}
	f, err := os.OpenFile(path+".units", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fmt.Errorf("copy to %s: %w", path, err)
	}
	return &Copier{path: path, o: o, spool: f, sps: seen.sps, pps: seen.pps}, nil
}

// WriteUnit adds one frame: an access unit as Annex B.
func (c *Copier) WriteUnit(annexB []byte) error {
	if err := c.unit(annexB); err != nil {
		return fmt.Errorf("copy to %s: frame %d: %w", c.path, len(c.samples), err)
	}
	return nil
}

func (c *Copier) unit(annexB []byte) error {
	if c.done {
		return errors.New("already closed")
	}
	var au h264.AnnexB
	if err := au.Unmarshal(annexB); err != nil {
		return err
	}
	var keep h264.AVCC
	key := false
	for _, n := range au {
		switch kind := h264.NALUType(n[0] & 0x1f); kind {
		case h264.NALUTypeSPS:
			c.sps = bytes.Clone(n)
		case h264.NALUTypePPS:
			c.pps = bytes.Clone(n)
		case h264.NALUTypeAccessUnitDelimiter, h264.NALUTypeFillerData, h264.NALUTypeEndOfSequence, h264.NALUTypeEndOfStream:
		default:
			key = key || kind == h264.NALUTypeIDR
			keep = append(keep, n)
		}
	}
	k := len(c.samples)
	if key {
		c.lastKey = k
	}
	switch {
	case k == 0 && !key:
		return errors.New("a copy has to start with a key frame")
	case k-c.lastKey >= c.o.GOP:
		return fmt.Errorf("the last key frame is %d frames back, more than %d", k-c.lastKey, c.o.GOP-1)
	case len(keep) == 0:
		return errors.New("the access unit holds no picture")
	}
	payload, err := keep.Marshal()
	if err != nil {
		return err
	}
	at := c.at
	if _, err := c.spool.WriteAt(payload, at); err != nil {
		return err
	}
	c.at += int64(len(payload))
	c.samples = append(c.samples, &pmp4.Sample{Duration: 512, IsNonSyncSample: !key, PayloadSize: uint32(len(payload)), GetPayload: func() ([]byte, error) {
		b := make([]byte, len(payload))
		_, err := c.spool.ReadAt(b, at)
		return b, err
	}})
	return nil
}

// Close writes the file, verifies and syncs it, and returns what Probe sees.
func (c *Copier) Close() (Info, error) {
	if c.done {
		return Info{}, fmt.Errorf("copy to %s: already closed", c.path)
	}
	info, err := c.finish()
	c.Abort()
	if err != nil {
		return Info{}, fmt.Errorf("copy to %s: %w", c.path, err)
	}
	return info, nil
}

func (c *Copier) finish() (Info, error) {
	if len(c.samples) == 0 {
		return Info{}, errors.New("no frames")
	}
	if c.sps == nil || c.pps == nil {
		return Info{}, errors.New("the stream has no parameter sets")
	}
	p := pmp4.Presentation{Tracks: []*pmp4.Track{{ID: 1, TimeScale: uint32(c.o.FPS * 512), Codec: &codecs.H264{SPS: c.sps, PPS: c.pps}, Samples: c.samples}}}
	f, err := os.OpenFile(c.path+".part", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return Info{}, err
	}
	err = errors.Join(p.Marshal(io.Writer(f)), f.Close())
	if err != nil {
		return Info{}, err
	}
	info, err := Probe(c.path + ".part")
	if err != nil {
		return Info{}, err
	}
	k, off := info.WorstTime(c.o.FPS)
	switch {
	case info.Frames() != len(c.samples):
		return Info{}, fmt.Errorf("the copy holds %d frames, %d were written", info.Frames(), len(c.samples))
	case info.Width != c.o.Width || info.Height != c.o.Height:
		return Info{}, fmt.Errorf("the stream is %dx%d, want %dx%d", info.Width, info.Height, c.o.Width, c.o.Height)
	case off > 1e-9:
		return Info{}, fmt.Errorf("frame %d is %.6f s away from its time", k, off)
	}
	return info, publish(c.path+".part", c.path)
}

// Abort removes what has not been published. After Close it does nothing.
func (c *Copier) Abort() {
	if c.done {
		return
	}
	c.done = true
	c.spool.Close()
	os.Remove(c.path + ".units")
	os.Remove(c.path + ".part")
}
