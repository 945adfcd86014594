package sim

import "github.com/pinch-robotics/pinch/frames"

// Sample is one stamped reading of one device of the handheld rig. Exactly one of the pointers is set. Samples of an episode
// come in order of time; at equal times in the order image, encoder, tracker, pedal.
type Sample struct {
	Time    frames.DeviceTime // capture time, clock ClockName
	Image   *Frame            // JPEG of a wrist camera; RGB of the centre camera
	Encoder *EncoderReading
	Tracker *TrackerReading
	Pedal   *PedalEvent
}

// EncoderReading is what a hand's AS5601 reports: the raw angle in [0, 2 pi), in steps of 2 pi/4096, falling as the finger opens.
// Finger angle = wrap((raw - EncoderClosedRaw[side]) * -1).
type EncoderReading struct {
	Side   Side
	RawRad float64
}

// EncoderClosedRaw is the raw angle (rad) at closed fingers of the left and the right encoder: the number a calibration finds.
// The left one lies so that its reading wraps through zero when the hand opens.
var EncoderClosedRaw = [2]float64{0.25 + 1.0/4096, 4.10 + 1.0/4096}

// TrackerReading is one frame of the headset: poses in the frame quest_origin in the project's axes (X forward, Y left, Z up).
// quest_origin stands somewhere in the room, another place each episode's session seed; only relative poses mean anything.
type TrackerReading struct {
	HMD     frames.Pose
	Hands   [2]frames.Pose // questOriginFromHandRoot
	Tracked [2]bool
}

// PedalButton is a button of the foot pedal, numbered as in footpedal_states.
type PedalButton int

// The pedal's buttons (stationary rig).
const (
	PedalCancel PedalButton = 0
	PedalReject PedalButton = 1
	PedalAccept PedalButton = 2
)

// PedalEvent is one change of one button.
type PedalEvent struct {
	Button PedalButton
	Down   bool
}
