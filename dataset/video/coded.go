package video

import "encoding/binary"

// Coded returns what of a packet codes the picture. Of H.264 and H.265 packets in mp4 form (4-byte lengths) that is the
// slice units: parameter sets, delimiters and comments come and go when files are joined or cut, the picture stays.
// Packets of other codecs, and packets that do not parse, are returned whole. Specification: ITU-T H.264 table 7-1, H.265 table 7-1.
func Coded(codec Codec, packet []byte) []byte {
	if codec != H264 && codec != "hevc" {
		return packet
	}
	var out []byte
	for rest := packet; len(rest) > 0; {
		if len(rest) < 5 {
			return packet
		}
		n := int64(binary.BigEndian.Uint32(rest)) + 4
		if n < 5 || n > int64(len(rest)) {
			return packet
		}
		if slice(codec, rest[4]) {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// slice reports whether a unit with this first byte holds part of a picture.
func slice(codec Codec, first byte) bool {
	if codec == H264 {
		kind := first & 0x1f
		return kind >= 1 && kind <= 5
	}
	return first>>1&0x3f < 32
}
