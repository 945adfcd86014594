package stub

import (
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
	wire "github.com/pinch-robotics/pinch/internal/wire/xarm"
)

// XArmOptions shape a controller.
type XArmOptions struct {
	Model    string            // xarm6 or xarm7 (default)
	IP       string            // address it listens at, with the real ports; default: 127.0.0.1 with free ports
	Q        robotmodel.Joints // where the arm stands; default its rest posture
	Patience time.Duration     // as UROptions.Patience
	ErrorM   float64           // displaces the reported tool along x
}

// XArm is an xArm controller: modes, states, errors, servo motion with its speed guards, reports. Its time advances by cycles of 4 ms. Safe
// for concurrent use.
type XArm struct {
	opts             XArmOptions
	model            robotmodel.Arm
	begin            time.Time
	wg               sync.WaitGroup
	close            chan struct{}
	control, reports net.Listener

	mu      sync.Mutex // guards the rest
	cond    *sync.Cond
	cycles  int64
	q       robotmodel.Joints
	dq      robotmodel.Joints
	target  robotmodel.Joints
	mode    int
	state   int
	code    int
	pressed bool // the emergency stop button
	enabled bool
	served  bool
	stream  bool // servo commands come
	conns   map[net.Conn]bool
	readers map[net.Conn]bool
	log     []string
	down    bool

	maxStep, maxAcc float64
}

const xarmCycle = 4 * time.Millisecond

// NewXArm starts a controller in position mode, motors off.
func NewXArm(o XArmOptions) (*XArm, error) {
	if o.Model == "" {
		o.Model = "xarm7"
	}
	model, err := robotmodel.ByName(o.Model)
	if err != nil {
		return nil, err
	}
	if o.Q == (robotmodel.Joints{}) {
		o.Q = model.Rest
	}
	x := &XArm{opts: o, model: model, begin: time.Now(), close: make(chan struct{}), q: o.Q, target: o.Q, state: wire.StateStopped,
		conns: map[net.Conn]bool{}, readers: map[net.Conn]bool{}}
	x.cond = sync.NewCond(&x.mu)
	for _, l := range []struct {
		at   *net.Listener
		port int
		run  func(net.Conn)
	}{{&x.control, 502, x.serveControl}, {&x.reports, 30003, x.serveReports}} {
		addr := "127.0.0.1:0"
		if o.IP != "" {
			addr = fmt.Sprintf("%s:%d", o.IP, l.port)
		}
		if *l.at, err = net.Listen("tcp", addr); err != nil {
			x.Close()
			return nil, fmt.Errorf("start controller: %w", err)
		}
		x.wg.Add(1)
		go x.accept(*l.at, l.run)
	}
	x.wg.Add(1)
	go x.run()
	return x, nil
}

// Control and Reports are the addresses of its ports.
func (x *XArm) Control() string { return x.control.Addr().String() }

// Reports is the address of the 100 Hz reports.
func (x *XArm) Reports() string { return x.reports.Addr().String() }

func (x *XArm) accept(l net.Listener, run func(net.Conn)) {
	defer x.wg.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		x.mu.Lock()
		if x.down {
			x.mu.Unlock()
			_ = c.Close()
			return
		}
		x.conns[c] = true
		x.wg.Add(1)
		x.mu.Unlock()
		go func() {
			defer x.wg.Done()
			run(c)
			_ = c.Close()
			x.mu.Lock()
			delete(x.conns, c)
			x.mu.Unlock()
		}()
	}
}

func (x *XArm) run() {
	defer x.wg.Done()
	tick := time.NewTicker(xarmCycle)
	defer tick.Stop()
	for {
		select {
		case <-x.close:
			return
		case <-tick.C:
		}
		x.mu.Lock()
		if x.opts.Patience > 0 && x.stream && !x.served {
			late := time.AfterFunc(x.opts.Patience, func() {
				x.mu.Lock()
				x.cond.Broadcast()
				x.mu.Unlock()
			})
			for end := time.Now().Add(x.opts.Patience); x.stream && !x.served && time.Now().Before(end) && !x.down; {
				x.cond.Wait()
			}
			late.Stop()
		}
		x.served = false
		x.cycle()
		x.cond.Broadcast()
		x.mu.Unlock()
	}
}

// cycle carries the newest target out at full speed, as servo mode does, under the guards that stop it.
func (x *XArm) cycle() {
	x.cycles++
	dt := xarmCycle.Seconds()
	before, beforeV := x.q, x.dq
	if x.mode == wire.ModeServo && x.state != wire.StateStopped && x.state != wire.StatePaused && x.code == 0 {
		x.q = x.target
	}
	for j := range x.q {
		x.dq[j] = (x.q[j] - before[j]) / dt
	}
	was, is := x.model.Forward(before), x.model.Forward(x.q)
	speed := robotmodel.Norm(robotmodel.Sub(is.Flange().P, was.Flange().P)) / dt
	switch {
	case speed > 1.2:
		x.fail(60, fmt.Sprintf("the tool moves with %.2f m/s", speed))
	default:
		for j := range x.dq {
			if math.Abs(x.dq[j]) > math.Pi*1.02 {
				x.fail(24, fmt.Sprintf("joint %d moves with %.2f rad/s", j+1, x.dq[j]))
			}
		}
	}
	if x.code == 24 || x.code == 60 {
		x.q, x.dq = before, robotmodel.Joints{} // the guard refuses the step
		x.target = before
	}
	for j := range x.q {
		x.maxStep = math.Max(x.maxStep, math.Abs(x.q[j]-before[j]))
		x.maxAcc = math.Max(x.maxAcc, math.Abs(x.dq[j]-beforeV[j])/dt)
	}
	if x.cycles%3 == 0 { // 83 Hz; a real one sends 100 reports a second
		b := wire.AppendReport(nil, wire.Report{State: x.state, Mode: x.mode, Q: x.q, Tool: x.tool()})
		for c := range x.readers {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, err := c.Write(b); err != nil {
				delete(x.readers, c)
			}
		}
	}
}

func (x *XArm) fail(code int, why string) {
	if x.code == 0 {
		x.log = append(x.log, fmt.Sprintf("%s: %s", wire.ErrorText(code), why))
	}
	x.code, x.state = code, wire.StateStopped
}

// tool is the flange in mm with roll, pitch, yaw.
func (x *XArm) tool() (v [6]float64) {
	c := x.model.Forward(x.q)
	f := c.Flange()
	for k := range f.P {
		v[k] = f.P[k] * 1000
	}
	v[0] += x.opts.ErrorM * 1000
	v[3], v[4], v[5] = math.Atan2(f.R[7], f.R[8]), math.Asin(math.Max(-1, math.Min(1, -f.R[6]))), math.Atan2(f.R[3], f.R[0])
	return v
}

func (x *XArm) serveReports(c net.Conn) {
	x.mu.Lock()
	x.readers[c] = true
	x.mu.Unlock()
	var b [16]byte
	for {
		if _, err := c.Read(b[:]); err != nil {
			x.mu.Lock()
			delete(x.readers, c)
			x.mu.Unlock()
			return
		}
	}
}

func (x *XArm) serveControl(c net.Conn) {
	defer func() {
		x.mu.Lock()
		x.stream = false
		x.cond.Broadcast()
		x.mu.Unlock()
	}()
	for {
		r, err := wire.Read(c)
		if err != nil {
			return
		}
		if !r.Ours() {
			continue
		}
		f, p := r.Function, r.Payload
		x.mu.Lock()
		for x.opts.Patience > 0 && f == wire.ServoJoint && x.served && !x.down {
			x.cond.Wait() // a busy machine has held the controller's own cycle up: one command each
		}
		values, err := x.answer(f, p)
		flags := byte(0)
		if err != nil {
			flags |= wire.BitInvalid
			x.log = append(x.log, fmt.Sprintf("function %d: %v", f, err))
		}
		if x.code != 0 {
			flags |= wire.BitError
		}
		if x.state == wire.StateStopped || !x.enabled {
			flags |= wire.BitNotReady
		}
		x.cond.Broadcast()
		x.mu.Unlock()
		if _, err := c.Write(wire.Append(nil, wire.Frame{Transaction: r.Transaction, Protocol: r.Protocol, Function: f, Payload: append([]byte{flags}, values...)})); err != nil {
			return
		}
	}
}

func text(s string, n int) []byte { return append([]byte(s), make([]byte, n-len(s))...) }

// answer carries out one request.
func (x *XArm) answer(f wire.Function, p []byte) ([]byte, error) {
	one := func() (byte, error) {
		if len(p) < 1 {
			return 0, errors.New("no parameter")
		}
		return p[0], nil
	}
	switch f {
	case wire.GetVersion:
		return text(fmt.Sprintf("%d,%d,XS%d,XX%d,v2.3.0", x.model.Joints(), x.model.Joints(), 1305, 1305), 40), nil
	case wire.GetSerial:
		return text("XS130500000001\x00AC130500000001", 40), nil
	case wire.MotionOn:
		if len(p) < 2 {
			return nil, errors.New("want axis and state")
		}
		x.enabled = p[1] == 1
		return nil, nil
	case wire.SetState:
		v, err := one()
		if err == nil && v == wire.StateReady && x.code == 0 && x.enabled {
			x.state, x.target = wire.StateStandby, x.q
		} else if err == nil && (v == wire.StatePaused || v == wire.StateStopped) {
			x.state = int(v)
		}
		return nil, err
	case wire.GetState:
		return []byte{byte(x.state)}, nil
	case wire.GetQueued:
		return []byte{0, 0}, nil
	case wire.GetError:
		return []byte{byte(x.code), 0}, nil
	case wire.ClearError:
		x.code = 0
		if x.pressed {
			x.code = 2
		} else if x.state != wire.StateStopped {
			x.state = wire.StateStopped
		}
		return nil, nil
	case wire.ClearWarn, wire.SetTool:
		return nil, nil
	case wire.SetMode:
		v, err := one()
		if err == nil && v > 11 {
			return nil, fmt.Errorf("mode %d", v)
		}
		x.mode, x.state, x.stream = int(v), wire.StateStopped, false
		return nil, err
	case wire.GetToolPose:
		v := x.tool()
		return wire.AppendFloats(nil, v[:]...), nil
	case wire.GetJoints:
		return wire.AppendFloats(nil, x.q[:]...), nil
	case wire.ServoJoint:
		return nil, x.servo(p)
	}
	return x.other(f)
}

// other answers what the vendor's own client asks for beyond our needs.
func (x *XArm) other(f wire.Function) ([]byte, error) {
	switch f {
	case 5, 6, 7, 18, 20, 36, 37, 38: // settings without effect here
		return nil, nil
	case 110: // hardware types
		return []byte{0, 0}, nil
	}
	return nil, errors.New("unknown")
}

func (x *XArm) servo(p []byte) error {
	v, err := wire.Floats(p, 10)
	if err != nil {
		return err
	}
	x.served, x.stream = true, true
	if x.mode != wire.ModeServo {
		return fmt.Errorf("servo command in mode %d", x.mode)
	}
	if x.code != 0 || x.state == wire.StateStopped || x.state == wire.StatePaused {
		return nil // dropped: the state tells
	}
	for j := 0; j < x.model.Joints(); j++ {
		if l := x.model.Limits; !(v[j] >= l.QMin[j]-1e-6 && v[j] <= l.QMax[j]+1e-6) {
			x.fail(23, fmt.Sprintf("joint %d at %.3f rad", j+1, v[j]))
			return nil
		}
	}
	copy(x.target[:], v[:7])
	return nil
}

// Now is the controller's time as a host's clock.
func (x *XArm) Now() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.begin.Add(time.Duration(x.cycles) * xarmCycle)
}

// Joints is where the arm is, and how fast it moves.
func (x *XArm) Joints() (q, dq robotmodel.Joints) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.q, x.dq
}

// EmergencyStop presses the button; Release lets it go.
func (x *XArm) EmergencyStop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pressed = true
	x.code, x.state = 2, wire.StateStopped
}

// Release lets the button go; the error stays until it is cleared.
func (x *XArm) Release() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.pressed = false
}

// SetState is another client's order, for example the web studio's.
func (x *XArm) SetState(state int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state = state
}

// Log lists errors and refused requests.
func (x *XArm) Log() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.log...)
}

// Peaks are the largest step (rad in one cycle) and acceleration (rad/s²) of any joint since the last call.
func (x *XArm) Peaks() (step, acceleration float64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	step, acceleration = x.maxStep, x.maxAcc
	x.maxStep, x.maxAcc = 0, 0
	return step, acceleration
}

// Cut closes all connections.
func (x *XArm) Cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for c := range x.conns {
		_ = c.Close()
	}
}

// Close ends the controller.
func (x *XArm) Close() {
	x.mu.Lock()
	if x.down {
		x.mu.Unlock()
		return
	}
	x.down = true
	close(x.close)
	for c := range x.conns {
		_ = c.Close()
	}
	for _, l := range []net.Listener{x.control, x.reports} {
		if l != nil {
			_ = l.Close()
		}
	}
	x.cond.Broadcast()
	x.mu.Unlock()
	x.wg.Wait()
}
