package sim

import (
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
)

// Truth is the state of the scene at one instant, as only the simulator knows it. Poses are in the cell frame.
type Truth struct {
	Time       frames.DeviceTime
	Block      frames.Pose    // centre of the block, +Z its upper side
	Tray       frames.Pose    // centre of the tray's plate on the table (z = 0)
	Hands      [2]frames.Pose // cellFromHandRoot
	FingerRad  [2]float64     // finger angles, 0 closed
	Tips       [2]r3.Vec      // midpoint between the finger tips
	BlockSpeed float64        // m/s, plus the angular speed times the block's half height
	Held       [2]bool        // both pads of that hand touch the block
	Touched    [2]bool        // anything of that hand touches the block
	OnTray     bool           // block touches the tray
	OnTable    bool           // block touches the table
	Collision  bool           // a hand or an arm touches the table, the tray or the other arm
}

// Milestones are the four facts a trial is scored by, each true or false at one instant.
type Milestones struct {
	Reached bool // the right hand's fingertip centre is within ReachRadius of the block's centre
	Lifted  bool // the block is held by the right hand, more than LiftHeight above its rest on the table
	Carried bool // the held block's centre is above the tray's inner square, LiftHeight/2 or more above its rest there
	Placed  bool // the block rests upright on the tray, released
}

// The limits of the milestones. A blind hand that replays another episode's path over the 18 x 18 cm pick area comes within
// ReachRadius of the block's centre about once in sixteen times (pi 0.025^2 / 0.18^2).
const (
	ReachRadius  = 0.025 // m
	LiftHeight   = 0.040 // m
	restSpeed    = 0.02  // m/s
	uprightLimit = 0.985 // cosine of 10 degrees
)

// Milestones judges the instant.
func (t Truth) Milestones() Milestones {
	up := t.Block.Rot.Rotate(r3.Vec{Z: 1})
	over := t.overTray()
	rise := t.Block.Pos.Z - BlockHalfHeight
	return Milestones{
		Reached: r3.Norm(r3.Sub(t.Tips[Right], t.Block.Pos)) < ReachRadius,
		Lifted:  t.Held[Right] && rise > LiftHeight,
		Carried: t.Held[Right] && over && rise > trayFloor+LiftHeight/2,
		Placed: over && t.OnTray && !t.Touched[Left] && !t.Touched[Right] && up.Z > uprightLimit &&
			t.BlockSpeed < restSpeed && math.Abs(t.Block.Pos.Z-trayFloor-BlockHalfHeight) < 0.006,
	}
}

// overTray tells whether the block's centre is above the tray's inner square.
func (t Truth) overTray() bool {
	p := t.Tray.Inv().Apply(t.Block.Pos)
	return math.Abs(p.X) < trayInnerHalf && math.Abs(p.Y) < trayInnerHalf
}

// Progress holds how far an episode has come: milestones count in order, each once.
type Progress struct {
	Done  int                  // milestones reached so far, 0 to 4
	Times [4]frames.DeviceTime // when each was reached
}

// Update judges one more instant. Placed counts only for a block that was lifted and carried, so a push onto the tray is none.
func (p *Progress) Update(t Truth) {
	m := t.Milestones()
	for facts := [4]bool{m.Reached, m.Lifted, m.Carried, m.Placed}; p.Done < 4 && facts[p.Done]; p.Done++ {
		p.Times[p.Done] = t.Time
	}
}

// The two subtasks and their prompts; milestones 1 and 2 belong to the first, 3 and 4 to the second.
var Prompts = [2]string{"pick up the block", "put the block on the tray"}
