package stub

import (
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// UROptions shape a controller.
type UROptions struct {
	Model string            // default "ur5e"
	IP    string            // address it listens at, with the real ports; default: 127.0.0.1 with free ports
	Q     robotmodel.Joints // where the arm stands; default its rest posture
	// Patience is how long the controller waits for a streamed command before a cycle passes without it: with it a busy machine does not look like
	// a late client. 0: none, as on a real controller.
	Patience time.Duration
	// ErrorM displaces the reported tool along x: a robot whose kinematics differ from the table.
	ErrorM float64
}

// UR is a controller of an e-series arm: RTDE, the script port, the dashboard, motion with limits, safety modes. Its time advances by cycles of
// 2 ms. Safe for concurrent use.
type UR struct {
	opts         UROptions
	model        robotmodel.Arm
	begin        time.Time
	wg           sync.WaitGroup
	close        chan struct{}
	rtde         net.Listener
	script, dash net.Listener

	mu     sync.Mutex // guards the rest
	cond   *sync.Cond // a cycle has passed, or something arrived
	cycles int64
	q, qd  [6]float64
	cmd    [6]float64 // target
	mode   motion
	goal   [6]float64
	look   float64
	decel  float64

	robotMode, safetyMode int
	slider                float64
	tcp                   robotmodel.Transform
	program               *program
	streams               map[*rtdeConn]bool
	taken                 map[string]*rtdeConn // inputs in use
	inputs                map[string][]float64
	conns                 map[net.Conn]bool
	served                bool // a streamed command was used in this cycle
	log                   []string
	maxJump, maxAcc       float64
	down                  bool
}

type motion int

const (
	holding motion = iota
	servoing
	stopping
)

// Modes as RTDE numbers them.
const (
	robotPowerOff = 3
	robotRunning  = 7

	safetyNormal     = 1
	safetyProtective = 3
	safetySafeguard  = 5
	safetyEmergency  = 7
)

const urCycle = 2 * time.Millisecond

// NewUR starts a controller, powered on with its brakes released.
func NewUR(o UROptions) (*UR, error) {
	if o.Model == "" {
		o.Model = "ur5e"
	}
	model, err := robotmodel.ByName(o.Model)
	if err != nil {
		return nil, err
	}
	if o.Q == (robotmodel.Joints{}) {
		o.Q = model.Rest
	}
	u := &UR{opts: o, model: model, begin: time.Now(), close: make(chan struct{}), robotMode: robotRunning, safetyMode: safetyNormal, slider: 1,
		tcp: robotmodel.Translation(0, 0, 0.2), streams: map[*rtdeConn]bool{}, taken: map[string]*rtdeConn{}, inputs: map[string][]float64{},
		conns: map[net.Conn]bool{}}
	u.cond = sync.NewCond(&u.mu)
	copy(u.q[:], o.Q[:6])
	u.cmd = u.q
	for _, l := range []struct {
		at   *net.Listener
		port int
		run  func(net.Conn)
	}{{&u.rtde, 30004, u.serveRTDE}, {&u.script, 30002, u.serveScript}, {&u.dash, 29999, u.serveDashboard}} {
		addr := "127.0.0.1:0"
		if o.IP != "" {
			addr = fmt.Sprintf("%s:%d", o.IP, l.port)
		}
		if *l.at, err = net.Listen("tcp", addr); err != nil {
			u.Close()
			return nil, fmt.Errorf("start controller: %w", err)
		}
		u.wg.Add(1)
		go u.accept(*l.at, l.run)
	}
	u.wg.Add(1)
	go u.run()
	return u, nil
}

// RTDE, Script and Dashboard are the addresses of its ports.
func (u *UR) RTDE() string { return u.rtde.Addr().String() }

// Script is the address that takes programs.
func (u *UR) Script() string { return u.script.Addr().String() }

// Dashboard is the address of the dashboard server.
func (u *UR) Dashboard() string { return u.dash.Addr().String() }

func (u *UR) accept(l net.Listener, run func(net.Conn)) {
	defer u.wg.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		u.mu.Lock()
		if u.down {
			u.mu.Unlock()
			_ = c.Close()
			return
		}
		u.conns[c] = true
		u.wg.Add(1)
		u.mu.Unlock()
		go func() {
			defer u.wg.Done()
			run(c)
			_ = c.Close()
			u.mu.Lock()
			delete(u.conns, c)
			u.mu.Unlock()
		}()
	}
}

// run lets cycles pass.
func (u *UR) run() {
	defer u.wg.Done()
	tick := time.NewTicker(urCycle)
	defer tick.Stop()
	for {
		select {
		case <-u.close:
			return
		case <-tick.C:
		}
		u.mu.Lock()
		if u.opts.Patience > 0 {
			late := time.AfterFunc(u.opts.Patience, u.wake)
			for end := time.Now().Add(u.opts.Patience); u.streaming() && !u.served && time.Now().Before(end) && !u.down; {
				u.cond.Wait()
			}
			late.Stop()
		}
		u.served = false
		u.cycle()
		u.cond.Broadcast()
		u.mu.Unlock()
	}
}

// wake makes waiters look again.
func (u *UR) wake() {
	u.mu.Lock()
	u.cond.Broadcast()
	u.mu.Unlock()
}

// streaming reports whether a program waits for commands of a client that is there.
func (u *UR) streaming() bool {
	return u.program != nil && u.program.socket != nil && u.program.socket.started && !u.program.socket.closed
}

// cycle moves the arm by 2 ms and sends the outputs.
func (u *UR) cycle() {
	u.cycles++
	dt := urCycle.Seconds()
	before, beforeV := u.cmd, u.qd
	switch u.mode {
	case servoing:
		for j := range u.cmd {
			u.cmd[j] += (u.goal[j] - u.cmd[j]) * math.Min(1, dt/u.look)
		}
	case stopping:
		still := true
		for j := range u.cmd {
			v := math.Copysign(math.Max(0, math.Abs(u.qd[j])-u.decel*dt), u.qd[j])
			u.cmd[j] += v * dt
			still = still && v == 0
		}
		if still {
			u.mode = holding
		}
	}
	for j := range u.cmd {
		u.qd[j] = (u.cmd[j] - before[j]) / dt
		u.maxAcc = math.Max(u.maxAcc, math.Abs(u.qd[j]-beforeV[j])/dt)
		u.maxJump = math.Max(u.maxJump, math.Abs(u.cmd[j]-before[j]))
		if u.mode == servoing && math.Abs(u.qd[j]) > u.model.Limits.DQ[j]*1.02 {
			u.protect(fmt.Sprintf("joint %d moves with %.2f rad/s, limit is %.2f", j+1, u.qd[j], u.model.Limits.DQ[j]))
		}
		if l := u.model.Limits; u.cmd[j] < l.QMin[j] || u.cmd[j] > l.QMax[j] {
			u.protect(fmt.Sprintf("joint %d is outside its range", j+1))
		}
	}
	u.q = u.cmd
	u.sendOutputs()
}

// protect is a protective stop: the arm brakes, the program ends.
func (u *UR) protect(reason string) {
	if u.safetyMode != safetyNormal {
		return
	}
	u.log = append(u.log, "protective stop: "+reason)
	u.safetyMode = safetyProtective
	u.brake(20)
}

// brake stops motion and the program.
func (u *UR) brake(decel float64) {
	u.mode, u.decel = stopping, decel
	if u.program != nil {
		u.program.halt()
	}
}

// Now is the controller's time as a host's clock, for clients that are to share it.
func (u *UR) Now() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.begin.Add(time.Duration(u.cycles) * urCycle)
}

// Joints is where the arm is, and how fast it moves.
func (u *UR) Joints() (q, dq robotmodel.Joints) {
	u.mu.Lock()
	defer u.mu.Unlock()
	copy(q[:], u.q[:])
	copy(dq[:], u.qd[:])
	return q, dq
}

// ProtectiveStop, EmergencyStop and Safeguard do what their names say; Release takes an emergency stop or safeguard away, with power and brakes
// as after an operator has switched them on again.
func (u *UR) ProtectiveStop(reason string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.protect(reason)
}

// EmergencyStop presses the button: the arm brakes and loses its power.
func (u *UR) EmergencyStop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.safetyMode, u.robotMode = safetyEmergency, robotPowerOff
	u.brake(20)
}

// Safeguard opens the door.
func (u *UR) Safeguard() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.safetyMode = safetySafeguard
	u.brake(20)
}

// Release is the operator at the pendant.
func (u *UR) Release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.safetyMode, u.robotMode = safetyNormal, robotRunning
}

// SetSlider moves the speed slider, 0 to 1.
func (u *UR) SetSlider(v float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.slider = v
}

// Log lists protective stops, run-time errors of programs and refused commands.
func (u *UR) Log() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.log...)
}

// Peaks are the largest step (rad in one cycle) and acceleration (rad/s²) of any joint since the last call.
func (u *UR) Peaks() (step, acceleration float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	step, acceleration = u.maxJump, u.maxAcc
	u.maxJump, u.maxAcc = 0, 0
	return step, acceleration
}

// Running reports whether a program runs.
func (u *UR) Running() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.program != nil && !u.program.ended
}

// Cut closes all connections, as a pulled network cable does in the end; the controller goes on.
func (u *UR) Cut() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.conns {
		_ = c.Close()
	}
	if u.program != nil && u.program.socket != nil {
		_ = u.program.socket.conn.Close()
	}
}

// Close ends the controller.
func (u *UR) Close() {
	u.mu.Lock()
	if u.down {
		u.mu.Unlock()
		return
	}
	u.down = true
	close(u.close)
	if u.program != nil {
		u.program.halt()
	}
	for c := range u.conns {
		_ = c.Close()
	}
	for _, l := range []net.Listener{u.rtde, u.script, u.dash} {
		if l != nil {
			_ = l.Close()
		}
	}
	u.cond.Broadcast()
	u.mu.Unlock()
	u.wg.Wait()
}

// flange is the pose of the tool as the controller reports it.
func (u *UR) toolPose() [6]float64 {
	var q robotmodel.Joints
	copy(q[:], u.q[:])
	c := u.model.Forward(q)
	t := c.Flange().Mul(u.tcp)
	w := robotmodel.RotationError(robotmodel.Identity(), t)
	return [6]float64{t.P[0] + u.opts.ErrorM, t.P[1], t.P[2], w[0], w[1], w[2]}
}
