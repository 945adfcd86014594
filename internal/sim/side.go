package sim

import "fmt"

// Mode says who carries the grippers.
type Mode string

const (
	// ModeHandheld: both grippers float freely and follow hand targets.
	ModeHandheld Mode = "handheld"
	// ModeRobot: two FR3 arms carry the grippers and follow joint targets.
	ModeRobot Mode = "robot"
)

// Side is the left or the right hand; it indexes arrays of two.
type Side int

// The two hands, in the order of every array and column of the project.
const (
	Left  Side = 0
	Right Side = 1
)

// Sides lists both hands in order.
var Sides = [2]Side{Left, Right}

// String is "left" or "right", as in every topic and frame name.
func (s Side) String() string {
	switch s {
	case Left:
		return "left"
	case Right:
		return "right"
	}
	return fmt.Sprintf("Side(%d)", int(s))
}

// ParseSide reads "left" or "right".
func ParseSide(name string) (Side, error) {
	for _, s := range Sides {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("side %q: want left or right", name)
}

// Camera names one camera of the cell.
type Camera string

// The cameras of the cell. Wrist cameras sit at hand_cam_link and look along +X of hand_root; Center looks at the table from
// the front; Scene is a wide view of robots and table for reports.
const (
	LeftWrist  Camera = "left"
	RightWrist Camera = "right"
	Center     Camera = "center"
	SceneView  Camera = "scene"
)

// Cameras lists all cameras.
var Cameras = []Camera{LeftWrist, RightWrist, Center, SceneView}

// WristCamera is the camera on that side's gripper.
func WristCamera(s Side) Camera { return [2]Camera{LeftWrist, RightWrist}[s] }
