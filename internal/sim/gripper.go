package sim

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// The gripper's own shapes, beyond the rig's frames. The pads are soft: each gives way along its normal against a spring, as the
// YUBI's rubber fingers do. Hence an encoder reads a smaller angle than that of first contact while the hand squeezes, and an arm
// that commands the recorded angle squeezes as much.
const (
	padHalfLength    = 0.016
	padHalfThickness = 0.005
	padHalfWidth     = 0.014
	padMass          = 0.006
	padStiffness     = 1000.0 // N/m
	padTravel        = 0.012

	wristFovyDeg = 90 // the rig's lens is wider; a pinhole image wider than this wastes its pixels at the rim
)

// ContactAngle is the finger angle at which the pads' faces are parallel and touch a body of half width w (m), for the block's w.
// Solves y(q) = pivot - w for the pad's inner tip corner turning about the pivot.
func ContactAngle(w float64) float64 {
	g := robotmodel.YUBI()
	x, y := padTip(g)
	want := -w - g.RightPivot[1]
	// -x sin q + y cos q = want, with (x, y) = r (cos p, sin p): r sin(p - q) = want.
	r, p := math.Hypot(x, y), math.Atan2(y, x)
	return p - math.Asin(want/r)
}

// padTip is the inner corner of the right pad at its tip, in the right finger's frame.
func padTip(g robotmodel.Gripper) (x, y float64) { return g.PadFromPivot[0], g.PadFromPivot[1] }

// hand writes a gripper. A free hand has a free joint, a carried one is fixed to the body that is open.
func (w *writer) hand(s Side, at frames.Pose, free bool) {
	g := robotmodel.YUBI()
	contact := handContact(s)
	w.open("body", fmt.Sprintf(`name="%s_hand_root"`, s), poseAttrs(at))
	if free {
		w.line(`<freejoint name="%s_hand_root"/>`, s)
	}
	c := g.PalmCenter
	w.line(`<geom name="%s_palm" type="box" pos="%v %v %v" size="%v 0.034 0.024" mass="%v" material="palm" %s/>`, s, c[0], c[1], c[2], g.PalmLen, g.BodyMassKG, contact)
	// The camera's housing ends behind the lens, so that it never shows.
	cam := g.HandFromCamera.P
	w.line(`<geom type="box" pos="%v %v %v" size="0.012 0.014 0.012" mass="0" material="finger" %s/>`, cam[0]-0.013, cam[1], cam[2], noContact)
	// Image up is hand +Z, image right is hand -Y, the view goes along hand +X.
	w.line(`<camera name="%s" pos="%v %v %v" xyaxes="0 -1 0 0 0 1" fovy="%d"/>`, s, cam[0], cam[1], cam[2], wristFovyDeg)
	w.finger(s, "right", 1)
	w.finger(s, "left", -1)
	w.close("body")
}

// finger writes one finger; mirror is 1 for the right finger and -1 for the left, whose y is turned.
func (w *writer) finger(s Side, name string, mirror float64) {
	g := robotmodel.YUBI()
	contact := handContact(s)
	grip := ContactAngle(BlockHalfWidth)
	tx, ty := padTip(g)
	sg, cg := math.Sincos(grip)
	along, inward := vec(cg, mirror*sg, 0), vec(-sg, mirror*cg, 0)
	tip := vec(tx, mirror*ty, 0)
	pad := add(tip, add(scale(-padHalfLength, along), scale(-padHalfThickness, inward)))
	lo, hi := 0.0, g.OpenRad
	if mirror < 0 {
		lo, hi = -g.OpenRad, 0
	}
	p := g.RightPivot
	w.open("body", fmt.Sprintf(`name="%s_%s_finger_link"`, s, name), fmt.Sprintf(`pos="%v %v %v"`, p[0], mirror*p[1], p[2]))
	w.line(`<joint name="%s_%s_finger_joint" axis="0 0 -1" range="%v %v" armature="0.004" damping="0.02"/>`, s, name, lo, hi)
	// The finger's bar runs from the pivot to behind the pad, clear of its travel.
	end := add(pad, add(scale(-padHalfThickness-padTravel, inward), scale(0.012, along)))
	bar := scale(0.5, end)
	w.line(`<geom name="%s_%s_finger" type="box" pos="%s" euler="0 0 %v" size="%v 0.005 0.009" mass="%v" material="finger" %s/>`,
		s, name, text(bar), math.Atan2(end.Y, end.X), norm(end)/2, g.FingerMassKG-padMass, contact)
	w.open("body", fmt.Sprintf(`name="%s_%s_pad"`, s, name), fmt.Sprintf(`pos="%s"`, text(pad)), fmt.Sprintf(`euler="0 0 %v"`, mirror*grip))
	// Positive travel is outward, away from the other finger.
	w.line(`<joint name="%s_%s_pad" type="slide" axis="0 %v 0" range="0 %v" stiffness="%v" damping="4" armature="0.01"/>`, s, name, -mirror, padTravel, padStiffness)
	w.line(`<geom name="%s_%s_pad" type="box" size="%v %v %v" mass="%v" material="pad" priority="1" condim="4" friction="1.3 0.02 0.0001" solref="0.006 1" solimp="0.9 0.97 0.001" %s/>`,
		s, name, padHalfLength, padHalfThickness, padHalfWidth, padMass, contact)
	w.close("body")
	w.close("body")
}
