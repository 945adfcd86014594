package eval

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// recording is a trial's raw log with its meta.json, in the form of a demonstration's: a segment for each prompt.
type recording struct {
	dir   string
	now   func() time.Time
	w     *rawlog.Writer
	trial *deploy.TrialLog
	meta  trialMeta
	open  int64 // ns of host time when the segment under way began
	label string
}

func newRecording(dir string, now func() time.Time, hello armlink.Hello, task string, t Trial) (*recording, error) {
	w, err := rawlog.Create(filepath.Join(dir, "trial.mcap"), rawlog.WriterOptions{})
	if err != nil {
		return nil, fmt.Errorf("record the trial: %w", err)
	}
	log, err := deploy.NewTrialLog(w, hello)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record the trial: %w", err), w.Close())
	}
	return &recording{dir: dir, now: now, w: w, trial: log, meta: newTrialMeta(hello, task, t)}, nil
}

// begin opens the log's first segment.
func (r *recording) begin(tNS int64, prompt string) error {
	r.meta.Episode.StartTime = unixSeconds(r.now())
	if err := r.trial.SessionEvent(tNS, "start", r.meta.Episode.Label, false); err != nil {
		return err
	}
	return r.segment(tNS, prompt)
}

func (r *recording) segment(tNS int64, prompt string) error {
	r.label, r.open = prompt, r.now().UnixNano()
	return r.trial.SessionEvent(tNS, "subtask", prompt, false)
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
	event := "reject"
	if success {
		event = "accept"
	}
	r.meta.Labels = append(r.meta.Labels, r.label)
	r.meta.Segments = append(r.meta.Segments, metaSegment{
		StartTime: float64(r.open) / 1e9, EndTime: unixSeconds(r.now()), LabelIdx: len(r.meta.Labels) - 1, Success: success,
	})
	return r.trial.SessionEvent(tNS, event, r.label, success)
}

// end closes the last segment and the log, and writes meta.json, which makes it a recording.
func (r *recording) end(tNS int64, success bool) error {
	if err := errors.Join(r.close(tNS, success), r.w.Close()); err != nil {
		return fmt.Errorf("record the trial: %w", err)
	}
	r.meta.Episode.EndTime, r.meta.Episode.Success = unixSeconds(r.now()), success
	data, err := json.MarshalIndent(r.meta, "", "  ")
	if err != nil {
		return fmt.Errorf("record the trial: %w", err)
	}
	return atomicfile.WriteFile(filepath.Join(r.dir, "meta.json"), append(data, '\n'), 0o644)
}

// abandon closes the log of a trial that never happened; its folder is cleared when the trial is run.
func (r *recording) abandon() error { return r.w.Close() }

// trialMeta is meta.json, airoa-metadata schema 2.0: every required key, for a recording whose runner is a model.
type trialMeta struct {
	Schema        string `json:"$schema"`
	SchemaVersion string `json:"schema_version"`
	UUID          string `json:"uuid"`
	Robot         struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	} `json:"robot"`
	Files       []metaFile `json:"files"`
	Environment struct {
		Type string `json:"type"`
		Site string `json:"site"`
	} `json:"environment"`
	Runner struct {
		Type         string `json:"type"`
		Name         string `json:"name"`
		Organization string `json:"organization"`
	} `json:"runner"`
	Devices  []metaDevice  `json:"devices"`
	Programs []metaProgram `json:"programs"`
	Episode  struct {
		StartTime float64 `json:"start_time"`
		EndTime   float64 `json:"end_time"`
		Success   bool    `json:"success"`
		Label     string  `json:"label"`
	} `json:"episode"`
	Labels   []string      `json:"labels"`
	Segments []metaSegment `json:"segments"`
}

type metaFile struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type metaDevice struct {
	Role string `json:"role"`
	Type string `json:"type"`
	ID   string `json:"id"`
}

type metaProgram struct {
	Role   string `json:"role"`
	Name   string `json:"name"`
	Source any    `json:"source"` // null: not built from a repository that is known here
}

// metaSegment is one attempt at one prompt. Times are float seconds of the log's receive time.
type metaSegment struct {
	StartTime float64 `json:"start_time"`
	EndTime   float64 `json:"end_time"`
	LabelIdx  int     `json:"label_idx"`
	Success   bool    `json:"success"`
}

// trialSpace is the namespace of trials' identifiers (RFC 9562, version 5).
var trialSpace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("github.com/pinch-robotics/pinch/eval/trial"))

func newTrialMeta(hello armlink.Hello, task string, t Trial) trialMeta {
	m := trialMeta{SchemaVersion: "2.0", Schema: "airoa-metadata/v2_0"}
	m.UUID = uuid.NewSHA1(trialSpace, fmt.Appendf(nil, "%s/%s/%s/%d", task, t.Entrant, t.Condition, t.Attempt)).String()
	m.Robot.Type, m.Robot.ID = "arms", "cell"
	m.Environment.Type, m.Environment.Site = "real_world", "cell"
	if hello.Sim {
		m.Environment.Type = "simulation"
	}
	m.Runner.Type, m.Runner.Name, m.Runner.Organization = "model", t.Entrant, "pinch"
	m.Files = []metaFile{{"mcap", "trial.mcap"}}
	for _, a := range hello.Arms {
		m.Devices = append(m.Devices, metaDevice{"arm_" + a.Name, a.Model, a.Name})
	}
	m.Programs = []metaProgram{{"interface", "pinch deploy", nil}, {"data_collection", "pinch eval", nil}}
	m.Episode.Label = task
	return m
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }
