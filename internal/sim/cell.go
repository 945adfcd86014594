package sim

import (
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
)

// Cell is one simulated cell. Its methods belong to one goroutine; rendering runs on threads of its own. Close frees it.
type Cell struct {
	cfg   Config
	now   frames.DeviceTime
	cond  Condition
	truth func() Truth
}

// New builds the scene of a mode, at StartTime, in the condition NewCondition(Train, 0). The error is ErrNotBuilt in a program
// without MuJoCo, or says what MuJoCo or the GL library refused.
func New(cfg Config) (*Cell, error) { return nil, ErrNotBuilt }

// Close ends the render threads and frees the model.
func (c *Cell) Close() error { return nil }

// Mode is who carries the grippers.
func (c *Cell) Mode() Mode { return c.cfg.Mode }

// Reset puts the scene into a condition: everything at rest, hands at their starts (arms solved for them in ModeRobot), targets
// there too. The clock goes on: time never runs backwards within the life of a cell.
func (c *Cell) Reset(cond Condition) error { return fmt.Errorf("reset") }

// Condition is the condition of the last Reset.
func (c *Cell) Condition() Condition { return c.cond }

// Now is the cell's clock.
func (c *Cell) Now() frames.DeviceTime { return c.now }

// Advance steps the physics until the clock reaches the time, rounded down to the 1 ms tick; a time in the past does nothing.
// The error tells that the physics diverged (a state that is not finite).
func (c *Cell) Advance(to frames.DeviceTime) error { return nil }

// HandPose is cellFromHandRoot, exact.
func (c *Cell) HandPose(s Side) frames.Pose { return frames.Pose{} }

// GripperAngle is the finger angle (rad, 0 closed), the joint {side}_right_finger_joint.
func (c *Cell) GripperAngle(s Side) float64 { return 0 }

// SetGripper sets the wanted finger angle (rad); force is limited, so a closed target holds what is between the pads.
func (c *Cell) SetGripper(s Side, rad float64) {}

// SetHand sets the wanted pose of a hand, cellFromHandRoot. ModeHandheld only; ModeRobot ignores it.
func (c *Cell) SetHand(s Side, target frames.Pose) {}

// SetJoints sets the wanted joint positions (rad) and velocities (rad/s) of an arm, to be renewed each tick as an arm's
// control loop does. ModeRobot only; ModeHandheld ignores it.
func (c *Cell) SetJoints(s Side, q, dq [7]float64) {}

// Joints are the measured joint positions (rad) and velocities (rad/s) of an arm; zero in ModeHandheld.
func (c *Cell) Joints(s Side) (q, dq [7]float64) { return q, dq }

// SetArm places an arm at rest in joints q with the fingers at an angle, without motion, as SetScene of armlink wants. ModeRobot only.
func (c *Cell) SetArm(s Side, q [7]float64, fingerRad float64) error { return nil }

// Truth is the state of the scene now.
func (c *Cell) Truth() Truth { return c.truth() }
