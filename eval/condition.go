package eval

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/deploy"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// Condition is where everything stands when a trial begins.
type Condition struct {
	Name string `json:"name"`
	// Scene is the simulator's own condition; empty at a robot.
	Scene json.RawMessage `json:"scene,omitempty"`
	// Note tells the person at a robot how to lay the objects out, for instance the name of an overlay picture.
	Note string `json:"note,omitempty"`
	// Starts are the hands' poses (hand_root in the frame cell) and finger angles, left and right.
	Starts [2]Start `json:"starts"`
}

// Start is where one hand begins: position (m), unit quaternion x y z w, finger angle (rad).
type Start struct {
	Pose      [7]float64 `json:"pose_xyz_xyzw"`
	FingerRad float64    `json:"finger_rad"`
}

// HandStarts are the starts as deploy wants them. An error names the hand whose pose is none.
func (c Condition) HandStarts() ([2]deploy.HandStart, error) {
	var out [2]deploy.HandStart
	for h, s := range c.Starts {
		p, err := frames.NewPose(r3.Vec{X: s.Pose[0], Y: s.Pose[1], Z: s.Pose[2]}, frames.Quat{X: s.Pose[3], Y: s.Pose[4], Z: s.Pose[5], W: s.Pose[6]})
		if err != nil {
			return out, fmt.Errorf("condition %s, start of the %s hand: %w", c.Name, deploy.Hands[h], err)
		}
		out[h] = deploy.HandStart{Pose: p, FingerRad: s.FingerRad}
	}
	return out, nil
}

// SimCondition turns a simulator's condition into one of ours.
func SimCondition(c sim.Condition) (Condition, error) {
	scene, err := c.Encode()
	if err != nil {
		return Condition{}, fmt.Errorf("condition %s: %w", c.Name, err)
	}
	out := Condition{Name: c.Name, Scene: scene}
	for _, s := range sim.Sides {
		h := c.Hand(s)
		out.Starts[s] = Start{Pose: h.Pose().ArrayXYZXYZW(), FingerRad: h.Angle}
	}
	return out, nil
}

func (s ConditionSource) validate() error {
	switch {
	case s.Simulator == "" && s.File == "":
		return fmt.Errorf("conditions: name the simulator's split (simulator: eval) or a file")
	case s.Simulator != "" && s.File != "":
		return fmt.Errorf("conditions: want simulator or file, not both")
	case s.Simulator != "" && s.Simulator != string(sim.Eval):
		return fmt.Errorf("conditions.simulator: %q, want %q: the split %q belongs to demonstrations", s.Simulator, sim.Eval, sim.Train)
	case s.First < 0:
		return fmt.Errorf("conditions.first: %d is negative", s.First)
	}
	return nil
}

// List gives n conditions. taskDir is the folder of the task file, against which the file's path resolves. A list that is too
// short or names a condition twice is an error.
func (s ConditionSource) List(n int, taskDir string) ([]Condition, error) {
	var list []Condition
	if s.File != "" {
		path := s.File
		if !filepath.IsAbs(path) {
			path = filepath.Join(taskDir, path)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the conditions: %w", err)
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, fmt.Errorf("read the conditions: %s: %w", path, err)
		}
		if s.First+n > len(list) {
			return nil, fmt.Errorf("conditions file %s has %d conditions; %d trials from number %d on need %d", path, len(list), n, s.First, s.First+n)
		}
		list = list[s.First : s.First+n]
	} else {
		for i := range n {
			c, err := SimCondition(sim.NewCondition(sim.Split(s.Simulator), s.First+i))
			if err != nil {
				return nil, err
			}
			list = append(list, c)
		}
	}
	names := map[string]bool{}
	for _, c := range list {
		if c.Name == "" || names[c.Name] {
			return nil, fmt.Errorf("condition %q: each needs a name of its own", c.Name)
		}
		names[c.Name] = true
		if _, err := c.HandStarts(); err != nil {
			return nil, err
		}
	}
	return list, nil
}
