package franka

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/deploy/hand/dynamixel"
	"github.com/pinch-robotics/pinch/deploy/hand/robotiq"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// Config is the file of one arm process (arm.yaml). Units are in the key names; deploy/arm/franka/arm.example.yaml explains every key.
type Config struct {
	Name    string `yaml:"name"`
	Address string `yaml:"address"`
	Listen  string `yaml:"listen"`
	Model   string `yaml:"model"`

	WorldFromBase   []float64 `yaml:"world_from_base"`  // x y z in m, qx qy qz qw
	FlangeFromHand  []float64 `yaml:"flange_from_hand"` // the same
	ActionLatencyMS float64   `yaml:"action_latency_ms"`

	VelocityShare     float64 `yaml:"velocity_share"`
	AccelerationShare float64 `yaml:"acceleration_share"`
	JerkShare         float64 `yaml:"jerk_share"`
	FollowingRad      float64 `yaml:"following_rad"`
	LinkTestS         float64 `yaml:"link_test_s"`
	ModelErrorM       float64 `yaml:"model_error_m"`

	ContactTorqueNM   []float64 `yaml:"contact_torque_nm"`
	CollisionTorqueNM []float64 `yaml:"collision_torque_nm"`
	ContactForceN     []float64 `yaml:"contact_force_n"`
	CollisionForceN   []float64 `yaml:"collision_force_n"`
	StiffnessNMPerRad []float64 `yaml:"stiffness_nm_per_rad"`
	LoadKG            float64   `yaml:"load_kg"`
	LoadM             []float64 `yaml:"load_m"`

	Realtime Realtime `yaml:"realtime"`
	Priority int      `yaml:"priority"`
	CPU      int      `yaml:"cpu"`

	Hand HandConfig `yaml:"hand"`
}

// HandConfig names the gripper. Both empty: none, the finger angle mirrors its command.
type HandConfig struct {
	Dynamixel *dynamixel.Options `yaml:"dynamixel"`
	Robotiq   *robotiq.Options   `yaml:"robotiq"`
}

// DefaultConfig returns the values used where arm.yaml says nothing.
func DefaultConfig() Config {
	return Config{
		Listen: "tcp:127.0.0.1:7481", VelocityShare: 1, AccelerationShare: 1, JerkShare: 1, FollowingRad: 0.15, LinkTestS: 1, ModelErrorM: 0.001,
		Realtime: RealtimeRequire, Priority: 80, CPU: -1,
	}
}

// LoadConfig reads an arm's file strictly over DefaultConfig.
func LoadConfig(path string) (Config, error) {
	c := DefaultConfig()
	if err := config.Load(path, &c); err != nil {
		return Config{}, err
	}
	return c, nil
}

// Validate refuses values without meaning; the error starts with the key.
func (c *Config) Validate() error {
	for key, v := range map[string]struct {
		v []float64
		n int
	}{
		"world_from_base": {c.WorldFromBase, 7}, "flange_from_hand": {c.FlangeFromHand, 7}, "contact_torque_nm": {c.ContactTorqueNM, 7},
		"collision_torque_nm": {c.CollisionTorqueNM, 7}, "contact_force_n": {c.ContactForceN, 6}, "collision_force_n": {c.CollisionForceN, 6},
		"stiffness_nm_per_rad": {c.StiffnessNMPerRad, 7}, "load_m": {c.LoadM, 3},
	} {
		if len(v.v) != 0 && len(v.v) != v.n {
			return fmt.Errorf("%s: %d numbers, want %d", key, len(v.v), v.n)
		}
	}
	torque := len(c.ContactTorqueNM) + len(c.CollisionTorqueNM) + len(c.ContactForceN) + len(c.CollisionForceN)
	if torque != 0 && torque != 26 {
		return errors.New("collision_torque_nm: contact_torque_nm, collision_torque_nm, contact_force_n and collision_force_n go together")
	}
	if c.Hand.Dynamixel != nil && c.Hand.Robotiq != nil {
		return errors.New("hand: only one of dynamixel and robotiq")
	}
	if c.LoadKG < 0 || c.LoadKG > 3 {
		return fmt.Errorf("load_kg: %v is outside 0 to 3", c.LoadKG)
	}
	if c.Model != "" {
		if _, err := robotmodel.ByName(c.Model); err != nil {
			return fmt.Errorf("model: %w", err)
		}
	}
	return nil
}

// Options makes the process's options; the hand is opened by Serve.
func (c *Config) Options() (Options, error) {
	if err := c.Validate(); err != nil {
		return Options{}, err
	}
	o := Options{
		Name: c.Name, Address: c.Address, Listen: c.Listen, Model: c.Model, ActionLatency: time.Duration(c.ActionLatencyMS * 1e6),
		Velocity: c.VelocityShare, Acceleration: c.AccelerationShare, Jerk: c.JerkShare, FollowingRad: c.FollowingRad,
		LinkTest: time.Duration(c.LinkTestS * 1e9), ModelErrorM: c.ModelErrorM, LoadKG: c.LoadKG, Realtime: c.Realtime, Priority: c.Priority, CPU: c.CPU,
	}
	var err error
	if o.WorldFromBase, err = pose(c.WorldFromBase, robotmodel.Identity()); err != nil {
		return o, fmt.Errorf("world_from_base: %w", err)
	}
	if o.FlangeFromHand, err = pose(c.FlangeFromHand, robotmodel.FlangeFromHand()); err != nil {
		return o, fmt.Errorf("flange_from_hand: %w", err)
	}
	if len(c.ContactTorqueNM) > 0 {
		b := fci.CollisionBehavior{}
		copy(b.LowerTorque[:], c.ContactTorqueNM)
		copy(b.UpperTorque[:], c.CollisionTorqueNM)
		copy(b.LowerForce[:], c.ContactForceN)
		copy(b.UpperForce[:], c.CollisionForceN)
		o.Collision = &b
	}
	if len(c.StiffnessNMPerRad) > 0 {
		o.Stiffness = &fci.Joints{}
		copy(o.Stiffness[:], c.StiffnessNMPerRad)
	}
	copy(o.LoadXYZ[:], c.LoadM)
	o.Hand, err = c.Hand.open()
	return o, err
}

func (c *HandConfig) open() (arm.Hand, error) {
	switch {
	case c.Dynamixel != nil:
		h, err := dynamixel.New(*c.Dynamixel)
		if err != nil {
			return nil, fmt.Errorf("hand.dynamixel: %w", err)
		}
		return h, nil
	case c.Robotiq != nil:
		h, err := robotiq.New(*c.Robotiq)
		if err != nil {
			return nil, fmt.Errorf("hand.robotiq: %w", err)
		}
		return h, nil
	}
	return nil, nil
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
