package video

import "encoding/binary"

// miniMP4 is the smallest mp4 that holds the packets first..last, index first, for a program that reads it from a pipe. Frames
// are one tick apart, in the order of presentation. Specification: ISO/IEC 14496-12.
func miniMP4(x *Index, first, last int, data []byte) []byte {
	packets := x.packets[first : last+1]
	n := len(packets)
	shift := 0
	ranks := make([]int, n)
	for i, p := range packets {
		for _, q := range packets {
			if q.pts < p.pts {
				ranks[i]++
			}
		}
		shift = max(shift, i-ranks[i])
	}
	var sizes, offsets, keys []byte
	count := 0
	for i, p := range packets {
		sizes = be32(sizes, int(p.size))
		offsets = be32(offsets, 1, ranks[i]-i+shift)
		if p.key {
			keys = be32(keys, i+1)
			count++
		}
	}
	unity := append(be32(nil, 1<<16, 0, 0, 0, 1<<16, 0, 0, 0), 0x40, 0, 0, 0)
	mvhd := append(be32(nil, 0, 0, 0, 1000, n, 1<<16, 1<<24, 0, 0), unity...)
	mvhd = append(mvhd, be32(nil, 0, 0, 0, 0, 0, 0, 2)...)
	tkhd := append(be32(nil, 3, 0, 0, 1, 0, n, 0, 0, 0, 0), unity...)
	tkhd = append(tkhd, be32(nil, x.Width<<16, x.Height<<16)...)
	hdlr := append(append(be32(nil, 0, 0), "vide"...), make([]byte, 13)...)
	stbl := func(at int) []byte {
		return mp4Box("stbl", mp4Box("stsd", x.stream.stsd), mp4Box("stts", be32(nil, 0, 1, n, 1)), mp4Box("ctts", be32(nil, 0, n), offsets),
			mp4Box("stss", be32(nil, 0, count), keys), mp4Box("stsc", be32(nil, 0, 1, 1, n, 1)), mp4Box("stsz", be32(nil, 0, 0, n), sizes),
			mp4Box("stco", be32(nil, 0, 1, at)))
	}
	moov := func(at int) []byte {
		dinf := mp4Box("dinf", mp4Box("dref", be32(nil, 0, 1), mp4Box("url ", be32(nil, 1))))
		return mp4Box("moov", mp4Box("mvhd", mvhd), mp4Box("trak", mp4Box("tkhd", tkhd), mp4Box("mdia",
			mp4Box("mdhd", be32(nil, 0, 0, 0, 1000, n, 0x55c40000)), mp4Box("hdlr", hdlr),
			mp4Box("minf", mp4Box("vmhd", be32(nil, 1, 0, 0)), dinf, stbl(at)))))
	}
	ftyp := mp4Box("ftyp", []byte("isom"), be32(nil, 512), []byte("isomiso2mp41"))
	head := len(ftyp) + len(moov(0)) + 8
	return append(append(ftyp, moov(head)...), mp4Box("mdat", data)...)
}

func be32(b []byte, values ...int) []byte {
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func mp4Box(kind string, parts ...[]byte) []byte {
	n := 8
	for _, p := range parts {
		n += len(p)
	}
	b := append(be32(make([]byte, 0, n), n), kind...)
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}
