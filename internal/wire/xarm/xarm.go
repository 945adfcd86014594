// Package xarm speaks the control protocol of UFACTORY xArm controllers: requests over TCP port 502 and state reports from port 30003.
//
//	request  := transaction u16 | protocol u16 | length u16 | function u8 | parameters        header big endian; length counts function and parameters
//	response := transaction u16 | protocol u16 | length u16 | function u8 | state u8 | values length counts function, state and values
//	protocol := 2, or 3 from firmware 1.8.6 on, with which the controller ends connections that are silent; an answer repeats the request's
//	state    := bits 40 error, 20 warning, 10 not ready for motion, 08 invalid request
//	numbers  := float32 little endian, angles in radians, lengths in millimetres; integers big endian
//
//	report   := size u32 | mode<<4|state u8 | queued u16 | 7 angles | x y z roll pitch yaw | 7 torques      100 Hz, at least 87 bytes
//
// Source: UFACTORY xArm-Python-SDK, core/wrapper and core/config (BSD licence).
package xarm

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Function is what a request asks for.
type Function byte

// The functions that streaming needs.
const (
	GetVersion  Function = 1
	GetSerial   Function = 2
	MotionOn    Function = 11 // axis (8: all), on
	SetState    Function = 12
	GetState    Function = 13
	GetQueued   Function = 14
	GetError    Function = 15
	ClearError  Function = 16
	ClearWarn   Function = 17
	SetMode     Function = 19
	ServoJoint  Function = 29 // 7 angles, speed, acceleration, time (the last three are not used by the controller)
	SetTool     Function = 35 // x y z roll pitch yaw
	GetToolPose Function = 41
	GetJoints   Function = 42
)

// States of the controller.
const (
	StateReady   = 0 // to be set: ready for motion
	StateMoving  = 1
	StateStandby = 2
	StatePaused  = 3
	StateStopped = 4
)

// Modes of motion.
const (
	ModePosition = 0
	ModeServo    = 1
)

// The protocols, second word of each frame.
const (
	Private      = 2
	PrivateAlive = 3
)

// Bits of a response's state.
const (
	BitInvalid  = 0x08
	BitNotReady = 0x10
	BitWarning  = 0x20
	BitError    = 0x40
)

// Frame is one request or response; a response's payload begins with the state.
type Frame struct {
	Transaction, Protocol uint16
	Function              Function
	Payload               []byte
}

// Ours reports whether a frame is of a protocol of this package; the SDK's heartbeats are not.
func (f Frame) Ours() bool { return f.Protocol == Private || f.Protocol == PrivateAlive }

// Append adds a frame's bytes.
func Append(b []byte, f Frame) []byte {
	b = binary.BigEndian.AppendUint16(b, f.Transaction)
	b = binary.BigEndian.AppendUint16(b, f.Protocol)
	b = binary.BigEndian.AppendUint16(b, uint16(1+len(f.Payload)))
	return append(append(b, byte(f.Function)), f.Payload...)
}

// maxFrame bounds a frame's length field; the largest known response has 250 bytes.
const maxFrame = 1024

// Read reads one frame.
func Read(r io.Reader) (Frame, error) {
	var head [6]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Frame{}, err
	}
	length := int(binary.BigEndian.Uint16(head[4:]))
	if length < 1 || length > maxFrame {
		return Frame{}, fmt.Errorf("read xArm frame: length %d outside 1 to %d; the peer does not speak this protocol", length, maxFrame)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return Frame{}, fmt.Errorf("read xArm frame of %d bytes: %w", length, err)
	}
	return Frame{binary.BigEndian.Uint16(head[:]), binary.BigEndian.Uint16(head[2:]), Function(body[0]), body[1:]}, nil
}

// AppendFloats adds numbers.
func AppendFloats(b []byte, v ...float64) []byte {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
	}
	return b
}

// Floats reads n numbers.
func Floats(b []byte, n int) ([]float64, error) {
	if len(b) < 4*n {
		return nil, fmt.Errorf("%d bytes hold fewer than %d numbers", len(b), n)
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
	}
	return v, nil
}

// Report is one state report.
type Report struct {
	State, Mode int
	Queued      int
	Q           [7]float64 // rad
	Tool        [6]float64 // x y z mm, roll pitch yaw rad
	Torque      [7]float64 // Nm
}

// reportSize is the smallest report; newer controllers append more.
const reportSize = 87

// AppendReport adds a report's bytes.
func AppendReport(b []byte, r Report) []byte {
	b = binary.BigEndian.AppendUint32(b, reportSize)
	b = append(b, byte(r.Mode<<4|r.State&0x0F))
	b = binary.BigEndian.AppendUint16(b, uint16(r.Queued))
	b = AppendFloats(b, r.Q[:]...)
	b = AppendFloats(b, r.Tool[:]...)
	return AppendFloats(b, r.Torque[:]...)
}

// ReadReport reads one report.
func ReadReport(rd io.Reader) (Report, error) {
	var head [4]byte
	if _, err := io.ReadFull(rd, head[:]); err != nil {
		return Report{}, err
	}
	size := int(binary.BigEndian.Uint32(head[:]))
	if size < reportSize || size > 4096 {
		return Report{}, fmt.Errorf("read xArm report: size %d, want %d or more; is this port 30003?", size, reportSize)
	}
	body := make([]byte, size-4)
	if _, err := io.ReadFull(rd, body); err != nil {
		return Report{}, fmt.Errorf("read xArm report of %d bytes: %w", size, err)
	}
	r := Report{State: int(body[0] & 0x0F), Mode: int(body[0] >> 4), Queued: int(binary.BigEndian.Uint16(body[1:]))}
	v, err := Floats(body[3:], 20)
	if err != nil {
		return Report{}, fmt.Errorf("read xArm report: %w", err)
	}
	copy(r.Q[:], v)
	copy(r.Tool[:], v[7:])
	copy(r.Torque[:], v[13:])
	return r, nil
}

// errorTexts are the controller's error codes that an operator meets. Source: xArm user manual, "Error code".
var errorTexts = map[int]string{1: "emergency stop button on the control box", 2: "emergency stop input", 3: "emergency stop of the three-state switch",
	10: "servo motor error", 11: "servo motor 1 error", 12: "servo motor 2 error", 13: "servo motor 3 error", 14: "servo motor 4 error", 15: "servo motor 5 error",
	16: "servo motor 6 error", 17: "servo motor 7 error", 19: "end module communication error", 21: "kinematic error", 22: "self-collision",
	23: "joint angle beyond its limit", 24: "speed exceeds the limit", 25: "planning error", 27: "linux RT error", 31: "collision caused abnormal current",
	35: "safety boundary limit", 60: "linear speed exceeds the limit"}

// ErrorText names an error code.
func ErrorText(code int) string {
	if t, ok := errorTexts[code]; ok {
		return fmt.Sprintf("C%d, %s", code, t)
	}
	return fmt.Sprintf("C%d", code)
}
