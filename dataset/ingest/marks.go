package ingest

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// Marks name the rows of an episode whose values a stream did not deliver as it should have; the values stay as they are.
//
//	late      the row shows a sample that reached the recorder late: with a device clock, more than a row period later than is
//	          usual for the stream (the value is right, its time is the device's); without one, the sample that was due at the row
//	          came after it
//	lost      a sample was due at the row and never came: the one shown is older than one and a half of the stream's periods
//	repeated  the sample shows exactly what the one before it showed: a frozen camera, a tracker or an encoder that sends its last value
//
// Each entry reads stream:first-last or stream:row, rows counted from 0 in the episode; streams are the names of the
// observation.capture_time features.
type marks struct{ late, lost, repeated []string }

// MarkCount counts marked rows.
type MarkCount struct {
	Late     int `json:"late,omitempty"`
	Lost     int `json:"lost,omitempty"`
	Repeated int `json:"repeated,omitempty"`
}

// repeatedAngles is how long finger angles have to stay the same to the last bit before they count as repeated: an encoder
// of 12 bits in a hand at rest may well send the same value a few times.
const repeatedAngles = 100 * time.Millisecond

// catchUp is how many samples after a late one may still be on their way.
const catchUp = 8

// markStream is one stream as marks see it.
type markStream struct {
	name    string
	samples []sample // in order of at
	period  time.Duration
	run     time.Duration
}

// markStreams lists the streams of a recording.
func (s *survey) markStreams() (out []markStream) {
	add := func(name string, samples []sample, run time.Duration) {
		if len(samples) > 2 {
			out = append(out, markStream{name: name, samples: samples, period: medianPeriod(samples), run: run})
		}
	}
	for _, c := range s.cameras {
		add(c.name, c.samples, 0)
	}
	for _, topic := range s.m.fieldTopics() {
		var list []sample
		for _, x := range s.fields[topic].samples {
			list = append(list, x.sample)
		}
		add(streamName(topic), list, repeatedAngles)
	}
	joints := make([]sample, len(s.joints))
	for i, j := range s.joints {
		joints[i] = j.sample
	}
	add("joint_states", joints, repeatedAngles)
	for _, f := range []string{"left_hand_root", "right_hand_root"} {
		add(f, s.moves[f], 0)
	}
	return out
}

func medianPeriod(s []sample) time.Duration {
	d := make([]time.Duration, 0, len(s))
	for i := 1; i < len(s); i++ {
		if gap := s[i].at.Sub(s[i-1].at); gap > 0 {
			d = append(d, gap)
		}
	}
	if len(d) == 0 {
		return math.MaxInt64 / 4
	}
	slices.Sort(d)
	return d[len(d)/2]
}

// around is how many samples on each side tell what is usual. A recording may be longer than two clocks stay together, and the clock of
// a simulator goes at a pace of its own.
const around = 32

// delay is how much longer than usual sample i took to the recorder.
func (st markStream) delay(i int) time.Duration {
	near := st.samples[max(0, i-around):min(len(st.samples), i+around+1)]
	d := make([]int64, 0, len(near))
	for _, x := range near {
		if x.device != 0 {
			d = append(d, x.received-x.device)
		}
	}
	slices.Sort(d)
	return time.Duration(st.samples[i].received - st.samples[i].device - d[len(d)/2])
}

// mark looks at the rows of one episode and counts into total.
func (r *resampled) mark(streams []markStream, sp span, total map[string]MarkCount) marks {
	out := marks{late: []string{}, lost: []string{}, repeated: []string{}}
	row := time.Duration(int64(time.Second) / int64(r.tl.FPS))
	for _, st := range streams {
		var late, lost, repeated []int
		picks := r.tl.hold(stampsOf(st.samples, func(x sample) frames.Stamp { return x.at }))
		for k := sp.first; k < sp.end; k++ {
			i := picks[k].Index
			if i < 0 {
				continue
			}
			switch st.state(i, r.tl.At(k), row) {
			case isLate:
				late = append(late, k-sp.first)
			case isLost:
				lost = append(lost, k-sp.first)
			}
			if st.isRepeated(i) {
				repeated = append(repeated, k-sp.first)
			}
		}
		out.late, out.lost, out.repeated = spell(out.late, st.name, late), spell(out.lost, st.name, lost), spell(out.repeated, st.name, repeated)
		if n := len(late) + len(lost) + len(repeated); n > 0 {
			c := total[st.name]
			total[st.name] = MarkCount{c.Late + len(late), c.Lost + len(lost), c.Repeated + len(repeated)}
		}
	}
	return out
}

type delivery int

const (
	isOnTime delivery = iota
	isLate
	isLost
)

// state tells whether sample i, held at a tick, is what the stream should show there.
func (st markStream) state(i int, tick frames.Stamp, row time.Duration) delivery {
	held := st.samples[i]
	if held.device != 0 && st.delay(i) > row {
		return isLate
	}
	if due := st.period + st.period/2; tick.Sub(held.at) <= due || i+1 == len(st.samples) {
		return isOnTime // the end of a stream is told by its gap, not by marks
	}
	if held.device == 0 {
		for n := 1; n <= catchUp && i+n < len(st.samples); n++ { // the nth sample after it came when it should: none is missing before
			if st.samples[i+n].at.Sub(held.at) <= time.Duration(n)*st.period+st.period/2 {
				return isLate
			}
		}
	}
	return isLost
}

// isRepeated tells whether sample i shows what the one before it showed, in a run that is long enough.
func (st markStream) isRepeated(i int) bool {
	if !st.samples[i].same {
		return false
	}
	first, last := i, i
	for first > 0 && st.samples[first].same {
		first--
	}
	for last+1 < len(st.samples) && st.samples[last+1].same {
		last++
	}
	return st.samples[last].at.Sub(st.samples[first].at) >= st.run
}

// spell adds ascending rows as ranges.
func spell(list []string, name string, rows []int) []string {
	for i := 0; i < len(rows); {
		j := i
		for j+1 < len(rows) && rows[j+1] == rows[j]+1 {
			j++
		}
		if i == j {
			list = append(list, fmt.Sprintf("%s:%d", name, rows[i]))
		} else {
			list = append(list, fmt.Sprintf("%s:%d-%d", name, rows[i], rows[j]))
		}
		i = j + 1
	}
	return list
}

// lastContent remembers what each stream showed last, to find samples that repeat it.
type lastContent struct {
	seed     maphash.Seed
	pictures map[string]uint64
	poses    map[string]frames.Pose
	rad      [2]float64
	any      bool
}

func newLastContent() lastContent {
	return lastContent{seed: maphash.MakeSeed(), pictures: map[string]uint64{}, poses: map[string]frames.Pose{}}
}

func (l *lastContent) picture(camera string, data []byte) bool {
	h := maphash.Bytes(l.seed, data)
	old, ok := l.pictures[camera]
	l.pictures[camera] = h
	return ok && old == h
}

func (l *lastContent) pose(frame string, p frames.Pose) bool {
	old, ok := l.poses[frame]
	l.poses[frame] = p
	return ok && old == p
}

func (l *lastContent) angles(rad [2]float64) bool {
	same := l.any && l.rad == rad
	l.rad, l.any = rad, true
	return same
}
