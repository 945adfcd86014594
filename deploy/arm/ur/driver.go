// Package ur drives an arm of Universal Robots (e-series and CB3 from 3.10) as an arm.Driver.
//
// State comes from RTDE at the controller's rate, which also paces our loop. Commands go to a program of ours on the controller (URScript, see
// script.go), which connects back and follows them with servoj. Each command states within which time the next one has to come; when it does
// not, because this process died or the cable was pulled, the program brakes the arm by itself. A program that has ended, a protective stop, an
// emergency stop are a Fault; Recover unlocks a protective stop through the dashboard server and starts the program anew where the arm stands.
//
// Source: Universal Robots, RTDE guide and script manual; the message layout follows the vendor's client library, whose unlimited
// extrapolation (UniversalRobots/Universal_Robots_Client_Library 217) we leave out.
package ur

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/rtde"
)

// Options describe one arm.
type Options struct {
	Model string `yaml:"model"` // of package robotmodel: ur3e, ur5e, ur10e, ur16e, ur5, ur10
	Host  string `yaml:"host"`  // the controller's address
	// CallbackHost is this computer's address as the controller reaches it; default: the one that RTDE uses.
	CallbackHost string  `yaml:"callback_host"`
	LookaheadMS  float64 `yaml:"lookahead_ms"` // of servoj, 30 to 200; default 30
	Gain         float64 `yaml:"gain"`         // of servoj, 100 to 2000; default 1000
	// DeadManMS is the silence after which the controller brakes the arm; default 20, ten cycles.
	DeadManMS float64 `yaml:"dead_man_ms"`
	// SilenceMS is the silence of the controller after which it counts as gone; default 100.
	SilenceMS float64 `yaml:"silence_ms"`
	// KinematicsToleranceM is how far the controller's tool pose may be from our table's; default 0.001. A calibrated robot may need more.
	KinematicsToleranceM float64 `yaml:"kinematics_tolerance_m"`

	// Ports that differ from the controller's own; empty: host and the standard ones.
	RTDEAddr      string       `yaml:"rtde_addr"`
	ScriptAddr    string       `yaml:"script_addr"`
	DashboardAddr string       `yaml:"dashboard_addr"`
	Logger        *slog.Logger `yaml:"-"` // nil: silent
}

func (o Options) withDefaults() (Options, error) {
	def := func(v *float64, d float64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.LookaheadMS, 30)
	def(&o.Gain, 1000)
	def(&o.DeadManMS, 20)
	def(&o.SilenceMS, 100)
	def(&o.KinematicsToleranceM, 0.001)
	for addr, port := range map[*string]int{&o.RTDEAddr: 30004, &o.ScriptAddr: 30002, &o.DashboardAddr: 29999} {
		if *addr == "" {
			*addr = fmt.Sprintf("%s:%d", o.Host, port)
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if _, err := robotmodel.ByName(o.Model); err != nil || !strings.HasPrefix(o.Model, "ur") {
		return o, fmt.Errorf("ur: model: %q is no arm of Universal Robots; known models: %s", o.Model, strings.Join(robotmodel.Models(), ", "))
	}
	if o.Host == "" && strings.HasPrefix(o.RTDEAddr, ":") {
		return o, errors.New("ur: host: must name the controller")
	}
	for _, b := range []struct {
		key       string
		v, lo, hi float64
	}{
		{"lookahead_ms", o.LookaheadMS, 30, 200}, {"gain", o.Gain, 100, 2000}, {"dead_man_ms", o.DeadManMS, 4, 1000},
		{"silence_ms", o.SilenceMS, 10, 5000}, {"kinematics_tolerance_m", o.KinematicsToleranceM, 1e-5, 0.05},
	} {
		if !(b.v >= b.lo && b.v <= b.hi) {
			return o, fmt.Errorf("ur: %s: %v is outside %v to %v", b.key, b.v, b.lo, b.hi)
		}
	}
	return o, nil
}

// Driver is one arm. It implements arm.Driver.
type Driver struct {
	opts  Options
	model robotmodel.Arm
	log   *slog.Logger
	cycle time.Duration
	field struct{ q, qd, tcp, robot, safety, runtime, slider int }
	rec   rtde.Recipe
	out   []byte
	lost  string // why our program's socket failed, until RTDE shows that it ended

	mu      sync.Mutex // guards the connections against Close
	rtde    *rtde.Client
	reverse net.Conn
	closed  bool
}

// New checks the options; nothing is opened yet.
func New(o Options) (*Driver, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	model, err := robotmodel.ByName(o.Model)
	if err != nil {
		return nil, err
	}
	cycle := 2 * time.Millisecond
	if !strings.HasSuffix(o.Model, "e") {
		cycle = 8 * time.Millisecond // CB3: 125 Hz
	}
	return &Driver{opts: o, model: model, log: o.Logger.With("component", "ur"), cycle: cycle}, nil
}

// Model implements arm.Driver.
func (d *Driver) Model() string { return d.opts.Model }

// Cycle implements arm.Driver.
func (d *Driver) Cycle() time.Duration { return d.cycle }

// outputs that we stream.
var outputs = []string{"timestamp", "actual_q", "actual_qd", "actual_TCP_pose", "robot_mode", "safety_mode", "runtime_state", "target_speed_fraction"}

// Start implements arm.Driver: it connects, checks the robot's state, and starts our program. Nothing moves.
func (d *Driver) Start(ctx context.Context) (arm.Measured, error) {
	c, err := rtde.Dial(ctx, d.opts.RTDEAddr)
	if err != nil {
		return arm.Measured{}, err
	}
	c.Messages = func(source, text string) { d.log.Info("controller says", "source", source, "text", text) }
	d.mu.Lock()
	d.rtde = c
	d.mu.Unlock()
	if major := c.Version[0]; (major >= 5) != (d.cycle == 2*time.Millisecond) {
		return arm.Measured{}, fmt.Errorf("ur: the controller's software is %d.%d, which is not that of model %s", major, c.Version[1], d.opts.Model)
	}
	if d.rec, err = c.Stream(1/d.cycle.Seconds(), outputs...); err != nil {
		return arm.Measured{}, err
	}
	for at, name := range map[*int]string{&d.field.q: "actual_q", &d.field.qd: "actual_qd", &d.field.tcp: "actual_TCP_pose", &d.field.robot: "robot_mode",
		&d.field.safety: "safety_mode", &d.field.runtime: "runtime_state", &d.field.slider: "target_speed_fraction"} {
		*at = d.rec.Index(name)
	}
	p, err := d.read()
	if err != nil {
		return arm.Measured{}, err
	}
	if err := d.ready(p); err != nil {
		return arm.Measured{}, err
	}
	if err := d.launch(ctx); err != nil {
		return arm.Measured{}, err
	}
	if p, err = d.read(); err != nil {
		return arm.Measured{}, err
	}
	return d.measured(p), d.checkKinematics(p)
}

// read waits for the next package, at most Options.SilenceMS.
func (d *Driver) read() ([]byte, error) {
	p, skipped, err := d.rtde.Next(time.Now().Add(time.Duration(d.opts.SilenceMS * float64(time.Millisecond))))
	if err != nil {
		return nil, fmt.Errorf("ur: the controller's state has stopped: %w", err)
	}
	if skipped > 0 {
		d.log.Debug("states were skipped", "count", skipped)
	}
	return p, nil
}

// robotModes and safetyModes say what an operator has to do. Source: RTDE guide, "Robot mode" and "Safety mode".
var (
	robotModes = map[int64]string{-1: "has no controller", 0: "is disconnected", 1: "waits for a safety confirmation", 2: "is booting", 3: "is powered off",
		4: "is powered on, but its brakes are locked", 5: "is idle, its brakes are locked", 6: "is in backdrive", 8: "is updating its firmware"}
	safetyModes = map[int64]string{3: "protective stop", 4: "recovery mode", 5: "safeguard stop", 6: "emergency stop (system)", 7: "emergency stop (robot)",
		8: "safety violation", 9: "safety fault", 10: "safeguard stop (three-position switch)", 11: "safeguard stop (three-position switch)"}
)

// ready refuses a robot that can not follow.
func (d *Driver) ready(p []byte) error {
	if s := d.rec.Int(p, d.field.safety); s != 1 && s != 2 {
		return fmt.Errorf("ur: the robot is stopped (%s); release it at the teach pendant", safetyModes[s])
	} else if s == 2 {
		return errors.New("ur: the robot is in reduced mode; leave the reduced zone or switch the mode off")
	}
	if m := d.rec.Int(p, d.field.robot); m != 7 {
		return fmt.Errorf("ur: the robot %s; switch it on and release its brakes at the teach pendant", robotModes[m])
	}
	if f := d.rec.Float(p, d.field.slider); f < 0.99 {
		return fmt.Errorf("ur: the speed slider is at %.0f %%; set it to 100 %%, slow motion is the executor's business", 100*f)
	}
	return nil
}

// launch sends our program and waits until it has connected back and runs.
func (d *Driver) launch(ctx context.Context) error {
	d.hangUp()
	host := d.opts.CallbackHost
	if host == "" {
		host = d.rtde.LocalIP()
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return fmt.Errorf("ur: listen for the controller at %s: %w", host, err)
	}
	defer l.Close()
	var dial net.Dialer
	up, err := dial.DialContext(ctx, "tcp", d.opts.ScriptAddr)
	if err != nil {
		return fmt.Errorf("ur: send the program to %s: %w; is the robot in remote control?", d.opts.ScriptAddr, err)
	}
	defer up.Close()
	text := program(host, l.Addr().(*net.TCPAddr).Port, d.opts.LookaheadMS/1000, d.opts.Gain)
	if _, err := up.Write([]byte(text)); err != nil {
		return fmt.Errorf("ur: send the program to %s: %w", d.opts.ScriptAddr, err)
	}
	conn, err := d.accept(l)
	if err != nil {
		return err
	}
	d.mu.Lock()
	d.reverse, d.lost = conn, ""
	d.mu.Unlock()
	return d.awaitRunning()
}

// callbackTime is how long the controller may take to compile the program and connect.
const callbackTime = 5 * time.Second

// accept waits for the controller's connection and refuses anyone else's. The state stream is drained meanwhile.
func (d *Driver) accept(l net.Listener) (net.Conn, error) {
	end := time.Now().Add(callbackTime)
	for time.Now().Before(end) {
		if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(2 * time.Millisecond)); err != nil {
			return nil, err
		}
		c, err := l.Accept()
		if err != nil {
			if _, err := d.read(); err != nil {
				return nil, err
			}
			continue
		}
		if host, _, _ := net.SplitHostPort(c.RemoteAddr().String()); host != d.rtde.RemoteIP() {
			d.log.Warn("a connection that is not the controller's was refused", "peer", host)
			_ = c.Close()
			continue
		}
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetNoDelay(true)
		}
		return c, nil
	}
	return nil, fmt.Errorf("ur: the controller did not connect to %s within %v; is the robot in remote control, and does a firewall block that port?", l.Addr(), callbackTime)
}

// awaitRunning waits until RTDE shows that our program runs, and feeds it meanwhile with where the arm stands.
func (d *Driver) awaitRunning() error {
	for i := 0; i < 500; i++ {
		p, err := d.read()
		if err != nil {
			return err
		}
		if err := d.send(d.rec.Vec6(p, d.field.q), modeFollow); err != nil {
			return fmt.Errorf("ur: the program has ended: %w", err)
		}
		if d.rec.Int(p, d.field.runtime) == 2 {
			return nil
		}
	}
	return errors.New("ur: the controller does not say that the program runs")
}

func (d *Driver) send(q [6]float64, mode int32) error {
	d.out = message(d.out, int(math.Ceil(d.opts.DeadManMS)), q, mode)
	if err := d.reverse.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		return err
	}
	_, err := d.reverse.Write(d.out)
	return err
}

// checkKinematics compares the controller's flange (our program sets the tool to it) with our table's.
// Public reports: grasps off by centimetres because a driver used another link or table (flexivrobotics/flexiv_rdk 82, xArm-Developer/xarm_ros 221).
func (d *Driver) checkKinematics(p []byte) error {
	tool := d.rec.Vec6(p, d.field.tcp)
	m := d.measured(p)
	c := d.model.Forward(m.Q)
	at := robotmodel.Vec{tool[0], tool[1], tool[2]}
	if off := robotmodel.Norm(robotmodel.Sub(c.Flange().P, at)); off > d.opts.KinematicsToleranceM {
		return fmt.Errorf("ur: the controller places its flange at %.4f, the table of %s at %.4f, %.1f mm apart, allowed %.1f; is the model right? "+
			"A robot with its own calibration may need a larger kinematics_tolerance_m", at, d.opts.Model, c.Flange().P, off*1e3, d.opts.KinematicsToleranceM*1e3)
	}
	return nil
}

func (d *Driver) measured(p []byte) (m arm.Measured) {
	q, qd := d.rec.Vec6(p, d.field.q), d.rec.Vec6(p, d.field.qd)
	copy(m.Q[:], q[:])
	copy(m.DQ[:], qd[:])
	switch s, r := d.rec.Int(p, d.field.safety), d.rec.Int(p, d.field.robot); {
	case s != 1 && s != 2:
		m.Fault = "the robot is stopped: " + safetyModes[s]
	case r != 7:
		m.Fault = "the robot " + robotModes[r]
	case d.rec.Int(p, d.field.runtime) != 2:
		m.Fault = "the program on the controller has ended"
		if d.lost != "" {
			m.Fault += " (" + d.lost + ")"
		}
	case s == 2:
		m.Hold = "the robot is in reduced mode"
	case d.rec.Float(p, d.field.slider) < 0.99:
		m.Hold = fmt.Sprintf("the speed slider was set to %.0f %%", 100*d.rec.Float(p, d.field.slider))
	}
	return m
}

// Next implements arm.Driver.
func (d *Driver) Next(context.Context) (arm.Measured, error) {
	p, err := d.read()
	if err != nil {
		return arm.Measured{}, err
	}
	return d.measured(p), nil
}

// Command implements arm.Driver. A socket that fails is no error here: the program's end shows in the next states.
func (d *Driver) Command(c armrt.Command) error {
	var q [6]float64
	copy(q[:], c.Q[:6])
	if err := d.send(q, modeFollow); err != nil && d.lost == "" {
		d.lost = err.Error()
		d.log.Warn("the program's connection failed", "err", err)
	}
	return nil
}

// Recover implements arm.Driver.
func (d *Driver) Recover(ctx context.Context) (arm.Measured, error) {
	p, err := d.read()
	if err != nil {
		return arm.Measured{}, err
	}
	if d.rec.Int(p, d.field.safety) == 3 {
		if err := d.unlock(ctx); err != nil {
			return arm.Measured{}, err
		}
		for i := 0; i < 100 && d.rec.Int(p, d.field.safety) == 3; i++ {
			if p, err = d.read(); err != nil {
				return arm.Measured{}, err
			}
		}
	}
	if err := d.ready(p); err != nil {
		return arm.Measured{}, err
	}
	if err := d.launch(ctx); err != nil {
		return arm.Measured{}, err
	}
	if p, err = d.read(); err != nil {
		return arm.Measured{}, err
	}
	return d.measured(p), nil
}

// unlock acknowledges a protective stop through the dashboard server. The controller itself refuses within 5 s after the stop.
func (d *Driver) unlock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var dial net.Dialer
	c, err := dial.DialContext(ctx, "tcp", d.opts.DashboardAddr)
	if err != nil {
		return fmt.Errorf("ur: unlock the protective stop at %s: %w; unlock it at the teach pendant", d.opts.DashboardAddr, err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	if _, err := r.ReadString('\n'); err != nil {
		return fmt.Errorf("ur: dashboard server: %w", err)
	}
	for _, order := range []string{"close safety popup", "unlock protective stop"} {
		if _, err := fmt.Fprintln(c, order); err != nil {
			return fmt.Errorf("ur: dashboard server: %w", err)
		}
		answer, err := r.ReadString('\n')
		if err != nil {
			return fmt.Errorf("ur: dashboard server: %w", err)
		}
		if order == "unlock protective stop" && !strings.HasPrefix(answer, "Protective stop releasing") {
			return fmt.Errorf("ur: the controller does not unlock the protective stop: %s", strings.TrimSpace(answer))
		}
	}
	return nil
}

// hangUp closes the connection of our program, if there is one.
func (d *Driver) hangUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reverse != nil {
		_ = d.reverse.Close()
		d.reverse = nil
	}
}

// Close implements arm.Driver: the program on the controller is told to end, which brakes an arm that moves.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	if d.reverse != nil {
		_ = d.reverse.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = d.reverse.Write(message(nil, 0, [6]float64{}, modeEnd))
		_ = d.reverse.Close()
	}
	if d.rtde != nil {
		return d.rtde.Close()
	}
	return nil
}
