package frames

import (
	"fmt"
	"sort"
)

// Timeline is N ticks at FPS per second from Start. Tick k lies at Start + k*1e9/FPS, rounded to the nearest nanosecond:
// it is computed from k each time, so rounding never adds up (rebake's step of floor(1e9/30) loses 1 ns every 3 rows).
type Timeline struct {
	Start Stamp
	FPS   int
	N     int
}

// NewTimeline covers start to end: its last tick is the last one at or before end. The error names a rate that is not
// positive, or an end before the start.
func NewTimeline(start, end Stamp, fps int) (Timeline, error) {
	if fps <= 0 {
		return Timeline{}, fmt.Errorf("timeline rate is %d per second; it has to be positive", fps)
	}
	if end < start {
		return Timeline{}, fmt.Errorf("timeline ends at %d ns, before its start at %d ns", end, start)
	}
	t := Timeline{Start: start, FPS: fps}
	k, err := Rescale(int64(end-start), int64(fps), 1e9)
	if err != nil {
		return Timeline{}, fmt.Errorf("timeline from %d to %d ns: %w", start, end, err)
	}
	if t.At(int(k)) > end {
		k--
	}
	t.N = int(k) + 1
	return t, nil
}

// At is the stamp of tick k; k may also lie outside [0, N).
func (t Timeline) At(k int) Stamp {
	ns, err := Rescale(int64(k), 1e9, int64(t.FPS))
	if err != nil {
		panic("frames: tick " + err.Error())
	}
	return t.Start + Stamp(ns)
}

// Stamps lists all ticks.
func (t Timeline) Stamps() []Stamp {
	out := make([]Stamp, t.N)
	for k := range out {
		out[k] = t.At(k)
	}
	return out
}

// Method says how a value at a tick is taken from samples around it.
type Method uint8

const (
	// Hold takes the last sample at or before the tick. It never looks ahead.
	Hold Method = iota
	// Nearest takes the sample closest to the tick, the earlier one of a tie. It looks ahead by up to half a period.
	Nearest
	// Interpolated blends the samples on both sides; at or after the last sample it holds that one.
	Interpolated
)

// String is the method's name: hold, nearest, interpolated.
func (m Method) String() string {
	switch m {
	case Hold:
		return "hold"
	case Nearest:
		return "nearest"
	case Interpolated:
		return "interpolated"
	}
	return fmt.Sprintf("Method(%d)", uint8(m))
}

// ParseMethod reads a name that String gives.
func ParseMethod(s string) (Method, error) {
	for _, m := range []Method{Hold, Nearest, Interpolated} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, fmt.Errorf("resampling method %q is none of hold, nearest, interpolated", s)
}

// State marks a resampled value, so that a held one never passes for a new one.
type State uint8

const (
	// Missing: there is no sample for this tick yet.
	Missing State = iota
	// Held: the same sample as on the tick before.
	Held
	// Fresh: another sample than on the tick before; also the first value of a timeline.
	Fresh
)

// String is missing, held or fresh.
func (s State) String() string {
	switch s {
	case Missing:
		return "missing"
	case Held:
		return "held"
	case Fresh:
		return "fresh"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// Pick is what a tick takes from a list of samples: sample Index, and for Interpolated the part Fraction (0 <= Fraction < 1)
// of the way to sample Index+1. Index is -1 when State is Missing.
type Pick struct {
	Index    int
	Fraction float64
	State    State
}

// PickAt chooses for one stamp among samples with ascending stamps. State is Fresh or Missing, as there is no tick before.
// Interpolated is Missing before the first sample, as Hold is; Nearest is Missing only without samples.
func PickAt(samples []Stamp, at Stamp, m Method) Pick {
	after := sort.Search(len(samples), func(i int) bool { return samples[i] > at })
	i := after - 1
	switch {
	case m == Nearest && i < 0 && after < len(samples):
		return Pick{Index: after, State: Fresh}
	case i < 0:
		return Pick{Index: -1}
	case after == len(samples) || m == Hold:
		return Pick{Index: i, State: Fresh}
	}
	before, ahead := uint64(at)-uint64(samples[i]), uint64(samples[after])-uint64(at)
	if m == Nearest {
		if ahead < before {
			return Pick{Index: after, State: Fresh}
		}
		// A tie goes to the earlier stamp, and of equal stamps the last one holds.
		return Pick{Index: i, State: Fresh}
	}
	return Pick{Index: i, Fraction: float64(before) / (float64(before) + float64(ahead)), State: Fresh}
}

// Resample chooses for every tick of t. samples are ascending stamps of t's clock; the error names the first one that is
// not. A value is Fresh when another sample (or another blend) was chosen than on the tick before.
func Resample(samples []Stamp, t Timeline, m Method) ([]Pick, error) {
	for i := 1; i < len(samples); i++ {
		if samples[i] < samples[i-1] {
			return nil, fmt.Errorf("sample %d at %d ns comes after sample %d at %d ns: samples are not in order of time",
				i, samples[i], i-1, samples[i-1])
		}
	}
	out := make([]Pick, t.N)
	for k := range out {
		p := PickAt(samples, t.At(k), m)
		if k > 0 && p.State == Fresh && p.Index == out[k-1].Index && p.Fraction == out[k-1].Fraction {
			p.State = Held
		}
		out[k] = p
	}
	return out, nil
}
