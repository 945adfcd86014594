package score

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/quantile"
)

// Hands is where both hands are at one row: poses of hand_root in any one frame that both episodes share, and finger angles (rad).
type Hands struct {
	Pose   [2]frames.Pose
	Finger [2]float64
}

// Scales that make the six replay errors comparable (UMI Arena evaluation, replay metrics): an error of one scale counts 1.
const (
	PositionScaleCM  = 2.0
	RotationScaleDeg = 5.0
	FingerScaleRad   = 0.05
)

// Speeds above which a row counts as moving.
const (
	movingMPerS   = 0.005
	movingRadPerS = 2 * math.Pi / 180
)

// channels is three errors for each of two hands.
const channels = 6

// Channel names one error, in the order of Replay.Channels.
var Channel = [channels]string{"left position cm", "left rotation deg", "left finger rad", "right position cm", "right rotation deg", "right finger rad"}

// ChannelError sums up one of the six errors over all scored rows.
type ChannelError struct {
	Mean float64 `json:"mean"`
	P95  float64 `json:"p95"`
	RMSE float64 `json:"rmse"`
}

// Replay is the open-loop score of an episode (UMI Arena evaluation, replay metrics). The reference scores 0 and within
// tolerance 1; `hold` (no motion) is the baseline to beat.
type Replay struct {
	Rows     int                    `json:"rows"`
	Channels [channels]ChannelError `json:"channels"`
	// NormalizedMSE is the mean over the six channels of (RMSE/scale)²; NormalizedRMSE its root.
	NormalizedMSE  float64 `json:"normalized_mse"`
	NormalizedRMSE float64 `json:"normalized_rmse"`
	// Within is the share of rows where all six errors are within their scale; WithinMoving the same over the rows where the
	// recorded hands move (any hand above 5 mm/s or 2 deg/s), 0 when MovingRows is 0.
	Within       float64 `json:"within_tolerance"`
	WithinMoving float64 `json:"within_tolerance_moving"`
	MovingRows   int     `json:"moving_rows"`
}

// ReplayScorer adds up windows of predicted against recorded motion. The zero value is ready.
type ReplayScorer struct {
	errs   [channels][]float64
	moving []bool
}

// Add scores one window: predicted and recorded hands at the same rows, stepSeconds apart; anchor is the recorded state before
// row 0, from which the prediction was composed. An error names the row that is not finite.
func (s *ReplayScorer) Add(anchor Hands, predicted, recorded []Hands, stepSeconds float64) error {
	if len(predicted) != len(recorded) || !(stepSeconds > 0) {
		return fmt.Errorf("replay window of %d predicted and %d recorded rows, %v s apart: want equal numbers and a positive time", len(predicted), len(recorded), stepSeconds)
	}
	before := anchor
	for i, p := range predicted {
		e := handErrors(p, recorded[i])
		for c, v := range e {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("replay window row %d: error %s is %v", i, Channel[c], v)
			}
		}
		for c, v := range e {
			s.errs[c] = append(s.errs[c], v)
		}
		s.moving = append(s.moving, moves(before, recorded[i], stepSeconds))
		before = recorded[i]
	}
	return nil
}

// handErrors are the six errors of one row in the units of Channel.
func handErrors(a, b Hands) (e [channels]float64) {
	for h := range 2 {
		metres, radians := a.Pose[h].Distance(b.Pose[h])
		e[3*h] = 100 * metres
		e[3*h+1] = radians * 180 / math.Pi
		e[3*h+2] = math.Abs(a.Finger[h] - b.Finger[h])
	}
	return e
}

func moves(a, b Hands, seconds float64) bool {
	for h := range 2 {
		metres, radians := a.Pose[h].Distance(b.Pose[h])
		if metres > movingMPerS*seconds || radians > movingRadPerS*seconds {
			return true
		}
	}
	return false
}

// Result sums up all rows so far; it fails when there is none.
func (s *ReplayScorer) Result() (Replay, error) {
	n := len(s.moving)
	if n == 0 {
		return Replay{}, fmt.Errorf("replay score: no row was scored")
	}
	out := Replay{Rows: n}
	scales := [channels]float64{PositionScaleCM, RotationScaleDeg, FingerScaleRad, PositionScaleCM, RotationScaleDeg, FingerScaleRad}
	for c := range s.errs {
		out.Channels[c] = sumUp(s.errs[c])
		ratio := out.Channels[c].RMSE / scales[c]
		out.NormalizedMSE += ratio * ratio / channels
	}
	out.NormalizedRMSE = math.Sqrt(out.NormalizedMSE)
	within, withinMoving := 0, 0
	for i, moving := range s.moving {
		ok := true
		for c := range s.errs {
			ok = ok && s.errs[c][i] <= scales[c]
		}
		if moving {
			out.MovingRows++
		}
		if ok {
			within++
			if moving {
				withinMoving++
			}
		}
	}
	out.Within = float64(within) / float64(n)
	if out.MovingRows > 0 {
		out.WithinMoving = float64(withinMoving) / float64(out.MovingRows)
	}
	return out, nil
}

func sumUp(values []float64) ChannelError {
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	sum, squares := 0.0, 0.0
	for _, v := range sorted {
		sum += v
		squares += v * v
	}
	n := float64(len(sorted))
	return ChannelError{Mean: sum / n, P95: quantile.Linear(sorted, 0.95), RMSE: math.Sqrt(squares / n)}
}

// Row is one row of an action chunk in the UMI Arena contract: the body-frame motion of each hand since the row before and the
// absolute finger angles (rad).
type Row struct {
	Motion [2]frames.Pose
	Finger [2]float64
}

// ParseRow reads the 16 numbers of a row: dx dy dz dqx dqy dqz dqw of the left hand, then of the right, then both finger angles.
// Quaternions may have any length from 1e-8 on; a row with a number that is not finite is refused.
func ParseRow(v []float64) (Row, error) {
	if len(v) != 16 {
		return Row{}, fmt.Errorf("action row has %d columns, want 16", len(v))
	}
	var r Row
	for h := range 2 {
		c := v[7*h : 7*h+7]
		p, err := frames.NewPose(r3.Vec{X: c[0], Y: c[1], Z: c[2]}, frames.Quat{X: c[3], Y: c[4], Z: c[5], W: c[6]})
		if err != nil {
			return Row{}, fmt.Errorf("action row, hand %d: %w", h, err)
		}
		r.Motion[h] = p
		if r.Finger[h] = v[14+h]; math.IsNaN(r.Finger[h]) || math.IsInf(r.Finger[h], 0) {
			return Row{}, fmt.Errorf("action row, finger %d is %v", h, r.Finger[h])
		}
	}
	return r, nil
}

// Integrate composes rows from an anchor: p += R·d, R = R·dR for each row. It returns the hands after each row.
func Integrate(anchor Hands, rows []Row) []Hands {
	out := make([]Hands, len(rows))
	at := anchor
	for i, r := range rows {
		for h := range 2 {
			at.Pose[h] = at.Pose[h].Mul(r.Motion[h])
			at.Finger[h] = r.Finger[h]
		}
		out[i] = at
	}
	return out
}
