package sim

import (
	"fmt"
	"iter"
	"math"

	"github.com/pinch-robotics/pinch/frames"
)

// HandheldConfig says how fast the devices of the handheld rig sample. Zero fields take the defaults; a negative rate switches
// the device off.
type HandheldConfig struct {
	WristHz   float64 // default 30
	CenterHz  float64 // default 10
	EncoderHz float64 // default 190, as the firmware's 5 ms sleep and its work give
	TrackerHz float64 // default 72

	TrackerNoiseM   float64 // standard deviation per axis, default 0.00015
	TrackerNoiseRad float64 // standard deviation per axis, default 0.0008
	Mistakes        bool    // some episodes hold a rejected first attempt or end in a cancel
}

func (c HandheldConfig) withDefaults() (HandheldConfig, error) {
	for _, f := range []struct {
		name  string
		value *float64
		init  float64
	}{
		{"wrist camera rate", &c.WristHz, 30}, {"centre camera rate", &c.CenterHz, 10},
		{"encoder rate", &c.EncoderHz, 190}, {"tracker rate", &c.TrackerHz, 72},
		{"tracker noise (m)", &c.TrackerNoiseM, 0.00015}, {"tracker noise (rad)", &c.TrackerNoiseRad, 0.0008},
	} {
		if *f.value == 0 {
			*f.value = f.init
		}
		if math.IsNaN(*f.value) || *f.value > 1000 {
			return c, fmt.Errorf("simulated rig: %s %v, want at most 1000", f.name, *f.value)
		}
	}
	return c, nil
}

// Handheld is the handheld rig in motion: a demonstrator with two grippers, a tracker, encoders, cameras and a pedal. One
// goroutine at a time.
type Handheld struct {
	cell    *Cell
	cfg     HandheldConfig
	outcome Outcome
}

// NewHandheld puts a demonstrator into a cell of ModeHandheld. The cell is the caller's to close, and only Episode may move it.
func NewHandheld(cell *Cell, cfg HandheldConfig) (*Handheld, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if cell.Mode() != ModeHandheld {
		return nil, fmt.Errorf("simulated rig: the cell is in mode %s, want %s", cell.Mode(), ModeHandheld)
	}
	return &Handheld{cell: cell, cfg: cfg}, nil
}

// Outcome is what happened in an episode, by simulator truth.
type Outcome struct {
	Condition Condition
	Progress  Progress
	Start     frames.DeviceTime // first press
	End       frames.DeviceTime // last press
	Success   bool              // all four milestones, and the block rests on the tray at the end
}

// Outcome tells how the last episode that ran to its end went.
func (h *Handheld) Outcome() Outcome { return h.outcome }

// controlTicks is the demonstrator's period, 2 ms; truth is judged every truthTicks; an episode that takes longer than
// episodeLimit is broken off.
const (
	controlTicks = 2
	truthTicks   = 10
	episodeLimit = 30e9 // ns
)

// Episode resets the cell to the condition and yields everything the devices measure, from a quarter second before the first
// pedal press until a third of a second after the last, advancing the cell as it goes. Stopping the loop early ends the episode.
// The errors are those of Reset, Advance and rendering; the sequence ends with the first.
func (h *Handheld) Episode(cond Condition) iter.Seq2[Sample, error] {
	return func(yield func(Sample, error) bool) {
		if err := h.cell.Reset(cond); err != nil {
			yield(Sample{}, err)
			return
		}
		e := &episode{
			Handheld: h, out: outbox{yield: yield, ahead: 2 * h.cell.cfg.RenderThreads},
			devices: newDevices(h.cfg, cond, h.cell.now),
			person:  NewDemonstrator(cond, h.cfg.Mistakes),
			result:  Outcome{Condition: cond},
		}
		if err := e.run(); err != nil {
			e.out.drop()
			yield(Sample{}, err)
			return
		}
		if e.out.flush(0) {
			h.outcome = e.result
		}
	}
}

// episode is one run of the rig.
type episode struct {
	*Handheld
	out     outbox
	devices *devices
	person  *Demonstrator
	result  Outcome
	release []PedalButton // pressed buttons that come up at releaseAt
	upAt    frames.DeviceTime
}

func (e *episode) run() error {
	began := e.cell.now
	for {
		cmd := e.person.Next(e.cell.View(), controlTicks*TickNS*1e-9)
		for _, s := range Sides {
			e.cell.SetHand(s, cmd.Hands[s])
			e.cell.SetGripper(s, cmd.FingerRad[s])
		}
		for range controlTicks {
			e.devices.sample(e.cell, &e.out)
			if err := e.cell.Advance(e.cell.now + TickNS); err != nil {
				return err
			}
		}
		e.pedal(cmd.Pressed)
		if (e.cell.now/TickNS)%truthTicks == 0 {
			e.result.Progress.Update(e.cell.Truth())
		}
		if cmd.Done {
			e.result.Success = e.result.Progress.Done == 4 && e.cell.Truth().Milestones().Placed
			return nil
		}
		if e.cell.now.Sub(began) > episodeLimit {
			return nil // no success; the demonstrator is lost
		}
		if !e.out.flush(e.out.ahead) {
			return nil
		}
	}
}

// pressTime is how long a pedal stays down.
const pressTime = 120 * 1_000_000

func (e *episode) pedal(pressed []PedalButton) {
	now := e.cell.now
	if len(e.release) > 0 && now >= e.upAt {
		for _, b := range e.release {
			e.out.put(Sample{Time: now, Pedal: &PedalEvent{Button: b}}, nil)
		}
		e.release = nil
	}
	for _, b := range pressed {
		if e.result.Start == 0 {
			e.result.Start = now
		}
		e.result.End = now
		e.out.put(Sample{Time: now, Pedal: &PedalEvent{Button: b, Down: true}}, nil)
		e.release, e.upAt = append(e.release, b), now+pressTime
	}
}
