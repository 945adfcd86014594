package export

import (
	"encoding/binary"
	"fmt"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// repacker turns the packets of an mp4 into what CompressedVideo wants: each message decodes to one picture, key frames carry what a
// decoder needs to start.
type repacker interface {
	// format is Foxglove's name of the codec.
	format() string
	// packet appends the message's data for one packet.
	packet(dst, data []byte, key bool) ([]byte, error)
}

// newRepacker fails where the stream can not be taken as it is, and says why.
func newRepacker(info video.Info) (repacker, error) {
	if info.HasBFrames {
		return nil, fmt.Errorf("the stream has B-frames")
	}
	switch info.Codec {
	case video.H264:
		return newAnnexB(info.Config())
	case video.AV1:
		return newOBUs(info.Config())
	}
	return nil, fmt.Errorf("%s is no codec of CompressedVideo that pinch writes", info.Codec)
}

var startCode = []byte{0, 0, 0, 1}

// annexB writes H.264 with start codes. Specification: ITU-T H.264, annex B; avcC in ISO/IEC 14496-15, 5.3.3.1.
type annexB struct {
	lengthBytes int
	parameters  []byte // SPS and PPS with start codes
}

func newAnnexB(c []byte) (repacker, error) {
	broken := fmt.Errorf("the avcC box of %d bytes is broken", len(c))
	if len(c) < 7 {
		return nil, broken
	}
	a := &annexB{lengthBytes: int(c[4]&3) + 1}
	at := 5
	for _, mask := range []byte{0x1f, 0xff} { // number of SPS in five bits, then of PPS in eight
		if at >= len(c) {
			return nil, broken
		}
		n := int(c[at] & mask)
		at++
		for range n {
			if at+2 > len(c) {
				return nil, broken
			}
			size := int(binary.BigEndian.Uint16(c[at:]))
			at += 2
			if at+size > len(c) {
				return nil, broken
			}
			a.parameters = append(append(a.parameters, startCode...), c[at:at+size]...)
			at += size
		}
	}
	if len(a.parameters) == 0 {
		return nil, fmt.Errorf("the avcC box has no parameter sets")
	}
	return a, nil
}

func (a *annexB) format() string { return "h264" }

func (a *annexB) packet(dst, data []byte, key bool) ([]byte, error) {
	if key {
		dst = append(dst, a.parameters...)
	}
	for len(data) > 0 {
		if len(data) < a.lengthBytes {
			return nil, fmt.Errorf("a packet ends inside a length")
		}
		size := 0
		for _, b := range data[:a.lengthBytes] {
			size = size<<8 | int(b)
		}
		data = data[a.lengthBytes:]
		if size > len(data) || size == 0 {
			return nil, fmt.Errorf("a unit of %d bytes stands in %d bytes", size, len(data))
		}
		if kind := data[0] & 31; !(key && (kind == 7 || kind == 8)) { // parameter sets are there already
			dst = append(append(dst, startCode...), data[:size]...)
		}
		data = data[size:]
	}
	return dst, nil
}

// obus passes AV1 on, whose packets in an mp4 have the form wanted; a key frame gets the sequence header where it lacks one.
// Specification: AV1 bitstream, 5.3 to 5.5; av1C in the ISO binding, 2.3.
type obus struct{ header []byte }

func newOBUs(c []byte) (repacker, error) {
	if len(c) < 4 {
		return nil, fmt.Errorf("the av1C box of %d bytes is broken", len(c))
	}
	return &obus{header: c[4:]}, nil
}

func (o *obus) format() string { return "av1" }

const (
	obuSequenceHeader = 1
)

func (o *obus) packet(dst, data []byte, key bool) ([]byte, error) {
	has, err := hasOBU(data, obuSequenceHeader)
	if err != nil {
		return nil, err
	}
	if key && !has {
		if ok, err := hasOBU(o.header, obuSequenceHeader); err != nil || !ok {
			return nil, fmt.Errorf("a key frame and the container lack the sequence header")
		}
		dst = append(dst, o.header...)
	}
	return append(dst, data...), nil
}

// hasOBU tells whether a unit of a type is among them.
func hasOBU(b []byte, want byte) (bool, error) {
	for len(b) > 0 {
		head, kind := 1, b[0]>>3&15
		if b[0]&4 != 0 {
			head++ // extension
		}
		size, n := len(b)-head, 0
		if b[0]&2 != 0 && len(b) > head {
			v, k := binary.Uvarint(b[head:]) // leb128
			if k <= 0 || v > uint64(len(b)) {
				return false, fmt.Errorf("an OBU has no size")
			}
			size, n = int(v), k
		}
		if size < 0 || head+n+size > len(b) {
			return false, fmt.Errorf("an OBU of %d bytes stands in %d bytes", size, len(b))
		}
		if kind == want {
			return true, nil
		}
		b = b[head+n+size:]
	}
	return false, nil
}
