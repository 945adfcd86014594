package eval

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/imaging"
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

// trialAware is a policy that wants to know when a trial begins (n is the number of the condition in the plan) and where it is.
type trialAware interface {
	BeginTrial(n int)
	OnStep(s deploy.Step)
}

// hold answers with no motion and the fingers where they are.
type hold struct{ contract deploy.Contract }

// Hold is the baseline that does nothing. Its rate is the contract's, so that it is asked as often as the policy.
func Hold(c deploy.Contract) Entrant {
	c.Checkpoint, c.Prompts, c.Horizon = "", nil, deploy.MinRows
	return Entrant{HoldName, hold{c}, "no motion; what a scene gives for nothing"}
}

// Metadata is the contract of the policy under test.
func (h hold) Metadata() map[string]any { return h.contract.Map() }

// Infer answers identity motions.
func (h hold) Infer(_ context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	return chunkOf(deploy.MinRows, func(int) row { return still(obs.FingerRad) }), nil
}

// row is one row of the contract: left motion, right motion, finger angles.
type row struct {
	motion [2][7]float64
	finger [2]float64
}

func still(finger [2]float64) row {
	identity := [7]float64{6: 1}
	return row{[2][7]float64{identity, identity}, finger}
}

func chunkOf(rows int, at func(i int) row) deploy.Chunk {
	c := deploy.Chunk{Rows: rows, Cols: deploy.ActionColumns, Data: make([]float32, 0, rows*deploy.ActionColumns)}
	for i := range rows {
		r := at(i)
		for h := range r.motion {
			for _, v := range r.motion[h] {
				c.Data = append(c.Data, float32(v))
			}
		}
		c.Data = append(c.Data, float32(r.finger[0]), float32(r.finger[1]))
	}
	return c
}

// blank hides the pictures from a policy.
type blank struct{ inner deploy.Policy }

// Blank is the policy under test with black pictures: what it can do from its state and the prompt alone.
func Blank(p deploy.Policy) Entrant {
	return Entrant{BlankName, blank{p}, "the policy with both pictures black: what state and prompt alone explain"}
}

// Metadata is the inner policy's.
func (b blank) Metadata() map[string]any { return b.inner.Metadata() }

// Infer asks the inner policy with pictures of the same size, all black.
func (b blank) Infer(ctx context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	obs.Left = imaging.NewRGB(obs.Left.Width, obs.Left.Height)
	obs.Right = imaging.NewRGB(obs.Right.Width, obs.Right.Height)
	return b.inner.Infer(ctx, obs)
}

// replay plays recorded demonstrations open loop.
type replay struct {
	contract deploy.Contract
	demos    []demonstration

	mu      sync.Mutex // the executor may ask from a goroutine of its own
	current *demonstration
	elapsed time.Duration
}

// Replay is the baseline that plays a demonstration's recorded motion open loop: trial n plays successful recording n (modulo their
// number), body-frame motion from wherever the hands are. The dataset's rate must be the contract's.
func Replay(d *dataset.Dataset, c deploy.Contract) (Entrant, error) {
	if rate := float64(d.Info().FPS); rate != c.RateHz {
		return Entrant{}, fmt.Errorf("replay dataset %s has %v rows per second, the policy %v; want equal rates", d.Root(), rate, c.RateHz)
	}
	demos, err := readDemonstrations(d)
	if err != nil {
		return Entrant{}, fmt.Errorf("replay dataset %s: %w", d.Root(), err)
	}
	c.Checkpoint, c.Prompts, c.Horizon = "", nil, 0
	c.PoseReference, c.PoseTiming = deploy.ReferenceBody, deploy.TimingNext
	about := fmt.Sprintf("a recorded demonstration played open loop; trial n plays recording n of %d", len(demos))
	return Entrant{ReplayName, &replay{contract: c, demos: demos, current: &demos[0]}, about}, nil
}

// Metadata is the contract of the policy under test with the dataset's reference and timing.
func (r *replay) Metadata() map[string]any { return r.contract.Map() }

// BeginTrial chooses the demonstration.
func (r *replay) BeginTrial(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current, r.elapsed = &r.demos[n%len(r.demos)], 0
}

// OnStep notes how far the run is.
func (r *replay) OnStep(s deploy.Step) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.elapsed = s.Elapsed
}

// Infer answers the recorded rows from the observation's place in the run on; after the last row the hands stay. Rows are
// plenty, so the executor may consume as many as it likes before it asks again.
func (r *replay) Infer(context.Context, deploy.Observation) (deploy.Chunk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := int(r.elapsed.Seconds()*r.contract.RateHz + 0.5)
	rows := r.current.rows
	last := rows[len(rows)-1].finger
	return chunkOf(4*deploy.MinRows, func(i int) row {
		if from+i < len(rows) {
			return rows[from+i]
		}
		return still(last)
	}), nil
}
