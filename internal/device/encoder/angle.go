package encoder

import "math"

// WrapPi is the angle in [-pi, pi).
func WrapPi(rad float64) float64 {
	rad = math.Mod(rad+math.Pi, 2*math.Pi)
	if rad < 0 {
		rad += 2 * math.Pi
	}
	return rad - math.Pi
}

// Unwrapper turns raw encoder angles into the finger angle: q = wrap((raw - ClosedRawRad) * Direction), where the first value lies in
// [-pi, pi) and each later one continues without a jump, so that a finger slightly beyond closed reads slightly negative.
// The zero value is not ready: Direction must be +1 or -1. Readings that are not finite are refused, so one bad line cannot
// poison the sum.
type Unwrapper struct {
	ClosedRawRad float64 // raw angle at closed fingers, from calibration
	Direction    float64 // -1 for AS5601, +1 for AS5048A type

	angle   float64
	started bool
}

// Add takes one raw angle and gives the finger angle; ok is false for a raw angle that is not finite.
func (u *Unwrapper) Add(rawRad float64) (rad float64, ok bool) {
	if math.IsNaN(rawRad) || math.IsInf(rawRad, 0) {
		return u.angle, false
	}
	q := WrapPi((rawRad - u.ClosedRawRad) * u.Direction)
	if !u.started {
		u.started, u.angle = true, q
		return q, true
	}
	u.angle += WrapPi(q - u.angle)
	return u.angle, true
}

// Reset forgets the turns counted so far; call it after a reconnect.
func (u *Unwrapper) Reset() { u.started = false }
