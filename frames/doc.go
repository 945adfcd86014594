// Package frames holds the vocabulary of space and time that all of pinch shares: poses, rotations, relative motions,
// clocks, a transform tree and resampling to one fixed-rate timeline.
//
// Glossary:
//
//	Pose        where a child frame stands in its parent: parent-from-child, metres and a unit quaternion
//	Quat        unit quaternion x, y, z, w; q and -q are one rotation, Canonical picks w >= 0
//	Twist       logarithm of a pose: metres and radians, body axes
//	Delta       a relative motion that says its Reference (whose axes) and its Timing (which rows)
//	HostTime    nanoseconds of the host's monotonic clock, shifted once to Unix time
//	DeviceTime  nanoseconds of a named device's own clock
//	Stamp       nanoseconds of whichever one clock a set of rows is aligned on
//	Timeline    ticks at a fixed integer rate, computed from the tick number so that nothing drifts
//	Tree        transforms between named frames, static or sampled over time
//
// A variable that holds a pose names both frames and cancels when read:
//
//	originFromTip := originFromHand.Mul(handFromTip)
//
// All lengths are metres, all angles radians, all stamps nanoseconds. Nothing here reads a clock or a file.
package frames
