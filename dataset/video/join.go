package video

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// Part is a run of frames of an mp4.
type Part struct {
	Path string
	// First frame and number of frames, in order of presentation.
	First, Count int
}

// CanCut says why frames from first on can not be copied into another file without encoding; nil when they can.
func (i Info) CanCut(first int) error {
	switch {
	case i.HasBFrames:
		return errors.New("the stream has B-frames")
	case first < 0 || first >= len(i.Key):
		return fmt.Errorf("there is no frame %d of %d", first, len(i.Key))
	case !i.Key[first]:
		return fmt.Errorf("frame %d is no key frame", first)
	}
	return nil
}

// SameStream reports whether packets of both files may stand in one: equal sample descriptions, but for the bit rate.
func SameStream(a, b Info) bool {
	return bytes.Equal(withoutRate(a.stream.stsd), withoutRate(b.stream.stsd))
}

// withoutRate is a sample description without the boxes that say how large this very file is.
func withoutRate(stsd []byte) []byte {
	const fixed = 16 + 78 // full box, count and entry header, then the fixed part of a visual entry
	if len(stsd) < fixed {
		return stsd
	}
	out := bytes.Clone(stsd[:fixed])
	for rest := stsd[fixed:]; len(rest) >= 8; {
		n := int(binary.BigEndian.Uint32(rest))
		if n < 8 || n > len(rest) {
			return append(out, rest...)
		}
		if string(rest[4:8]) != "btrt" {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-8))
	return out
}

// joined is one source of Join, opened once however many parts it gives.
type joined struct {
	info Info
	file *os.File
}

// Join writes the parts one after the other into a new mp4 at dst: packets as they are, frame k at k/fps from time 0, index first,
// no sound. The parts must satisfy CanCut and be of one stream. The file is synced; on error there is none.
func Join(dst string, parts []Part, fps int) (err error) {
	open := map[string]*joined{}
	defer func() {
		for _, j := range open {
			j.file.Close()
		}
		if err != nil {
			os.Remove(dst)
			err = fmt.Errorf("join into %s: %w", dst, err)
		}
	}()
	if len(parts) == 0 {
		return errors.New("no parts")
	}
	var packets []packet
	for _, p := range parts {
		j, err := openJoined(open, p.Path)
		if err != nil {
			return err
		}
		if err := j.info.CanCut(p.First); err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		if p.Count < 1 || p.First+p.Count > j.info.Frames() {
			return fmt.Errorf("%s has %d frames, not %d from frame %d on", p.Path, j.info.Frames(), p.Count, p.First)
		}
		if !SameStream(open[parts[0].Path].info, j.info) {
			return fmt.Errorf("%s is coded with other settings than %s", p.Path, parts[0].Path)
		}
		packets = append(packets, j.info.packets[p.First:p.First+p.Count]...)
	}
	out, err := os.Create(dst)
	if err != nil {
		return err
	}
	_, err = out.Write(header(open[parts[0].Path].info, packets, fps))
	for _, p := range parts {
		if err == nil {
			j := open[p.Path]
			err = copyPackets(out, j.file, j.info.packets[p.First:p.First+p.Count])
		}
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(dst))
}

func openJoined(open map[string]*joined, path string) (*joined, error) {
	if j, ok := open[path]; ok {
		return j, nil
	}
	info, err := Probe(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	open[path] = &joined{info, f}
	return open[path], nil
}

// copyPackets copies runs of packets that lie side by side; the kernel moves the bytes where it can.
func copyPackets(out *os.File, in *os.File, packets []packet) error {
	for i := 0; i < len(packets); {
		at, n := packets[i].offset, int64(0)
		for ; i < len(packets) && packets[i].offset == at+n; i++ {
			n += packets[i].size
		}
		if _, err := in.Seek(at, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, n); err != nil {
			return fmt.Errorf("copy %d bytes at %d of %s: %w", n, at, in.Name(), err)
		}
	}
	return nil
}

// ticksPerFrame is the time base that Encoder writes, too.
const ticksPerFrame = 512

// header is everything before the packets: ftyp, moov and the head of mdat. Specification: ISO/IEC 14496-12, section 8.
func header(info Info, packets []packet, fps int) []byte {
	n := len(packets)
	var sizes, keys []byte
	total, count := int64(0), 0
	for i, p := range packets {
		sizes = be32(sizes, int(p.size))
		total += p.size
		if p.key {
			keys = be32(keys, i+1)
			count++
		}
	}
	ms := int(int64(n) * 1000 / int64(fps))
	unity := append(be32(nil, 1<<16, 0, 0, 0, 1<<16, 0, 0, 0), 0x40, 0, 0, 0)
	mvhd := append(be32(nil, 0, 0, 0, 1000, ms, 1<<16, 1<<24, 0, 0), unity...)
	mvhd = append(mvhd, be32(nil, 0, 0, 0, 0, 0, 0, 2)...)
	tkhd := append(be32(nil, 3, 0, 0, 1, 0, ms, 0, 0, 0, 0), unity...)
	tkhd = append(tkhd, be32(nil, info.Width<<16, info.Height<<16)...)
	hdlr := append(append(be32(nil, 0, 0), "vide"...), make([]byte, 13)...)
	stbl := func(at int64) []byte {
		boxes := [][]byte{mp4Box("stsd", withoutRate(info.stream.stsd)), mp4Box("stts", be32(nil, 0, 1, n, ticksPerFrame))}
		if count < n {
			boxes = append(boxes, mp4Box("stss", be32(nil, 0, count), keys))
		}
		boxes = append(boxes, mp4Box("stsc", be32(nil, 0, 1, 1, n, 1)), mp4Box("stsz", be32(nil, 0, 0, n), sizes),
			mp4Box("co64", be32(nil, 0, 1, int(at>>32), int(at&0xffffffff))))
		return mp4Box("stbl", boxes...)
	}
	moov := func(at int64) []byte {
		dinf := mp4Box("dinf", mp4Box("dref", be32(nil, 0, 1), mp4Box("url ", be32(nil, 1))))
		return mp4Box("moov", mp4Box("mvhd", mvhd), mp4Box("trak", mp4Box("tkhd", tkhd), mp4Box("mdia",
			mp4Box("mdhd", be32(nil, 0, 0, 0, fps*ticksPerFrame, n*ticksPerFrame, 0x55c40000)), mp4Box("hdlr", hdlr),
			mp4Box("minf", mp4Box("vmhd", be32(nil, 1, 0, 0)), dinf, stbl(at)))))
	}
	ftyp := mp4Box("ftyp", []byte("isom"), be32(nil, 512), []byte("isomiso2mp41"))
	mdat := binary.BigEndian.AppendUint64(append(be32(nil, 1), "mdat"...), uint64(total+16)) // 64-bit length
	at := int64(len(ftyp) + len(moov(0)) + len(mdat))
	return append(append(ftyp, moov(at)...), mdat...)
}
