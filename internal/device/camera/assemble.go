package camera

import (
	"github.com/pinch-robotics/pinch/frames"
)

// packet is what the assembler needs of an RTP packet; the RTSP library stays on the other side.
type packet struct {
	timestamp uint32
	marker    bool
	capture   []byte // header extension CaptureExtension, or nil
	unpack    any    // the library's packet, for unpacker
}

// unit is the content of one complete frame.
type unit struct {
	jpeg  []byte
	nalus [][]byte
}

// unpacker joins the payloads of a frame's packets. unit.jpeg or unit.nalus is set when the packet completed a frame.
type unpacker interface {
	add(p packet) (unit, bool, error)
	reset() // forget an unfinished frame
}

// assembler turns packets into frames and keeps account of losses. It takes no clock and no socket. Not safe for concurrent use.
type assembler struct {
	codec Codec
	un    unpacker
	sets  parameterSets

	cur      uint32 // RTP timestamp of the frame being assembled
	open     bool   // a frame is being assembled
	frameBad bool
	lost     bool // packets were lost since the last packet
	needKey  bool // H.264: nothing is usable before the next IDR
	device   frames.DeviceTime
	timed    bool
	received frames.HostTime
}

func newAssembler(c Codec, un unpacker, sets parameterSets) *assembler {
	return &assembler{codec: c, un: un, sets: sets, needKey: c == H264}
}

// packetsLost notes a gap before the next packet.
func (a *assembler) packetsLost() { a.lost = true }

// add takes one packet and emits the frames it ends, good or bad: its own, and before it one whose closing packet is missing.
func (a *assembler) add(p packet, now frames.HostTime, emit func(Frame)) {
	if a.open && p.timestamp != a.cur {
		a.un.reset()
		a.open = false
		emit(a.bad())
	}
	if !a.open {
		a.begin(p, now)
	}
	if a.lost {
		a.frameBad, a.lost = true, false
	}
	u, complete, err := a.un.add(p)
	if err != nil {
		a.frameBad = true
	}
	if !p.marker {
		return
	}
	a.open = false
	if a.frameBad || !complete {
		a.un.reset()
		emit(a.bad())
		return
	}
	emit(a.finish(u))
}

// begin starts a frame. A loss just before its first packet may have taken the true first one, so it counts against it.
func (a *assembler) begin(p packet, now frames.HostTime) {
	a.open, a.cur, a.frameBad, a.received = true, p.timestamp, false, now
	a.device, a.timed = FromNTP(p.capture)
}

func (a *assembler) bad() Frame {
	a.needKey = a.codec == H264
	return Frame{Codec: a.codec, Device: a.device, Timed: a.timed, Received: a.received, Bad: true}
}

func (a *assembler) finish(u unit) Frame {
	f := Frame{Codec: a.codec, Device: a.device, Timed: a.timed, Received: a.received, Key: true, Data: u.jpeg}
	if a.codec == H264 {
		f.Data, f.Key = a.sets.annexB(u.nalus)
		if f.Key {
			a.needKey = false
		}
		f.Bad = a.needKey
	}
	return f
}
