// Package sim is the simulated cell: one table-top scene, a block to pick and a tray to put it on, seen by the wrist cameras of
// two YUBI grippers. The same scene has two modes: in ModeHandheld the grippers float, carried by a scripted demonstrator, in
// ModeRobot two FR3 arms carry them. The cell owns time: nothing moves between two calls of Advance, and equal seeds give equal bytes.
//
// Glossary:
//
//	cell        the world frame: origin on the table top, X away from the robots' bases, Y to the left, Z up
//	hand_root   the device frame of a gripper: X toward the fingers, Y toward the left jaw, Z toward the camera
//	Condition   where an episode starts: block, tray, both hands, and the seed of everything random in it
//	Truth       what only a simulator knows: poses, contacts and the four milestone facts
//	Sample      one stamped reading of one device of the handheld rig
//
// The smallest useful program (build tag mujoco):
//
//	cell, err := sim.New(sim.Config{Mode: sim.ModeHandheld})
//	rig, err := sim.NewHandheld(cell, sim.HandheldConfig{})
//	for sample, err := range rig.Episode(sim.NewCondition(sim.Train, 0)) { ... }
//
// The model is MJCF text generated from parameter tables (this package's layout, package robotmodel for the arms) and run by
// MuJoCo 2.2 through cgo, rendered by OSMesa. Without the build tag mujoco everything but New works, and New returns ErrNotBuilt.
package sim
