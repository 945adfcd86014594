package capture

import (
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/config"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/meta"
)

// Rig is a rig file: the devices, where they are, what they measure, and the task that is recorded.
type Rig struct {
	Robot    Robot     `yaml:"robot"`
	Site     string    `yaml:"site"`     // where the rig stands
	Operator string    `yaml:"operator"` // who holds it
	Cameras  []Camera  `yaml:"cameras"`
	Encoders []Encoder `yaml:"encoders"`
	Tracker  Tracker   `yaml:"tracker"`
	Pedal    Pedal     `yaml:"pedal"`
	Task     Task      `yaml:"task"`
	Gate     Gate      `yaml:"gate"`
}

// Robot identifies the rig in meta.json.
type Robot struct {
	Type       string `yaml:"type"`       // "yubi" for the stationary rig, "yubi_portable" for the chest rig
	ID         string `yaml:"id"`         // this rig's name
	Simulation bool   `yaml:"simulation"` // the devices are simulated
}

// Camera is one RTSP camera; its codec is what the stream says.
type Camera struct {
	Name   string  `yaml:"name"`    // left, right or center: the topics' prefix
	URL    string  `yaml:"url"`     // rtsp://host:port/path
	UDP    bool    `yaml:"udp"`     // RTP over UDP; leave false
	RateHz float64 `yaml:"rate_hz"` // frames per second it should deliver
	Width  int     `yaml:"width"`   // pixels, for camera_info
	Height int     `yaml:"height"`  // pixels, for camera_info
	Clock  string  `yaml:"clock"`   // name of the clock of its capture times (RTP header extension 1); empty when it sends none
}

// Encoder is one gripper encoder on a serial port.
type Encoder struct {
	Side         string  `yaml:"side"`           // left or right
	Port         string  `yaml:"port"`           // serial device
	ID           string  `yaml:"id"`             // device id that must answer; empty takes any of that side
	ClosedRawRad float64 `yaml:"closed_raw_rad"` // raw angle at closed fingers, from calibration
	Direction    int     `yaml:"direction"`      // -1 for AS5601, 1 for AS5048A
	RateHz       float64 `yaml:"rate_hz"`        // samples per second it should deliver
	Clock        string  `yaml:"clock"`          // name of the clock of its "# t=" lines; empty when it sends none
}

// Tracker is the headset.
type Tracker struct {
	Address string  `yaml:"address"` // TCP host:port of the pose stream; empty: the rig has no tracker
	Sync    string  `yaml:"sync"`    // UDP host:port of the clock exchange; empty: none
	RateHz  float64 `yaml:"rate_hz"` // frames per second it should deliver
	Clock   string  `yaml:"clock"`   // name of the clock of ovrTimeNs; empty when it sends none
	Mounts  Mounts  `yaml:"mounts"`
}

// Mounts are the fixed transforms of the controllers on the hands.
type Mounts struct {
	Left  Transform `yaml:"left"`
	Right Transform `yaml:"right"`
}

// Transform is a fixed pose, parent from child, as people write it: metres, and roll, pitch, yaw in degrees (fixed axes X, Y, Z).
type Transform struct {
	XYZM   [3]float64 `yaml:"xyz_m"`
	RPYDeg [3]float64 `yaml:"rpy_deg"`
}

// Pose is the transform as a pose.
func (t Transform) Pose() frames.Pose {
	const rad = math.Pi / 180
	return frames.Pose{
		Pos: r3.Vec{X: t.XYZM[0], Y: t.XYZM[1], Z: t.XYZM[2]},
		Rot: frames.QuatFromRPY(t.RPYDeg[0]*rad, t.RPYDeg[1]*rad, t.RPYDeg[2]*rad),
	}
}

// Pedal is the foot pedal. Button numbers are those of /footpedal_states.
type Pedal struct {
	Path        string        `yaml:"path"`         // event device, FIFO or Unix socket
	Keys        []uint16      `yaml:"keys"`         // key codes of buttons 0, 1, 2
	Accept      int           `yaml:"accept"`       // button
	Reject      int           `yaml:"reject"`       // button
	Cancel      int           `yaml:"cancel"`       // button
	Debounce    time.Duration `yaml:"debounce"`     // changes of a button closer than this are chatter
	Clock       string        `yaml:"clock"`        // name of the clock of its events; empty: the host's
	EndsSession bool          `yaml:"ends_session"` // when the stream of events closes the session is over (simulated rigs)
}

// Task is what is recorded.
type Task struct {
	Name     string   `yaml:"name"`     // the episode's label
	Subtasks []string `yaml:"subtasks"` // prompts, in order
}

// Gate sets when a recording may start and what makes it bad. Times are host times.
type Gate struct {
	Settle      time.Duration `yaml:"settle"`       // at the start nothing is judged for this long
	FailAfter   time.Duration `yaml:"fail_after"`   // a fault counts after it lasted this long
	RecoverHold time.Duration `yaml:"recover_hold"` // and is over after it was absent this long
	SilentAfter time.Duration `yaml:"silent_after"` // a device without news for this long is silent
	MinRate     float64       `yaml:"min_rate"`     // of rate_hz; a slower device is a fault
	RateWindow  time.Duration `yaml:"rate_window"`  // over which rates are counted
	NeedTracked bool          `yaml:"need_tracked"` // an untracked or invalid controller is a fault
}

// DefaultRig holds the defaults of a rig file: the YUBI stationary rig's mounts, rates and pedal.
func DefaultRig() Rig {
	return Rig{
		Robot: Robot{Type: "yubi", ID: "pinch-rig"}, Site: "unknown", Operator: "unknown",
		Tracker: Tracker{RateHz: 72, Mounts: Mounts{
			Left:  Transform{XYZM: [3]float64{-0.063, 0.016, 0.0525}, RPYDeg: [3]float64{0, -45, 45}},
			Right: Transform{XYZM: [3]float64{-0.063, -0.016, 0.0525}, RPYDeg: [3]float64{0, -45, -45}},
		}},
		Pedal: Pedal{Keys: slices.Clone(pedal.DefaultKeys[:]), Accept: 2, Reject: 1, Cancel: 0, Debounce: pedal.DefaultDebounce},
		Gate: Gate{
			Settle: 5 * time.Second, FailAfter: 500 * time.Millisecond, RecoverHold: 500 * time.Millisecond,
			// A camera that delivers 59 of 60 frames is healthy: the limit is a share of the rate, not the rate.
			SilentAfter: time.Second, MinRate: 0.8, RateWindow: 5 * time.Second, NeedTracked: true,
		},
	}
}

// LoadRig reads and checks a rig file. An unknown key is an error with the line and the nearest valid key. Relative paths in it are
// relative to the file.
func LoadRig(path string) (Rig, error) {
	r := DefaultRig()
	if err := config.Load(path, &r); err != nil {
		return Rig{}, err
	}
	r.resolve(filepath.Dir(path))
	return r, nil
}

func (r *Rig) resolve(dir string) {
	fix := func(p *string) {
		if *p != "" && !filepath.IsAbs(*p) {
			*p = filepath.Join(dir, *p)
		}
	}
	fix(&r.Pedal.Path)
	for i := range r.Encoders {
		fix(&r.Encoders[i].Port)
	}
}

// Write writes the rig, whole or not at all, to a file in the form that LoadRig reads.
func (r Rig) Write(path string) error {
	b, err := config.Marshal(r)
	if err != nil {
		return fmt.Errorf("write rig file %s: %w", path, err)
	}
	if err := atomicfile.WriteFile(path, b, 0o644); err != nil {
		return fmt.Errorf("rig file: %w", err)
	}
	return nil
}

// Validate implements config.Validator; errors start with the key.
func (r *Rig) Validate() error {
	if len(r.Cameras) == 0 && len(r.Encoders) == 0 && r.Tracker.Address == "" {
		return fmt.Errorf("cameras: the rig has no device; add cameras, encoders or a tracker")
	}
	for _, check := range []func() error{r.validateCameras, r.validateEncoders, r.validateTracker, r.validatePedal, r.validateTask, r.validateGate} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, f := range []struct{ key, v string }{{"robot.type", r.Robot.Type}, {"robot.id", r.Robot.ID}, {"site", r.Site}, {"operator", r.Operator}} {
		if strings.TrimSpace(f.v) == "" {
			return fmt.Errorf("%s: empty", f.key)
		}
	}
	return nil
}

// CameraNames are the names whose topics other programs know.
var CameraNames = []string{"left", "right", "center"}

func (r *Rig) validateCameras() error {
	seen := map[string]bool{}
	for i, c := range r.Cameras {
		u, err := url.Parse(c.URL)
		switch {
		case !slices.Contains(CameraNames, c.Name):
			return fmt.Errorf("cameras[%d].name: %q, want one of %s", i, c.Name, strings.Join(CameraNames, ", "))
		case seen[c.Name]:
			return fmt.Errorf("cameras[%d].name: %q is there twice", i, c.Name)
		case err != nil || (u.Scheme != "rtsp" && u.Scheme != "rtsps") || u.Host == "":
			return fmt.Errorf("cameras[%d].url: %q is no rtsp:// address", i, c.URL)
		case !(c.RateHz > 0 && c.RateHz <= 1000):
			return fmt.Errorf("cameras[%d].rate_hz: %v, want the frames per second of the camera", i, c.RateHz)
		case c.Width < 0 || c.Height < 0:
			return fmt.Errorf("cameras[%d]: width and height must not be negative", i)
		}
		seen[c.Name] = true
	}
	return nil
}

func (r *Rig) validateEncoders() error {
	seen := map[string]bool{}
	for i, e := range r.Encoders {
		switch {
		case e.Side != "left" && e.Side != "right":
			return fmt.Errorf("encoders[%d].side: %q, want left or right", i, e.Side)
		case seen[e.Side]:
			return fmt.Errorf("encoders[%d].side: %q is there twice", i, e.Side)
		case e.Port == "":
			return fmt.Errorf("encoders[%d].port: empty", i)
		case e.Direction != 1 && e.Direction != -1:
			return fmt.Errorf("encoders[%d].direction: %d, want -1 (AS5601) or 1 (AS5048A)", i, e.Direction)
		case !(e.ClosedRawRad >= 0 && e.ClosedRawRad < 2*math.Pi):
			return fmt.Errorf("encoders[%d].closed_raw_rad: %v, want 0 to 6.283", i, e.ClosedRawRad)
		case !(e.RateHz > 0 && e.RateHz <= 10000):
			return fmt.Errorf("encoders[%d].rate_hz: %v, want the samples per second of the encoder (about 190)", i, e.RateHz)
		}
		seen[e.Side] = true
	}
	return nil
}

func (r *Rig) validateTracker() error {
	if r.Tracker.Address == "" {
		return nil
	}
	if !(r.Tracker.RateHz > 0 && r.Tracker.RateHz <= 1000) {
		return fmt.Errorf("tracker.rate_hz: %v, want the frames per second of the headset (72)", r.Tracker.RateHz)
	}
	for i, m := range []Transform{r.Tracker.Mounts.Left, r.Tracker.Mounts.Right} {
		if !m.Pose().Finite() {
			return fmt.Errorf("tracker.mounts.%s: not finite", sides[i])
		}
	}
	return nil
}

func (r *Rig) validatePedal() error {
	p := r.Pedal
	if p.Path == "" {
		return fmt.Errorf("pedal.path: empty; recording is driven by the pedal")
	}
	if len(p.Keys) != pedal.Buttons {
		return fmt.Errorf("pedal.keys: %d key codes, want %d", len(p.Keys), pedal.Buttons)
	}
	buttons := []int{p.Accept, p.Reject, p.Cancel}
	for i, b := range buttons {
		if b < 0 || b >= pedal.Buttons {
			return fmt.Errorf("pedal: button %d, want 0 to %d", b, pedal.Buttons-1)
		}
		if slices.Contains(buttons[:i], b) {
			return fmt.Errorf("pedal: accept, reject and cancel must be three buttons, %d is there twice", b)
		}
	}
	return nil
}

func (r *Rig) validateTask() error {
	if strings.TrimSpace(r.Task.Name) == "" {
		return fmt.Errorf("task.name: empty")
	}
	if len(r.Task.Subtasks) == 0 {
		return fmt.Errorf("task.subtasks: empty; name at least one prompt, such as \"pick up the block\"")
	}
	for i, s := range r.Task.Subtasks {
		if strings.TrimSpace(s) == "" {
			return fmt.Errorf("task.subtasks[%d]: empty", i)
		}
	}
	return nil
}

func (r *Rig) validateGate() error {
	g := r.Gate
	if g.Settle < 0 || g.FailAfter < 0 || g.RecoverHold < 0 || g.SilentAfter <= 0 || g.RateWindow <= 0 || !(g.MinRate >= 0 && g.MinRate <= 1) {
		return fmt.Errorf("gate: times must not be negative, silent_after and rate_window above 0, min_rate 0 to 1")
	}
	return nil
}

// environment is the type for meta.json.
func (r *Rig) environment() string {
	if r.Robot.Simulation {
		return meta.Simulation
	}
	return meta.RealWorld
}
