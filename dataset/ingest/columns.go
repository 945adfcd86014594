package ingest

import (
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
)

// resampled holds, for every tick of a recording, which sample each stream shows there.
type resampled struct {
	s       *survey
	tl      grid
	cameras map[string][]frames.Pick // by name
	joints  []frames.Pick
	pedal   []frames.Pick
	flags   map[string][]frames.Pick // by topic
	fields  map[string][]frames.Pick // by topic
	chains  map[[2]string]*frames.Chain
}

func (s *survey) resample(tl grid) *resampled {
	r := &resampled{s: s, tl: tl, cameras: map[string][]frames.Pick{}, flags: map[string][]frames.Pick{},
		fields: map[string][]frames.Pick{}, chains: map[[2]string]*frames.Chain{}}
	for _, c := range s.cameras {
		r.cameras[c.name] = tl.hold(stampsOf(c.samples, func(x sample) frames.Stamp { return x.at }))
	}
	r.joints = tl.hold(stampsOf(s.joints, func(x jointSample) frames.Stamp { return x.at }))
	r.pedal = tl.hold(stampsOf(s.pedal, func(x pedalSample) frames.Stamp { return x.at }))
	for topic, st := range s.fields {
		r.fields[topic] = tl.hold(stampsOf(st.samples, func(x fieldSample) frames.Stamp { return x.at }))
	}
	for topic, f := range s.flags {
		r.flags[topic] = tl.hold(stampsOf(f, func(x flagSample) frames.Stamp { return x.at }))
	}
	return r
}

// columns computes every non-video column of one episode.
func (r *resampled) columns(features []feature.Feature, sp span) (map[string]any, error) {
	out := map[string]any{}
	for _, f := range features {
		if f.Kind == feature.Video {
			continue
		}
		col, err := r.columnAs(f, sp)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		out[f.Name] = col
	}
	return out, nil
}

// columnAs is the column by our rules, or by rebake's where those differ.
func (r *resampled) columnAs(f feature.Feature, sp span) (any, error) {
	if r.s.rebake != nil {
		if col, err := r.rebakeColumn(f, sp); col != nil || err != nil {
			return col, err
		}
	}
	return r.column(f, sp)
}

func (r *resampled) column(f feature.Feature, sp span) (any, error) {
	switch f.Kind {
	case feature.Pose:
		poses, err := r.poses(f, sp)
		if err != nil {
			return nil, err
		}
		return flatten(poses, frames.Pose.ArrayXYZXYZW), nil
	case feature.Motion:
		poses, err := r.poses(f, sp)
		if err != nil {
			return nil, err
		}
		// The poses are those of one segment, so no motion reaches across a cut.
		return flatten(frames.RowDeltas(poses, f.Reference, f.Timing), frames.Delta.ArrayXYZXYZW), nil
	case feature.PoseFresh:
		return r.poseFresh(f, sp)
	case feature.Joints:
		return r.angles(f, sp), nil
	case feature.Field:
		return r.fieldColumn(f, sp), nil
	case feature.JointsFresh:
		if f.Stream != "" {
			return fresh(r.fields[f.Stream], sp), nil
		}
		return fresh(r.joints, sp), nil
	case feature.VideoFresh:
		return fresh(r.cameras[f.Stream], sp), nil
	case feature.Buttons:
		return r.buttons(sp), nil
	case feature.Tracked:
		return r.tracked(f.Stream, sp), nil
	case feature.CaptureTime:
		return r.captureTimes(f.Stream, sp), nil
	case feature.RowTime:
		return each(sp, func(k int) int64 { return int64(r.tl.At(k)) }), nil
	case feature.Success:
		return each(sp, func(int) bool { return sp.success }), nil
	case feature.Done:
		return each(sp, func(k int) bool { return k == sp.end-1 }), nil
	}
	return nil, fmt.Errorf("kind %d is unknown", f.Kind)
}

func (r *resampled) chain(f feature.Feature) (*frames.Chain, error) {
	key := [2]string{f.Parent, f.Child}
	if c, ok := r.chains[key]; ok {
		return c, nil
	}
	c, err := r.s.tree.Chain(f.Parent, f.Child)
	if err != nil {
		return nil, err
	}
	r.chains[key] = c
	return c, nil
}

func (r *resampled) poses(f feature.Feature, sp span) ([]frames.Pose, error) {
	c, err := r.chain(f)
	if err != nil {
		return nil, err
	}
	out := make([]frames.Pose, 0, sp.len())
	for k := sp.first; k < sp.end; k++ {
		p, err := c.At(r.tl.At(k), frames.Hold)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (r *resampled) poseFresh(f feature.Feature, sp span) ([]bool, error) {
	c, err := r.chain(f)
	if err != nil {
		return nil, err
	}
	return each(sp, func(k int) bool { return k == 0 || c.FreshSince(r.tl.At(k-1), r.tl.At(k)).Any() }), nil
}

// angles are those of the row, or of the row after it; an episode's last row has none after it and repeats its own.
func (r *resampled) angles(f feature.Feature, sp span) []float64 {
	out := make([]float64, 0, 2*sp.len())
	for k := sp.first; k < sp.end; k++ {
		if f.Timing == frames.Next && k+1 < sp.end {
			out = append(out, r.s.joints[r.joints[k+1].Index].rad[:]...)
			continue
		}
		out = append(out, r.s.joints[r.joints[k].Index].rad[:]...)
	}
	return out
}

// buttons are zero before the pedal's first message.
func (r *resampled) buttons(sp span) []int32 {
	out := make([]int32, 0, 3*sp.len())
	for k := sp.first; k < sp.end; k++ {
		var b [3]int32
		if i := r.pedal[k].Index; i >= 0 {
			b = r.s.pedal[i].buttons
		}
		out = append(out, b[:]...)
	}
	return out
}

// tracked is true when all flags of the side were last true; a flag that has not been sent yet is false.
func (r *resampled) tracked(side string, sp span) []bool {
	return each(sp, func(k int) bool {
		for _, topic := range r.s.m.Tracked[side] {
			picks := r.flags[topic]
			if picks == nil || picks[k].Index < 0 || !r.s.flags[topic][picks[k].Index].on {
				return false
			}
		}
		return true
	})
}

// captureTimes are device and host time of the sample each row shows.
func (r *resampled) captureTimes(stream string, sp span) []int64 {
	at := func(int) sample { return sample{} }
	if picks, ok := r.cameras[stream]; ok {
		for _, c := range r.s.cameras {
			if c.name == stream {
				at = func(k int) sample { return c.samples[picks[k].Index] }
			}
		}
	} else if picks, ok := r.fields[stream]; ok {
		at = func(k int) sample { return r.s.fields[stream].samples[picks[k].Index].sample }
	} else if stream == "joint_states" {
		at = func(k int) sample { return r.s.joints[r.joints[k].Index].sample }
	} else if moves := r.s.moves[stream]; len(moves) > 0 {
		stamps := stampsOf(moves, func(x sample) frames.Stamp { return x.at })
		at = func(k int) sample {
			if p := frames.PickAt(stamps, r.tl.At(k), frames.Hold); p.Index >= 0 {
				return moves[p.Index]
			}
			return sample{}
		}
	}
	out := make([]int64, 0, 2*sp.len())
	for k := sp.first; k < sp.end; k++ {
		s := at(k)
		out = append(out, s.device, s.host)
	}
	return out
}

func fresh(picks []frames.Pick, sp span) []bool {
	return each(sp, func(k int) bool { return picks[k].State == frames.Fresh })
}

// each calls f for every tick of a span.
func each[T any](sp span, f func(k int) T) []T {
	out := make([]T, 0, sp.len())
	for k := sp.first; k < sp.end; k++ {
		out = append(out, f(k))
	}
	return out
}

func flatten[T any](values []T, array func(T) [7]float64) []float64 {
	out := make([]float64, 0, 7*len(values))
	for _, v := range values {
		a := array(v)
		out = append(out, a[:]...)
	}
	return out
}
