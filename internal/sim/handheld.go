package sim

import (
	"iter"

	"github.com/pinch-robotics/pinch/frames"
)

// HandheldConfig says how fast the devices of the handheld rig sample. Zero fields take the defaults; a negative rate switches
// the device off.
type HandheldConfig struct {
	WristHz   float64 // default 30
	CenterHz  float64 // default 10
	EncoderHz float64 // default 190, as the firmware's 5 ms sleep and its work give
	TrackerHz float64 // default 72

	TrackerNoiseM   float64 // standard deviation per axis, default 0.15 mm
	TrackerNoiseRad float64 // standard deviation per axis, default 0.0008
	Mistakes        bool    // some episodes hold a rejected first attempt or end in a cancel
}

// Handheld is the handheld rig in motion: a demonstrator with two grippers, a tracker, encoders, cameras and a pedal.
type Handheld struct {
	cell *Cell
	cfg  HandheldConfig
}

// NewHandheld puts a demonstrator into a cell of ModeHandheld.
func NewHandheld(cell *Cell, cfg HandheldConfig) (*Handheld, error) { return nil, ErrNotBuilt }

// Episode resets the cell to the condition and yields everything the devices measure from half a second before the first
// pedal press until half a second after the last, advancing the cell as it goes. Stopping the loop early ends the episode.
func (h *Handheld) Episode(cond Condition) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {}
}

// Outcome tells how the last episode that ran to its end went.
func (h *Handheld) Outcome() Outcome { return Outcome{} }

// Outcome is what happened in an episode, by simulator truth.
type Outcome struct {
	Condition Condition
	Progress  Progress
	Start     frames.DeviceTime // first accept press
	End       frames.DeviceTime // last press
	Success   bool              // all four milestones, and the block rests on the tray at the end
}
