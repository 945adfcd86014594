package tracker

import (
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// Limits of a hand's motion between two frames: faster is a tracking jump. People reach about 3 m/s and 15 rad/s in manipulation; the
// base lets the noise of two frames that follow closely pass. (Reported jumps were up to 0.73 m between two frames with all
// flags true.)
const (
	jumpSpeedMPS   = 5.0
	jumpBaseM      = 0.02
	jumpTurnRadS   = 30.0
	jumpBaseRad    = 0.15
	jumpForgetTime = 500 * time.Millisecond // after a longer gap the pose before says nothing
)

// jumpDetector compares each pose with the one before.
type jumpDetector struct {
	pose frames.Pose
	at   int64 // ns, device clock when the readings are timed
	has  bool
}

// add tells whether pose jumped since the one before.
func (d *jumpDetector) add(pose frames.Pose, atNS int64) bool {
	before, beforeAt, had := d.pose, d.at, d.has
	d.pose, d.at, d.has = pose, atNS, true
	dt := time.Duration(atNS - beforeAt)
	if !had || dt < 0 || dt > jumpForgetTime {
		return false
	}
	m, rad := before.Distance(pose)
	return m > jumpBaseM+jumpSpeedMPS*dt.Seconds() || rad > jumpBaseRad+jumpTurnRadS*dt.Seconds()
}
