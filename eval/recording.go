package eval

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// recording is a trial's raw log with its meta.json, in the form of a demonstration's: a segment for each prompt.
type recording struct {
	dir   string
	w     *rawlog.Writer
	trial *deploy.TrialLog
	meta  meta.Recording
	begun int64 // ns of host time when the trial began
	open  int64 // ns of host time when the segment under way began
	label string
}

// logName is the raw log's name in a trial's folder.
const logName = "trial.mcap"

// newRecording opens the log of a trial of a plan; plan is the plan's digest.
func newRecording(dir string, hello armlink.Hello, plan, task string, t Trial) (*recording, error) {
	w, err := rawlog.Create(filepath.Join(dir, logName), rawlog.WriterOptions{})
	if err != nil {
		return nil, fmt.Errorf("record the trial: %w", err)
	}
	log, err := deploy.NewTrialLog(w, hello)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record the trial: %w", err), w.Close())
	}
	return &recording{dir: dir, w: w, trial: log, meta: describe(hello, plan, task, t)}, nil
}

// now is host time in ns, in the clock of the log's receive times.
func (r *recording) now() int64 { return int64(r.trial.HostNow()) }

// begin opens the log's first segment.
func (r *recording) begin(tNS int64, prompt string) error {
	r.begun = r.now()
	if err := r.trial.SessionEvent(tNS, rawlog.EventStart, r.meta.Episode.Label, false); err != nil {
		return err
	}
	return r.segment(tNS, prompt)
}

func (r *recording) segment(tNS int64, prompt string) error {
	r.label, r.open = prompt, r.now()
	return r.trial.SessionEvent(tNS, rawlog.EventSubtask, prompt, false)
}

// next closes the segment under way with success, because its milestones were seen, and opens the next.
func (r *recording) next(tNS int64, prompt string) error {
	if err := r.close(tNS, true); err != nil {
		return err
	}
	return r.segment(tNS, prompt)
}

// close ends the segment under way.
func (r *recording) close(tNS int64, success bool) error {
	event := rawlog.EventReject
	if success {
		event = rawlog.EventAccept
	}
	// Two judgements within one clock reading would give a segment without length, which no reader takes.
	end := max(r.now(), r.open+1000)
	r.meta.AddSegment(r.label, meta.Seconds(r.open), meta.Seconds(end), success)
	return r.trial.SessionEvent(tNS, event, r.label, success)
}

// end closes the last segment and the log, and writes meta.json, which makes it a recording.
func (r *recording) end(tNS int64, success bool) error {
	if err := errors.Join(r.close(tNS, success), r.w.Close()); err != nil {
		return fmt.Errorf("record the trial: %w", err)
	}
	last := r.meta.Segments[len(r.meta.Segments)-1]
	r.meta.Episode.StartTime, r.meta.Episode.EndTime, r.meta.Episode.Success = meta.Seconds(r.begun), last.EndTime, success
	return meta.Write(r.dir, r.meta)
}

// abandon closes the log of a trial that never happened; its folder is cleared when the trial is run.
func (r *recording) abandon() error { return r.w.Close() }

// trialSpace is the namespace of trials' identifiers (RFC 9562, version 5).
var trialSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("github.com/pinch-robotics/pinch/eval/trial"))

// describe fills everything of a trial's meta.json but its times and segments. The runner is a model. Trials of different plans, which
// differ in seed or checkpoint for instance, have different identifiers, so one dataset can hold both.
func describe(hello armlink.Hello, plan, task string, t Trial) meta.Recording {
	m := meta.New()
	m.UUID = uuid.NewSHA1(trialSpace, fmt.Appendf(nil, "%s/%s/%s/%s/%d", plan, task, t.Entrant, t.Condition, t.Attempt)).String()
	m.Robot = meta.Robot{Type: "arms", ID: "cell"}
	m.Environment = meta.Environment{Type: meta.RealWorld, Site: "cell"}
	if hello.Sim {
		m.Environment.Type = meta.Simulation
	}
	m.Runner = meta.Runner{Type: meta.Model, Name: t.Entrant}
	m.Files = []meta.File{{Type: "mcap", Name: logName}}
	for _, a := range hello.Arms {
		m.Devices = append(m.Devices, meta.Device{Role: "arm_" + a.Name, Type: a.Model, ID: a.Name})
	}
	m.Programs = []meta.Program{{Role: "interface", Name: "pinch deploy"}, {Role: "data_collection", Name: "pinch eval"}}
	m.Episode.Label = task
	return m
}
