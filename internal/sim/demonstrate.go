package sim

import (
	"math"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// tip is the midpoint between the right hand's finger tips.
func (d *Demonstrator) tip(v View) r3Vec { return tipOf(v.Hands[Right], v.FingerRad[Right]) }

func tipOf(hand frames.Pose, fingerRad float64) r3Vec {
	g := robotmodel.YUBI()
	tip, _ := g.Tips(fingerRad)
	return hand.Apply(vec(tip[0], 0, tip[2]))
}

// reach brings the open hand over the block, turned to its nearer faces, and down around it: a funnel, low only where the hand is
// above the block, and as high as the block is far, so that the wrist camera keeps it in view.
func (d *Demonstrator) reach(v View, tip r3Vec, dt float64) (PedalButton, bool) {
	d.finger[Right] = approach(d.finger[Right], openAngle, d.style.closeRate*dt)
	// The wanted place of the tips when open; on closing they reach a little lower.
	goal := vec(v.Block.Pos.X, v.Block.Pos.Y, graspHeight+tipDrop)
	yaw := nearestFace(v.Block, v.Hands[Right])
	if d.style.miss {
		goal = add(goal, vec(0.06, 0, 0))
	}
	if !d.aim.dropped {
		goal, yaw = add(goal, d.aim.offset), yaw+d.aim.yaw
	}
	side := math.Hypot(goal.X-tip.X, goal.Y-tip.Y)
	turn := math.Abs(wrap(yaw - handYaw(v.Hands[Right])))
	clear := max(min(nearHeight, max(3*(side-0.007), 0.25*(turn-0.10))), min(hoverHeight, 1.6*(side-0.007)), 0)
	height := tip.Z - goal.Z
	if !d.aim.dropped && side < 0.012 && height < d.aim.dropAt {
		d.aim.dropped = true // seen from near, the aim was wrong
	}
	if !d.aim.dropped {
		clear = max(clear, d.aim.dropAt-0.01)
	}
	goal.Z += clear
	down := min(0.16, 0.05+1.6*max(0, height)) // slow at the end
	d.steer(v, goal, yaw, limits{speed: d.style.speed, up: down, turn: 1.0, gain: 5}, calm(height), dt)
	if d.aim.dropped && side < controlSlack && turn < 0.06 && math.Abs(height) < controlSlack {
		d.enter(closing)
	}
	return 0, false
}

// tipDrop is how much farther the finger tips reach when closed on the block than when open.
var tipDrop = func() float64 {
	g := robotmodel.YUBI()
	open, _ := g.Tips(openAngle)
	shut, _ := g.Tips(ContactAngle(BlockHalfWidth))
	return shut[0] - open[0]
}()

// calm is how much of the sway is left near the goal: a person takes care there.
func calm(height float64) float64 { return max(0.15, min(1, height/0.06)) }

// lift raises the held block straight up.
func (d *Demonstrator) lift(rise, dt float64) {
	goal := d.hands[Right].pose
	goal.Pos.Z += liftTo - rise
	d.hands[Right].toward(goal, limits{speed: 0.1, up: 0.7 * d.style.speed, turn: 0.5, gain: 5}, d.pausedSway(calm(rise)), dt)
}

// carry brings the held block over the tray and down onto it, again as a funnel.
func (d *Demonstrator) carry(v View, dt float64) {
	goal := v.Tray.Apply(d.style.placeAside)
	goal.Z = trayFloor + BlockHalfHeight + 0.002
	gap := sub(goal, v.Block.Pos)
	side := math.Hypot(gap.X, gap.Y)
	height := v.Block.Pos.Z - goal.Z
	goal.Z += min(carryRise, max(2.5*(side-0.010), 0))
	want := frames.Pose{Pos: add(d.hands[Right].pose.Pos, sub(goal, v.Block.Pos)), Rot: d.upright(handYaw(d.hands[Right].pose))}
	down := min(0.16, 0.05+1.6*max(0, height))
	l := limits{speed: d.style.speed * 1.15, up: down, turn: 0.5, gain: 4}
	d.glide(want, l, calm(height), dt)
	if side < 0.010 && math.Abs(height) < controlSlack {
		d.enter(opening)
	}
}

// leave raises the open hand off the placed block; the last press comes when it is clear.
func (d *Demonstrator) leave(tip r3Vec, dt float64) (PedalButton, bool) {
	goal := d.hands[Right].pose
	goal.Pos.Z += max(0, trayFloor+graspHeight+leaveRise+0.03-tip.Z)
	d.hands[Right].toward(goal, limits{speed: 0.1, up: 0.16, turn: 0.5, gain: 4}, d.pausedSway(0.3), dt)
	if tip.Z > trayFloor+graspHeight+leaveRise {
		d.enter(finished)
		return PedalAccept, true
	}
	return 0, false
}

// hold keeps the right hand where it is, coming to rest.
func (d *Demonstrator) hold(dt float64) {
	m := &d.hands[Right]
	m.toward(m.pose, limits{gain: 1}, r3Vec{}, dt)
}

// steer moves the right hand so that its finger tips go to a goal, fingers down, turned to yaw.
func (d *Demonstrator) steer(v View, goal r3Vec, yaw float64, l limits, unrest, dt float64) {
	want := frames.Pose{Rot: d.upright(yaw)}
	want.Pos = sub(goal, sub(tipOf(want, v.FingerRad[Right]), want.Pos))
	d.glide(want, l, unrest, dt)
}

// glide is toward with this episode's sway and pause.
func (d *Demonstrator) glide(want frames.Pose, l limits, unrest, dt float64) {
	if d.paused() {
		want, unrest = d.hands[Right].pose, 0.2*unrest
	}
	d.hands[Right].toward(want, l, d.pausedSway(unrest), dt)
}

func (d *Demonstrator) pausedSway(unrest float64) r3Vec {
	return d.sway[Right].scaled(d.style.swaySpeed * unrest)
}

func (d *Demonstrator) paused() bool {
	s := d.style
	return s.pauseFor > 0 && d.phase == s.pauseAt && d.since >= s.pauseAfter && d.since < s.pauseAfter+s.pauseFor
}

// upright is fingers down, turned by yaw about the cell's Z.
func (d *Demonstrator) upright(yaw float64) frames.Quat {
	return frames.QuatFromAxisAngle(vec(0, 0, 1), yaw).Mul(fingersDown)
}

// handYaw is the turn of a hand about the cell's Z: where its +Z, the camera side, points.
func handYaw(hand frames.Pose) float64 {
	z := hand.Rot.Rotate(vec(0, 0, 1))
	return math.Atan2(z.Y, z.X)
}

// nearestFace is the hand yaw that squares the pads to the block with the smaller turn from where the hand is now: the block
// looks the same every quarter turn.
func nearestFace(block, hand frames.Pose) float64 {
	x := block.Rot.Rotate(vec(1, 0, 0))
	at := handYaw(hand)
	off := math.Remainder(math.Atan2(x.Y, x.X)-at, math.Pi/2)
	return at + off
}

// wrap brings an angle to [-pi, pi].
func wrap(a float64) float64 { return math.Remainder(a, 2*math.Pi) }
