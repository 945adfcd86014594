package robotmodel

import "math"

// Gripper is the two-finger hand that demonstrator and arm share. Both fingers turn about hand_root's -Z by the same angle, the left one
// mirrored; the angle of the right finger joint is "the finger angle" everywhere. Lengths in metres, angles in radians.
type Gripper struct {
	HandFromCamera      Transform // wrist camera link
	RightPivot          Vec       // axis of the right finger in hand_root; the left one is mirrored in y
	TipFromPivot        Vec       // right fingertip in the right finger's frame; the left one is mirrored in y
	PadFromPivot        Vec       // inner corner of the right pad at its end, likewise: the lowest point of an open finger
	ClosedRad, OpenRad  float64   // range of the finger angle
	MaxRate             float64   // rad/s
	MaxAcceleration     float64   // rad/s²
	MaxJerk             float64   // rad/s³
	BodyMassKG          float64   // palm, servo and camera
	FingerMassKG        float64   // each
	PalmRadius, PalmLen float64   // capsule around palm and servo: radius and half length along X, about PalmCenter
	PalmCenter          Vec       // in hand_root
	FingerRadius        float64   // capsule around each finger, pivot to tip
}

// YUBI returns the gripper of the YUBI rig on a robot flange.
// Source: geometry and range from the rig's URDF; the rate from the XM430-W350 servo (46 rpm without load, 4.8
// rad/s at the joint) with a third held back; masses and the capsules are our estimates for dynamics and collision checks.
func YUBI() Gripper {
	return Gripper{
		HandFromCamera:  Translation(0, 0, 0.0426),
		RightPivot:      Vec{-0.016, -0.015, 0},
		TipFromPivot:    Vec{0.10943, -0.014, 0},
		PadFromPivot:    Vec{0.10943, 0.0145, 0}, // half a millimetre from the middle when closed
		ClosedRad:       0,
		OpenRad:         0.94,
		MaxRate:         3.2,
		MaxAcceleration: 60,
		MaxJerk:         20000,
		BodyMassKG:      0.45,
		FingerMassKG:    0.04,
		PalmCenter:      Vec{-0.055, 0, 0.005},
		PalmLen:         0.035,
		PalmRadius:      0.045,
		FingerRadius:    0.012,
	}
}

// Tips returns the fingertip positions in hand_root for a finger angle (rad): right, left.
func (g *Gripper) Tips(angle float64) (right, left Vec) { return g.onFingers(g.TipFromPivot, angle) }

// Pads returns the inner corners of both pads at their ends in hand_root for a finger angle (rad): right, left.
func (g *Gripper) Pads(angle float64) (right, left Vec) { return g.onFingers(g.PadFromPivot, angle) }

func (g *Gripper) onFingers(fromPivot Vec, angle float64) (right, left Vec) {
	turn := axis(2, -angle) // a positive angle turns the right finger about -Z, outwards
	v := turn.Rotate(fromPivot)
	right = Vec{g.RightPivot[0] + v[0], g.RightPivot[1] + v[1], g.RightPivot[2] + v[2]}
	return right, Vec{right[0], -right[1], right[2]}
}

// FlangeFromHand returns the default mount of the gripper on an FR3 flange: hand +X along flange +Z (fingers point out of the flange),
// hand +Z (camera side) along flange +X turned by 45° so that at q7 = pi/4 the camera looks from the arm's front; the palm reaches back
// 0.09 m to the flange face.
func FlangeFromHand() Transform {
	// Columns of R are hand_root's axes in the flange frame turned by -45°: X = z, Y = -y, Z = x.
	turned := Transform{R: [9]float64{
		0, 0, 1,
		0, -1, 0,
		1, 0, 0,
	}, P: Vec{0, 0, 0.1}}
	return axis(2, -math.Pi/4).Mul(turned)
}
