package fciserve

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// RobotOptions describe a Robot. Zero fields take the defaults.
type RobotOptions struct {
	Version int            // interface version, 5 to 10; default 10
	Arm     robotmodel.Arm // default FR3 (FER for version 5)
	Start   [7]float64     // desired joints at the start, rad; default Arm.Rest
	Plant   Plant          // default a Kinematic
	FirstID uint64         // message id of the first state, the arm's clock in ms; default 1
	Faults  Faults
}

// Faults are injected into the client's commands.
type Faults struct {
	Seed       uint64
	Loss       float64 // share of commands that are lost, 0 to 1
	BurstEvery int     // ms: a burst of lost commands begins this often; 0: never
	BurstLen   int     // commands lost in a row in a burst
}

// recoveryTicks is how long an error recovery takes, in ms, once the arm stands.
const recoveryTicks = 300

// startGrace is how many cycles a client has for the first command of a motion, and maxLost how many commands in a row may be missing after it.
const (
	startGrace = 1000
	maxLost    = 20
	rateWindow = 100
)

const dt = 1e-3 // s, one cycle

// Robot is one simulated arm. It is not safe for concurrent use.
type Robot struct {
	o   RobotOptions
	rng *rand.Rand

	id        uint64 // of the last state
	connected bool
	answers   [][]byte // waiting to be sent over TCP

	qd, dqd, ddqd [7]float64 // last accepted: rad, rad/s, rad/s²
	motion        motion
	mode          byte
	userStop      bool
	braking       bool
	errors        [41]bool
	reflex        [41]bool
	recovery      recovery

	lower, upper [7]float64 // torque thresholds of contact and reflex, Nm
	neTee, eeTk  [16]float64
	loadKG       float64

	cmd   *command // for the last state
	sent  bool     // the last state went to a client
	paced bool     // the client answers states even while no motion runs
	drop  int      // commands still to lose
	cut   bool     // the network cable is pulled
	ticks int
	Stats Stats
	buf   [s5Bytes]byte
}

// motion is the running move.
type motion struct {
	generator  byte   // as in the state: 0 idle, 1 joint position, 2 joint velocity
	controller byte   // as in the state
	id, wire   uint32 // of the request
	cycles     int    // since it began
	armed      bool   // the first command has come
	lost       int    // in a row
	window     [rateWindow]bool
	filled     int
	at         int
}

// recovery is an error recovery under way.
type recovery struct {
	id, wire uint32
	left     int // ticks; 0: none
}

// Stats count what a client did.
type Stats struct {
	Ticks, Accepted int
	Lost, Late      int // cycles without a command; commands for an older state
	LongestLoss     int // in a row
	Motions, Stops  int // moves started; motions that the robot broke off
	Violations      int // commands that broke a limit
	LastViolation   string
	StopTick        int // Stats.Ticks when the robot last broke a motion off
}

// NewRobot makes an arm at rest. The error names a wrong option.
func NewRobot(o RobotOptions) (*Robot, error) {
	if o.Version == 0 {
		o.Version = 10
	}
	if o.Version < 5 || o.Version > 10 {
		return nil, fmt.Errorf("simulated arm: interface version %d, want 5 to 10", o.Version)
	}
	if o.Arm.Name == "" {
		o.Arm = robotmodel.FR3()
		if o.Version == 5 {
			o.Arm = robotmodel.FER()
		}
	}
	if o.Start == ([7]float64{}) {
		o.Start = o.Arm.Rest
	}
	if j, ok := o.Arm.Limits.Contains(o.Start, 0); !ok {
		return nil, fmt.Errorf("simulated arm: start position of joint %d, %v rad, is outside its limits", j+1, o.Start[j])
	}
	if o.Faults.Loss < 0 || o.Faults.Loss > 1 {
		return nil, fmt.Errorf("simulated arm: loss of %v, want 0 to 1", o.Faults.Loss)
	}
	if o.Plant == nil {
		o.Plant = &Kinematic{}
	}
	r := &Robot{o: o, rng: rand.New(rand.NewPCG(o.Faults.Seed, 0xfc1)), id: max(o.FirstID, 1) - 1, mode: modeIdle, neTee: identity(), eeTk: identity()}
	for j := range r.upper {
		r.lower[j], r.upper[j] = 20, 20
	}
	r.Place(o.Start)
	return r, nil
}

// Place puts the arm at rest somewhere else without motion.
func (r *Robot) Place(q [7]float64) {
	r.qd, r.dqd, r.ddqd = q, [7]float64{}, [7]float64{}
	r.o.Plant.Place(q)
}

// Desired returns the last accepted positions, speeds and accelerations.
func (r *Robot) Desired() (qd, dqd, ddqd [7]float64) { return r.qd, r.dqd, r.ddqd }

// Moving reports whether a motion runs or the arm still brakes.
func (r *Robot) Moving() bool { return r.motion.generator != 0 || r.braking }

// Mode returns the robot mode as the state shows it: 1 idle, 2 move, 4 reflex, 5 user stopped, 6 recovering, 0 other.
func (r *Robot) Mode() byte { return r.mode }

// Cut pulls the network cable, or plugs it in: nothing comes or goes, and no connection is closed.
func (r *Robot) Cut(cut bool) { r.cut = cut }

// DropNext loses the next n commands.
func (r *Robot) DropNext(n int) { r.drop = n }

// UserStop presses or releases the user stop.
func (r *Robot) UserStop(pressed bool) {
	r.userStop = pressed
	if pressed {
		r.breakOff(moveEmergencyAborted)
		r.mode = modeUserStopped
	} else if r.mode == modeUserStopped {
		r.mode = modeIdle
	}
}

// Command takes a datagram of the client. One that answers another state than the last, or has a wrong form, is lost.
func (r *Robot) Command(b []byte) {
	c, err := parseCommand(r.o.Version, b)
	switch {
	case !r.connected:
		return
	case err != nil:
		r.Stats.LastViolation = err.Error()
		return
	case c.id != r.id:
		r.Stats.Late++
		return
	}
	r.cmd = &c
	r.paced = r.paced || r.motion.generator == 0
}

// due reports whether in lock-step an answer to the last state has to be waited for: from the first command of a motion on, and always for a client
// that answers every state.
func (r *Robot) due() bool { return r.sent && (r.motion.armed || r.paced) }

// Close ends the present cycle: it judges the command that has come, or goes on without, and moves the plant for a millisecond.
func (r *Robot) Close() {
	r.ticks++
	r.Stats.Ticks++
	cmd := r.arrived()
	switch {
	case r.motion.generator != 0:
		r.cycle(cmd)
	case r.braking:
		r.brake()
	}
	r.o.Plant.Step(r.qd, r.dqd)
}

// arrived is the command of this cycle unless a fault loses it.
func (r *Robot) arrived() *command {
	cmd := r.cmd
	r.cmd = nil
	f := &r.o.Faults
	if f.BurstEvery > 0 && r.ticks%f.BurstEvery == 0 {
		r.drop = max(r.drop, f.BurstLen)
	}
	lose := f.Loss > 0 && r.rng.Float64() < f.Loss
	if r.drop > 0 {
		r.drop--
		lose = true
	}
	if lose {
		return nil
	}
	return cmd
}

// Open measures, decides about reflexes and returns the next state datagram, valid until the next call, and the answers to send over TCP.
func (r *Robot) Open() (state []byte, answers [][]byte) {
	q, dq, ext := r.o.Plant.Measure()
	r.id++
	s := snapshot{id: r.id, q: q, dq: dq, tauExt: ext, qd: r.qd, dqd: r.dqd, ddqd: r.ddqd, neTee: r.neTee, fTee: r.neTee, fTne: identity(), eeTk: r.eeTk, mLoad: r.loadKG}
	for j := range ext {
		if math.Abs(ext[j]) > r.lower[j] {
			s.contact[j] = 1
		}
		if math.Abs(ext[j]) > r.upper[j] {
			s.collision[j] = 1
			if r.mode == modeMove {
				r.fault(errJointReflex, fmt.Sprintf("joint %d feels %.1f Nm, more than %.1f", j+1, ext[j], r.upper[j]))
			}
		}
	}
	r.recover()
	s.oTee, s.oTeeD = r.endEffector(q), r.endEffector(r.qd)
	s.motion, s.controller, s.mode = r.motion.generator, r.motion.controller, r.mode
	if r.motion.generator == 0 {
		s.controller = 3 // other
	}
	s.errors, s.reflex, s.rate = r.errors, r.reflex, r.motion.rate()
	answers = r.answers
	r.answers = nil
	return s.encode(r.o.Version, r.buf[:]), answers
}

func (r *Robot) endEffector(q [7]float64) (m [16]float64) {
	c := r.o.Arm.Forward(q)
	f := c.Flange()
	for col := 0; col < 3; col++ {
		for row := 0; row < 3; row++ {
			m[4*col+row] = f.R[3*row+col]
		}
		m[12+col] = f.P[col]
	}
	m[15] = 1
	return multiply(m, r.neTee)
}

// multiply is a b for column-major matrices.
func multiply(a, b [16]float64) (c [16]float64) {
	for col := 0; col < 4; col++ {
		for row := 0; row < 4; row++ {
			for k := 0; k < 4; k++ {
				c[4*col+row] += a[4*k+row] * b[4*col+k]
			}
		}
	}
	return c
}

func identity() [16]float64 { return [16]float64{0: 1, 5: 1, 10: 1, 15: 1} }
