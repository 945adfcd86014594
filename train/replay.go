package train

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/score"
	"github.com/pinch-robotics/pinch/policy"
)

// Replay is the open-loop score of UMI Arena on held-out episodes: how near chunks come to recorded motion when each starts from the recorded
// pose. Normalised mean square errors, averaged over episodes, then over tasks; a policy that is not clearly below hold has learned nothing.
type Replay struct {
	Policy float64 `json:"policy"` // normalised mean square error
	Hold   float64 `json:"hold"`   // of hands that stay
	Within float64 `json:"within"` // share of rows with all six errors within 2 cm, 5 degrees and 0.05 rad
	Chunks int     `json:"chunks"`
}

// String is one line.
func (r Replay) String() string {
	return fmt.Sprintf("replay score on %d held-out chunks: %.3f, hold %.3f; %.0f %% of rows within 2 cm, 5 deg, 0.05 rad", r.Chunks, r.Policy, r.Hold, 100*r.Within)
}

// replayChunk is how many steps of an answer the score counts.
const replayChunk = 16

// start is where all motions are composed from: the errors are distances between two hands that started together, whatever the pose.
var start = score.Hands{Pose: [2]frames.Pose{frames.Identity, frames.Identity}}

// replayer scores the averaged weights.
type replayer struct {
	*maker
	ema    *policy.Params
	policy *policy.Policy // made at the first score
}

// score is nil where the policy does not move two hands, or nothing is held out.
func (r *replayer) score(ctx context.Context) (*Replay, error) {
	m := policy.NewManifest(r.spec, r.arch, r.stats)
	if r.cfg.ReplayRows == 0 || m.Action.Dim != 16 || m.Action.PoseReference != "body" {
		return nil, nil
	}
	examples, err := r.replayed(ctx, replayChunk*r.spec.Stride, r.cfg.ReplayRows)
	if err != nil || len(examples) == 0 {
		return nil, err
	}
	if r.policy == nil {
		r.policy, err = policy.New(m, r.ema, policy.Options{Seed: r.cfg.Seed, Threads: r.cfg.Threads, Engine: r.cfg.engine(), Words: r.words})
	} else {
		err = r.policy.Refresh()
	}
	if err != nil {
		return nil, fmt.Errorf("replay score: %w", err)
	}
	sums := replaySums{}
	for _, x := range examples {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := r.add(sums, x); err != nil {
			return nil, fmt.Errorf("replay score: %v: %w", x.origin, err)
		}
	}
	out, err := sums.result()
	if err != nil {
		return nil, fmt.Errorf("replay score: %w", err)
	}
	out.Chunks = len(examples)
	return out, nil
}

// add scores one chunk.
func (r *replayer) add(sums replaySums, x example) error {
	s := r.spec
	want, valid := make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	if err := s.EncodeTargetRows(want, valid, x.rows); err != nil {
		return err
	}
	n := 0 // steps leave the episode once and stay outside
	for n < min(len(valid), replayChunk) && valid[n] {
		n++
	}
	obs, err := x.observation(s)
	if err != nil {
		return err
	}
	r.fillInvalid(want, valid)
	if want, err = s.ChunkForm(want, obs.Values); err != nil {
		return err
	}
	got, err := r.policy.InferChunk(obs)
	if err != nil {
		return err
	}
	recorded, err := r.hands(want, n)
	if err != nil {
		return err
	}
	predicted, err := r.hands(got, n)
	if err != nil {
		return err
	}
	e := sums.of(x)
	if err := e.policy.Add(start, predicted, recorded, 1/s.RateHz()); err != nil {
		return err
	}
	still, ok := s.HoldChunk(obs.Values)
	if !ok {
		return fmt.Errorf("holding still is not defined for this spec")
	}
	held, err := r.hands(still, n)
	if err != nil {
		return err
	}
	return e.hold.Add(start, held, recorded, 1/s.RateHz())
}

// hands are both hands after the first n steps of a chunk in chunk form.
func (r *replayer) hands(chunk []float64, n int) ([]score.Hands, error) {
	steps, err := r.spec.StepDeltas(chunk)
	if err != nil {
		return nil, err
	}
	rows := make([]score.Row, n)
	for k := range rows {
		if rows[k], err = score.ParseRow(steps[k]); err != nil {
			return nil, fmt.Errorf("step %d: %w", k, err)
		}
	}
	return score.Integrate(start, rows), nil
}

// replaySums gathers errors by episode.
type replaySums map[origin]*replayEpisode

type replayEpisode struct {
	task         string
	policy, hold score.ReplayScorer
}

func (s replaySums) of(x example) *replayEpisode {
	key := origin{x.Dataset, x.Episode, 0}
	if s[key] == nil {
		s[key] = &replayEpisode{task: x.prompt}
	}
	return s[key]
}

// result averages with equal weight at each level: episodes of a task, then tasks.
func (s replaySums) result() (*Replay, error) {
	count := map[string]float64{}
	for _, e := range s {
		count[e.task]++
	}
	out := &Replay{}
	keys := slices.SortedFunc(maps.Keys(s), func(a, b origin) int { // sums in one order give the same bits
		if a.Dataset != b.Dataset {
			return slices.Compare([]byte(a.Dataset), []byte(b.Dataset))
		}
		return a.Episode - b.Episode
	})
	for _, k := range keys {
		e := s[k]
		p, err := e.policy.Result()
		if err != nil {
			return nil, err
		}
		h, err := e.hold.Result()
		if err != nil {
			return nil, err
		}
		share := 1 / (float64(len(count)) * count[e.task])
		out.Policy += share * p.NormalizedMSE
		out.Hold += share * h.NormalizedMSE
		out.Within += share * p.Within
	}
	return out, nil
}
