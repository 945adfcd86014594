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
		PoseTiming: Timing(m.Action.PoseTiming), Checkpoint: m.Checkpoint, Prompts: m.Data.Prompts, Answer: AnswerForm(p.Answer()), Frames: max(m.Spec.Frames, 1),
		FrameInterval: float64(m.Spec.FrameStride) / float64(m.Spec.FPS), MaxPrefix: m.Architecture.MaxPrefix}
	for _, out := range m.Spec.Action {
		if out.Representation == policy.PoseRot6D { // absolute poses inside: it must know where the hands are, and knows no motions
			c.HandPoses, c.MaxPrefix = true, 0
		}
	}
	c.HandPoses = c.HandPoses || c.Answer == AnswerAbsolute
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
	o := c.moment(obs)
	o.Prompt = obs.Prompt
	if obs.Hands != nil {
		for h, key := range KeyHands {
			v := obs.Hands[h].ArrayXYZXYZW()
			o.Values[key] = v[:]
		}
	}
	for _, p := range obs.Past {
		o.Past = append(o.Past, c.moment(p))
	}
	var err error
	if o.Prefix, err = c.prefix(obs.Prefix); err != nil {
		return Chunk{}, err
	}
	a, err := c.policy.Infer(o)
	if err != nil {
		return Chunk{}, err
	}
	return Chunk{Rows: a.Steps, Cols: a.Dim, Data: a.Values}, nil
}

// moment is one moment of an observation in the policy's names.
func (c *Checkpoint) moment(obs Observation) policy.Observation {
	rel := obs.LeftFromRight.ArrayXYZXYZW()
	o := policy.Observation{
		Images: map[string]imaging.RGB{},
		Values: map[string][]float64{KeyRelative: rel[:], KeyJointStates: {obs.FingerRad[0], obs.FingerRad[1]}},
	}
	for _, cam := range c.policy.Manifest().Spec.Cameras {
		o.Images[cam.Feature] = map[string]imaging.RGB{KeyImageLeft: obs.Left, KeyImageRight: obs.Right}[cam.Feature]
	}
	return o
}

// prefix writes committed rows in the policy's form; the policy refuses more than it was trained with.
func (c *Checkpoint) prefix(rows []float32) ([]float64, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var steps [][]float64
	for k := 0; k+ActionColumns <= len(rows); k += ActionColumns {
		row := make([]float64, ActionColumns)
		for i := range row {
			row[i] = float64(rows[k+i])
		}
		steps = append(steps, row)
	}
	return c.policy.Manifest().Spec.PrefixOfSteps(steps)
}
