package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// End is how a trial ended.
type End string

// The ends. Complete, Time and Stall are regular; Stopped and Fault are aborts, for which the task has a rule.
const (
	EndComplete End = "complete" // all milestones passed
	EndTime     End = "time"     // the time limit
	EndStall    End = "stall"    // nothing moved for the task's stall time
	EndStopped  End = "stopped"  // a safety gate, the arm, or the person at the robot
	EndFault    End = "fault"    // server, camera or cell lost
)

// Trial is one attempt of one entrant on one condition, as trial.json keeps it.
type Trial struct {
	Entrant   string `json:"entrant"`
	Condition string `json:"condition"`
	Number    int    `json:"number"`  // of the condition in the plan, from 0
	Attempt   int    `json:"attempt"` // from 1; more than 1 after reruns
	Counts    bool   `json:"counts"`  // false when the task's rule had it run again

	Score   float64 `json:"score"` // partial credit, 0 to 1
	End     End     `json:"end"`
	Reason  string  `json:"reason,omitempty"`
	StartNS int64   `json:"start_ns"` // cell's clock
	Seconds float64 `json:"seconds"`  // cell's clock
	Finding

	Prompts  []Given   `json:"prompts"`
	Pictures []Picture `json:"pictures"`
	Motion   Motion    `json:"motion"`
	// Wall holds measured times, which differ from run to run; all else repeats with the seeds in lock-step.
	Wall Wall `json:"wall"`
}

// Given is a prompt and when it was given.
type Given struct {
	TNS    int64  `json:"t_ns"`
	Prompt string `json:"prompt"`
}

// Picture is one saved frame of a wrist camera.
type Picture struct {
	Label string `json:"label"` // start, a milestone's name, or end
	Hand  string `json:"hand"`
	TNS   int64  `json:"t_ns"`
	File  string `json:"file"` // in the trial's folder
}

// Motion is what the executor counted.
type Motion struct {
	Chunks         int     `json:"chunks"`
	Rejected       int     `json:"rejected"`
	Shortened      int     `json:"shortened"` // chunks followed as far as their rows can be reached
	Contacts       int     `json:"contacts"`  // times the hands gave way to something that held them
	Starved        int     `json:"starved"`
	MaxFollowing   float64 `json:"max_following_rad"`
	MinArmDistance float64 `json:"min_arm_distance_m"`
}

// Wall is measured time.
type Wall struct {
	LatencyP50MS float64 `json:"latency_p50_ms"`
	LatencyP99MS float64 `json:"latency_p99_ms"`
	Requests     int     `json:"requests"`
}

// aborted tells whether the task's rule for aborted trials applies, and which part of it.
func (t Trial) aborted(r AbortRule) (AbortAction, bool) {
	switch t.End {
	case EndStopped:
		return r.SafetyStop, true
	case EndFault:
		return r.SystemFault, true
	}
	return CountSoFar, false
}

// dir is the trial's folder under the output folder.
func (t Trial) dir(out string) string {
	return filepath.Join(out, "trials", t.Entrant, fmt.Sprintf("%03d-%s", t.Number, t.Condition), fmt.Sprintf("attempt-%d", t.Attempt))
}

// readTrial reads a finished trial; ok is false when there is none.
func readTrial(dir string) (t Trial, ok bool, err error) {
	path := filepath.Join(dir, "trial.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Trial{}, false, nil
	}
	if err != nil {
		return Trial{}, false, fmt.Errorf("read a finished trial: %w", err)
	}
	if err := json.Unmarshal(data, &t); err != nil {
		return Trial{}, false, fmt.Errorf("read a finished trial: %s: %w; delete its folder to run it again", path, err)
	}
	return t, true, nil
}

// write makes the trial exist.
func (t Trial) write(dir string) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return fmt.Errorf("write a trial: %w", err)
	}
	return atomicfile.WriteFile(filepath.Join(dir, "trial.json"), append(data, '\n'), 0o644)
}

// attempt is a trial under way.
type attempt struct {
	task   Task
	scorer Scorer
	log    *recording
	dir    string
	trial  *Trial

	done       int
	completeAt time.Duration // when the last milestone was passed; 0: not yet
	still      stillness
	pictured   bool // the start is
	last       deploy.Step
}

// start is the first prompt's moment.
func (a *attempt) start(tNS int64) error {
	prompt := a.task.Steps[0].Prompt
	a.trial.StartNS = tNS
	a.trial.Prompts = []Given{{tNS, prompt}}
	return a.log.begin(tNS, prompt)
}

// step is deploy's hook: it judges, takes pictures, gives the next prompt and ends the trial.
func (a *attempt) step(ctx context.Context, s deploy.Step) (deploy.Directive, error) {
	if !a.pictured && s.Frames[0].CaptureNS >= a.trial.StartNS && s.Frames[1].CaptureNS >= a.trial.StartNS {
		// Frames from before the trial show the scene of the trial before.
		a.pictured = true
		if err := a.picture("start", s); err != nil {
			return deploy.Directive{}, err
		}
	}
	a.last = s
	verdict, err := a.scorer.Judge(ctx, s)
	if err != nil {
		return deploy.Directive{}, err
	}
	if verdict.Abort != "" {
		a.trial.End = EndStopped
		return deploy.Directive{End: true, Reason: verdict.Abort}, nil
	}
	directive, err := a.advance(verdict.Done, s)
	if err != nil {
		return deploy.Directive{}, err
	}
	switch {
	case a.completeAt > 0 && s.Elapsed-a.completeAt >= seconds(a.task.SettleS):
		a.trial.End = EndComplete
		return deploy.Directive{End: true, Reason: "all milestones passed"}, nil
	case a.completeAt == 0 && a.task.StallS > 0 && a.still.since(s) >= seconds(a.task.StallS):
		a.trial.End = EndStall
		return deploy.Directive{End: true, Reason: fmt.Sprintf("nothing moved for %v s", a.task.StallS)}, nil
	}
	return directive, nil
}

// advance takes note of new milestones and gives the prompt of the step under way.
func (a *attempt) advance(done int, s deploy.Step) (deploy.Directive, error) {
	rubric := a.task.Rubric()
	for ; a.done < done; a.done++ {
		if err := a.picture(rubric[a.done].Name, s); err != nil {
			return deploy.Directive{}, err
		}
	}
	a.done = done // a person may take one back
	if done == len(rubric) {
		if a.completeAt == 0 {
			a.completeAt = s.Elapsed
		}
		return deploy.Directive{}, nil
	}
	a.completeAt = 0
	prompt := a.task.Steps[a.task.StepAt(done)].Prompt
	if prompt == a.trial.Prompts[len(a.trial.Prompts)-1].Prompt {
		return deploy.Directive{}, nil
	}
	a.trial.Prompts = append(a.trial.Prompts, Given{s.TNS, prompt})
	return deploy.Directive{Prompt: prompt}, a.log.next(s.TNS, prompt)
}

// picture saves both wrist frames as they are.
func (a *attempt) picture(label string, s deploy.Step) error {
	for h, f := range s.Frames {
		if len(f.JPEG) == 0 {
			continue
		}
		p := Picture{label, deploy.Hands[h], f.CaptureNS, fmt.Sprintf("%s-%s.jpg", label, deploy.Hands[h])}
		if err := atomicfile.WriteFile(filepath.Join(a.dir, p.File), f.JPEG, 0o644); err != nil {
			return fmt.Errorf("save a picture: %w", err)
		}
		a.trial.Pictures = append(a.trial.Pictures, p)
	}
	return nil
}

// stillness measures how long nothing has moved.
type stillness struct {
	set    bool
	at     time.Duration
	hands  [2]frames.Pose
	finger [2]float64
}

// Less than these counts as no motion: a policy's noise, not its intent.
const (
	stillMetres  = 0.003
	stillRadians = 0.02
)

// since tells how long hands and fingers have stayed where they are.
func (st *stillness) since(s deploy.Step) time.Duration {
	moved := !st.set
	for h := range s.Hands {
		if moved {
			break
		}
		metres, radians := s.Hands[h].Distance(st.hands[h])
		finger := s.FingerRad[h] - st.finger[h]
		moved = metres > stillMetres || radians > stillRadians || finger > stillRadians || finger < -stillRadians
	}
	if moved {
		*st = stillness{true, s.Elapsed, s.Hands, s.FingerRad}
	}
	return s.Elapsed - st.at
}
