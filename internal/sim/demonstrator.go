package sim

import (
	"math"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/frames"
)

// View is what the demonstrator sees of the scene at one instant.
type View struct {
	Block, Tray frames.Pose
	Hands       [2]frames.Pose // where the hands really are
	FingerRad   [2]float64
}

// View reads the scene for a demonstrator; cheaper than Truth.
func (c *Cell) View() View {
	v := View{Block: c.eng.pose(c.block), Tray: c.eng.pose(c.tray)}
	for _, s := range Sides {
		v.Hands[s], v.FingerRad[s] = c.HandPose(s), c.GripperAngle(s)
	}
	return v
}

// Command is what the demonstrator wants next.
type Command struct {
	Hands     [2]frames.Pose // cellFromHandRoot
	FingerRad [2]float64
	Pressed   []PedalButton // buttons pressed at this instant
	Done      bool          // the episode is over
}

// Demonstrator is the scripted person. It steers by what it sees, not along a recorded path: each hand's velocity is a function of
// where hand, block and tray are, plus a slow random sway that it then has to correct. So what it does is learnable from the
// wrist images, and its demonstrations hold the way back from small errors. Speed, sway, first aim and pauses vary by episode.
//
// It holds no clock; Next is called at a fixed period.
type Demonstrator struct {
	rng   *rand.Rand
	style style
	phase phase
	t     float64 // s since the episode began
	since float64 // s since the phase began

	hands  [2]mover
	finger [2]float64
	sway   [2]sway
	aim    aim
	told   bool // the first subtask's end was pressed
}

// phase is what the right hand is doing.
type phase int

const (
	waiting phase = iota
	reaching
	closing
	lifting
	carrying
	opening
	leaving
	finished
)

// style is how this episode's person moves.
type style struct {
	speed      float64 // m/s, largest
	swaySpeed  float64 // m/s, standard deviation
	closeRate  float64 // rad/s
	gripRad    float64 // finger angle aimed at while holding
	placeAside r3Vec   // where on the tray, from its centre, m
	pauseAt    phase   // pauses once in this phase, waiting for none
	pauseAfter float64 // s into it
	pauseFor   float64 // s
	miss       bool    // closes beside the block first, rejects, tries again
	cancelAt   float64 // s, gives the episode up; 0 for never
}

// aim is an error of the first approach: a false offset that is noticed and dropped when the hand gets near.
type aim struct {
	offset  r3Vec
	yaw     float64
	dropAt  float64 // clearance over the grasp at which it is noticed, m
	dropped bool
}

// Numbers of the task's path, in metres of fingertip height and seconds.
const (
	graspHeight  = 0.0125 // fingertip over the table when closing, with room for the fingers' arc
	hoverHeight  = 0.140  // over the grasp while the hand is far from the block: from lower the wrist camera could lose it
	nearHeight   = 0.090  // over the grasp while the hand is not yet above the block
	liftTo       = 0.125  // block's rise that ends the lift
	carryRise    = 0.100  // block's rise over the tray while carrying
	pressRise    = 0.060  // block's rise at which the first subtask is done
	leaveRise    = 0.075  // rise of the open hand after the release
	openAngle    = 0.45
	settleTime   = 0.12
	controlSlack = 0.004 // m, close enough to close or open
)

// NewDemonstrator makes the person of a condition. With mistakes, about one episode in eight misses first and rejects, and one in
// sixteen is cancelled.
func NewDemonstrator(cond Condition, mistakes bool) *Demonstrator {
	rng := rand.New(rand.NewPCG(cond.Seed, 0xde30))
	between := func(lo, hi float64) float64 { return lo + (hi-lo)*rng.Float64() }
	d := &Demonstrator{rng: rng}
	d.style = style{
		speed: between(0.18, 0.27), swaySpeed: between(0.012, 0.028), closeRate: between(0.75, 1.1),
		gripRad:    ContactAngle(BlockHalfWidth) - between(0.075, 0.095),
		placeAside: vec(between(-0.008, 0.008), between(-0.008, 0.008), 0),
	}
	if rng.Float64() < 0.25 {
		d.style.pauseAt = []phase{reaching, carrying}[rng.IntN(2)]
		d.style.pauseAfter, d.style.pauseFor = between(0.3, 0.9), between(0.15, 0.4)
	}
	d.aim.dropped = true
	if rng.Float64() < 0.5 {
		turn := between(-math.Pi, math.Pi)
		s, c := math.Sincos(turn)
		d.aim = aim{offset: scale(between(0.015, 0.065), vec(c, s, 0)), yaw: between(-0.4, 0.4), dropAt: between(0.03, nearHeight-0.01)}
	}
	if draw := rng.Float64(); mistakes && draw < 1.0/8 {
		d.style.miss = true
	} else if mistakes && draw < 3.0/16 {
		d.style.cancelAt = between(1.5, 3)
	}
	for _, s := range Sides {
		d.hands[s].pose = cond.Hand(s).Pose()
		d.finger[s] = cond.Hand(s).Angle
	}
	return d
}

// startDelay is how long the hands stand before the first press, s.
const startDelay = 0.25

// Next moves the demonstrator on by dt seconds, seeing the scene as it is now.
func (d *Demonstrator) Next(v View, dt float64) Command {
	d.t += dt
	d.since += dt
	cmd := Command{}
	if d.phase == waiting && d.t >= startDelay {
		cmd.Pressed = append(cmd.Pressed, PedalAccept)
		d.enter(reaching)
	}
	if d.style.cancelAt > 0 && d.t >= d.style.cancelAt && d.phase != finished {
		cmd.Pressed = append(cmd.Pressed, PedalCancel)
		d.enter(finished)
	}
	for _, s := range Sides {
		d.sway[s].step(d.rng, dt)
	}
	d.moveLeft(v, dt)
	if pressed, ok := d.moveRight(v, dt); ok {
		cmd.Pressed = append(cmd.Pressed, pressed)
	}
	cmd.Hands = [2]frames.Pose{d.hands[Left].pose, d.hands[Right].pose}
	cmd.FingerRad = d.finger
	cmd.Done = d.phase == finished && d.since > 0.3
	return cmd
}

func (d *Demonstrator) enter(p phase) { d.phase, d.since = p, 0 }

// moveLeft keeps the left hand beside the tray, where its camera sees it.
func (d *Demonstrator) moveLeft(v View, dt float64) {
	if d.phase == waiting {
		return
	}
	want := frames.Pose{
		Pos: vec(v.Tray.Pos.X+leftBehindTray, v.Tray.Pos.Y+leftBesideTray, leftZ),
		Rot: fingersDown,
	}
	d.hands[Left].toward(want, limits{speed: 0.05, up: 0.05, turn: 0.15, gain: 1.5}, d.sway[Left].scaled(0.4*d.style.swaySpeed), dt)
	d.finger[Left] = approach(d.finger[Left], openAngle, 0.2*dt)
}

// moveRight runs the right hand's phases; it returns a button when one is pressed.
func (d *Demonstrator) moveRight(v View, dt float64) (PedalButton, bool) {
	tip := d.tip(v)
	rise := v.Block.Pos.Z - BlockHalfHeight
	switch d.phase {
	case reaching:
		return d.reach(v, tip, dt)
	case closing:
		d.hold(dt)
		d.finger[Right] = approach(d.finger[Right], d.style.gripRad, d.style.closeRate*dt)
		if d.finger[Right] != d.style.gripRad || d.since < settleTime {
			break
		}
		if d.style.miss {
			d.style.miss, d.aim.dropped = false, true
			d.enter(reaching)
			return PedalReject, true
		}
		d.enter(lifting)
	case lifting:
		d.lift(rise, dt)
		if rise > liftTo-0.025 {
			d.enter(carrying)
		}
		if rise >= pressRise && !d.told {
			d.told = true
			return PedalAccept, true
		}
	case carrying:
		d.carry(v, dt)
	case opening:
		d.hold(dt)
		d.finger[Right] = approach(d.finger[Right], openAngle, 1.2*d.style.closeRate*dt)
		if d.finger[Right] == openAngle {
			d.enter(leaving)
		}
	case leaving:
		return d.leave(tip, dt)
	default:
		d.hold(dt)
	}
	return 0, false
}
