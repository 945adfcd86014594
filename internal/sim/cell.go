package sim

import (
	"fmt"
	"math"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Cell is one simulated cell. Its methods belong to one goroutine; rendering runs on threads of its own. Close frees it.
type Cell struct {
	cfg Config
	eng engine
	now frames.DeviceTime

	block, tray int // bodies
	hands       [2]handHandles
}

// handHandles are the engine's handles of one side.
type handHandles struct {
	root, mocap    int // bodies; mocap in ModeHandheld
	finger, mimic  int // joints: right finger, left finger
	fingerActuator int
	joints         [7]int // ModeRobot
	jointActuators [7]int
}

// New builds the scene of a mode, at StartTime, in the condition NewCondition(Train, 0). The error is ErrNotBuilt in a program
// without MuJoCo, or says what MuJoCo or the GL library refused.
func New(cfg Config) (*Cell, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	eng, err := newEngine(cfg)
	if err != nil {
		return nil, err
	}
	c := &Cell{cfg: cfg, eng: eng, now: StartTime, block: eng.body("block"), tray: eng.body("tray")}
	for _, s := range Sides {
		c.hands[s] = c.handles(s)
	}
	if err := c.Reset(NewCondition(Train, 0)); err != nil {
		eng.close()
		return nil, err
	}
	return c, nil
}

func (c *Cell) handles(s Side) handHandles {
	name := s.String()
	h := handHandles{
		root:           c.eng.body(name + "_hand_root"),
		finger:         c.eng.joint(name + "_right_finger_joint"),
		mimic:          c.eng.joint(name + "_left_finger_joint"),
		fingerActuator: c.eng.actuator(name + "_finger"),
	}
	if c.cfg.Mode == ModeHandheld {
		h.mocap = c.eng.body(name + "_mocap")
		return h
	}
	for i := range h.joints {
		joint := fmt.Sprintf("%s_joint%d", name, i+1)
		h.joints[i], h.jointActuators[i] = c.eng.joint(joint), c.eng.actuator(joint)
	}
	return h
}

// Close ends the render threads and frees the model.
func (c *Cell) Close() error {
	c.eng.close()
	return nil
}

// Mode is who carries the grippers.
func (c *Cell) Mode() Mode { return c.cfg.Mode }

// Reset puts the scene into a condition: everything at rest, hands at their starts (arms solved for them in ModeRobot), targets
// there too. The clock goes on: time never runs backwards within the life of a cell.
func (c *Cell) Reset(cond Condition) error {
	if err := cond.Validate(); err != nil {
		return fmt.Errorf("reset to condition %q: %w", cond.Name, err)
	}
	var arms [2][7]float64
	if c.cfg.Mode == ModeRobot {
		for _, s := range Sides {
			q, err := SolveArm(s, cond.Hand(s).Pose())
			if err != nil {
				return fmt.Errorf("reset to condition %q: %w", cond.Name, err)
			}
			arms[s] = q
		}
	}
	c.eng.reset()
	c.arrange(cond)
	for _, s := range Sides {
		start := cond.Hand(s)
		if c.cfg.Mode == ModeHandheld {
			c.eng.setBody(c.hands[s].root, start.Pose())
			c.SetHand(s, start.Pose())
		} else {
			c.placeArm(s, arms[s])
		}
		c.placeFingers(s, start.Angle)
	}
	c.eng.forward()
	return nil
}

// SetScene puts block and tray where a condition wants them and leaves the hands as they are, as a person does between two trials.
func (c *Cell) SetScene(cond Condition) error {
	if err := cond.Validate(); err != nil {
		return fmt.Errorf("set the scene of condition %q: %w", cond.Name, err)
	}
	c.arrange(cond)
	c.eng.forward()
	return nil
}

func (c *Cell) arrange(cond Condition) {
	c.eng.setBody(c.block, cond.Block.pose(BlockHalfHeight))
	c.eng.stillBody(c.block)
	c.eng.setBody(c.tray, cond.Tray.pose(0))
}

// pose stands a body on the table with its frame at height z.
func (p Planar) pose(z float64) frames.Pose {
	return frames.Pose{Pos: vec(p.X, p.Y, z), Rot: frames.QuatFromAxisAngle(vec(0, 0, 1), p.Yaw)}
}

func (c *Cell) placeArm(s Side, q [7]float64) {
	for i, j := range c.hands[s].joints {
		c.eng.setJoint(j, q[i])
		c.eng.stillJoint(j)
	}
	c.SetJoints(s, q, [7]float64{})
}

func (c *Cell) placeFingers(s Side, rad float64) {
	c.eng.setJoint(c.hands[s].finger, rad)
	c.eng.setJoint(c.hands[s].mimic, -rad)
	c.eng.stillJoint(c.hands[s].finger)
	c.eng.stillJoint(c.hands[s].mimic)
	c.SetGripper(s, rad)
}

// Now is the cell's clock.
func (c *Cell) Now() frames.DeviceTime { return c.now }

// Advance steps the physics until the clock reaches the time, rounded down to the 1 ms tick; a time in the past does nothing.
// The error tells that the physics diverged (a state that is not finite).
func (c *Cell) Advance(to frames.DeviceTime) error {
	ticks := int64(to-c.now) / TickNS
	if ticks <= 0 {
		return nil
	}
	c.now += frames.DeviceTime(ticks * TickNS)
	return c.eng.step(int(ticks))
}

// HandPose is cellFromHandRoot, exact.
func (c *Cell) HandPose(s Side) frames.Pose { return c.eng.pose(c.hands[s].root) }

// GripperAngle is the finger angle (rad, 0 closed), the joint {side}_right_finger_joint.
func (c *Cell) GripperAngle(s Side) float64 {
	q, _ := c.eng.jointState(c.hands[s].finger)
	return q
}

// SetGripper sets the wanted finger angle (rad); force is limited, so a closed target holds what is between the pads.
func (c *Cell) SetGripper(s Side, rad float64) {
	c.eng.setControl(c.hands[s].fingerActuator, math.Max(0, math.Min(FingerMaxRad, rad)))
}

// SetHand sets the wanted pose of a hand, cellFromHandRoot. ModeHandheld only; ModeRobot ignores it.
func (c *Cell) SetHand(s Side, target frames.Pose) {
	if c.cfg.Mode == ModeHandheld {
		c.eng.setBody(c.hands[s].mocap, target)
	}
}

// SetJoints sets the wanted joint positions (rad) and velocities (rad/s) of an arm, to be renewed each tick as an arm's
// control loop does. ModeRobot only; ModeHandheld ignores it.
func (c *Cell) SetJoints(s Side, q, dq [7]float64) {
	if c.cfg.Mode != ModeRobot {
		return
	}
	for i, a := range c.hands[s].jointActuators {
		// The servo's damping acts on the velocity error: kp (q + kv/kp dq_want) - kv dq.
		c.eng.setControl(a, q[i]+armKV[i]/armKP[i]*dq[i])
	}
}

// Joints are the measured joint positions (rad) and velocities (rad/s) of an arm; zero in ModeHandheld.
func (c *Cell) Joints(s Side) (q, dq [7]float64) {
	if c.cfg.Mode != ModeRobot {
		return q, dq
	}
	for i, j := range c.hands[s].joints {
		q[i], dq[i] = c.eng.jointState(j)
	}
	return q, dq
}

// SetArm places an arm in joints q with the fingers at an angle (rad), without motion, as SetScene of armlink wants. ModeRobot only.
func (c *Cell) SetArm(s Side, q [7]float64, fingerRad float64) error {
	if c.cfg.Mode != ModeRobot {
		return fmt.Errorf("place the %s arm: the cell is in mode %s and has no arms", s, c.cfg.Mode)
	}
	limits := robotmodel.FR3().Limits
	if joint, ok := limits.Contains(q, 0); !ok {
		return fmt.Errorf("place the %s arm: joint %d at %v rad is outside %v to %v", s, joint+1, q[joint], limits.QMin[joint], limits.QMax[joint])
	}
	c.placeArm(s, q)
	c.placeFingers(s, fingerRad)
	c.eng.forward()
	return nil
}

// Truth is the state of the scene now. Contacts are those of the last step.
func (c *Cell) Truth() Truth {
	t := Truth{Time: c.now, Block: c.eng.pose(c.block), Tray: c.eng.pose(c.tray)}
	linear, angular := c.eng.speed(c.block)
	t.BlockSpeed = linear + angular*BlockHalfHeight
	grip := robotmodel.YUBI()
	for _, s := range Sides {
		t.Hands[s], t.FingerRad[s] = c.HandPose(s), c.GripperAngle(s)
		tip, _ := grip.Tips(t.FingerRad[s])
		t.Tips[s] = t.Hands[s].Apply(vec(tip[0], 0, tip[2]))
	}
	var pads [2][2]bool
	c.eng.contacts(func(a, b string) {
		if b == "block" {
			a, b = b, a
		}
		if a != "block" {
			t.Collision = true
			return
		}
		switch {
		case b == "table":
			t.OnTable = true
		case strings.HasPrefix(b, "tray"):
			t.OnTray = true
		}
		for _, s := range Sides {
			if part, ok := strings.CutPrefix(b, s.String()+"_"); ok {
				t.Touched[s] = true
				pads[s][0] = pads[s][0] || part == "left_pad"
				pads[s][1] = pads[s][1] || part == "right_pad"
			}
		}
	})
	for _, s := range Sides {
		t.Held[s] = pads[s][0] && pads[s][1]
	}
	return t
}
