package deploy

import (
	"errors"
	"fmt"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Topics that make a run's log complete: with them ReplayLog decides everything again.
const (
	TopicRun       = "/pinch/deploy/run"       // RunRecord, at the beginning
	TopicState     = "/pinch/deploy/state"     // one per control step, StateRecord: the step's inputs; its frames follow
	TopicDirective = "/pinch/deploy/directive" // DirectiveRecord: what the scorer wanted
	TopicSegment   = "/pinch/deploy/segment"   // SegmentRecord: what was sent to the arms
)

// RunRecord is what a run began with.
type RunRecord struct {
	Cell          Cell          `json:"cell"` // as it was resolved, without the key of the policy server
	Contract      Contract      `json:"contract"`
	Hello         armlink.Hello `json:"hello"`
	State         armlink.State `json:"state"` // at the beginning
	Prompt        string        `json:"prompt"`
	MaxDurationNS int64         `json:"max_duration_ns"`
}

// StateRecord is what a control step decides from, beside the frames: those logged up to the next StateRecord came with this one.
type StateRecord struct {
	State   armlink.State `json:"state"`
	FrameNS [2]int64      `json:"frame_ns"`          // capture time of the newest frame of each wrist camera that was here; 0: none
	Refused []string      `json:"refused,omitempty"` // messages that the arms refused since the last step
}

// DirectiveRecord is a Directive that wanted something.
type DirectiveRecord struct {
	TNS    int64  `json:"t_ns"`
	Prompt string `json:"prompt,omitempty"`
	End    bool   `json:"end,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// SegmentRecord holds the knots that a step sent, of both arms.
type SegmentRecord struct {
	TNS   int64          `json:"t_ns"`
	Left  []armlink.Knot `json:"left"`
	Right []armlink.Knot `json:"right"`
}

func (r *run) logRun() error {
	cell := r.s.cell
	cell.PolicyAPIKey = ""
	return r.opts.Log.json(TopicRun, r.begun, RunRecord{Cell: cell, Contract: r.contract, Hello: r.s.hello, State: r.s.state, Prompt: r.prompt,
		MaxDurationNS: int64(r.opts.MaxDuration)})
}

func (r *run) logState(now int64) error {
	rec := StateRecord{State: r.s.state, Refused: r.s.faults[r.noted:]}
	r.noted = len(r.s.faults)
	for h := range r.seen {
		if f, ok := r.seen[h].before(now); ok {
			rec.FrameNS[h] = f.CaptureNS
		}
	}
	return r.opts.Log.json(TopicState, now, rec)
}

func (r *run) logDirective(now int64, d Directive) error {
	if d == (Directive{}) {
		return nil
	}
	return r.opts.Log.json(TopicDirective, now, DirectiveRecord{now, d.Prompt, d.End, d.Reason})
}

func (r *run) logSegment(now int64, knots [2][]armlink.Knot) error {
	if len(knots[0])+len(knots[1]) == 0 {
		return nil
	}
	return r.opts.Log.json(TopicSegment, now, SegmentRecord{now, knots[0], knots[1]})
}

func (r *run) event(kind, text string) error {
	r.s.log.Info(kind, "t_ns", r.s.state.TNS, "text", text)
	if kind != "begin" && kind != "end" {
		r.lastEvent, r.lastEventNS = kind+": "+text, r.s.state.TNS
	}
	if r.opts.Log == nil {
		return nil
	}
	return r.opts.Log.event(r.s.state.TNS, kind, text)
}

func isBadChunk(err error) bool { return errors.Is(err, ErrBadChunk) }

func (r *run) logChunk(now int64, p *asked, a answered, verdict error) error {
	if r.opts.Log == nil {
		return nil
	}
	rec := ChunkRecord{ObservationNS: p.tObs, AskedNS: p.tAsked, TakenNS: now, LatencyMS: float64(now-p.tAsked) / 1e6, TookNS: int64(a.took), Prompt: p.obs.Prompt,
		RateHz: r.contract.RateHz, Checkpoint: a.chunk.Checkpoint, Frames: 1 + len(p.obs.Past), PrefixRows: len(p.obs.Prefix) / ActionColumns, Stale: p.stale}
	for k := 0; a.chunk.Check() == nil && k < a.chunk.Rows; k++ { // a broken chunk may hold what JSON can not
		rec.Actions = append(rec.Actions, a.chunk.Data[k*a.chunk.Cols:(k+1)*a.chunk.Cols])
	}
	if a.err != nil {
		rec.Error = a.err.Error()
		rec.Lost = !isBadChunk(a.err)
	}
	if verdict != nil {
		rec.Rejected = verdict.Error()
	} else if !p.stale {
		rec.RaisedM, rec.ReachedRows = r.exec.raised, r.exec.short
	}
	if err := r.opts.Log.json(TopicChunk, now, rec); err != nil {
		return fmt.Errorf("log chunk: %w", err)
	}
	return nil
}
