package fci

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// Joints holds seven joint values, base to flange, in the unit that the name says.
type Joints = [7]float64

// State is what this client reads of a state datagram. Frames: O the arm's base, EE its end effector. Matrices are column-major.
type State struct {
	MessageID uint64 // counts milliseconds of the arm's clock

	Q, DQ, Tau      Joints // measured: rad, rad/s, Nm
	QD, DQD, DDQD   Joints // last accepted by the arm: rad, rad/s, rad/s²
	TauExt          Joints // filtered estimate of external torque, Nm
	OTEE, OTEED     [16]float64
	FTEE            [16]float64 // flange to end effector
	Force           [6]float64  // external wrench on the stiffness frame in O, N and Nm
	EndEffectorKG   float64
	LoadKG          float64
	JointContact    Joints
	JointCollision  Joints
	Motion          MotionMode
	Controller      ControllerMode
	Mode            RobotMode
	Errors          Errors  // present
	LastErrors      Errors  // that stopped the last motion
	SuccessRate     float64 // share of the last 100 commands that arrived in time; 0 while no motion runs
	FloatingStateOf uint8   // bytes of one number: 4 or 8
}

// MotionMode is the running motion generator.
type MotionMode uint8

// The motion modes of a state.
const (
	MotionIdle MotionMode = iota
	MotionJointPosition
	MotionJointVelocity
	MotionCartesianPosition
	MotionCartesianVelocity
	MotionNone
)

// ControllerMode is the running controller.
type ControllerMode uint8

// The controller modes of a state.
const (
	ControllerJointImpedance ControllerMode = iota
	ControllerCartesianImpedance
	ControllerExternal
	ControllerOther
)

// RobotMode is what the arm as a whole does.
type RobotMode uint8

// The robot modes.
const (
	RobotOther RobotMode = iota
	RobotIdle
	RobotMove
	RobotGuiding
	RobotReflex
	RobotUserStopped
	RobotRecovering
)

var robotModes = [...]string{"other", "idle", "move", "guiding", "reflex", "user stopped", "automatic error recovery"}

// String implements fmt.Stringer.
func (m RobotMode) String() string {
	if int(m) < len(robotModes) {
		return robotModes[m]
	}
	return fmt.Sprintf("robot mode %d", m)
}

// Errors is the set of the arm's error flags, flag i in bit i.
type Errors uint64

// NumErrors is the number of flags on the wire.
const NumErrors = 41

// CommunicationConstraints is the flag of twenty lost commands in a row.
const CommunicationConstraints = 25

// errorNames are the vendor's names in the order of the wire.
var errorNames = [NumErrors]string{
	"joint_position_limits_violation", "cartesian_position_limits_violation", "self_collision_avoidance_violation",
	"joint_velocity_violation", "cartesian_velocity_violation", "force_control_safety_violation", "joint_reflex", "cartesian_reflex",
	"max_goal_pose_deviation_violation", "max_path_pose_deviation_violation", "cartesian_velocity_profile_safety_violation",
	"joint_position_motion_generator_start_pose_invalid", "joint_motion_generator_position_limits_violation",
	"joint_motion_generator_velocity_limits_violation", "joint_motion_generator_velocity_discontinuity",
	"joint_motion_generator_acceleration_discontinuity", "cartesian_position_motion_generator_start_pose_invalid",
	"cartesian_motion_generator_elbow_limit_violation", "cartesian_motion_generator_velocity_limits_violation",
	"cartesian_motion_generator_velocity_discontinuity", "cartesian_motion_generator_acceleration_discontinuity",
	"cartesian_motion_generator_elbow_sign_inconsistent", "cartesian_motion_generator_start_elbow_invalid",
	"force_controller_desired_force_tolerance_violation", "start_elbow_sign_inconsistent", "communication_constraints_violation",
	"power_limit_violation", "cartesian_motion_generator_joint_position_limits_violation",
	"cartesian_motion_generator_joint_velocity_limits_violation", "cartesian_motion_generator_joint_velocity_discontinuity",
	"cartesian_motion_generator_joint_acceleration_discontinuity", "cartesian_position_motion_generator_invalid_frame_flag",
	"controller_torque_discontinuity", "joint_p2p_insufficient_torque_for_planning", "tau_j_range_violation", "instability_detected",
	"joint_move_in_wrong_direction", "cartesian_spline_motion_generator_violation",
	"joint_via_motion_generator_planning_joint_limit_violation", "base_acceleration_initialization_timeout",
	"base_acceleration_invalid_reading",
}

// Has reports whether flag i is set.
func (e Errors) Has(i int) bool { return e>>i&1 == 1 }

// String lists the names of the set flags, comma separated; empty when none is set.
func (e Errors) String() string {
	var names []string
	for i, n := range errorNames {
		if e.Has(i) {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// fields are the numbers of a state in the order of the wire, after the message id. The accelerometers are float32 even where present alone.
var fields = [...]struct {
	name  string
	count int
}{
	{"O_T_EE", 16}, {"O_T_EE_d", 16}, {"F_T_EE", 16}, {"EE_T_K", 16}, {"F_T_NE", 16}, {"NE_T_EE", 16}, {"m_ee", 1}, {"I_ee", 9},
	{"F_x_Cee", 3}, {"m_load", 1}, {"I_load", 9}, {"F_x_Cload", 3}, {"elbow", 2}, {"elbow_d", 2}, {"tau_J", 7}, {"tau_J_d", 7},
	{"dtau_J", 7}, {"q", 7}, {"q_d", 7}, {"dq", 7}, {"dq_d", 7}, {"ddq_d", 7}, {"joint_contact", 7}, {"cartesian_contact", 6},
	{"joint_collision", 7}, {"cartesian_collision", 6}, {"tau_ext_hat_filtered", 7}, {"O_F_ext_hat_K", 6}, {"K_F_ext_hat_K", 6},
	{"O_dP_EE_d", 6}, {"O_ddP_O", 3}, {"elbow_c", 2}, {"delbow_c", 2}, {"ddelbow_c", 2}, {"O_T_EE_c", 16}, {"O_dP_EE_c", 6},
	{"O_ddP_EE_c", 6}, {"theta", 7}, {"dtheta", 7}, {"accelerometers", 36},
}

// layout is where things are in a state datagram.
type layout struct {
	bytes int
	width int            // of a number
	at    map[string]int // offset of each field
	tail  int            // offset of the modes and flags behind the numbers
}

func newLayout(width int, accelerometers bool) *layout {
	l := &layout{width: width, at: map[string]int{}}
	at := 8
	for _, f := range fields {
		if f.name == "accelerometers" && !accelerometers {
			continue
		}
		l.at[f.name] = at
		at += f.count * width
	}
	l.tail = at
	l.bytes = at + 2 + 2*NumErrors + 1 + width
	return l
}

var (
	layoutF64 = newReader(newLayout(8, false))
	layoutF32 = newReader(newLayout(4, true))
	layoutOld = newReader(newLayout(4, false))
)

// reader is a layout with its offsets as plain numbers, for the hot path.
type reader struct {
	*layout
	q, dq, tau, qd, dqd, ddqd, ext, ee, eed, fee, force, mee, mload, contact, collision int
}

func newReader(l *layout) *reader {
	return &reader{l, l.at["q"], l.at["dq"], l.at["tau_J"], l.at["q_d"], l.at["dq_d"], l.at["ddq_d"], l.at["tau_ext_hat_filtered"],
		l.at["O_T_EE"], l.at["O_T_EE_d"], l.at["F_T_EE"], l.at["O_F_ext_hat_K"], l.at["m_ee"], l.at["m_load"], l.at["joint_contact"], l.at["joint_collision"]}
}

// reader returns the reader for a datagram of n bytes from a server of version v, nil when the two do not fit.
func (v Version) reader(n int) *reader {
	switch {
	case v >= 5 && v <= 9 && n == stateBytesF64:
		return layoutF64
	case v == 10 && n == stateBytesF32:
		return layoutF32
	case v == 10 && n == stateBytesOld:
		return layoutOld
	}
	return nil
}

// DecodeState reads a state datagram of a server of version v into s without allocating. A length that does not belong to the version is an
// error, and so is a number that is not finite.
func DecodeState(v Version, b []byte, s *State) error {
	r := v.reader(len(b))
	if r == nil {
		return fmt.Errorf("state datagram of %d bytes does not belong to interface version %d", len(b), v)
	}
	s.MessageID = binary.LittleEndian.Uint64(b)
	r.numbers(b, r.q, s.Q[:])
	r.numbers(b, r.dq, s.DQ[:])
	r.numbers(b, r.tau, s.Tau[:])
	r.numbers(b, r.qd, s.QD[:])
	r.numbers(b, r.dqd, s.DQD[:])
	r.numbers(b, r.ddqd, s.DDQD[:])
	r.numbers(b, r.ext, s.TauExt[:])
	r.numbers(b, r.ee, s.OTEE[:])
	r.numbers(b, r.eed, s.OTEED[:])
	r.numbers(b, r.fee, s.FTEE[:])
	r.numbers(b, r.force, s.Force[:])
	r.numbers(b, r.contact, s.JointContact[:])
	r.numbers(b, r.collision, s.JointCollision[:])
	s.EndEffectorKG, s.LoadKG = r.number(b, r.mee), r.number(b, r.mload)
	t := b[r.tail:]
	s.Motion, s.Controller = MotionMode(t[0]), ControllerMode(t[1])
	s.Errors, s.LastErrors = flags(t[2:]), flags(t[2+NumErrors:])
	s.Mode = RobotMode(t[2+2*NumErrors])
	s.SuccessRate = r.number(b, r.tail+3+2*NumErrors)
	s.FloatingStateOf = uint8(r.width)
	for j := range s.QD {
		sum := s.Q[j] + s.DQ[j] + s.QD[j] + s.DQD[j] + s.DDQD[j]
		if math.IsNaN(sum) || math.IsInf(sum, 0) {
			return fmt.Errorf("state datagram %d: joint %d is not finite: q %v, q_d %v, dq_d %v, ddq_d %v", s.MessageID, j+1, s.Q[j], s.QD[j], s.DQD[j], s.DDQD[j])
		}
	}
	return nil
}

func (r *reader) numbers(b []byte, at int, into []float64) {
	for i := range into {
		into[i] = r.number(b, at+i*r.width)
	}
}

func (r *reader) number(b []byte, at int) float64 {
	if r.width == 4 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(b[at:])))
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b[at:]))
}

func flags(b []byte) (e Errors) {
	for i := 0; i < NumErrors; i++ {
		if b[i] != 0 {
			e |= 1 << i
		}
	}
	return e
}
