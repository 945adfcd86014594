package ingest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"gonum.org/v1/gonum/spatial/r3"
)

// CompatRebake makes the rows that rebake 0.1.0 makes of a YUBI recording with its shipped configuration, to compare datasets with
// its own. Against our rules:
//
//   - a message counts at its receive time, whatever device clock is recorded;
//   - the timeline starts with the last and ends with the last of all topics of the log, mapped or not, and its step is 1e9/fps
//     rounded down to whole nanoseconds; a stream that stops is held to the end;
//   - a segment takes the rows at both its ends, so segments that touch may share one;
//   - motions and the shift of the joint actions are computed before cutting and reach across cuts;
//   - quaternions of poses keep the sign that the log gives them;
//   - a pose is fresh when one of its transforms was in the very last transform message.
//
// Source: rebake's docs/configuration.md and its stages tf_buffer, zero_order_hold, tf_chain, delta_transform and shift.
const CompatRebake = "rebake"

// rebakeLog is what those rules need of a log beside the survey.
type rebakeLog struct {
	first, last frames.Stamp // of all topics
	edges       map[string]*rebakeEdge
	messages    []frames.Stamp // of transforms, ascending once finished
}

// rebakeEdge is the transform above a frame over time, static ones at their receive time.
type rebakeEdge struct {
	parent  string
	samples []rebakePose
}

// rebakePose is a pose whose quaternion has no canonical sign.
type rebakePose struct {
	at  frames.Stamp
	pos r3.Vec
	rot frames.Quat
}

func newRebakeLog(channels []rawlog.Channel) *rebakeLog {
	l := &rebakeLog{first: math.MinInt64, last: math.MinInt64, edges: map[string]*rebakeEdge{}}
	for _, c := range channels {
		if c.Messages > 0 && c.Schema.Name != "" { // it skips channels without a schema
			l.first, l.last = max(l.first, frames.Stamp(c.Start)), max(l.last, frames.Stamp(c.End))
		}
	}
	return l
}

func (l *rebakeLog) add(at frames.Stamp, parent, child string, p frames.Pose) error {
	e := l.edges[child]
	if e == nil {
		e = &rebakeEdge{parent: parent}
		l.edges[child] = e
	}
	if e.parent != parent {
		return fmt.Errorf("%w: %s hangs on %s and on %s", frames.ErrTwoParents, child, e.parent, parent)
	}
	n := p.Rot.Norm()
	e.samples = append(e.samples, rebakePose{at, p.Pos, frames.Quat{X: p.Rot.X / n, Y: p.Rot.Y / n, Z: p.Rot.Z / n, W: p.Rot.W / n}})
	l.messages = append(l.messages, at)
	return nil
}

// finish sorts; the buffer of transforms begins when every frame has had one, and that bounds the timeline too.
func (l *rebakeLog) finish() {
	slices.Sort(l.messages)
	l.messages = slices.Compact(l.messages)
	for _, e := range l.edges {
		slices.SortStableFunc(e.samples, func(a, b rebakePose) int { return cmp.Compare(a.at, b.at) })
		l.first = max(l.first, e.samples[0].at)
	}
}

// held is the index of the last sample at or before a stamp, -1 before the first.
func (e *rebakeEdge) held(at frames.Stamp) int {
	n, _ := slices.BinarySearchFunc(e.samples, at+1, func(s rebakePose, t frames.Stamp) int { return cmp.Compare(s.at, t) })
	return n - 1
}

// up lists a frame and its ancestors.
func (l *rebakeLog) up(frame string) []string {
	out := []string{frame}
	for e := l.edges[frame]; e != nil; e = l.edges[frame] {
		frame = e.parent
		if slices.Contains(out, frame) {
			break
		}
		out = append(out, frame)
	}
	return out
}

// branches are the frames below the lowest common ancestor of parent and child, each from the top down.
func (l *rebakeLog) branches(parent, child string) (toParent, toChild []string, err error) {
	a, b := l.up(parent), l.up(child)
	for i, f := range b {
		if j := slices.Index(a, f); j >= 0 {
			toParent, toChild = slices.Clone(a[:j]), slices.Clone(b[:i])
			slices.Reverse(toParent)
			slices.Reverse(toChild)
			return toParent, toChild, nil
		}
	}
	return nil, nil, fmt.Errorf("the log has no transforms between %s and %s; rebake does not know the gripper without them: ingest without --compat",
		parent, child)
}

// down composes the transforms of a branch at a stamp; fresh when one of them was in the last message before it.
func (l *rebakeLog) down(branch []string, at frames.Stamp) (p rebakePose, fresh bool, err error) {
	n, found := slices.BinarySearch(l.messages, at)
	if !found {
		n--
	}
	p.rot = frames.IdentityQuat
	for _, f := range branch {
		e := l.edges[f]
		i := e.held(at)
		if i < 0 || n < 0 {
			return p, false, fmt.Errorf("%w: %s to %s at %d ns", frames.ErrNoSample, e.parent, f, at)
		}
		s := e.samples[i]
		p.pos = r3.Add(p.pos, p.rot.Rotate(s.pos))
		p.rot = p.rot.Mul(s.rot)
		fresh = fresh || s.at == l.messages[n]
	}
	return p, fresh, nil
}

// pose is parent-from-child at a stamp.
func (l *rebakeLog) pose(parent, child string, at frames.Stamp) (rebakePose, bool, error) {
	a, b, err := l.branches(parent, child)
	if err != nil {
		return rebakePose{}, false, err
	}
	up, fresh1, err := l.down(a, at)
	if err != nil {
		return rebakePose{}, false, err
	}
	down, fresh2, err := l.down(b, at)
	if err != nil {
		return rebakePose{}, false, err
	}
	inv := up.rot.Inv()
	return rebakePose{at, inv.Rotate(r3.Sub(down.pos, up.pos)), inv.Mul(down.rot)}, fresh1 || fresh2, nil
}

// motion is the step from pose a to pose b in a's axes, by the shorter way round.
func motion(a, b rebakePose) [7]float64 {
	inv := a.rot.Inv()
	if a.rot.Dot(b.rot) < 0 {
		b.rot = b.rot.Neg()
	}
	d, q := inv.Rotate(r3.Sub(b.pos, a.pos)), inv.Mul(b.rot)
	return [7]float64{d.X, d.Y, d.Z, q.X, q.Y, q.Z, q.W}
}

// rebakeRows lays rebake's timeline over the recording and cuts it.
func (s *survey) rebakeRows(fps int, segs []segment) (rows, error) {
	step := time.Duration(int64(time.Second) / int64(fps))
	l := s.rebake
	if l.last < l.first {
		return rows{}, fmt.Errorf("rebake's timeline is empty: a topic begins at %d ns, after the last message at %d ns", l.first, l.last)
	}
	out := rows{tl: grid{frames.Timeline{Start: l.first, FPS: fps, N: int(l.last.Sub(l.first)/step) + 1}, step}}
	for _, seg := range segs {
		sp := span{segment: seg, first: out.tick(seg.from), end: out.tick(seg.to)}
		if sp.len() == 0 {
			s.warnings = append(s.warnings, fmt.Sprintf("segment %d (%s) has no row and is left out; rebake would write an episode without rows", seg.index, seg.label))
			continue
		}
		out.spans = append(out.spans, sp)
	}
	if len(out.spans) == 0 {
		return rows{}, fmt.Errorf("no segment has a row on rebake's timeline, which goes from %d to %d ns", l.first, l.last)
	}
	return out, nil
}

// rebakeSegments takes float seconds as rebake does: cut to whole nanoseconds, both ends inside.
func (s *survey) rebakeSegments() (out []segment) {
	for i, ms := range s.meta.Segments {
		out = append(out, segment{i, s.meta.Labels[ms.LabelIdx], ms.Success, frames.Stamp(ms.StartTime * 1e9), frames.Stamp(ms.EndTime*1e9) + 1})
	}
	return out
}

// rebakeFeatures are the 56 of its shipped robot model that the rig has, and the two marks that its writer adds.
func rebakeFeatures(all []feature.Feature) (out []feature.Feature) {
	for _, f := range all {
		if !f.Ours || f.Kind == feature.Success || f.Kind == feature.Done {
			out = append(out, f)
		}
	}
	return out
}

// rebakeColumn is a column by rebake's rules; nil where ours are the same.
func (r *resampled) rebakeColumn(f feature.Feature, sp span) (any, error) {
	l := r.s.rebake
	switch {
	case f.Kind == feature.Pose:
		out := make([]float64, 0, 7*sp.len())
		for k := sp.first; k < sp.end; k++ {
			p, _, err := l.pose(f.Parent, f.Child, r.tl.At(k))
			if err != nil {
				return nil, err
			}
			out = append(out, p.pos.X, p.pos.Y, p.pos.Z, p.rot.X, p.rot.Y, p.rot.Z, p.rot.W)
		}
		return out, nil
	case f.Kind == feature.Motion:
		return r.rebakeMotions(f, sp)
	case f.Kind == feature.PoseFresh:
		out := make([]bool, 0, sp.len())
		for k := sp.first; k < sp.end; k++ {
			_, fresh, err := l.pose(f.Parent, f.Child, r.tl.At(k))
			if err != nil {
				return nil, err
			}
			out = append(out, fresh)
		}
		return out, nil
	case f.Kind == feature.Joints && f.Timing == frames.Next:
		out := make([]float64, 0, 2*sp.len())
		for k := sp.first; k < sp.end; k++ { // the row after it, across cuts; the recording's last row repeats
			out = append(out, r.s.joints[r.joints[min(k+1, r.tl.N-1)].Index].rad[:]...)
		}
		return out, nil
	}
	return nil, nil
}

func (r *resampled) rebakeMotions(f feature.Feature, sp span) ([]float64, error) {
	at := func(k int) (rebakePose, error) {
		p, _, err := r.s.rebake.pose(f.Parent, f.Child, r.tl.At(k))
		return p, err
	}
	before, err := at(max(sp.first-1, 0)) // row 0 of the recording has no motion
	if err != nil {
		return nil, err
	}
	out := make([]float64, 0, 7*sp.len())
	for k := sp.first; k < sp.end; k++ {
		p, err := at(k)
		if err != nil {
			return nil, err
		}
		d := motion(before, p)
		out = append(out, d[:]...)
		before = p
	}
	return out, nil
}
