package fciserve

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Connect answers a client's first request: an accepted one gives the UDP port for the states.
func (r *Robot) Connect(frame []byte) (answer []byte, udpPort int, err error) {
	wire, id, payload, err := split(frame)
	if err != nil {
		return nil, 0, err
	}
	if wire != 0 || len(payload) != 4 {
		return nil, 0, fmt.Errorf("the first request has number %d and %d bytes, want connect (0) with 4", wire, len(payload))
	}
	version, port := int(binary.LittleEndian.Uint16(payload)), int(binary.LittleEndian.Uint16(payload[2:]))
	status := byte(0)
	if version != r.o.Version {
		status, port = 1, 0
	}
	r.connected = status == 0
	return message(0, id, status, byte(r.o.Version), byte(r.o.Version>>8)), port, nil
}

// Disconnect tells that the client's TCP connection has ended: a motion breaks off.
func (r *Robot) Disconnect() {
	r.breakOff(moveAborted)
	r.connected = false
	r.answers, r.cmd, r.recovery = nil, nil, recovery{}
	r.sent, r.paced = false, false
	if r.mode == modeRecovering {
		r.mode = modeReflex
	}
}

func split(frame []byte) (wire, id uint32, payload []byte, err error) {
	if len(frame) < 12 || int(binary.LittleEndian.Uint32(frame[8:])) != len(frame) {
		return 0, 0, nil, fmt.Errorf("a request of %d bytes does not state its length", len(frame))
	}
	return binary.LittleEndian.Uint32(frame), binary.LittleEndian.Uint32(frame[4:]), frame[12:], nil
}

// Request handles a request after the first; answers come with the next Open. An error means that the client breaks the protocol and the
// connection has to end.
func (r *Robot) Request(frame []byte) error {
	wire, id, payload, err := split(frame)
	if err != nil {
		return err
	}
	cmd := commandOf(r.o.Version, wire)
	if want := payloadBytes(r.o.Version, cmd); cmd == cmdUnknown || len(payload) != want {
		return fmt.Errorf("request %d with %d bytes, version %d has %d bytes", wire, len(payload), r.o.Version, want)
	}
	answer := func(status byte, more ...byte) {
		r.answers = append(r.answers, message(wire, id, append([]byte{status}, more...)...))
	}
	switch cmd {
	case cmdConnect:
		return fmt.Errorf("a second connect on one connection")
	case cmdMove:
		r.move(wire, id, payload)
	case cmdStopMove:
		if r.motion.generator == 0 {
			answer(1)
			break
		}
		r.breakOff(movePreempted)
		answer(0)
	case cmdAutomaticErrorRecovery:
		r.startRecovery(wire, id)
	case cmdGetRobotModel:
		answer(0, []byte(description(r.o.Arm))...)
	case cmdGetCartesianLimit, cmdSetFilters, cmdLoadModelLibrary:
		answer(1) // not served
	default:
		answer(r.set(cmd, numbers(payload)))
	}
	return nil
}

func numbers(b []byte) (v []float64) {
	for ; len(b) >= 8; b = b[8:] {
		v = append(v, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return v
}

// set carries out a setter and returns its status: 0 done, 1 not possible now, 2 invalid argument.
func (r *Robot) set(cmd int, v []float64) byte {
	if r.motion.generator != 0 || r.mode == modeRecovering {
		return 1
	}
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return 2
		}
	}
	switch cmd {
	case cmdSetCollisionBehavior:
		for i := 14; i < 21; i++ { // nominal torques: lower, then upper seven further on
			if v[i] <= 0 || v[i+7] < v[i] {
				return 2
			}
		}
		copy(r.lower[:], v[14:21])
		copy(r.upper[:], v[21:28])
	case cmdSetJointImpedance:
		for _, k := range v {
			if k < 0 || k > 14250 {
				return 2
			}
		}
	case cmdSetCartesianImpedance:
		for i, k := range v {
			if top := [2]float64{3000, 300}[i/3]; k < 10 && i < 3 || k < 1 || k > top {
				return 2
			}
		}
	case cmdSetEEToK, cmdSetNEToEE:
		if !rigid(v) {
			return 2
		}
		if cmd == cmdSetEEToK {
			copy(r.eeTk[:], v)
		} else {
			copy(r.neTee[:], v)
		}
	case cmdSetLoad:
		if v[0] < 0 || v[0] > 10 {
			return 2
		}
		r.loadKG = v[0]
	}
	return 0
}

// rigid reports whether 16 numbers are a column-major transform that is orthonormal within 1e-5.
func rigid(m []float64) bool {
	for a := 0; a < 3; a++ {
		for b := a; b < 3; b++ {
			dot := 0.0
			for k := 0; k < 3; k++ {
				dot += m[4*a+k] * m[4*b+k]
			}
			want := 0.0
			if a == b {
				want = 1
			}
			if math.Abs(dot-want) > 1e-5 {
				return false
			}
		}
		if m[4*a+3] != 0 {
			return false
		}
	}
	return m[15] == 1
}

// move starts a motion or refuses it.
func (r *Robot) move(wire, id uint32, payload []byte) {
	controller, generator := binary.LittleEndian.Uint32(payload), binary.LittleEndian.Uint32(payload[4:])
	status := byte(moveStarted)
	switch {
	case controller > 2 || generator > 4:
		status = moveInvalidArgument
	case r.mode != modeIdle || r.Moving():
		status = moveNotPossible
	case controller > 1 || generator > 1: // torque or Cartesian
		status = moveNotPossible
	case r.o.Version >= 10 && payload[56] != 0: // asynchronous
		status = moveNotPossible
	}
	for _, d := range numbers(payload[8:56]) {
		if !(d >= 0) {
			status = moveInvalidArgument
		}
	}
	r.answers = append(r.answers, message(wire, id, status))
	if status != moveStarted {
		return
	}
	r.Stats.Motions++
	r.motion = motion{generator: byte(generator) + 1, controller: byte(controller), id: id, wire: wire}
	r.mode = modeMove
	r.cmd = nil
	r.dqd, r.ddqd = [7]float64{}, [7]float64{}
	r.reflex = [41]bool{}
}

// startRecovery begins to clear errors.
func (r *Robot) startRecovery(wire, id uint32) {
	switch {
	case r.userStop || r.motion.generator != 0 || r.recovery.left > 0:
		r.answers = append(r.answers, message(wire, id, 1))
	case r.mode != modeReflex:
		r.answers = append(r.answers, message(wire, id, 0))
	default:
		r.recovery = recovery{id: id, wire: wire, left: recoveryTicks}
	}
}

// recover lets a recovery go on; the arm has to stand.
func (r *Robot) recover() {
	if r.recovery.left == 0 || r.braking {
		return
	}
	r.mode = modeRecovering
	if r.recovery.left--; r.recovery.left > 0 {
		return
	}
	r.answers = append(r.answers, message(r.recovery.wire, r.recovery.id, 0))
	r.errors, r.reflex = [41]bool{}, [41]bool{}
	r.mode = modeIdle
	if r.userStop {
		r.mode = modeUserStopped
	}
}
