package fci

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
)

// StatusError is a call that the arm refused or broke off.
type StatusError struct {
	Call   Call
	Status byte
	Text   string
}

// Error implements error.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%s: %s (status %d)", e.Call, e.Text, e.Status)
}

// MoveStatus is the arm's word on a move.
type MoveStatus byte

// The statuses of a move.
const (
	MoveSuccess MoveStatus = iota
	MoveStarted
	MovePreempted
	MovePreemptedSafety
	MoveRejectedSafety
	MoveNotPossible
	MoveStartSingular
	MoveInvalidArgument
	MoveReflexAborted
	MoveEmergencyAborted
	MoveInputError
	MoveAborted
)

var moveTexts = [...]string{"finished", "started", "preempted by another command", "preempted by the arm's safety functions",
	"rejected: a safety function of the arm is active (see Desk, Watchman)", "rejected: not possible in the arm's present mode",
	"rejected: the arm stands at a singular pose", "rejected: invalid argument", "aborted by a reflex", "aborted by the emergency or user stop",
	"aborted: the commands have a wrong form", "aborted"}

// String implements fmt.Stringer.
func (m MoveStatus) String() string { return text(moveTexts[:], byte(m)) }

func text(texts []string, status byte) string {
	if int(status) < len(texts) {
		return texts[status]
	}
	return fmt.Sprintf("unknown status %d", status)
}

func commandStatus(b byte) string {
	return text([]string{"done", "not possible in the arm's present mode", "rejected: a safety function of the arm is active"}, b)
}

func setterStatus(b byte) string {
	return text([]string{"done", "not possible in the arm's present mode", "invalid argument", "rejected: a safety function of the arm is active"}, b)
}

func recoveryStatus(b byte) string {
	return text([]string{"done", "not possible in the arm's present mode", "rejected: a safety function of the arm is active",
		"the arm wants to be recovered by hand: move the joint back inside its limits in Desk", "aborted by a reflex",
		"aborted by the emergency or user stop", "aborted"}, b)
}

func stopStatus(b byte) string {
	return text([]string{"done", "no motion runs", "rejected: a safety function of the arm is active", "aborted by the emergency or user stop",
		"aborted by a reflex", "aborted"}, b)
}

// Motion is a joint position motion that the arm has started.
type Motion struct {
	s  *Session
	id uint32
	ch chan answer
}

// MoveJoints asks for a motion in which this program commands joint positions each millisecond and the arm's own joint impedance controller
// follows. It returns when the arm has started it; the states then show MotionJointPosition, and from that state on each must be answered.
func (s *Session) MoveJoints(ctx context.Context) (*Motion, error) {
	const jointImpedance, jointPosition = 0, 0
	req := make([]byte, 8, 113)
	binary.LittleEndian.PutUint32(req[0:], jointImpedance)
	binary.LittleEndian.PutUint32(req[4:], jointPosition)
	deviation := []float64{10, 3.12, 2 * math.Pi} // m, rad, rad: as wide as the vendor's client asks for; path, then goal
	req = append(req, floats(deviation, deviation)...)
	if s.version >= 10 {
		req = append(req, 0) // the arm plans nothing itself
		req = append(req, floats(make([]float64, 7))...)
	}
	id, ch, err := s.send(CallMove, req)
	if err != nil {
		return nil, err
	}
	a, err := s.wait(ctx, CallMove, ch, callTimeout)
	if err != nil {
		s.forget(id)
		return nil, err
	}
	if MoveStatus(a[0]) != MoveStarted {
		s.forget(id)
		return nil, &StatusError{Call: CallMove, Status: a[0], Text: MoveStatus(a[0]).String()}
	}
	return &Motion{s: s, id: id, ch: ch}, nil
}

// Wait returns how the motion ended; the error says that the connection ended first or ctx did.
func (m *Motion) Wait(ctx context.Context) (MoveStatus, error) {
	defer m.s.forget(m.id)
	select {
	case a := <-m.ch:
		return MoveStatus(a.payload[0]), nil
	case <-m.s.closed:
		select {
		case a := <-m.ch:
			return MoveStatus(a.payload[0]), nil
		default:
		}
		return MoveAborted, fmt.Errorf("motion: %w: %w", ErrClosed, m.s.Err())
	case <-ctx.Done():
		return MoveAborted, ctx.Err()
	}
}

// StopMove breaks the running motion off.
func (s *Session) StopMove(ctx context.Context) error {
	return s.simple(ctx, CallStopMove, nil, callTimeout, stopStatus)
}

// Recover clears a reflex. It moves nothing, but releases brakes, and may take seconds.
func (s *Session) Recover(ctx context.Context) error {
	return s.simple(ctx, CallAutomaticErrorRecovery, nil, recoveryTimeout, recoveryStatus)
}

// CollisionBehavior holds the thresholds of contact (Lower) and reflex (Upper): torque of each joint in Nm, force x y z in N and torque
// x y z in Nm at the end effector.
type CollisionBehavior struct {
	LowerTorque, UpperTorque Joints
	LowerForce, UpperForce   [6]float64
}

// SetCollisionBehavior sets the thresholds, the same for accelerating and steady motion. Not possible while a motion runs.
func (s *Session) SetCollisionBehavior(ctx context.Context, c CollisionBehavior) error {
	p := floats(c.LowerTorque[:], c.UpperTorque[:], c.LowerTorque[:], c.UpperTorque[:], c.LowerForce[:], c.UpperForce[:], c.LowerForce[:], c.UpperForce[:])
	return s.simple(ctx, CallSetCollisionBehavior, p, callTimeout, setterStatus)
}

// SetJointImpedance sets the stiffness of the arm's joint controller in Nm/rad. Not possible while a motion runs.
func (s *Session) SetJointImpedance(ctx context.Context, stiffness Joints) error {
	return s.simple(ctx, CallSetJointImpedance, floats(stiffness[:]), callTimeout, setterStatus)
}

// SetLoad tells the arm what it carries beyond its end effector: mass in kg, centre in the flange's frame in m, inertia about it in kg m²
// (column-major). Wrong values spoil gravity compensation and trip reflexes. Not possible while a motion runs.
func (s *Session) SetLoad(ctx context.Context, massKG float64, centre [3]float64, inertia [9]float64) error {
	return s.simple(ctx, CallSetLoad, floats([]float64{massKG}, centre[:], inertia[:]), callTimeout, setterStatus)
}

// RobotModel returns the arm's description (URDF), which holds its joint limits. Servers before version 8 have none: the error says so.
func (s *Session) RobotModel(ctx context.Context) (string, error) {
	a, err := s.call(ctx, CallGetRobotModel, nil, callTimeout)
	if err != nil {
		return "", err
	}
	if a[0] != 0 {
		return "", &StatusError{Call: CallGetRobotModel, Status: a[0], Text: commandStatus(a[0])}
	}
	return string(a[1:]), nil
}
