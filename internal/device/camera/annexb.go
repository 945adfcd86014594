package camera

import "bytes"

// H.264 NAL unit types. Specification: ITU-T Rec. H.264, Table 7-1.
const (
	nalIDR = 5
	nalSPS = 7
	nalPPS = 8
	nalAUD = 9
)

// parameterSets remembers the newest SPS and PPS of a stream, from its session description or from the stream itself.
type parameterSets struct{ sps, pps []byte }

// annexB joins the NAL units of an access unit with 4-byte start codes. Before an IDR that comes without them it puts the known
// parameter sets, so that every key frame decodes by itself; an IDR whose parameter sets are unknown is no key frame.
func (p *parameterSets) annexB(nalus [][]byte) (data []byte, key bool) {
	idr, hasSPS, hasPPS := false, false, false
	for _, n := range nalus {
		if len(n) == 0 {
			continue
		}
		switch n[0] & 0x1f {
		case nalIDR:
			idr = true
		case nalSPS:
			hasSPS, p.sps = true, bytes.Clone(n)
		case nalPPS:
			hasPPS, p.pps = true, bytes.Clone(n)
		}
	}
	key = idr && p.sps != nil && p.pps != nil
	out := make([]byte, 0, sizeOf(nalus)+len(p.sps)+len(p.pps)+8)
	placed := !key || (hasSPS && hasPPS)
	for _, n := range nalus {
		if len(n) == 0 {
			continue
		}
		if !placed && n[0]&0x1f != nalAUD {
			placed = true
			out = appendNAL(appendNAL(out, p.sps), p.pps)
		}
		out = appendNAL(out, n)
	}
	return out, key
}

func appendNAL(dst, n []byte) []byte { return append(append(dst, 0, 0, 0, 1), n...) }

func sizeOf(nalus [][]byte) int {
	n := 0
	for _, u := range nalus {
		n += len(u) + 4
	}
	return n
}
