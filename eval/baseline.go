package eval

import (
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
)

// Entrant is a policy that takes part in an evaluation.
type Entrant struct {
	Name   string // in tables and folder names: policy, hold, replay, blank
	Policy deploy.Policy
	About  string // one line for the report
}

// Names of the entrants of a usual run.
const (
	PolicyName = "policy"
	HoldName   = "hold"
	ReplayName = "replay"
	BlankName  = "blank"
)

// trialAware is a policy that wants to know when a trial begins; n is the number of the condition in the plan.
type trialAware interface{ BeginTrial(n int) }

// Hold is the baseline that does nothing, asked at the rate of the policy under test.
func Hold(c deploy.Contract) Entrant {
	return Entrant{HoldName, deploy.Hold{RateHz: c.RateHz}, "no motion: what a scene gives for nothing"}
}

// Blank is the policy under test with black pictures.
func Blank(p deploy.Policy) Entrant {
	return Entrant{BlankName, deploy.Blank{Policy: p}, "the policy with both pictures black: what state and prompt alone explain"}
}

// Replay is the baseline that plays a demonstration's recorded motion open loop: trial n plays successful recording n (modulo their
// number), body-frame motion from wherever the hands are.
func Replay(d *dataset.Dataset) (Entrant, error) {
	demos, err := readDemonstrations(d)
	if err != nil {
		return Entrant{}, fmt.Errorf("replay dataset %s: %w", d.Root(), err)
	}
	identity, err := d.Identity()
	if err != nil {
		return Entrant{}, fmt.Errorf("replay dataset %s: %w", d.Root(), err)
	}
	r := &replay{identity: identity}
	for _, demo := range demos {
		p, err := deploy.NewReplay(demo)
		if err != nil {
			return Entrant{}, fmt.Errorf("replay dataset %s: %w", d.Root(), err)
		}
		r.demos = append(r.demos, p)
	}
	about := fmt.Sprintf("a recorded demonstration played open loop; trial n plays recording n of %d", len(demos))
	return Entrant{ReplayName, r, about}, nil
}

// replay gives each trial a demonstration of its own, so that the baseline does not hang on the luck of one.
type replay struct {
	demos    []*deploy.Replay
	identity string // of the dataset

	mu sync.Mutex // the executor may ask from a goroutine of its own
	n  int
}

// BeginTrial chooses the demonstration.
func (r *replay) BeginTrial(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n = n % len(r.demos)
}

func (r *replay) demo() *deploy.Replay {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.demos[r.n]
}

// Metadata implements deploy.Policy. The dataset's identity is in it, so that the plan of an evaluation names what was replayed.
func (r *replay) Metadata() map[string]any {
	m := maps.Clone(r.demos[0].Metadata())
	m["dataset_identity"] = r.identity
	return m
}

// Infer implements deploy.Policy.
func (r *replay) Infer(ctx context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	return r.demo().Infer(ctx, obs)
}
