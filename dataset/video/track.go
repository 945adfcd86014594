package video

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bluenviron/mediacommon/v2/pkg/codecs/h264"
)

// maxSamples bounds the tables of a broken file: ten days at 60 Hz.
const maxSamples = 60 * 86400 * 10

// track holds the sample tables of one trak box.
type track struct {
	handler       string
	codec         Codec
	pixFmt        string
	width, height int
	timescale     int
	sizes         []int64
	deltas        []int64
	composition   []int64
	sync          []bool // nil: every sample is a key frame
	chunks        []int64
	perChunk      [][2]int // first chunk (from 1), samples per chunk
	edits         [][2]int64
	stream        stream
}

// stream is what a decoder must know before the first packet.
type stream struct {
	stsd   box // sample description as stored
	extra  []byte
	matrix int  // ITU-T H.273 matrix coefficients, 2 when the container does not tell
	full   bool // full range
}

func parseTrack(b box) (*track, error) {
	t := &track{}
	if h := b.at("mdia", "hdlr"); len(h) >= 12 {
		t.handler = string(h[8:12])
	}
	if t.handler != "vide" {
		return t, nil
	}
	h := b.at("mdia", "mdhd")
	t.timescale = int(h.u32(12))
	if len(h) > 0 && h[0] == 1 {
		t.timescale = int(h.u32(20))
	}
	stbl := b.at("mdia", "minf", "stbl")
	if stbl == nil {
		return nil, fmt.Errorf("video track without sample table")
	}
	t.sampleEntry(stbl.at("stsd"))
	t.editList(b.at("edts", "elst"))
	return t, t.sampleTables(stbl)
}

func (t *track) sampleTables(stbl box) error {
	stsz := stbl.at("stsz")
	if n := stsz.u32(8); n > maxSamples {
		return fmt.Errorf("%d samples are not plausible", n)
	}
	if same := stsz.u32(4); same > 0 {
		for i := int64(0); i < stsz.u32(8); i++ {
			t.sizes = append(t.sizes, same)
		}
	} else {
		for i := 0; i < stsz.entries(8, 4); i++ {
			t.sizes = append(t.sizes, stsz.u32(12+4*i))
		}
	}
	t.deltas = runs(stbl.at("stts"), len(t.sizes), false)
	ctts := stbl.at("ctts")
	t.composition = runs(ctts, len(t.sizes), true)
	if stss := stbl.at("stss"); stss != nil {
		t.sync = make([]bool, len(t.sizes))
		for i := 0; i < stss.entries(4, 4); i++ {
			if k := stss.u32(8+4*i) - 1; k >= 0 && k < int64(len(t.sync)) {
				t.sync[k] = true
			}
		}
	}
	stsc := stbl.at("stsc")
	for i := 0; i < stsc.entries(4, 12); i++ {
		t.perChunk = append(t.perChunk, [2]int{int(stsc.u32(8 + 12*i)), int(stsc.u32(12 + 12*i))})
	}
	if co64 := stbl.at("co64"); co64 != nil {
		for i := 0; i < co64.entries(4, 8); i++ {
			t.chunks = append(t.chunks, co64.u64(8+8*i))
		}
	} else {
		stco := stbl.at("stco")
		for i := 0; i < stco.entries(4, 4); i++ {
			t.chunks = append(t.chunks, stco.u32(8+4*i))
		}
	}
	return nil
}

// runs expands a run-length table (stts, ctts) of at most n samples.
func runs(b box, n int, signed bool) []int64 {
	var out []int64
	for i := 0; i < b.entries(4, 8); i++ {
		v := b.u32(12 + 8*i)
		if signed { // version 0 is unsigned by the letter, but writers store negative offsets there too
			v = b.i32(12 + 8*i)
		}
		for k := b.u32(8 + 8*i); k > 0 && len(out) < n; k-- {
			out = append(out, v)
		}
	}
	return out
}

// packetOffsets returns the position of each sample in the file.
func (t *track) packetOffsets() ([]int64, error) {
	offsets := make([]int64, 0, len(t.sizes))
	entry := 0
	for c, at := range t.chunks {
		for entry+1 < len(t.perChunk) && t.perChunk[entry+1][0] <= c+1 {
			entry++
		}
		if entry >= len(t.perChunk) {
			break
		}
		for k := 0; k < t.perChunk[entry][1] && len(offsets) < len(t.sizes); k++ {
			offsets = append(offsets, at)
			at += t.sizes[len(offsets)-1]
		}
	}
	if len(offsets) != len(t.sizes) {
		return nil, fmt.Errorf("chunk table places %d of %d samples", len(offsets), len(t.sizes))
	}
	return offsets, nil
}

func (t *track) editList(b box) {
	if len(b) == 0 {
		return
	}
	for i := 0; i < b.entries(4, 12); i++ {
		if b[0] == 1 {
			t.edits = append(t.edits, [2]int64{b.u64(8 + 20*i), b.u64(16 + 20*i)})
		} else {
			t.edits = append(t.edits, [2]int64{b.u32(8 + 12*i), b.i32(12 + 12*i)})
		}
	}
}

// editStart is the media time, in ticks, that presentation time 0 shows: a leading empty edit delays the track, the
// first real one skips its media time.
func (t *track) editStart(movieTimescale int) int64 {
	var delay int64
	for _, e := range t.edits {
		if e[1] >= 0 {
			return e[1] - delay
		}
		if movieTimescale > 0 {
			delay += e[0] * int64(t.timescale) / int64(movieTimescale)
		}
	}
	return -delay
}

// sampleEntry reads codec, size and pixel format from stsd.
func (t *track) sampleEntry(stsd box) {
	if len(stsd) < 16 {
		return
	}
	fourcc := string(stsd[12:16])
	entry := stsd[16:]
	t.width, t.height = entry.u16(24), entry.u16(26)
	var inner box
	if len(entry) > 78 {
		inner = entry[78:]
	}
	switch fourcc {
	case "avc1", "avc3":
		t.codec, t.pixFmt = H264, avcPixFmt(inner.at("avcC"))
	case "hvc1", "hev1":
		t.codec, t.pixFmt = "hevc", hevcPixFmt(inner.at("hvcC"))
	case "av01":
		t.codec, t.pixFmt = AV1, av1PixFmt(inner.at("av1C"))
	case "vp09":
		t.codec = "vp9"
	case "mp4v":
		t.codec = mp4vCodec(inner.at("esds"))
	default:
		t.codec = Codec(strings.TrimSpace(fourcc))
	}
	t.stream = stream{stsd: slices.Clone(stsd), extra: slices.Clone(extraData(inner)), matrix: 2}
	if colr := inner.at("colr"); len(colr) >= 11 && string(colr[:4]) == "nclx" {
		t.stream.matrix, t.stream.full = colr.u16(8), colr[10]&0x80 != 0
	}
}

// extraData is the decoder's configuration in the boxes of a sample entry: the record of its codec, or for MPEG-4 part 2 the
// decoder specific information of the esds box (ISO/IEC 14496-1, 7.2.6.7, tag 5).
func extraData(inner box) []byte {
	for _, kind := range []string{"avcC", "hvcC", "av1C"} {
		if b := inner.at(kind); b != nil {
			return b
		}
	}
	esds := inner.at("esds")
	for i := 4; i+1 < len(esds); {
		tag, n := esds[i], 0
		for i++; i < len(esds); i++ {
			n = n<<7 | int(esds[i]&0x7f)
			if esds[i]&0x80 == 0 {
				i++
				break
			}
		}
		switch tag {
		case 3: // stream descriptor: id and flags, then its parts
			i += 3
		case 4: // decoder configuration: 13 bytes, then its parts
			i += 13
		case 5:
			if i+n <= len(esds) {
				return esds[i : i+n]
			}
			return nil
		default:
			i += n
		}
	}
	return nil
}

// avcPixFmt reads the chroma format from the first SPS of an avcC box.
func avcPixFmt(b box) string {
	if len(b) < 8 {
		return ""
	}
	n := b.u16(6)
	if 8+n > len(b) {
		return ""
	}
	var sps h264.SPS
	if sps.Unmarshal(b[8:8+n]) != nil {
		return ""
	}
	name := pixFmt(int(sps.ChromaFormatIdc), int(sps.BitDepthLumaMinus8)+8)
	if name == "yuv420p" && sps.VUI != nil && sps.VUI.VideoFullRangeFlag {
		return "yuvj420p"
	}
	return name
}

func hevcPixFmt(b box) string {
	if len(b) < 19 {
		return ""
	}
	return pixFmt(int(b[16]&3), int(b[17]&7)+8)
}

func av1PixFmt(b box) string {
	if len(b) < 3 {
		return ""
	}
	depth := 8
	if b[2]&0x40 != 0 {
		depth = 10
		if b[2]&0x20 != 0 {
			depth = 12
		}
	}
	switch {
	case b[2]&0x10 != 0:
		return pixFmt(0, depth)
	case b[2]&0x0c == 0x0c:
		return pixFmt(1, depth)
	case b[2]&0x08 != 0:
		return pixFmt(2, depth)
	}
	return pixFmt(3, depth)
}

func pixFmt(chroma, depth int) string {
	name := [...]string{"gray", "yuv420p", "yuv422p", "yuv444p"}[chroma&3]
	if depth > 8 {
		name += fmt.Sprintf("%dle", depth)
	}
	return name
}

// mp4vCodec tells MPEG-4 part 2 from JPEG and MPEG-2 in an mp4v entry by the object type of its esds box.
func mp4vCodec(b box) Codec {
	object := byte(0)
	for i := 4; i+1 < len(b); { // descriptors: tag, length of 1..4 bytes, content
		tag := b[i]
		i++
		for i < len(b) && b[i]&0x80 != 0 {
			i++
		}
		i++
		if tag == 0x03 { // ES descriptor: id and flags, then the next descriptor
			i += 3
			continue
		}
		if tag == 0x04 && i < len(b) { // decoder configuration: object type first
			object = b[i]
		}
		break
	}
	switch object {
	case 0x6c:
		return "mjpeg"
	case 0x60, 0x61, 0x62, 0x63, 0x64, 0x65:
		return "mpeg2video"
	}
	return "mpeg4"
}
