package video

import (
	"fmt"
	"io"
)

// ReadIndex reads the sample tables of an mp4 of size bytes: a few small reads, then the index itself (moov). name is for
// messages. The Index costs about 50 bytes a frame.
func ReadIndex(r io.ReaderAt, size int64, name string) (*Index, error) {
	info, err := probe(r, size)
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", name, err)
	}
	return &Index{Info: info, name: name}, nil
}

// Index says where the bytes of each frame lie and what decoding them takes. It does not change, so it may be shared.
type Index struct {
	Info
	name string
}

// Bytes is about what the index holds in memory.
func (x *Index) Bytes() int { return 4096 + len(x.packets)*48 }

// Span is a run of bytes of a file.
type Span struct{ Offset, Length int64 }

// group gives the packets, in decode order, that decoding a frame takes: from the last key frame that is not shown after it to
// its own. (A key frame that is decoded before but shown after the frame does not start its group: the frame refers to
// earlier ones.)
func (x *Index) group(frame int) (key, packet int) {
	packet = int(x.order[frame])
	for key = packet; key > 0; key-- {
		if p := x.packets[key]; p.key && p.pts <= x.PTS[frame] {
			break
		}
	}
	return key, packet
}

// stretch is a run of packets that is decoded in one go and the frames (places in the caller's list) that it yields.
type stretch struct {
	key, first, last int
	frames           []int
}

// runLength bounds the packets that are in memory at once.
const runLength = 64

// plan groups frames, which must rise, into runs. next is the packet that the decoder would take without starting over, or -1.
func (x *Index) plan(frames []int, next int) ([]stretch, error) {
	var runs []stretch
	for i, f := range frames {
		if f < 0 || f >= x.Frames() {
			return nil, fmt.Errorf("%s has %d frames, no frame %d", x.name, x.Frames(), f)
		}
		if i > 0 && f <= frames[i-1] {
			return nil, fmt.Errorf("frames of %s are asked for in the order %d, %d: want rising", x.name, frames[i-1], f)
		}
		key, packet := x.group(f)
		if n := len(runs); n > 0 {
			r := &runs[n-1]
			if key <= r.last+1 && key >= r.key && packet-r.first < runLength || packet <= r.last {
				r.last, r.frames = max(r.last, packet), append(r.frames, i)
				continue
			}
			next = -1
			if key <= r.last+1 && !x.HasBFrames { // the stretch was only too long: the decoder stands right
				next = r.last + 1
			}
		}
		first := key
		if next >= key && next <= packet {
			first = next
		}
		runs = append(runs, stretch{key: key, first: first, last: packet, frames: []int{i}})
	}
	return runs, nil
}

// Spans lists the bytes that decoding the frames (rising) takes, in file order of the runs; neighbours are joined.
func (x *Index) Spans(frames []int) ([]Span, error) {
	runs, err := x.plan(frames, -1)
	if err != nil {
		return nil, err
	}
	var spans []Span
	for _, r := range runs {
		for _, p := range x.packets[r.first : r.last+1] {
			if n := len(spans); n > 0 && spans[n-1].Offset+spans[n-1].Length == p.offset {
				spans[n-1].Length += p.size
			} else {
				spans = append(spans, Span{p.offset, p.size})
			}
		}
	}
	return spans, nil
}

// read brings the packets first..last into buf, one after the other, growing it as needed.
func (x *Index) read(r io.ReaderAt, first, last int, buf []byte) ([]byte, error) {
	total := 0
	for _, p := range x.packets[first : last+1] {
		total += int(p.size)
	}
	if cap(buf) < total {
		buf = make([]byte, total+total/4)
	}
	buf = buf[:total]
	at := 0
	for i := first; i <= last; {
		offset, n := x.packets[i].offset, 0
		for ; i <= last && x.packets[i].offset == offset+int64(n); i++ {
			n += int(x.packets[i].size)
		}
		if _, err := r.ReadAt(buf[at:at+n], offset); err != nil {
			return nil, fmt.Errorf("read %d bytes at %d of %s: %w", n, offset, x.name, err)
		}
		at += n
	}
	return buf, nil
}
