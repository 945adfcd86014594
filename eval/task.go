package eval

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/score"
)

// Task is task.yaml: the protocol of one task.
type Task struct {
	Name        string `yaml:"name" json:"name"`
	Description string `yaml:"description" json:"description"`

	// Steps are the prompts with their milestones, in order. Weights add up to 1 over all steps.
	Steps []Step `yaml:"steps" json:"steps"`

	TimeLimitS float64 `yaml:"time_limit_s" json:"time_limit_s"` // of the cell's clock; a trial that reaches it is scored as it stands
	StallS     float64 `yaml:"stall_s" json:"stall_s"`           // a trial in which no hand or finger moved this long ends; 0: never
	SettleS    float64 `yaml:"settle_s" json:"settle_s"`         // a trial goes on this long after the last milestone, for the final state

	Aborted AbortRule `yaml:"aborted" json:"aborted"`

	// Conditions says where the list of initial conditions comes from.
	Conditions ConditionSource `yaml:"conditions" json:"conditions"`
}

// Step is one instruction and what must be seen before the next is given.
type Step struct {
	Prompt     string       `yaml:"prompt" json:"prompt"`
	Milestones score.Rubric `yaml:"milestones" json:"milestones"`
}

// AbortRule says what happens to a trial that did not run to its end. A safety stop (an arm, a gate) is the policy's doing and
// counts with the milestones so far; a system fault (server, camera or cell lost) is not, and the trial is run again.
type AbortRule struct {
	SafetyStop  AbortAction `yaml:"safety_stop" json:"safety_stop"`
	SystemFault AbortAction `yaml:"system_fault" json:"system_fault"`
	MaxReruns   int         `yaml:"max_reruns" json:"max_reruns"` // of one trial; after them it counts as it stands
}

// AbortAction is what to do with an aborted trial.
type AbortAction string

// The two actions. There is none that drops a trial: that would bias every mean.
const (
	CountSoFar AbortAction = "count" // scored by the milestones passed before the abort
	RunAgain   AbortAction = "rerun" // run again from the same condition; each attempt is kept and reported
)

// ConditionSource is either the simulator's numbered conditions or a file with a list of conditions.
type ConditionSource struct {
	Simulator string `yaml:"simulator" json:"simulator,omitempty"` // a split of the simulator: eval
	First     int    `yaml:"first" json:"first"`                   // number of the first condition of the split
	File      string `yaml:"file" json:"file,omitempty"`           // JSON list of conditions, relative to the task file
}

// DefaultTask holds the values used where task.yaml says nothing.
func DefaultTask() Task {
	return Task{
		TimeLimitS: 30, StallS: 5, SettleS: 0.5,
		Aborted: AbortRule{SafetyStop: CountSoFar, SystemFault: RunAgain, MaxReruns: 2},
	}
}

// BlockToTray is the task file of the demo: pick a block up and put it on a tray, four milestones of equal weight.
//
//go:embed block_to_tray.yaml
var BlockToTray []byte

// LoadTask reads a task file strictly over DefaultTask.
func LoadTask(path string) (Task, error) {
	t := DefaultTask()
	if err := config.Load(path, &t); err != nil {
		return Task{}, err
	}
	return t, nil
}

// Rubric is the milestones of all steps in order.
func (t *Task) Rubric() score.Rubric {
	var r score.Rubric
	for _, s := range t.Steps {
		r = append(r, s.Milestones...)
	}
	return r
}

// StepAt is the number of the step that is under way after done milestones, the last step once all are passed.
func (t *Task) StepAt(done int) int {
	for i, s := range t.Steps {
		if done < len(s.Milestones) {
			return i
		}
		done -= len(s.Milestones)
	}
	return len(t.Steps) - 1
}

// TimeLimit is TimeLimitS as a span.
func (t *Task) TimeLimit() time.Duration { return seconds(t.TimeLimitS) }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Validate refuses a task without meaning; the error starts with the key.
func (t *Task) Validate() error {
	if t.Name == "" {
		return fmt.Errorf("name: a task needs one")
	}
	if len(t.Steps) == 0 {
		return fmt.Errorf("steps: a task needs at least one prompt with milestones")
	}
	for i, s := range t.Steps {
		if s.Prompt == "" || len(s.Milestones) == 0 {
			return fmt.Errorf("steps[%d]: want a prompt and at least one milestone", i)
		}
	}
	if err := t.Rubric().Validate(); err != nil {
		return fmt.Errorf("steps: %w", err)
	}
	if !(t.TimeLimitS > 0 && t.TimeLimitS <= 3600) {
		return fmt.Errorf("time_limit_s: %v is outside 0 to 3600", t.TimeLimitS)
	}
	if !(t.StallS >= 0) || !(t.SettleS >= 0 && t.SettleS < t.TimeLimitS) {
		return fmt.Errorf("stall_s, settle_s: %v and %v, want 0 or more, settle_s below time_limit_s", t.StallS, t.SettleS)
	}
	if err := t.Aborted.validate(); err != nil {
		return err
	}
	return t.Conditions.validate()
}

func (r AbortRule) validate() error {
	for key, a := range map[string]AbortAction{"safety_stop": r.SafetyStop, "system_fault": r.SystemFault} {
		if a != CountSoFar && a != RunAgain {
			return fmt.Errorf("aborted.%s: %q, want %s or %s", key, a, CountSoFar, RunAgain)
		}
	}
	if r.MaxReruns < 0 || r.MaxReruns > 10 {
		return fmt.Errorf("aborted.max_reruns: %d is outside 0 to 10", r.MaxReruns)
	}
	return nil
}
