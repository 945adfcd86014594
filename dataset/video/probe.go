package video

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
)

// maxPacket bounds the bytes of one frame of a broken file.
const maxPacket = 1 << 30

// Info is what the container of a video says.
type Info struct {
	// Codec by LeRobot's name; for formats without one, ffmpeg's (mpeg4, mjpeg, vp9) or the four-character code.
	Codec         Codec
	Width, Height int
	// PixFmt by ffmpeg's name, such as yuv420p; empty when the container does not tell.
	PixFmt string
	// Timescale is ticks per second of PTS.
	Timescale int
	// PTS of each frame in presentation order, in ticks, edit list applied.
	PTS []int64
	// Key marks the frames that decode on their own.
	Key []bool
	// MaxGOP is the greatest distance between key frames, the end of the file counted as one.
	MaxGOP int
	// Duration of the track in seconds.
	Duration float64
	// HasAudio reports an audio track; HasBFrames that decode order differs from presentation order.
	HasAudio, HasBFrames bool
	// Size of the file in bytes.
	Size int64

	packets []packet // in decode order
	order   []int32  // place in packets of each frame
	stream  stream
}

// packet is one frame as it lies in the file; pts as in Info.PTS.
type packet struct {
	offset, pts int64
	size        int64
	key         bool
}

// Frames is the number of frames.
func (i Info) Frames() int { return len(i.PTS) }

// Time of frame k in seconds.
func (i Info) Time(k int) float64 { return float64(i.PTS[k]) / float64(i.Timescale) }

// Rate is the average frame rate in Hz, 0 when unknown.
func (i Info) Rate() float64 {
	if i.Duration <= 0 {
		return 0
	}
	return float64(i.Frames()) / i.Duration
}

// WorstTime returns the frame whose time is farthest from k/fps, and the distance in seconds. Frames are counted from
// the first one of the file, which should be at time 0.
func (i Info) WorstTime(fps int) (frame int, offset float64) {
	for k := range i.PTS {
		if d := math.Abs(i.Time(k) - float64(k)/float64(fps)); d > offset {
			frame, offset = k, d
		}
	}
	return frame, offset
}

// Packets calls f with the encoded bytes of each packet in decode order; data is reused between calls.
func Packets(path string, f func(i int, data []byte) error) error {
	info, err := Probe(path)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var buf []byte
	for i, p := range info.packets {
		if int64(cap(buf)) < p.size {
			buf = make([]byte, p.size)
		}
		if _, err := file.ReadAt(buf[:p.size], p.offset); err != nil {
			return fmt.Errorf("read packet %d of %s: %w", i, path, err)
		}
		if err := f(i, buf[:p.size]); err != nil {
			return err
		}
	}
	return nil
}

// Probe reads the sample tables of the mp4 at path. Pure Go; decodes nothing. Specification: ISO/IEC 14496-12, section 8.
func Probe(path string) (Info, error) {
	f, err := os.Open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	info, err := probe(f, st.Size())
	if err != nil {
		return Info{}, fmt.Errorf("probe %s: %w", path, err)
	}
	return info, nil
}

func probe(r readerAt, size int64) (Info, error) {
	moov, err := findMoov(r, size)
	if err != nil {
		return Info{}, err
	}
	info := Info{Size: size}
	var video *track
	for _, b := range moov.children("trak") {
		t, err := parseTrack(b)
		if err != nil {
			return Info{}, err
		}
		switch {
		case t.handler == "soun":
			info.HasAudio = true
		case t.handler == "vide" && video == nil:
			video = t
		}
	}
	if video == nil {
		return Info{}, fmt.Errorf("no video track")
	}
	if len(video.sizes) == 0 && len(moov.children("mvex")) > 0 {
		return Info{}, fmt.Errorf("fragmented mp4: remux it with `ffmpeg -i in.mp4 -c copy -movflags +faststart out.mp4`")
	}
	if err := video.fill(&info, movieTimescale(moov)); err != nil {
		return Info{}, err
	}
	for i, p := range info.packets {
		if p.offset < 0 || p.size < 0 || p.offset > size-p.size {
			return Info{}, fmt.Errorf("packet %d of %d lies beyond the end of the file: it was cut off at %d bytes", i, len(info.packets), size)
		}
	}
	return info, nil
}

// fill computes presentation order, times and key frames from the sample tables.
func (t *track) fill(info *Info, movieTimescale int) error {
	n := len(t.sizes)
	if len(t.deltas) < n || t.timescale <= 0 {
		return fmt.Errorf("sample tables disagree: %d sizes, %d times, timescale %d", n, len(t.deltas), t.timescale)
	}
	offsets, err := t.packetOffsets()
	if err != nil {
		return err
	}
	info.Codec, info.PixFmt, info.Width, info.Height = t.codec, t.pixFmt, t.width, t.height
	info.Timescale = t.timescale
	dts, last := int64(0), int64(math.MinInt64)
	info.packets, info.order, info.stream = make([]packet, n), make([]int32, n), t.stream
	for i := range info.packets {
		pts := dts
		if i < len(t.composition) {
			pts += t.composition[i]
		}
		if t.sizes[i] > maxPacket {
			return fmt.Errorf("packet %d of %d bytes is not plausible", i, t.sizes[i])
		}
		info.packets[i] = packet{offset: offsets[i], size: t.sizes[i], pts: pts - t.editStart(movieTimescale), key: t.sync == nil || t.sync[i]}
		info.order[i] = int32(i)
		if pts < last {
			info.HasBFrames = true
		}
		last = pts
		dts += t.deltas[i]
	}
	slices.SortStableFunc(info.order, func(a, b int32) int { return cmp.Compare(info.packets[a].pts, info.packets[b].pts) })
	lastKey := 0
	for i, at := range info.order {
		p := info.packets[at]
		info.PTS = append(info.PTS, p.pts)
		info.Key = append(info.Key, p.key)
		if p.key {
			info.MaxGOP = max(info.MaxGOP, i-lastKey)
			lastKey = i
		}
	}
	info.MaxGOP = max(info.MaxGOP, n-lastKey)
	info.Duration = float64(dts) / float64(t.timescale)
	return nil
}
