package sim

import (
	"fmt"
	"iter"
	"math"
	"math/rand/v2"

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

// outbox keeps samples in order while their images are still being rendered.
type outbox struct {
	yield   func(Sample, error) bool
	ahead   int // images that may be unfinished while the physics goes on
	queue   []queued
	images  int
	stopped bool
}

type queued struct {
	sample  Sample
	pending *Pending
}

func (o *outbox) put(s Sample, p *Pending) {
	o.queue = append(o.queue, queued{s, p})
	if p != nil {
		o.images++
	}
}

// flush yields samples until at most keep images are left in the queue; it says false when the loop was stopped or broke.
func (o *outbox) flush(keep int) bool {
	for len(o.queue) > 0 && !o.stopped {
		q := o.queue[0]
		if q.pending != nil {
			if o.images <= keep && keep > 0 {
				return true
			}
			f, err := q.pending.Wait()
			if err != nil {
				o.drop()
				o.yield(Sample{}, err)
				o.stopped = true
				return false
			}
			q.sample.Image = &f
			o.images--
		}
		o.queue = o.queue[1:]
		if !o.yield(q.sample, nil) {
			o.stopped = true
			o.drop()
		}
	}
	return !o.stopped
}

// drop waits for the images in work and forgets everything.
func (o *outbox) drop() {
	for _, q := range o.queue {
		if q.pending != nil {
			q.pending.Wait()
		}
	}
	o.queue, o.images = nil, 0
}

// devices are the rig's sensors: when each samples next, its noise, and where the tracker's origin is.
type devices struct {
	cfg        HandheldConfig
	rng        *rand.Rand
	originFrom frames.Pose // questOriginFromCell
	clocks     [4]pulse    // wrist, centre, encoder, tracker
}

// pulse is a device's own sampling grid: sample k is due at StartTime + k/rate, whenever the episode began.
type pulse struct {
	hz float64
	k  int64
}

func (p pulse) due() frames.DeviceTime { return StartTime + frames.DeviceTime(float64(p.k)*1e9/p.hz) }

func newDevices(cfg HandheldConfig, cond Condition, now frames.DeviceTime) *devices {
	d := &devices{cfg: cfg, rng: rand.New(rand.NewPCG(cond.Seed, 0xde71))}
	between := func(half float64) float64 { return half * (2*d.rng.Float64() - 1) }
	d.originFrom = frames.Pose{
		Pos: vec(between(0.5), between(0.5), 0.9+between(0.2)),
		Rot: frames.QuatFromAxisAngle(vec(0, 0, 1), between(math.Pi)),
	}.Inv()
	for i, hz := range [4]float64{cfg.WristHz, cfg.CenterHz, cfg.EncoderHz, cfg.TrackerHz} {
		d.clocks[i].hz = hz
		if hz > 0 {
			d.clocks[i].k = int64(math.Ceil(float64(now-StartTime) * hz / 1e9))
		}
	}
	return d
}

// sample takes every reading that is due at the cell's present tick. Stamps are the tick's time.
func (d *devices) sample(c *Cell, out *outbox) {
	for i := range d.clocks {
		p := &d.clocks[i]
		if p.hz <= 0 || p.due() > c.now {
			continue
		}
		p.k++
		switch i {
		case 0:
			for _, f := range c.Capture(Shot{Camera: LeftWrist, JPEG: true}, Shot{Camera: RightWrist, JPEG: true}) {
				out.put(Sample{Time: c.now}, f)
			}
		case 1:
			out.put(Sample{Time: c.now}, c.Capture(Shot{Camera: Center, RGB: true})[0])
		case 2:
			for _, s := range Sides {
				out.put(Sample{Time: c.now, Encoder: &EncoderReading{s, encoderRaw(s, c.GripperAngle(s))}}, nil)
			}
		case 3:
			out.put(Sample{Time: c.now, Tracker: d.track(c)}, nil)
		}
	}
}

// encoderCounts is the AS5601's resolution: 12 bits a turn.
const encoderCounts = 4096

// encoderRaw is the AS5601's reading at a finger angle: whole counts, falling as the finger opens.
func encoderRaw(s Side, fingerRad float64) float64 {
	const count = 2 * math.Pi / encoderCounts
	n := math.Round((EncoderClosedRaw[s] - fingerRad) / count)
	n = math.Mod(n, encoderCounts)
	if n < 0 {
		n += encoderCounts
	}
	return n * count
}

func (d *devices) track(c *Cell) *TrackerReading {
	r := &TrackerReading{Tracked: [2]bool{true, true}}
	noise := func(p frames.Pose) frames.Pose {
		g := func(sd float64) r3Vec {
			return scale(sd, vec(d.rng.NormFloat64(), d.rng.NormFloat64(), d.rng.NormFloat64()))
		}
		p.Pos = add(p.Pos, g(max(0, d.cfg.TrackerNoiseM)))
		p.Rot = p.Rot.Mul(frames.ExpSO3(g(max(0, d.cfg.TrackerNoiseRad)))).Canonical()
		return d.originFrom.Mul(p)
	}
	// The head looks at the table from behind it.
	r.HMD = noise(frames.Pose{Pos: vec(-0.45, 0, 0.55), Rot: frames.QuatFromRPY(0, 0.8, 0)})
	for _, s := range Sides {
		r.Hands[s] = noise(c.HandPose(s))
	}
	return r
}
