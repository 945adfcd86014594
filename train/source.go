package train

import (
	"context"
	"fmt"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
)

// source is where examples come from: a dataset held in memory (corpus) or a mixture of datasets that is read as it goes (stream).
// Safe for concurrent use.
type source interface {
	// samples is the length of an epoch.
	samples() int
	// training gives the examples of samples first to first+n-1 of the endless shuffled sequence.
	training(ctx context.Context, first, n int) ([]example, error)
	// shown says how many of at most n examples there are for validation and reports; heldOut is false where nothing was held out and
	// training examples stand in.
	shown(n int) (count int, heldOut bool)
	// show gives examples from to to-1 of the n that shown counted.
	show(ctx context.Context, n, from, to int) ([]example, error)
	// replayed gives at most n held-out examples from which chunks are replayed: rows at a distance of every in their episodes, where the source
	// can choose, else those of show.
	replayed(ctx context.Context, every, n int) ([]example, error)
	// fit measures the statistics of the training examples.
	fit(ctx context.Context, spec policy.Spec, rule policy.Rot6DRule) (policy.Stats, error)
	// numbers visits at most n training examples at equal distances, without their pictures.
	numbers(ctx context.Context, n int, visit func(example) error) error
	Close() error
}

// origin says where an example comes from.
type origin struct {
	Dataset string `json:"dataset"`
	Episode int    `json:"episode"`
	Row     int    `json:"row"` // of the episode
}

func (o origin) String() string { return fmt.Sprintf("episode %d, row %d", o.Episode, o.Row) }

// example is one observation and what followed it.
type example struct {
	origin
	key    uint64      // seeds the draws of validation
	images [][]byte    // per camera, then moment, in the Spec's geometry; not to be changed
	rows   policy.Rows // numbers around the observation; steps that must not be seen are outside
	prompt string
}

// observation is the example as a policy sees it.
func (e example) observation(s policy.Spec) (policy.Observation, error) {
	past := make([]policy.Observation, max(s.Frames, 1))
	for f := range past {
		o := policy.Observation{Images: map[string]imaging.RGB{}, Values: map[string][]float64{}, Prompt: e.prompt}
		for i, c := range s.Cameras {
			o.Images[c.Feature] = imaging.RGB{Width: c.Geometry.Width, Height: c.Geometry.Height, Pix: e.images[i*len(past)+f]}
		}
		for _, c := range s.Columns() {
			v, err := e.value(c, s.FrameRow(f))
			if err != nil {
				return o, fmt.Errorf("%v: %w", e.origin, err)
			}
			if v != nil {
				o.Values[c.Feature] = v
			}
		}
		past[f] = o
	}
	past[0].Past = past[1:]
	return past[0], nil
}

// value gives a column at a row, or the nearest row after it that lies in the episode; nil where the example does not carry it.
func (e example) value(c policy.Column, row int) ([]float64, error) {
	for ; row <= 0; row++ {
		v, inside, err := e.rows.At(c.Feature, c.Dim, row)
		if err != nil || inside {
			return v, err
		}
	}
	return nil, nil
}
