package eval

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/score"
)

// OpenLoopOptions say what is replayed.
type OpenLoopOptions struct {
	Dataset  *dataset.Dataset
	Policy   deploy.Policy
	Episodes []int // nil: all that are present
	Progress func(done, total int)
}

// OpenLoopReport is how near a policy's chunks come to recorded motion when every chunk starts from the recorded pose (UMI Arena
// evaluation, replay metric). It needs no robot; a low error is necessary for a good policy, not sufficient.
type OpenLoopReport struct {
	Episodes []EpisodeError `json:"episodes"`
	// PolicyMSE and HoldMSE are normalised mean square errors, averaged over episodes, then over tasks; a policy that is not
	// clearly below hold has learned nothing.
	PolicyMSE float64 `json:"policy_mse"`
	HoldMSE   float64 `json:"hold_mse"`
}

// EpisodeError is one episode.
type EpisodeError struct {
	Episode int          `json:"episode"`
	Task    string       `json:"task"`
	Policy  score.Replay `json:"policy"`
	Hold    score.Replay `json:"hold"`
}

// chunkRows is how many rows of an answer the metric scores.
const chunkRows = 16

// OpenLoop replays episodes. The dataset's rate must be a whole multiple of the policy's. An answer that breaks the contract fails the
// run with the episode and the row.
func OpenLoop(ctx context.Context, o OpenLoopOptions) (*OpenLoopReport, error) {
	contract, err := deploy.ReadContract(o.Policy.Metadata(), nil)
	if err != nil {
		return nil, err
	}
	stride := int(float64(o.Dataset.Info().FPS)/contract.RateHz + 0.5)
	if stride < 1 || float64(stride)*contract.RateHz != float64(o.Dataset.Info().FPS) {
		return nil, fmt.Errorf("open loop: the dataset has %d rows per second, the policy %v; want a whole multiple", o.Dataset.Info().FPS, contract.RateHz)
	}
	if contract.PoseReference != deploy.ReferenceBody || contract.PoseTiming != deploy.TimingNext {
		return nil, fmt.Errorf("open loop: the policy's motions are %s and %s, want body and next", contract.PoseReference, contract.PoseTiming)
	}
	episodes := o.Episodes
	if episodes == nil {
		for _, ep := range o.Dataset.Episodes() {
			if o.Dataset.HasFiles(ep.Index) {
				episodes = append(episodes, ep.Index)
			}
		}
	}
	if len(episodes) == 0 {
		return nil, errors.New("open loop: the dataset has no episode whose files are present")
	}
	r := &OpenLoopReport{}
	for n, e := range episodes {
		result, err := openLoopEpisode(ctx, o, e, stride, 1/contract.RateHz)
		if err != nil {
			return nil, fmt.Errorf("open loop: %w", err)
		}
		r.Episodes = append(r.Episodes, result)
		if o.Progress != nil {
			o.Progress(n+1, len(episodes))
		}
	}
	r.aggregate()
	return r, nil
}

// aggregate averages with equal weight at each level: episodes of a task, then tasks.
func (r *OpenLoopReport) aggregate() {
	byTask := map[string][]EpisodeError{}
	for _, e := range r.Episodes {
		byTask[e.Task] = append(byTask[e.Task], e)
	}
	for _, task := range slices.Sorted(maps.Keys(byTask)) {
		share := 1 / float64(len(byTask)*len(byTask[task]))
		for _, e := range byTask[task] {
			r.PolicyMSE += share * e.Policy.NormalizedMSE
			r.HoldMSE += share * e.Hold.NormalizedMSE
		}
	}
}

func openLoopEpisode(ctx context.Context, o OpenLoopOptions, index, stride int, stepSeconds float64) (EpisodeError, error) {
	ep, err := o.Dataset.Episode(index)
	if err != nil {
		return EpisodeError{}, err
	}
	var demo deploy.Demonstration
	if err := appendEpisode(&demo, o.Dataset, ep); err != nil {
		return EpisodeError{}, err
	}
	cameras, err := openCameras(o.Dataset, index)
	if err != nil {
		return EpisodeError{}, err
	}
	defer cameras.close()
	out := EpisodeError{Episode: index, Task: ep.Tasks[0]}
	var policy, hold score.ReplayScorer
	for start := 0; start+stride < ep.Length; start += chunkRows * stride {
		anchor := handsAt(demo, start)
		var recorded []score.Hands
		for k := 1; k <= chunkRows && start+k*stride < ep.Length; k++ {
			recorded = append(recorded, handsAt(demo, start+k*stride))
		}
		rows, err := askAt(ctx, o.Policy, cameras, demo, start, out.Task)
		if err != nil {
			return out, fmt.Errorf("episode %d, row %d: %w", index, start, err)
		}
		if err := policy.Add(anchor, score.Integrate(anchor, rows)[:len(recorded)], recorded, stepSeconds); err != nil {
			return out, fmt.Errorf("episode %d, row %d: %w", index, start, err)
		}
		if err := hold.Add(anchor, slices.Repeat([]score.Hands{anchor}, len(recorded)), recorded, stepSeconds); err != nil {
			return out, fmt.Errorf("episode %d, row %d: %w", index, start, err)
		}
	}
	if out.Policy, err = policy.Result(); err != nil {
		return out, fmt.Errorf("episode %d: %w", index, err)
	}
	if out.Hold, err = hold.Result(); err != nil {
		return out, fmt.Errorf("episode %d: %w", index, err)
	}
	return out, nil
}

func handsAt(d deploy.Demonstration, row int) score.Hands {
	return score.Hands{Pose: d.Hands[row], Finger: d.FingerRad[row]}
}

// askAt asks the policy with what was recorded at a row and reads the first rows of its answer.
func askAt(ctx context.Context, p deploy.Policy, cameras *cameraPair, d deploy.Demonstration, row int, prompt string) ([]score.Row, error) {
	obs := deploy.Observation{LeftFromRight: d.Hands[row][0].Inv().Mul(d.Hands[row][1]), FingerRad: d.FingerRad[row], Prompt: prompt}
	var err error
	if obs.Left, err = cameras[0].at(row); err != nil {
		return nil, err
	}
	if obs.Right, err = cameras[1].at(row); err != nil {
		return nil, err
	}
	chunk, err := p.Infer(ctx, obs)
	if err != nil {
		return nil, err
	}
	if err := chunk.Check(); err != nil {
		return nil, err
	}
	rows := make([]score.Row, chunkRows)
	for k := range rows {
		v := make([]float64, deploy.ActionColumns)
		for c := range v {
			v[c] = float64(chunk.At(k, c))
		}
		if rows[k], err = score.ParseRow(v); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// cameraPair reads both wrist videos of one episode.
type cameraPair [2]*episodeVideo

type episodeVideo struct {
	reader *video.Reader
	first  int // frame of the file that shows row 0
}

func openCameras(d *dataset.Dataset, episode int) (*cameraPair, error) {
	var pair cameraPair
	for h, key := range []string{deploy.KeyImageLeft, deploy.KeyImageRight} {
		path, first, err := d.VideoFrame(episode, key)
		if err == nil {
			var r *video.Reader
			if r, err = video.Open(path, video.ReaderOptions{}); err == nil {
				pair[h] = &episodeVideo{r, first}
			}
		}
		if err != nil {
			pair.close()
			return nil, err
		}
	}
	return &pair, nil
}

func (v *episodeVideo) at(row int) (imaging.RGB, error) {
	img := imaging.NewRGB(v.reader.Size())
	return img, v.reader.Frame(v.first+row, img.Pix)
}

func (p *cameraPair) close() {
	for _, v := range p {
		if v != nil {
			v.reader.Close()
		}
	}
}

// WriteText prints a line for each episode and the averages.
func (r *OpenLoopReport) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "episode\ttask\trows\tpolicy\thold\twithin 2 cm, 5 deg, 0.05 rad")
	for _, e := range r.Episodes {
		fmt.Fprintf(tw, "%d\t%s\t%d\t%.3f\t%.3f\t%.0f %%\n", e.Episode, e.Task, e.Policy.Rows, e.Policy.NormalizedMSE, e.Hold.NormalizedMSE, 100*e.Policy.Within)
	}
	fmt.Fprintf(tw, "mean over tasks\t\t\t%.3f\t%.3f\t\n", r.PolicyMSE, r.HoldMSE)
	return tw.Flush()
}
