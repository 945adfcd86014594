package armtest

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// Device is an arm that follows its commands exactly, in memory: for tests of what stands above a driver. Safe for concurrent use.
type Device struct {
	model robotmodel.Arm
	begin time.Time

	mu              sync.Mutex // guards the rest
	q, dq           robotmodel.Joints
	cycles          int64
	fault, hold     string
	pressed         bool
	gone            bool
	stuck           bool
	maxStep, maxAcc float64
}

const deviceCycle = 2 * time.Millisecond

// NewDevice makes a device of a model, at its rest posture.
func NewDevice(model string) (*Device, error) {
	m, err := robotmodel.ByName(model)
	if err != nil {
		return nil, err
	}
	return &Device{model: m, begin: time.Now(), q: m.Rest}, nil
}

// Driver makes a driver for the device.
func (d *Device) Driver() arm.Driver {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = false
	return &plain{d: d, tick: time.NewTicker(deviceCycle), done: make(chan struct{})}
}

// Now is the device's clock as a host's.
func (d *Device) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begin.Add(time.Duration(d.cycles) * deviceCycle)
}

// Joints is where the device is, and how fast it moves.
func (d *Device) Joints() (q, dq robotmodel.Joints) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.q, d.dq
}

// Stop presses its stop, Release lets go, Die cuts its connection, Hold asks for the end of motion, Stick blocks its joints.
func (d *Device) Stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pressed, d.fault, d.dq = true, "somebody pressed stop", robotmodel.Joints{}
}

// Release lets the stop go; the fault stays until Recover.
func (d *Device) Release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pressed = false
}

// Die cuts the connection.
func (d *Device) Die() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone, d.dq = true, robotmodel.Joints{}
}

// Hold makes the device ask for the end of motion, "" no more.
func (d *Device) Hold(why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = why
}

// Stick blocks the joints.
func (d *Device) Stick(stuck bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.stuck = stuck
}

// Peaks are the largest step and acceleration since the last call.
func (d *Device) Peaks() (step, acceleration float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	step, acceleration = d.maxStep, d.maxAcc
	d.maxStep, d.maxAcc = 0, 0
	return step, acceleration
}

// Skip lets the device's clock jump, as a loop that is held up does.
func (d *Device) Skip(t time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begin = d.begin.Add(t)
}

// plain is a Driver of a Device.
type plain struct {
	d    *Device
	tick *time.Ticker
	once sync.Once
	done chan struct{}
}

var errGone = errors.New("the device is gone")

func (p *plain) Model() string        { return p.d.model.Name }
func (p *plain) Cycle() time.Duration { return deviceCycle }

func (p *plain) measured() (arm.Measured, error) {
	p.d.mu.Lock()
	defer p.d.mu.Unlock()
	if p.d.gone {
		return arm.Measured{}, errGone
	}
	return arm.Measured{Q: p.d.q, DQ: p.d.dq, Fault: p.d.fault, Hold: p.d.hold}, nil
}

func (p *plain) Start(context.Context) (arm.Measured, error) { return p.measured() }

func (p *plain) Next(context.Context) (arm.Measured, error) {
	select {
	case <-p.tick.C:
	case <-p.done:
		return arm.Measured{}, errGone
	}
	p.d.mu.Lock()
	p.d.cycles++
	p.d.mu.Unlock()
	return p.measured()
}

func (p *plain) Command(c armrt.Command) error {
	d := p.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return errGone
	}
	if d.stuck {
		return nil
	}
	dt := deviceCycle.Seconds()
	for j := range d.q {
		v := (c.Q[j] - d.q[j]) / dt
		d.maxStep = math.Max(d.maxStep, math.Abs(c.Q[j]-d.q[j]))
		d.maxAcc = math.Max(d.maxAcc, math.Abs(v-d.dq[j])/dt)
		d.q[j], d.dq[j] = c.Q[j], v
	}
	return nil
}

func (p *plain) Recover(context.Context) (arm.Measured, error) {
	p.d.mu.Lock()
	if !p.d.pressed {
		p.d.fault = ""
	}
	p.d.mu.Unlock()
	return p.measured()
}

func (p *plain) Close() error {
	p.once.Do(func() { close(p.done) })
	p.tick.Stop()
	p.d.mu.Lock()
	p.d.dq = robotmodel.Joints{}
	p.d.mu.Unlock()
	return nil
}
