package fciserve

import "math"

// Positions of the error flags that this server sets, as published.
const (
	errJointReflex             = 6
	errStartPose               = 11
	errPositionLimits          = 12
	errVelocityLimits          = 13
	errVelocityDiscontinuity   = 14
	errAccelerationDiscontinue = 15
	errCommunication           = 25
)

var errNames = map[int]string{
	errJointReflex: "joint_reflex", errStartPose: "joint_position_motion_generator_start_pose_invalid",
	errPositionLimits:          "joint_motion_generator_position_limits_violation",
	errVelocityLimits:          "joint_motion_generator_velocity_limits_violation",
	errVelocityDiscontinuity:   "joint_motion_generator_velocity_discontinuity",
	errAccelerationDiscontinue: "joint_motion_generator_acceleration_discontinuity",
	errCommunication:           "communication_constraints_violation",
}

// Statuses of a move's answers.
const (
	moveSuccess          = 0
	moveStarted          = 1
	movePreempted        = 2
	moveNotPossible      = 5
	moveInvalidArgument  = 7
	moveReflexAborted    = 8
	moveEmergencyAborted = 9
	moveInputError       = 10
	moveAborted          = 11
)

// Robot modes.
const (
	modeIdle        = 1
	modeMove        = 2
	modeReflex      = 4
	modeUserStopped = 5
	modeRecovering  = 6
)

func sin(a float64) float64 { return math.Sin(a) }
func cos(a float64) float64 { return math.Cos(a) }
