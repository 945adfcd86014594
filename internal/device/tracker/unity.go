package tracker

import (
	"math"

	"github.com/pinch-robotics/pinch/frames"
	"gonum.org/v1/gonum/spatial/r3"
)

// xyz and xyzw are the JSON objects of the headset application, in Unity's axes (left-handed: X right, Y up, Z forward; m).
type xyz struct {
	X *float64 `json:"x"`
	Y *float64 `json:"y"`
	Z *float64 `json:"z"`
}

type xyzw struct {
	X *float64 `json:"x"`
	Y *float64 `json:"y"`
	Z *float64 `json:"z"`
	W *float64 `json:"w"`
}

// rosFromUnity is the pose in ROS axes (right-handed: X forward, Y left, Z up): position (z, -x, y), quaternion (z, -x, y, -w),
// normalised. ok is false when a number is missing or not finite, or the quaternion is zero: the application sends a zero quaternion
// for a pose it does not have, and an identity in its place would be an invented pose.
func rosFromUnity(p *xyz, q *xyzw) (pose frames.Pose, ok bool) {
	if p == nil || q == nil || p.X == nil || p.Y == nil || p.Z == nil || q.X == nil || q.Y == nil || q.Z == nil || q.W == nil {
		return frames.Pose{}, false
	}
	rot, err := frames.Quat{X: *q.Z, Y: -*q.X, Z: *q.Y, W: -*q.W}.Normalize()
	pos := r3.Vec{X: *p.Z, Y: -*p.X, Z: *p.Y}
	pose = frames.Pose{Pos: pos, Rot: rot}
	if err != nil || !pose.Finite() || math.Abs(pos.X)+math.Abs(pos.Y)+math.Abs(pos.Z) > 1e6 {
		return frames.Pose{}, false
	}
	return pose, true
}

// unityFromROS is the inverse of rosFromUnity, for servers that speak the application's protocol.
func unityFromROS(pose frames.Pose) (xyz, xyzw) {
	p := [3]float64{-pose.Pos.Y, pose.Pos.Z, pose.Pos.X}
	q := [4]float64{-pose.Rot.Y, pose.Rot.Z, pose.Rot.X, -pose.Rot.W}
	return xyz{&p[0], &p[1], &p[2]}, xyzw{&q[0], &q[1], &q[2], &q[3]}
}
