package deploy

import (
	"context"
	"fmt"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
)

// Checkpoint serves a trained policy of this project. Safe for concurrent use: calls wait for each other.
type Checkpoint struct {
	policy   *policy.Policy
	contract Contract
}

// LoadCheckpoint reads a checkpoint folder (or a run folder, whose latest checkpoint it takes) and warms it up.
func LoadCheckpoint(dir string, o policy.Options) (*Checkpoint, error) {
	p, err := policy.Load(dir, o)
	if err != nil {
		return nil, err
	}
	c, err := NewCheckpoint(p)
	if err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
	}
	return c, nil
}

// NewCheckpoint wraps a loaded policy. It refuses one whose inputs or answers are not those of the UMI Arena contract.
func NewCheckpoint(p *policy.Policy) (*Checkpoint, error) {
	m := p.Manifest()
	c := Contract{RateHz: m.Action.RateHz, Horizon: m.Spec.Horizon, PoseReference: Reference(m.Action.PoseReference),
		PoseTiming: Timing(m.Action.PoseTiming), Checkpoint: m.Checkpoint, Prompts: m.Data.Prompts}
	if m.Action.Dim != ActionColumns || m.Spec.Horizon < MinRows {
		return nil, fmt.Errorf("answers are %d rows of %d columns, arms need at least %d of %d; it was trained for another robot",
			m.Spec.Horizon, m.Action.Dim, MinRows, ActionColumns)
	}
	cameras := map[string]bool{KeyImageLeft: false, KeyImageRight: false}
	for _, cam := range m.Spec.Cameras {
		if _, known := cameras[cam.Feature]; !known {
			return nil, fmt.Errorf("it needs image %q, a cell has %q and %q", cam.Feature, KeyImageLeft, KeyImageRight)
		}
		cameras[cam.Feature] = true
	}
	if _, err := ReadContract(c.Map(), nil); err != nil {
		return nil, err
	}
	return &Checkpoint{policy: p, contract: c}, nil
}

// Metadata implements Policy.
func (c *Checkpoint) Metadata() map[string]any { return c.contract.Map() }

// Reset implements Resetter.
func (c *Checkpoint) Reset() { c.policy.Reset() }

// Infer implements Policy.
func (c *Checkpoint) Infer(_ context.Context, obs Observation) (Chunk, error) {
	rel := obs.LeftFromRight.ArrayXYZXYZW()
	o := policy.Observation{
		Images: map[string]imaging.RGB{},
		Values: map[string][]float64{KeyRelative: rel[:], KeyJointStates: obs.FingerRad[:]},
		Prompt: obs.Prompt,
	}
	for _, cam := range c.policy.Manifest().Spec.Cameras {
		o.Images[cam.Feature] = map[string]imaging.RGB{KeyImageLeft: obs.Left, KeyImageRight: obs.Right}[cam.Feature]
	}
	a, err := c.policy.Infer(o)
	if err != nil {
		return Chunk{}, err
	}
	return Chunk{Rows: a.Steps, Cols: a.Dim, Data: a.Values}, nil
}
