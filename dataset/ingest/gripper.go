package ingest

import (
	"math"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"gonum.org/v1/gonum/spatial/r3"
)

// gripper adds the edges of the hands that the log itself lacks: the wrist camera, the tracker's controllers, and the fingers, which
// follow the encoder. ROS recordings have them all on /tf and /tf_static.
// Source: the rig's URDF (yubi_description); lengths from package robotmodel.
func (s *survey) gripper() error {
	g := robotmodel.YUBI()
	for _, side := range []string{"left", "right"} {
		hand := side + "_hand_root"
		if err := s.addFixed(hand, side+"_hand_cam_link", g.HandFromCamera.Pose()); err != nil {
			return err
		}
		if s.m.Controllers {
			if err := s.addFixed(hand, "quest_"+side+"_controller", handFromController(side)); err != nil {
				return err
			}
		}
		for _, finger := range []string{"left", "right"} {
			if err := s.addFinger(g, side, finger); err != nil {
				return err
			}
		}
	}
	return nil
}

// handFromController is the mount of the tracker's controller: 0.063 m back, 0.016 m to its own side, 0.0525 m up; pitched by -45°
// and turned by 45° to its side.
func handFromController(side string) frames.Pose {
	y, yaw := 0.016, math.Pi/4
	if side == "right" {
		y, yaw = -y, -yaw
	}
	return frames.Pose{Pos: r3.Vec{X: -0.063, Y: y, Z: 0.0525}, Rot: frames.QuatFromRPY(0, -math.Pi/4, yaw)}
}

// addFixed adds a static edge unless the log has one to this frame.
func (s *survey) addFixed(parent, child string, pose frames.Pose) error {
	if _, ok := s.tree.Parent(child); ok {
		return nil
	}
	return s.tree.AddStatic(parent, child, pose)
}

// addFinger adds the joint and the tip of one finger. The encoder's angle turns the right finger about -Z, outwards; the left finger
// mirrors it.
func (s *survey) addFinger(g robotmodel.Gripper, side, finger string) error {
	link := side + "_" + finger + "_finger_link"
	sign, index := 1.0, 0
	if finger == "left" {
		sign = -1
	}
	if side == "right" {
		index = 1
	}
	tip := frames.Translation(r3.Vec{X: g.TipFromPivot[0], Y: sign * g.TipFromPivot[1], Z: g.TipFromPivot[2]})
	if err := s.addFixed(link, side+"_"+finger+"_finger_tip_link", tip); err != nil {
		return err
	}
	if _, ok := s.tree.Parent(link); ok {
		return nil
	}
	pivot := r3.Vec{X: g.RightPivot[0], Y: sign * g.RightPivot[1], Z: g.RightPivot[2]}
	for _, j := range s.joints {
		turn := frames.QuatFromAxisAngle(r3.Vec{Z: -1}, sign*j.rad[index])
		if err := s.tree.AddDynamic(side+"_hand_root", link, j.at, frames.Pose{Pos: pivot, Rot: turn}); err != nil {
			return err
		}
	}
	return nil
}
