package ingest

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// event is a message of /pinch/session with its stamp.
type event struct {
	rawlog.SessionEvent
	at frames.Stamp
}

// segment is one attempt at one subtask: from <= t < to on the alignment clock. index is its number in meta.json.
type segment struct {
	index    int
	label    string
	success  bool
	from, to frames.Stamp
}

// segments takes the segments from the session's events where the log has them, as those lie on the alignment clock to the
// nanosecond; else from meta.json (float seconds of receive time), else the whole log is one.
func (s *survey) segments(task string) ([]segment, error) {
	var out []segment
	switch {
	case s.rebake != nil && s.meta.UUID != "":
		return s.rebakeSegments(), nil
	case len(s.events) > 0:
		out = segmentsOfEvents(s.events)
		if s.meta.UUID != "" {
			if err := s.agree(out); err != nil {
				return nil, err
			}
		}
	case s.meta.UUID != "":
		if s.align.clock != "" {
			if _, ok := s.align.offset[s.align.clock]; !ok {
				return nil, fmt.Errorf("the streams are aligned on clock %q, but the log has neither %s nor an offset of that clock, "+
					"so the segments of %s cannot be placed", s.align.clock, rawlog.TopicSession, meta.FileName)
			}
		}
		for i, ms := range s.meta.Segments {
			out = append(out, segment{i, s.meta.Labels[ms.LabelIdx], ms.Success, s.align.fromHost(nanos(ms.StartTime)), s.align.fromHost(nanos(ms.EndTime))})
		}
	default:
		out = []segment{{0, task, true, math.MinInt64, math.MaxInt64}}
	}
	for i := 1; i < len(out); i++ {
		if out[i].from < out[i-1].to {
			return nil, fmt.Errorf("segment %d begins at %d ns, before segment %d ends at %d ns; correct their times in %s",
				i, out[i].from, i-1, out[i-1].to, meta.FileName)
		}
	}
	return out, nil
}

// nanos is float seconds in ns, to the nearest (float64 holds today's Unix time to 0.2 µs).
func nanos(seconds float64) int64 { return int64(math.Round(seconds * 1e9)) }

// segmentsOfEvents follows the session: subtask opens a segment, accept and reject close it. An open segment at the end of the log
// was never judged and is no segment, as in meta.json.
func segmentsOfEvents(events []event) []segment {
	var out []segment
	open := segment{}
	running := false
	for _, e := range events {
		switch e.Event {
		case rawlog.EventSubtask:
			open, running = segment{index: len(out), label: e.Label, from: e.at}, true
		case rawlog.EventAccept, rawlog.EventReject:
			if !running {
				continue
			}
			open.to, open.success, running = e.at, e.Event == rawlog.EventAccept, false
			if e.Success != nil {
				open.success = *e.Success
			}
			if e.Label != "" && open.label == "" {
				open.label = e.Label
			}
			out = append(out, open)
		}
	}
	return out
}

// agree compares the events with meta.json, which holds the names and verdicts that people see, and takes the names from there.
func (s *survey) agree(segs []segment) error {
	if len(segs) != len(s.meta.Segments) {
		return fmt.Errorf("%s has %d closed segments, %s has %d; run `pinch record --recover %s` to write the latter anew, or leave the recording out",
			rawlog.TopicSession, len(segs), meta.FileName, len(s.meta.Segments), filepath.Dir(s.path))
	}
	for i, ms := range s.meta.Segments {
		if ms.Success != segs[i].success {
			return fmt.Errorf("segment %d: success is %v on %s, but %v in %s", i, segs[i].success, rawlog.TopicSession, ms.Success, meta.FileName)
		}
		segs[i].label = s.meta.Labels[ms.LabelIdx]
	}
	return nil
}
