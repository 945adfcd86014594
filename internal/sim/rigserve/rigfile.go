package rigserve

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/sim"
)

// The rig file that the recorder reads (package capture, type Rig). It is written here in full, since this package may not know
// that one; a test of package capture reads what this writes.
type rigFile struct {
	Robot    rigRobot     `yaml:"robot"`
	Site     string       `yaml:"site"`
	Operator string       `yaml:"operator"`
	Cameras  []rigCamera  `yaml:"cameras"`
	Encoders []rigEncoder `yaml:"encoders"`
	Tracker  rigTracker   `yaml:"tracker"`
	Pedal    rigPedal     `yaml:"pedal"`
	Task     rigTask      `yaml:"task"`
}

type rigRobot struct {
	Type       string `yaml:"type"`
	ID         string `yaml:"id"`
	Simulation bool   `yaml:"simulation"`
}

type rigCamera struct {
	Name   string  `yaml:"name"`
	URL    string  `yaml:"url"`
	RateHz float64 `yaml:"rate_hz"`
	Width  int     `yaml:"width"`
	Height int     `yaml:"height"`
	Clock  string  `yaml:"clock"`
}

type rigEncoder struct {
	Side         string  `yaml:"side"`
	Port         string  `yaml:"port"`
	ID           string  `yaml:"id"`
	ClosedRawRad float64 `yaml:"closed_raw_rad"`
	Direction    int     `yaml:"direction"`
	RateHz       float64 `yaml:"rate_hz"`
	Clock        string  `yaml:"clock"`
}

type rigTracker struct {
	Address string    `yaml:"address"`
	Sync    string    `yaml:"sync"`
	RateHz  float64   `yaml:"rate_hz"`
	Clock   string    `yaml:"clock"`
	Mounts  rigMounts `yaml:"mounts"`
}

type rigMounts struct {
	Left  rigTransform `yaml:"left"`
	Right rigTransform `yaml:"right"`
}

type rigTransform struct {
	XYZM   [3]float64 `yaml:"xyz_m"`
	RPYDeg [3]float64 `yaml:"rpy_deg"`
}

type rigPedal struct {
	Path        string `yaml:"path"`
	Accept      int    `yaml:"accept"`
	Reject      int    `yaml:"reject"`
	Cancel      int    `yaml:"cancel"`
	Clock       string `yaml:"clock"`
	EndsSession bool   `yaml:"ends_session"`
}

type rigTask struct {
	Name     string   `yaml:"name"`
	Subtasks []string `yaml:"subtasks"`
}

// handMounts are the controllers on the hands, hand_root from controller. Source: YUBI URDF, joints hand_root to quest_{side}_controller.
var handMounts = [2]rigTransform{
	{XYZM: [3]float64{-0.063, 0.016, 0.0525}, RPYDeg: [3]float64{0, -45, 45}},
	{XYZM: [3]float64{-0.063, -0.016, 0.0525}, RPYDeg: [3]float64{0, -45, -45}},
}

func mounts() (out [2]frames.Pose) {
	const rad = math.Pi / 180
	for i, m := range handMounts {
		out[i] = frames.Pose{
			Pos: r3.Vec{X: m.XYZM[0], Y: m.XYZM[1], Z: m.XYZM[2]},
			Rot: frames.QuatFromRPY(m.RPYDeg[0]*rad, m.RPYDeg[1]*rad, m.RPYDeg[2]*rad),
		}
	}
	return out
}

// rigFile describes the served devices.
func (s *server) rigFile() rigFile {
	o := &s.opts
	f := rigFile{
		Robot: rigRobot{Type: "yubi", ID: o.RobotID, Simulation: true}, Site: "simulated cell", Operator: "scripted demonstrator",
		Tracker: rigTracker{
			Address: s.tracker.listener.Addr().String(), Sync: s.tracker.sync.LocalAddr().String(), RateHz: o.Rates.TrackerHz, Clock: sim.ClockName,
			Mounts: rigMounts{handMounts[0], handMounts[1]},
		},
		Pedal: rigPedal{Path: s.pedal.path, Accept: int(sim.PedalAccept), Reject: int(sim.PedalReject), Cancel: int(sim.PedalCancel), Clock: sim.ClockName, EndsSession: true},
		Task:  rigTask{Name: o.Task, Subtasks: o.Subtasks},
	}
	for _, side := range sim.Sides {
		f.Cameras = append(f.Cameras, rigCamera{
			Name: side.String(), URL: s.wrist[side].URL(), RateHz: o.Rates.WristHz, Width: o.Wrist.Width, Height: o.Wrist.Height, Clock: sim.ClockName,
		})
		f.Encoders = append(f.Encoders, rigEncoder{
			Side: side.String(), Port: s.encoders[side].path, ID: encoderID(side), ClosedRawRad: sim.EncoderClosedRaw[side], Direction: -1,
			RateHz: o.Rates.EncoderHz, Clock: sim.ClockName,
		})
	}
	if s.center != nil {
		f.Cameras = append(f.Cameras, rigCamera{
			Name: "center", URL: s.center.URL(), RateHz: o.Rates.CenterHz, Width: o.Center.Width, Height: o.Center.Height, Clock: sim.ClockName,
		})
	}
	return f
}

func (s *server) writeRigFile() error {
	b, err := config.Marshal(s.rigFile())
	if err != nil {
		return fmt.Errorf("write rig file: %w", err)
	}
	return atomicfile.WriteFile(s.opts.OutRig, b, 0o644)
}
