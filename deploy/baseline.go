package deploy

import (
	"context"
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/frames"
)

// baselineRows is the chunk length of the baselines.
const baselineRows = MinRows

// setRow writes the motion of both hands and the finger angles (rad).
func setRow(row []float32, left, right [7]float64, finger [2]float64) {
	for i := 0; i < 7; i++ {
		row[i], row[7+i] = float32(left[i]), float32(right[i])
	}
	row[14], row[15] = float32(finger[0]), float32(finger[1])
}

// Hold is the policy that stays where it is: identity motion, present finger angles.
type Hold struct{ RateHz float64 }

// Metadata implements Policy.
func (h Hold) Metadata() map[string]any { return baselineMetadata("hold", h.RateHz) }

// Infer implements Policy.
func (h Hold) Infer(_ context.Context, obs Observation) (Chunk, error) {
	c := Chunk{Rows: baselineRows, Cols: ActionColumns, Data: make([]float32, baselineRows*ActionColumns)}
	still := frames.Identity.ArrayXYZXYZW()
	for r := 0; r < c.Rows; r++ {
		setRow(c.Data[r*c.Cols:], still, still, obs.FingerRad)
	}
	return c, nil
}

func baselineMetadata(name string, rateHz float64) map[string]any {
	return Contract{RateHz: rateHz, Horizon: baselineRows, PoseReference: ReferenceBody, PoseTiming: TimingNext, Checkpoint: "baseline:" + name}.Map()
}

// Demonstration is one episode of hand poses and finger angles at a fixed rate. Poses may be in any one origin frame; only the motion
// between rows is used.
type Demonstration struct {
	RateHz    float64
	Hands     [][2]frames.Pose
	FingerRad [][2]float64
}

// Replay plays a demonstration open loop: the rows due at the policy time of the observation, from where the hands stand, whatever the scene
// looks like; it holds at the end. It has no state, so one value serves many trials.
type Replay struct{ demo Demonstration }

// NewReplay checks the demonstration.
func NewReplay(d Demonstration) (*Replay, error) {
	if len(d.Hands) < 2 || len(d.Hands) != len(d.FingerRad) {
		return nil, fmt.Errorf("replay: demonstration has %d poses and %d finger angles, want the same number, at least 2", len(d.Hands), len(d.FingerRad))
	}
	if d.RateHz < 1 {
		return nil, fmt.Errorf("replay: demonstration rate of %v Hz", d.RateHz)
	}
	for i, h := range d.Hands {
		if !h[0].Finite() || !h[1].Finite() {
			return nil, fmt.Errorf("replay: row %d has a pose that is not finite", i)
		}
	}
	return &Replay{demo: d}, nil
}

// Metadata implements Policy.
func (r *Replay) Metadata() map[string]any { return baselineMetadata("replay", r.demo.RateHz) }

// Infer implements Policy. The policy time lies between rows of the demonstration, so they are interpolated; else each chunk would begin up
// to half a row too early or late, and the hands would drift.
func (r *Replay) Infer(_ context.Context, obs Observation) (Chunk, error) {
	at := obs.Consumed.Seconds() * r.demo.RateHz
	c := Chunk{Rows: baselineRows, Cols: ActionColumns, Data: make([]float32, baselineRows*ActionColumns)}
	from := r.row(at)
	for k := 0; k < c.Rows; k++ {
		to := r.row(at + float64(k+1))
		var step [2][7]float64
		for h := range step {
			step[h] = from.pose[h].Inv().Mul(to.pose[h]).ArrayXYZXYZW()
		}
		setRow(c.Data[k*c.Cols:], step[0], step[1], to.finger)
		from = to
	}
	return c, nil
}

// row is the demonstration at a row number that need not be whole; it stands at both ends.
func (r *Replay) row(x float64) hands {
	last := len(r.demo.Hands) - 1
	x = math.Min(math.Max(x, 0), float64(last))
	i := min(int(x), last-1)
	a, b := hands{r.demo.Hands[i], r.demo.FingerRad[i]}, hands{r.demo.Hands[i+1], r.demo.FingerRad[i+1]}
	return mix(a, b, x-float64(i))
}

// Blank hides the images from a policy: the answer can then depend on state and prompt alone.
type Blank struct{ Policy Policy }

// Metadata implements Policy.
func (b Blank) Metadata() map[string]any { return b.Policy.Metadata() }

// Infer implements Policy; the wrapped policy sees black images of the same size.
func (b Blank) Infer(ctx context.Context, obs Observation) (Chunk, error) {
	obs.Left.Pix = make([]byte, len(obs.Left.Pix))
	obs.Right.Pix = make([]byte, len(obs.Right.Pix))
	return b.Policy.Infer(ctx, obs)
}

// Reset passes on.
func (b Blank) Reset() {
	if r, ok := b.Policy.(Resetter); ok {
		r.Reset()
	}
}
