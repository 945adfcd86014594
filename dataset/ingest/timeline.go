package ingest

import (
	"fmt"
	"math"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// grid is the timeline of a recording. With a step its ticks are that many ns apart instead of exactly 1/FPS.
type grid struct {
	frames.Timeline
	step time.Duration
}

// At is the stamp of tick k.
func (g grid) At(k int) frames.Stamp {
	if g.step > 0 {
		return g.Start.Add(time.Duration(k) * g.step)
	}
	return g.Timeline.At(k)
}

// hold chooses, for every tick, the last of the ascending stamps at or before it.
func (g grid) hold(stamps []frames.Stamp) []frames.Pick {
	out := make([]frames.Pick, g.N)
	last := -1
	for k := range out {
		before := last
		for at := g.At(k); last+1 < len(stamps) && stamps[last+1] <= at; {
			last++
		}
		out[k] = frames.Pick{Index: last, State: frames.Held}
		switch {
		case last < 0:
			out[k].State = frames.Missing
		case last != before:
			out[k].State = frames.Fresh
		}
	}
	return out
}

// rows is the timeline of a recording and which ticks belong to which segment.
type rows struct {
	tl grid
	// spans are the ticks [from, to) of each segment that has any.
	spans []span
}

type span struct {
	segment
	first, end int // ticks
}

func (s span) len() int { return s.end - s.first }

// bound is a stream that the timeline rests on: it starts when the latest of them starts and ends when the earliest ends.
type bound struct {
	name        string
	first, last frames.Stamp
}

// gapWarning is the longest silence of a stream inside an episode that goes without a warning: eight frames at 30 Hz.
const gapWarning = 250 * time.Millisecond

// bounds lists the streams that every row needs a value of.
func (s *survey) bounds() ([]bound, error) {
	var out []bound
	for _, c := range s.cameras {
		if len(c.samples) == 0 {
			return nil, fmt.Errorf("camera %s: no picture on %s can be decoded (an H.264 stream has to hold a key frame)", c.name, c.topic)
		}
		out = append(out, bound{"camera " + c.name, c.samples[0].at, c.samples[len(c.samples)-1].at})
	}
	for _, topic := range s.m.fieldTopics() {
		st := s.fields[topic].samples
		if len(st) == 0 {
			return nil, fmt.Errorf("topic %s has no message that can be read", topic)
		}
		out = append(out, bound{"topic " + topic, st[0].at, st[len(st)-1].at})
	}
	var poses [][2]string
	if s.m.Hands {
		if len(s.joints) == 0 {
			return nil, fmt.Errorf("topic %s has no message with the joints %v", s.m.JointStates, s.m.JointNames)
		}
		out = append(out, bound{"finger angles", s.joints[0].at, s.joints[len(s.joints)-1].at})
		poses = append(poses, [2]string{s.m.Origin, "left_hand_root"}, [2]string{s.m.Origin, "right_hand_root"})
		if s.layout().Head {
			poses = append(poses, [2]string{s.m.Origin, s.m.Head})
		}
	}
	for _, f := range s.m.Features {
		if f.Parent != "" {
			poses = append(poses, [2]string{f.Parent, f.Child})
		}
	}
	for _, pair := range poses {
		origin, f := pair[0], pair[1]
		chain, err := s.tree.Chain(origin, f)
		if err != nil {
			return nil, fmt.Errorf("pose of %s in %s: %w", f, origin, err)
		}
		first, ok := chain.Start()
		if !ok {
			return nil, fmt.Errorf("pose of %s in %s: a transform between them has no samples", f, origin)
		}
		last := frames.Stamp(math.MaxInt64)
		for _, e := range chain.Edges() {
			if st := s.tree.Samples(e.Child); len(st) > 0 {
				last = min(last, st[len(st)-1])
			}
		}
		out = append(out, bound{"pose of " + f, first, last})
	}
	return out, nil
}

// layout says which features this recording has.
func (s *survey) layout() feature.Layout {
	l := feature.Layout{Origin: s.m.Origin, Controllers: s.m.Controllers, Pedal: s.m.Pedal != "", Tracking: len(s.flags) > 0}
	l.Head = s.m.Head != "" && s.tree.Has(s.m.Head)
	for _, c := range s.cameras {
		l.Cameras = append(l.Cameras, feature.Camera{Name: c.name, Height: c.height, Width: c.width})
	}
	return l
}

// features are the columns of this recording's rows.
func (s *survey) features() []feature.Feature {
	var all []feature.Feature
	if s.m.Hands {
		all = s.layout().Features()
	} else {
		all = s.cameraFeatures()
	}
	if s.rebake != nil {
		return rebakeFeatures(all)
	}
	return append(all, s.fieldFeatures()...)
}

// cameraFeatures are the columns of a rig without hands that do not come from its map's features: those of the hands' layout that are
// about cameras, row times and verdicts.
func (s *survey) cameraFeatures() (out []feature.Feature) {
	streams := map[string]bool{}
	for _, c := range s.cameras {
		streams[c.name] = true
	}
	for _, f := range s.layout().Features() {
		switch f.Kind {
		case feature.Video, feature.VideoFresh, feature.RowTime, feature.Success, feature.Done:
			out = append(out, f)
		case feature.CaptureTime:
			if streams[f.Stream] {
				out = append(out, f)
			}
		}
	}
	return out
}

// plan finds the segments and their rows; it computes them once.
func (s *survey) plan(fps int, task string) (rows, error) {
	if s.planned != nil {
		return *s.planned, nil
	}
	segs, err := s.segments(task)
	if err != nil {
		return rows{}, err
	}
	lay := s.rows
	if s.rebake != nil {
		lay = s.rebakeRows
	}
	r, err := lay(fps, segs)
	if err != nil {
		return rows{}, err
	}
	s.planned = &r
	return r, nil
}

// rows lays the timeline over the recording and cuts it. Segments without a row, rows of a segment outside the timeline, and
// streams that fall silent inside a segment give a warning.
func (s *survey) rows(fps int, segs []segment) (rows, error) {
	bounds, err := s.bounds()
	if err != nil {
		return rows{}, err
	}
	late, early := bounds[0], bounds[0]
	for _, b := range bounds {
		if b.first > late.first {
			late = b
		}
		if b.last < early.last {
			early = b
		}
	}
	period := time.Duration(1e9 / int64(fps))
	// A sample stands for one row period after it, so that a 30 Hz stream does not lose its last row to rounding.
	end := early.last.Add(period)
	if end < late.first {
		return rows{}, fmt.Errorf("%s ends before %s begins: no moment has all streams", early.name, late.name)
	}
	out := rows{}
	if out.tl.Timeline, err = frames.NewTimeline(s.gridStart(late.first, end, period), end, fps); err != nil {
		return rows{}, err
	}
	for _, seg := range segs {
		s.cutWarning(seg, late, early, end)
		sp := span{segment: seg, first: out.tick(seg.from), end: out.tick(seg.to)}
		if sp.len() == 0 {
			s.warnings = append(s.warnings, fmt.Sprintf("segment %d (%s) has no row and is left out", seg.index, seg.label))
			continue
		}
		s.gapWarnings(out.tl, sp)
		s.jumpWarnings(out.tl, sp)
		out.spans = append(out.spans, sp)
	}
	if len(out.spans) == 0 {
		return rows{}, fmt.Errorf("no segment has a row: the streams have values from %d to %d ns, the segments lie elsewhere; "+
			"segment times and log must use one clock", out.tl.Start, end)
	}
	return out, nil
}

// tick is the first tick at or after a stamp, within the timeline.
func (r rows) tick(at frames.Stamp) int {
	if at <= r.tl.Start {
		return 0
	}
	if at > r.tl.At(r.tl.N-1) {
		return r.tl.N
	}
	k, err := frames.Rescale(int64(at-r.tl.Start), int64(r.tl.FPS), 1e9)
	if err != nil {
		return r.tl.N
	}
	for k > 0 && r.tl.At(int(k)-1) >= at {
		k--
	}
	for r.tl.At(int(k)) < at {
		k++
	}
	return int(k)
}

// cutWarning tells when a segment reaches beyond the moments that have all streams.
func (s *survey) cutWarning(seg segment, late, early bound, end frames.Stamp) {
	if seg.from != math.MinInt64 && seg.from < late.first {
		s.warnings = append(s.warnings, fmt.Sprintf("segment %d loses its first %v: %s begins only then",
			seg.index, late.first.Sub(seg.from).Round(time.Millisecond), late.name))
	}
	if seg.to != math.MaxInt64 && seg.to > end {
		s.warnings = append(s.warnings, fmt.Sprintf("segment %d loses its last %v: %s ends before",
			seg.index, seg.to.Sub(end).Round(time.Millisecond), early.name))
	}
}

// gapWarnings tells the longest silence of each stream inside an episode.
func (s *survey) gapWarnings(tl grid, sp span) {
	from, to := tl.At(sp.first), tl.At(sp.end-1)
	warn := func(name string, stamps []frames.Stamp) {
		longest, at := longestGap(stamps, from, to)
		if longest > gapWarning {
			s.warnings = append(s.warnings, fmt.Sprintf("segment %d: no sample of %s for %v before row %d",
				sp.index, name, longest.Round(time.Millisecond), rows{tl: tl}.tick(at)-sp.first))
		}
	}
	for _, c := range s.cameras {
		warn("camera "+c.name, stampsOf(c.samples, func(x sample) frames.Stamp { return x.at }))
	}
	for _, topic := range s.m.fieldTopics() {
		warn("topic "+topic, stampsOf(s.fields[topic].samples, func(x fieldSample) frames.Stamp { return x.at }))
	}
	if !s.m.Hands {
		return
	}
	warn("finger angles", stampsOf(s.joints, func(x jointSample) frames.Stamp { return x.at }))
	warn("left_hand_root", s.tree.Samples("left_hand_root"))
	warn("right_hand_root", s.tree.Samples("right_hand_root"))
}

// A hand moves at up to about 7 m/s, so two neighbouring samples that are this far apart at more than this speed are a jump of the
// tracker. The distance keeps jitter of receive times from looking like speed.
const (
	jumpMetres = 0.15
	jumpSpeed  = 10.0 // m/s
)

// jumpWarnings tells where a tracked hand jumps, whatever the tracker says of itself: trackers have been seen to move a hand by
// 0.7 m in a frame and call it tracked.
func (s *survey) jumpWarnings(tl grid, sp span) {
	if !s.m.Hands {
		return
	}
	from, to := tl.At(sp.first), tl.At(sp.end-1)
	for _, hand := range []string{"left_hand_root", "right_hand_root"} {
		stamps := s.tree.Samples(hand)
		parent, _ := s.tree.Parent(hand)
		chain, err := s.tree.Chain(parent, hand)
		if err != nil {
			continue
		}
		jumps, first, worst := 0, 0, 0.0
		for i := 1; i < len(stamps); i++ {
			if stamps[i] <= from || stamps[i] > to {
				continue
			}
			a, err1 := chain.At(stamps[i-1], frames.Hold)
			b, err2 := chain.At(stamps[i], frames.Hold)
			d, _ := a.Distance(b)
			if err1 != nil || err2 != nil || d < jumpMetres || d/stamps[i].Sub(stamps[i-1]).Seconds() < jumpSpeed {
				continue
			}
			if jumps++; jumps == 1 {
				first = rows{tl: tl}.tick(stamps[i]) - sp.first
			}
			worst = max(worst, d)
		}
		if jumps > 0 {
			s.warnings = append(s.warnings, fmt.Sprintf("segment %d: %s jumps %d times, first before row %d, by up to %.2f m",
				sp.index, hand, jumps, first, worst))
		}
	}
}

// longestGap is the longest time between neighbouring stamps, or a stamp and the span's ends, inside [from, to], and where it ends.
func longestGap(stamps []frames.Stamp, from, to frames.Stamp) (longest time.Duration, at frames.Stamp) {
	last := from
	see := func(t frames.Stamp) {
		if d := t.Sub(last); d > longest {
			longest, at = d, t
		}
		last = t
	}
	for _, t := range stamps {
		switch {
		case t <= from:
			continue
		case t >= to:
			see(to)
			return longest, at
		}
		see(t)
	}
	see(to)
	return longest, at
}
