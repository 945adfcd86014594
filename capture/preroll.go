package capture

import (
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// instant is a moment on both axes of a session: the pedal's device clock, when it names one, and host time.
type instant struct {
	device frames.DeviceTime
	host   frames.HostTime
}

func (i instant) add(d time.Duration) instant { return instant{i.device.Add(d), i.host.Add(d)} }

// axis decides on which clock a message is compared with the moments of a session: on the pedal's device clock when the message
// has that clock too, else on host time.
type axis struct{ clock string }

func (a axis) shared(m *message) bool { return a.clock != "" && m.clock == a.clock }

// before tells whether m lies before the moment t.
func (a axis) before(m *message, t instant) bool {
	if a.shared(m) {
		return m.device < t.device
	}
	return m.host < t.host
}

// after tells whether m lies after the moment t.
func (a axis) after(m *message, t instant) bool {
	if a.shared(m) {
		return m.device > t.device
	}
	return m.host > t.host
}

// preroll keeps the newest messages of each topic, so that a recording begins a little before the press that starts it, and H.264
// begins at a key frame. Not safe for concurrent use.
type preroll struct {
	axis   axis
	keep   time.Duration
	topics map[string][]numbered
	next   uint64
}

// numbered is a message with its place in the order of arrival.
type numbered struct {
	message
	n uint64
}

// prerollMost bounds a topic whose messages carry no usable times: about 3 s of the fastest device.
const prerollMost = 600

func newPreroll(a axis, keep time.Duration) *preroll {
	return &preroll{axis: a, keep: keep, topics: map[string][]numbered{}}
}

// add takes one message and forgets those of its topic that are too old.
func (p *preroll) add(m message) {
	q := append(p.topics[m.topic], numbered{m, p.next})
	p.next++
	oldest := instant{m.device, m.host}.add(-p.keep)
	drop := 0
	for drop < len(q)-1 && (p.axis.before(&q[drop].message, oldest) || len(q)-drop > prerollMost) {
		drop++
	}
	if m.video {
		drop = lastKey(q, drop)
	}
	clear(q[:drop])
	p.topics[m.topic] = q[drop:]
}

// lastKey is the last key frame at or before index i, or 0: what follows it cannot be decoded without it. A stream without key frames
// is still bounded by prerollMost.
func lastKey(q []numbered, i int) int {
	for k := min(i, len(q)-1); k >= 0; k-- {
		if q[k].key {
			return k
		}
	}
	return max(0, len(q)-prerollMost)
}

// from gives the kept messages from moment t on, in order of arrival; H.264 from the key frame before it on.
func (p *preroll) from(t instant) []message {
	var all []numbered
	for _, q := range p.topics {
		first := 0
		for first < len(q) && p.axis.before(&q[first].message, t) {
			first++
		}
		if len(q) > 0 && q[0].video {
			first = firstDecodable(q, first)
		}
		all = append(all, q[first:]...)
	}
	slices.SortFunc(all, func(a, b numbered) int { return int(int64(a.n) - int64(b.n)) })
	out := make([]message, len(all))
	for i := range all {
		out[i] = all[i].message
	}
	return out
}

// firstDecodable is the last key frame at or before index i, else the first one after it.
func firstDecodable(q []numbered, i int) int {
	for k := min(i, len(q)-1); k >= 0; k-- {
		if q[k].key {
			return k
		}
	}
	for k := i; k < len(q); k++ {
		if q[k].key {
			return k
		}
	}
	return len(q)
}
