package fci

import (
	"errors"
	"fmt"
)

// Version is the version number of an arm's interface server.
type Version uint16

// The versions this client speaks.
const (
	MinVersion Version = 5
	MaxVersion Version = 10
)

// ErrVersion marks a server that speaks a version this client does not.
var ErrVersion = errors.New("interface version is not supported")

// system is the arm's system software that brings each version.
var system = map[Version]string{
	3: "Panda system 3.0", 4: "Panda system 4.0.0", 5: "Panda system 4.2.1", 6: "FR3 system 5.2.0", 7: "FR3 system 5.5.0", 8: "FR3 system 5.7.0",
	9: "FR3 system 5.7.2", 10: "FR3 system 5.9.0",
}

// System names the oldest system software with that version.
func (v Version) System() string {
	if s, ok := system[v]; ok {
		return s
	}
	return "a system this client does not know"
}

// Check returns an error wrapping ErrVersion that names both sides when the version is not supported.
func (v Version) Check() error {
	if v >= MinVersion && v <= MaxVersion {
		return nil
	}
	return fmt.Errorf("%w: the arm's server has version %d (%s), this client speaks %d (%s) to %d (%s)",
		ErrVersion, v, v.System(), MinVersion, MinVersion.System(), MaxVersion, MaxVersion.System())
}

// Call is a request that a client can send over TCP.
type Call int

// The calls this client uses or may use.
const (
	CallConnect Call = iota
	CallMove
	CallStopMove
	CallSetCollisionBehavior
	CallSetJointImpedance
	CallSetCartesianImpedance
	CallSetGuidingMode
	CallSetEEToK
	CallSetNEToEE
	CallSetLoad
	CallAutomaticErrorRecovery
	CallGetRobotModel
)

var callNames = [...]string{"connect", "move", "stop move", "set collision behavior", "set joint impedance", "set cartesian impedance",
	"set guiding mode", "set end effector to K", "set nominal to end effector", "set load", "automatic error recovery", "get robot model"}

// String implements fmt.Stringer.
func (c Call) String() string {
	if c < 0 || int(c) >= len(callNames) {
		return fmt.Sprintf("call %d", int(c))
	}
	return callNames[c]
}

// number is a call's number on the wire; ok is false where the version has no such call. Version 5 had two more calls, which moved the
// others; the robot model came with version 8 behind a call that later releases of version 10 removed.
func (v Version) number(c Call, oldTen bool) (n uint32, ok bool) {
	n = uint32(c)
	switch {
	case c == CallGetRobotModel && v < 8:
		return 0, false
	case c == CallGetRobotModel && (v < 10 || oldTen):
		return 12, true
	case v == 5 && c == CallAutomaticErrorRecovery:
		return 12, true
	case v == 5 && c >= CallSetCollisionBehavior:
		return n + 1, true
	}
	return n, true
}

// Sizes in bytes.
const (
	headerBytes   = 12
	stateBytesF64 = 2373
	stateBytesF32 = 1377
	stateBytesOld = 1233 // float32 without accelerometers: the first releases of version 10
)

// CommandBytes is the length of a command datagram.
func (v Version) CommandBytes() int {
	if v < 7 {
		return 370
	}
	return 371
}
