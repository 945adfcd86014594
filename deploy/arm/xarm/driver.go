// Package xarm drives a UFACTORY xArm 6 or 7 as an arm.Driver.
//
// The arm is put into servo mode, in which the controller carries out the newest joint target at full speed and queues nothing; so every target
// has to be one small step, which the arm process sees to. Reports at 100 Hz tell where the arm is. When this process dies the arm stays at
// the last target, a cycle away at most.
//
// Public reports that shaped it: servo mode is violent at its start because speeds are ignored (xArm-Developer/xArm-Python-SDK 60, 78, 93): the
// first target is where the arm stands; error C24 or C60 above 1 to 1.2 m/s of the tool (94, 124): the arm process holds at the model's
// flange speed; relative moves go astray after the tool was set (68): targets are joints, and the tool is set to the flange.
package xarm

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
	"syscall"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	wire "github.com/pinch-robotics/pinch/internal/wire/xarm"
)

// Options describe one arm.
type Options struct {
	Model string `yaml:"model"` // xarm6 or xarm7
	Host  string `yaml:"host"`  // the controller's address
	// SilenceMS is the silence of the controller after which it counts as gone; default 100.
	SilenceMS float64 `yaml:"silence_ms"`
	// KinematicsToleranceM is how far the controller's tool pose may be from our table's; default 0.002: it reports with float32 and its own
	// calibration.
	KinematicsToleranceM float64 `yaml:"kinematics_tolerance_m"`

	// Ports that differ from the controller's own; empty: host and the standard ones.
	ControlAddr string       `yaml:"control_addr"`
	ReportAddr  string       `yaml:"report_addr"`
	Logger      *slog.Logger `yaml:"-"` // nil: silent
}

func (o Options) withDefaults() (Options, error) {
	if o.SilenceMS == 0 {
		o.SilenceMS = 100
	}
	if o.KinematicsToleranceM == 0 {
		o.KinematicsToleranceM = 0.002
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Model != "xarm6" && o.Model != "xarm7" {
		return o, fmt.Errorf("xarm: model: %q, want xarm6 or xarm7", o.Model)
	}
	for addr, port := range map[*string]int{&o.ControlAddr: 502, &o.ReportAddr: 30003} {
		if *addr == "" {
			*addr = fmt.Sprintf("%s:%d", o.Host, port)
		}
	}
	if strings.HasPrefix(o.ControlAddr, ":") {
		return o, errors.New("xarm: host: must name the controller")
	}
	if !(o.SilenceMS >= 20 && o.SilenceMS <= 5000) {
		return o, fmt.Errorf("xarm: silence_ms: %v is outside 20 to 5000", o.SilenceMS)
	}
	if !(o.KinematicsToleranceM >= 1e-5 && o.KinematicsToleranceM <= 0.05) {
		return o, fmt.Errorf("xarm: kinematics_tolerance_m: %v is outside 0.00001 to 0.05", o.KinematicsToleranceM)
	}
	return o, nil
}

// cycle is the controller's own: 250 Hz.
const cycle = 4 * time.Millisecond

// Driver is one arm. It implements arm.Driver.
type Driver struct {
	opts    Options
	model   robotmodel.Arm
	log     *slog.Logger
	due     time.Time
	out     []byte
	trans   uint16
	flags   byte // of the last response
	code    int  // the controller's error, when flags say so
	reports *bufio.Reader

	mu      sync.Mutex // guards the rest: the connections against Close, the newest report
	control net.Conn
	report  net.Conn
	newest  wire.Report
	dq      robotmodel.Joints
	at      time.Time
	dead    error // why there are no more reports
	closed  bool
	wg      sync.WaitGroup
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
	return &Driver{opts: o, model: model, log: o.Logger.With("component", "xarm")}, nil
}

// Model implements arm.Driver.
func (d *Driver) Model() string { return d.opts.Model }

// Cycle implements arm.Driver.
func (d *Driver) Cycle() time.Duration { return cycle }

func (d *Driver) silence() time.Duration {
	return time.Duration(d.opts.SilenceMS * float64(time.Millisecond))
}

// Start implements arm.Driver.
func (d *Driver) Start(ctx context.Context) (arm.Measured, error) {
	var dial net.Dialer
	for addr, conn := range map[string]*net.Conn{d.opts.ControlAddr: &d.control, d.opts.ReportAddr: &d.report} {
		c, err := dial.DialContext(ctx, "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return arm.Measured{}, fmt.Errorf("connect to xArm at %s: nothing listens there; is the control box on? %w", addr, err)
		}
		if err != nil {
			return arm.Measured{}, fmt.Errorf("connect to xArm at %s: %w", addr, err)
		}
		d.mu.Lock()
		*conn = c
		d.mu.Unlock()
	}
	version, err := d.ask(wire.GetVersion, nil)
	if err != nil {
		return arm.Measured{}, err
	}
	d.log.Info("controller", "version", strings.TrimRight(string(version), "\x00"))
	d.reports = bufio.NewReader(d.report)
	d.wg.Add(1)
	go d.listen()
	if err := d.enable(); err != nil {
		return arm.Measured{}, err
	}
	m, err := d.measure()
	if err != nil {
		return m, err
	}
	if m.Fault != "" {
		return m, errors.New("xarm: " + m.Fault)
	}
	return m, d.checkKinematics(m)
}

// enable clears old errors and goes into servo mode. Nothing moves.
func (d *Driver) enable() error {
	d.code = 0
	for _, s := range []struct {
		f wire.Function
		p []byte
	}{
		{wire.ClearError, nil}, {wire.ClearWarn, nil}, {wire.MotionOn, []byte{8, 1}}, {wire.SetTool, wire.AppendFloats(nil, 0, 0, 0, 0, 0, 0)},
		{wire.SetMode, []byte{wire.ModeServo}}, {wire.SetState, []byte{wire.StateReady}},
	} {
		if _, err := d.ask(s.f, s.p); err != nil {
			return err
		}
	}
	if _, err := d.ask(wire.GetState, nil); err != nil {
		return err
	}
	if d.flags&wire.BitError != 0 {
		if err := d.readError(); err != nil {
			return err
		}
		return fmt.Errorf("xarm: the controller has an error that does not clear (%s); take its cause away", wire.ErrorText(d.code))
	}
	return d.awaitServo()
}

// awaitServo waits until a report shows servo mode and no stop: the first reports after the change are older.
func (d *Driver) awaitServo() error {
	for end := time.Now().Add(2 * time.Second); ; {
		r, _, err := d.latest()
		if err == nil && r.Mode == wire.ModeServo && r.State != wire.StateStopped && r.State != wire.StatePaused {
			return nil
		}
		if time.Now().After(end) {
			if err != nil {
				return err
			}
			return fmt.Errorf("xarm: the controller stays in mode %d, state %d; is another program or the web studio using the arm?", r.Mode, r.State)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (d *Driver) readError() error {
	v, err := d.ask(wire.GetError, nil)
	if err != nil {
		return err
	}
	if len(v) < 2 {
		return fmt.Errorf("xarm: error codes have %d bytes, want 2", len(v))
	}
	d.code = int(v[0])
	return nil
}

// ask sends a request and waits for its response; its values come without the state, whose bits are kept. A refused request is an error, an
// error state is not.
func (d *Driver) ask(f wire.Function, params []byte) ([]byte, error) {
	d.trans++
	d.out = wire.Append(d.out[:0], wire.Frame{Transaction: d.trans, Protocol: wire.Private, Function: f, Payload: params})
	if err := d.control.SetDeadline(time.Now().Add(d.silence())); err != nil {
		return nil, err
	}
	if _, err := d.control.Write(d.out); err != nil {
		return nil, fmt.Errorf("xarm: send function %d: %w", f, err)
	}
	for {
		got, err := wire.Read(d.control)
		if err != nil {
			return nil, fmt.Errorf("xarm: wait for the answer to function %d: %w", f, err)
		}
		if !got.Ours() || got.Transaction != d.trans || got.Function != f {
			continue
		}
		if len(got.Payload) < 1 {
			return nil, fmt.Errorf("xarm: answer to function %d without a state", f)
		}
		d.flags = got.Payload[0]
		if d.flags&wire.BitInvalid != 0 {
			return nil, fmt.Errorf("xarm: the controller does not know function %d with these parameters; its firmware may be too old", f)
		}
		return got.Payload[1:], nil
	}
}

// listen keeps the newest report.
func (d *Driver) listen() {
	defer d.wg.Done()
	for {
		r, err := wire.ReadReport(d.reports)
		now := time.Now()
		d.mu.Lock()
		if err != nil {
			d.dead = fmt.Errorf("xarm: the controller's reports have stopped: %w", err)
			d.mu.Unlock()
			return
		}
		if dt := now.Sub(d.at).Seconds(); !d.at.IsZero() && dt > 1e-3 {
			for j := range d.dq {
				d.dq[j] = (r.Q[j] - d.newest.Q[j]) / dt
			}
		}
		d.newest, d.at = r, now
		d.mu.Unlock()
	}
}

// latest is the newest report, an error when there is none young enough.
func (d *Driver) latest() (wire.Report, robotmodel.Joints, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead != nil {
		return d.newest, d.dq, d.dead
	}
	if age := time.Since(d.at); age > d.silence() {
		return d.newest, d.dq, fmt.Errorf("xarm: the controller has not reported for %v", age.Round(time.Millisecond))
	}
	return d.newest, d.dq, nil
}

func (d *Driver) measure() (arm.Measured, error) {
	r, dq, err := d.latest()
	if err != nil {
		return arm.Measured{}, err
	}
	m := arm.Measured{Q: r.Q, DQ: dq}
	switch {
	case d.flags&wire.BitError != 0:
		if d.code == 0 {
			if err := d.readError(); err != nil {
				return m, err
			}
		}
		m.Fault = "the controller stopped: " + wire.ErrorText(d.code)
	case r.State == wire.StateStopped:
		m.Fault = "the controller was stopped (state 4)"
	case r.State == wire.StatePaused:
		m.Fault = "the controller was paused (state 3)"
	case r.Mode != wire.ModeServo:
		m.Fault = fmt.Sprintf("another program has put the arm into mode %d", r.Mode)
	}
	return m, nil
}

// Next implements arm.Driver: the arm's commands are paced by this computer's clock.
func (d *Driver) Next(ctx context.Context) (arm.Measured, error) {
	now := time.Now()
	d.due = d.due.Add(cycle)
	if d.due.Before(now.Add(-cycle)) {
		d.due = now // held up: cycles that are over are not made up for
	}
	if wait := time.Until(d.due); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-ctx.Done():
			return arm.Measured{}, ctx.Err()
		case <-t.C:
		}
	}
	if d.code != 0 { // an error stands: nothing is sent, so ask for its end
		if _, err := d.ask(wire.GetState, nil); err != nil {
			return arm.Measured{}, err
		}
	}
	return d.measure()
}

// Command implements arm.Driver.
func (d *Driver) Command(c armrt.Command) error {
	var v [10]float64
	copy(v[:d.model.Joints()], c.Q[:])
	_, err := d.ask(wire.ServoJoint, wire.AppendFloats(nil, v[:]...))
	return err
}

// Recover implements arm.Driver.
func (d *Driver) Recover(context.Context) (arm.Measured, error) {
	if err := d.enable(); err != nil {
		return arm.Measured{}, err
	}
	return d.measure()
}

// checkKinematics compares the controller's flange with our table's.
func (d *Driver) checkKinematics(m arm.Measured) error {
	raw, err := d.ask(wire.GetToolPose, nil)
	if err != nil {
		return err
	}
	tool, err := wire.Floats(raw, 6)
	if err != nil {
		return fmt.Errorf("xarm: tool pose: %w", err)
	}
	c := d.model.Forward(m.Q)
	at := robotmodel.Vec{tool[0] / 1000, tool[1] / 1000, tool[2] / 1000}
	if off := robotmodel.Norm(robotmodel.Sub(c.Flange().P, at)); !(off <= d.opts.KinematicsToleranceM) || math.IsNaN(off) {
		return fmt.Errorf("xarm: the controller places its flange at %.4f, the table of %s at %.4f, %.1f mm apart, allowed %.1f; is the model right?",
			at, d.opts.Model, c.Flange().P, off*1e3, d.opts.KinematicsToleranceM*1e3)
	}
	return nil
}

// Close implements arm.Driver. The arm stays where its last target is.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	d.closed = true
	var err error
	for _, c := range []net.Conn{d.control, d.report} {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	d.mu.Unlock()
	d.wg.Wait()
	return err
}
