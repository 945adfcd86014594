// Package fciserve is a simulated Franka arm: a server of the Franka Control Interface that is as strict as the robot, for tests and for trying
// a robot program without a robot.
//
//	Robot     one arm: requests, commands and ticks in, answers and state datagrams out; no clock, no socket
//	Plant     what moves: a kinematic arm, or one of the arms of the simulated cell
//	Serve     sockets and time around one or two Robots; in real time, or in lock-step with the client
//
// A tick closes a cycle: the client's command for the last state is judged against the last accepted one by backward differences at 1 ms, as the
// robot does.
//
//	late or missing             the accepted motion goes on with constant acceleration; the 20th in a row stops the arm
//	                            (communication_constraints_violation)
//	first command far off       joint_position_motion_generator_start_pose_invalid
//	acceleration over the limit joint_motion_generator_velocity_discontinuity
//	jerk over the limit         joint_motion_generator_acceleration_discontinuity
//	speed over the limit at q   joint_motion_generator_velocity_limits_violation
//	position over the limit     joint_motion_generator_position_limits_violation
//	external torque             joint_reflex
//	user stop, TCP lost         the arm brakes at once
//
// Limits are the published ones without any allowance. Joint position and joint velocity motions are served; Cartesian, torque and
// asynchronous motions are refused as not possible. A client has startGrace cycles for its first command. Faults inject loss, jitter, contact and
// user stops.
//
// The bytes are written from the published layouts and share no code with this project's client (internal/wire/fci).
package fciserve
