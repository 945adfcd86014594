// Package armfile reads the file of one arm process of Universal Robots or UFACTORY (arm.yaml) and makes its driver and hand.
package armfile

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/arm/ur"
	"github.com/pinch-robotics/pinch/deploy/arm/xarm"
	"github.com/pinch-robotics/pinch/deploy/hand/dynamixel"
	"github.com/pinch-robotics/pinch/deploy/hand/robotiq"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Config is arm.yaml. Units are in the key names; docs/arms.md explains every key.
type Config struct {
	Name            string    `yaml:"name"`             // left or right
	Listen          string    `yaml:"listen"`           // where the executor finds this process
	WorldFromBase   []float64 `yaml:"world_from_base"`  // x y z in m, qx qy qz qw
	FlangeFromHand  []float64 `yaml:"flange_from_hand"` // the same
	ActionLatencyMS float64   `yaml:"action_latency_ms"`

	VelocityShare     float64 `yaml:"velocity_share"` // of the model's limits
	AccelerationShare float64 `yaml:"acceleration_share"`
	JerkShare         float64 `yaml:"jerk_share"`
	FollowingRad      float64 `yaml:"following_rad"`

	UR   ur.Options   `yaml:"ur"`
	XArm xarm.Options `yaml:"xarm"`
	Hand Hand         `yaml:"hand"`
}

// Hand names the gripper. Both empty: none, the finger angle mirrors its command.
type Hand struct {
	Dynamixel *dynamixel.Options `yaml:"dynamixel"`
	Robotiq   *robotiq.Options   `yaml:"robotiq"`
}

// Default returns the values used where the file says nothing.
func Default() Config {
	return Config{Listen: "tcp:127.0.0.1:7481", VelocityShare: 1, AccelerationShare: 1, JerkShare: 1, FollowingRad: 0.25}
}

// Load reads a file strictly over Default.
func Load(path string) (Config, error) {
	c := Default()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate refuses values without meaning; the error starts with the key.
func (c *Config) Validate() error {
	if c.Name != "" && c.Name != "left" && c.Name != "right" {
		return fmt.Errorf("name: %q, want left or right", c.Name)
	}
	for key, v := range map[string][]float64{"world_from_base": c.WorldFromBase, "flange_from_hand": c.FlangeFromHand} {
		if len(v) != 0 && len(v) != 7 {
			return fmt.Errorf("%s: %d numbers, want 7: x y z qx qy qz qw", key, len(v))
		}
	}
	for key, v := range map[string]float64{"velocity_share": c.VelocityShare, "acceleration_share": c.AccelerationShare, "jerk_share": c.JerkShare} {
		if !(v > 0.01 && v <= 1) {
			return fmt.Errorf("%s: %v is outside 0.01 to 1", key, v)
		}
	}
	if !(c.FollowingRad >= 0.01 && c.FollowingRad <= 1) {
		return fmt.Errorf("following_rad: %v is outside 0.01 to 1", c.FollowingRad)
	}
	if !(c.ActionLatencyMS >= 0 && c.ActionLatencyMS <= 1000) {
		return fmt.Errorf("action_latency_ms: %v is outside 0 to 1000", c.ActionLatencyMS)
	}
	if c.Hand.Dynamixel != nil && c.Hand.Robotiq != nil {
		return errors.New("hand: only one of dynamixel and robotiq")
	}
	return nil
}

// Options makes the options of arm.Serve.
func (c *Config) Options() (arm.Options, error) {
	if err := c.Validate(); err != nil {
		return arm.Options{}, err
	}
	if c.Name == "" {
		return arm.Options{}, errors.New("name: want left or right")
	}
	o := arm.Options{Name: c.Name, Listen: c.Listen, ActionLatency: time.Duration(c.ActionLatencyMS * float64(time.Millisecond)),
		Velocity: c.VelocityShare, Acceleration: c.AccelerationShare, Jerk: c.JerkShare, FollowingRad: c.FollowingRad}
	var err error
	if o.WorldFromBase, err = pose(c.WorldFromBase, robotmodel.Identity()); err != nil {
		return o, fmt.Errorf("world_from_base: %w", err)
	}
	if o.FlangeFromHand, err = pose(c.FlangeFromHand, robotmodel.FlangeFromHand()); err != nil {
		return o, fmt.Errorf("flange_from_hand: %w", err)
	}
	return o, nil
}

func pose(v []float64, def robotmodel.Transform) (robotmodel.Transform, error) {
	if len(v) == 0 {
		return def, nil
	}
	p, err := frames.PoseFromXYZXYZW([7]float64(v))
	if err != nil {
		return def, err
	}
	return robotmodel.FromPose(p), nil
}

// Open makes the hand, nil for none; Serve starts it.
func (h *Hand) Open() (arm.Hand, error) {
	switch {
	case h.Dynamixel != nil:
		d, err := dynamixel.New(*h.Dynamixel)
		if err != nil {
			return nil, fmt.Errorf("hand.dynamixel: %w", err)
		}
		return d, nil
	case h.Robotiq != nil:
		r, err := robotiq.New(*h.Robotiq)
		if err != nil {
			return nil, fmt.Errorf("hand.robotiq: %w", err)
		}
		return r, nil
	}
	return nil, nil
}

// Driver makes the driver of a kind, "ur" or "xarm"; Serve starts it.
func (c *Config) Driver(kind string, log *slog.Logger) (arm.Driver, error) {
	if kind == "ur" {
		c.UR.Logger = log
		return ur.New(c.UR)
	}
	c.XArm.Logger = log
	return xarm.New(c.XArm)
}
