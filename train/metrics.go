package train

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// point is one line of metrics.jsonl.
type point struct {
	Step             int      `json:"step"`
	Loss             float64  `json:"loss,omitempty"`      // mean since the line before
	GradNorm         float64  `json:"grad_norm,omitempty"` // mean, before clipping
	Rate             float64  `json:"rate,omitempty"`
	Epoch            float64  `json:"epoch,omitempty"`
	SamplesPerSecond float64  `json:"samples_per_second,omitempty"`
	LoaderWaitS      float64  `json:"loader_wait_s,omitempty"` // total so far
	LoaderShare      float64  `json:"loader_share,omitempty"`  // of the time since the line before in which the step waited for its batch
	ClipShare        float64  `json:"clip_share,omitempty"`    // of normalised numbers so far
	TFLOPS           float64  `json:"tflops,omitempty"`        // of the training's own operations, forward and backward, in a second
	MFU              float64  `json:"mfu,omitempty"`           // their share of what the devices reach; absent where that is not known
	ValLoss          *float64 `json:"val_loss,omitempty"`
	Replay           *Replay  `json:"replay,omitempty"` // of held-out episodes, where the policy has two hands
}

// meter averages loss and gradient norm between log lines.
type meter struct {
	sum, norm float64
	n         int
	since     time.Time
	waited    time.Duration // for the loader, in total, at since
	last      float64
}

func newMeter(now time.Time) *meter { return &meter{since: now} }

func (m *meter) add(loss, norm float64) {
	m.sum += loss
	m.norm += norm
	m.n++
	m.last = m.sum / float64(m.n)
}

func (m *meter) loss() float64 { return m.last }

func (m *meter) take(now time.Time, step, batch int, waited time.Duration) point {
	n := float64(max(m.n, 1))
	p := point{Step: step, Loss: m.sum / n, GradNorm: m.norm / n, LoaderWaitS: waited.Seconds()}
	if d := now.Sub(m.since).Seconds(); d > 0 {
		p.SamplesPerSecond = float64(m.n*batch) / d
		p.LoaderShare = (waited - m.waited).Seconds() / d
	}
	*m = meter{since: now, waited: waited, last: m.last}
	return p
}

// openMetrics opens metrics.jsonl. A resumed run first drops the lines of steps after its checkpoint, which are made again.
func (t *trainer) openMetrics() error {
	path := filepath.Join(t.cfg.Out, "metrics.jsonl")
	kept, err := readPoints(path, t.steps)
	if err != nil {
		return err
	}
	t.curve = kept
	t.result.Loss, t.result.ValLoss = lastLosses(kept)
	err = atomicfile.Write(atomicfile.OS, path, 0o644, func(w io.Writer) error {
		for _, p := range kept {
			if err := json.NewEncoder(w).Encode(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if t.metrics, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	t.events, err = newEvents(filepath.Join(t.cfg.Out, "tensorboard"), t.Now(), t.steps)
	return err
}

// lastLosses are the newest training and validation loss of a curve, NaN where it has none.
func lastLosses(curve []point) (loss, val float64) {
	loss, val = math.NaN(), math.NaN()
	for _, p := range curve {
		if p.ValLoss != nil {
			val = *p.ValLoss
		} else {
			loss = p.Loss
		}
	}
	return loss, val
}

// readPoints reads the lines up to a step; a cut last line is ignored.
func readPoints(path string, upTo int) ([]point, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []point
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var p point
		if json.Unmarshal(lines.Bytes(), &p) == nil && p.Step <= upTo {
			out = append(out, p)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return out, nil
}

func (t *trainer) write(p point) error {
	t.curve = append(t.curve, p)
	if err := t.events.scalars(t.Now(), p.Step, p.scalars()); err != nil {
		return err
	}
	if err := json.NewEncoder(t.metrics).Encode(p); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	attrs := []any{"step", p.Step, "loss", p.Loss, "samples_per_second", int(p.SamplesPerSecond)}
	if p.ValLoss != nil {
		attrs = []any{"step", p.Step, "val_loss", *p.ValLoss}
	}
	t.Logger.Info("train", attrs...)
	return nil
}

// draw writes the loss curve as loss.png and loss.svg.
func (t *trainer) draw() error {
	var train, val plotter.XYs
	for _, p := range t.curve {
		if p.ValLoss != nil {
			val = append(val, plotter.XY{X: float64(p.Step), Y: *p.ValLoss})
		} else {
			train = append(train, plotter.XY{X: float64(p.Step), Y: p.Loss})
		}
	}
	chart := plot.New()
	chart.Title.Text = "flow-matching loss"
	chart.X.Label.Text = "step"
	chart.Y.Label.Text = "mean squared error of the velocity"
	chart.Y.Min = 0
	chart.Add(plotter.NewGrid())
	var lines []any
	if len(train) > 0 {
		lines = append(lines, "training", train)
	}
	if len(val) > 0 {
		lines = append(lines, "validation, averaged weights", val)
	}
	if err := plotutil.AddLines(chart, lines...); err != nil {
		return fmt.Errorf("draw loss curve: %w", err)
	}
	for _, format := range []string{"png", "svg"} {
		picture, err := chart.WriterTo(20*vg.Centimeter, 12*vg.Centimeter, format)
		if err != nil {
			return fmt.Errorf("draw loss curve: %w", err)
		}
		err = atomicfile.Write(atomicfile.OS, filepath.Join(t.cfg.Out, "loss."+format), 0o644, func(w io.Writer) error {
			_, err := picture.WriteTo(w)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
