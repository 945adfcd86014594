package armlink

import (
	"fmt"
	"math"
)

// Kind is the byte that names a message on the wire.
type Kind byte

// The kinds of protocol version 1.
const (
	KindHello      Kind = 1
	KindState      Kind = 2
	KindSegment    Kind = 3
	KindStop       Kind = 4
	KindRecover    Kind = 5
	KindAdvance    Kind = 6
	KindSetScene   Kind = 7
	KindScene      Kind = 8
	KindQueryTruth Kind = 9
	KindTruth      Kind = 10
	KindFault      Kind = 11
)

// Message is one of the message structs of this package, as a pointer.
type Message interface{ Kind() Kind }

// Joints holds the seven joint values of an arm, base to flange, in radians or radians per second.
type Joints = [7]float64

// Pose is a rigid transform on the wire: x y z in metres, then the unit quaternion qx qy qz qw.
type Pose [7]float64

// IdentityPose is the pose that changes nothing.
var IdentityPose = Pose{6: 1}

// Clock says who moves time.
type Clock string

const (
	// LockStep: time passes only inside an Advance grant.
	LockStep Clock = "lockstep"
	// RealTime: time passes by itself.
	RealTime Clock = "realtime"
)

// Mode is what an arm is doing.
type Mode string

const (
	// ModeIdle: at rest, holding its command, ready for a segment.
	ModeIdle Mode = "idle"
	// ModeMoving: following segments.
	ModeMoving Mode = "moving"
	// ModeRamp: slowing down along the path after a stop or starvation; segments are ignored.
	ModeRamp Mode = "ramp"
	// ModeStopped: at rest after a ramp; needs Recover.
	ModeStopped Mode = "stopped"
	// ModeReflex: stopped by the arm itself (contact, user stop); needs Recover.
	ModeReflex Mode = "reflex"
)

// NeedsRecover reports whether an arm in this mode ignores segments until Recover.
func (m Mode) NeedsRecover() bool { return m == ModeRamp || m == ModeStopped || m == ModeReflex }

// Hello is the server's first message: what it drives and which clock it keeps.
type Hello struct {
	Version  int   `msgpack:"version"`
	Clock    Clock `msgpack:"clock"`
	PeriodNS int64 `msgpack:"period_ns"` // distance of State messages, also the grid on which knots are best placed
	StartNS  int64 `msgpack:"start_ns"`  // the server's clock now; the first State carries it
	Sim      bool  `msgpack:"sim"`       // SetScene and QueryTruth are understood
	// ActionLatencyNS is how long the arms lag behind their commands, as calibrated; 0: they do not.
	ActionLatencyNS int64        `msgpack:"action_latency_ns"`
	Arms            []ArmInfo    `msgpack:"arms"`
	Cameras         []CameraInfo `msgpack:"cameras"`
}

// ArmInfo describes one arm with its gripper.
type ArmInfo struct {
	Name           string     `msgpack:"name"`             // "left" or "right"
	Model          string     `msgpack:"model"`            // a model of package robotmodel, "fr3"
	WorldFromBase  Pose       `msgpack:"world_from_base"`  // where the arm stands in the frame "cell"
	FlangeFromHand Pose       `msgpack:"flange_from_hand"` // the one constant that differs between arms: flange to hand_root
	GripperRad     [2]float64 `msgpack:"gripper_rad"`      // closed and open finger angle
}

// CameraInfo describes one camera of the cell. Frame k is captured at StartNS + PhaseNS + k*PeriodNS of the server's clock (k >= 0).
type CameraInfo struct {
	Name     string `msgpack:"name"` // "left", "right" (wrist), "center" or "scene"
	URL      string `msgpack:"url"`  // rtsp://...
	Kind     string `msgpack:"kind"` // "mjpeg" or "h264"
	PeriodNS int64  `msgpack:"period_ns"`
	PhaseNS  int64  `msgpack:"phase_ns"`
}

// State is the newest measurement of every arm, in the order of Hello.Arms.
type State struct {
	TNS  int64      `msgpack:"t_ns"`
	Arms []ArmState `msgpack:"arms"`
}

// ArmState is one arm at State.TNS.
type ArmState struct {
	Q             Joints  `msgpack:"q"`               // measured, rad
	DQ            Joints  `msgpack:"dq"`              // measured, rad/s
	QCmd          Joints  `msgpack:"q_cmd"`           // last 1 ms command, rad
	DQCmd         Joints  `msgpack:"dq_cmd"`          // its velocity, rad/s
	GripperRad    float64 `msgpack:"gripper_rad"`     // measured finger angle
	GripperCmdRad float64 `msgpack:"gripper_cmd_rad"` // commanded finger angle
	Mode          Mode    `msgpack:"mode"`
	Reason        string  `msgpack:"reason"` // why it ramps, stopped or reflexed
}

// Knot is one point of a segment.
type Knot struct {
	TNS        int64   `msgpack:"t_ns"` // absolute, server's clock
	Q          Joints  `msgpack:"q"`    // rad
	GripperRad float64 `msgpack:"gripper_rad"`
}

// Segment is a piece of trajectory for one arm. Knot times increase strictly. It replaces everything from its first knot on. When the last
// knot passes and nothing follows, the arm ramps down (starvation) unless the knots end at rest: the last two knots equal.
type Segment struct {
	Arm   string `msgpack:"arm"`
	Knots []Knot `msgpack:"knots"`
}

// Stop ramps all arms down along their paths and holds the grippers. They need Recover afterwards.
type Stop struct {
	Reason string `msgpack:"reason"`
}

// Recover is the operator's acknowledgement after a stop: plans are empty, arms at rest become idle.
type Recover struct{}

// Advance grants time up to and including UntilNS (lock-step only).
type Advance struct {
	UntilNS int64 `msgpack:"until_ns"`
}

// SetScene puts the simulated cell into an initial condition, arms at rest in the given joints. Condition is the simulator's own JSON.
type SetScene struct {
	Condition []byte     `msgpack:"condition"`
	Arms      []SceneArm `msgpack:"arms,omitempty"` // empty: arms stay where they are
}

// SceneArm places one arm without motion.
type SceneArm struct {
	Name       string  `msgpack:"name"`
	Q          Joints  `msgpack:"q"`
	GripperRad float64 `msgpack:"gripper_rad"`
}

// Scene answers SetScene; Error is empty when the scene stands.
type Scene struct {
	TNS   int64  `msgpack:"t_ns"`
	Error string `msgpack:"error,omitempty"`
}

// QueryTruth asks the simulated cell for the true state of its objects.
type QueryTruth struct{}

// Truth is what the simulator knows: poses in the frame "cell", named flags (contacts, holding) and named numbers.
type Truth struct {
	TNS    int64              `msgpack:"t_ns"`
	Bodies map[string]Pose    `msgpack:"bodies"`
	Flags  map[string]bool    `msgpack:"flags,omitempty"`
	Values map[string]float64 `msgpack:"values,omitempty"`
}

// Fault tells the client which of its messages was refused and why.
type Fault struct {
	Of   Kind   `msgpack:"of"` // kind of the refused message
	Text string `msgpack:"text"`
}

// Kind implements Message.
func (*Hello) Kind() Kind { return KindHello }

// Kind implements Message.
func (*State) Kind() Kind { return KindState }

// Kind implements Message.
func (*Segment) Kind() Kind { return KindSegment }

// Kind implements Message.
func (*Stop) Kind() Kind { return KindStop }

// Kind implements Message.
func (*Recover) Kind() Kind { return KindRecover }

// Kind implements Message.
func (*Advance) Kind() Kind { return KindAdvance }

// Kind implements Message.
func (*SetScene) Kind() Kind { return KindSetScene }

// Kind implements Message.
func (*Scene) Kind() Kind { return KindScene }

// Kind implements Message.
func (*QueryTruth) Kind() Kind { return KindQueryTruth }

// Kind implements Message.
func (*Truth) Kind() Kind { return KindTruth }

// Kind implements Message.
func (*Fault) Kind() Kind { return KindFault }

// newMessage returns an empty message of the kind, nil for an unknown kind.
func newMessage(k Kind) Message {
	switch k {
	case KindHello:
		return new(Hello)
	case KindState:
		return new(State)
	case KindSegment:
		return new(Segment)
	case KindStop:
		return new(Stop)
	case KindRecover:
		return new(Recover)
	case KindAdvance:
		return new(Advance)
	case KindSetScene:
		return new(SetScene)
	case KindScene:
		return new(Scene)
	case KindQueryTruth:
		return new(QueryTruth)
	case KindTruth:
		return new(Truth)
	case KindFault:
		return new(Fault)
	}
	return nil
}

// Validate checks a segment's form: a known shape, finite numbers, strictly increasing times. Limits are the arm runtime's business.
func (s *Segment) Validate() error {
	if len(s.Knots) == 0 {
		return fmt.Errorf("segment for arm %q has no knots", s.Arm)
	}
	for i, k := range s.Knots {
		if i > 0 && k.TNS <= s.Knots[i-1].TNS {
			return fmt.Errorf("segment for arm %q: knot %d at %d ns does not follow knot %d at %d ns", s.Arm, i, k.TNS, i-1, s.Knots[i-1].TNS)
		}
		for j, q := range k.Q {
			if math.IsNaN(q) || math.IsInf(q, 0) {
				return fmt.Errorf("segment for arm %q: knot %d joint %d is %v", s.Arm, i, j+1, q)
			}
		}
		if math.IsNaN(k.GripperRad) || math.IsInf(k.GripperRad, 0) {
			return fmt.Errorf("segment for arm %q: knot %d gripper is %v", s.Arm, i, k.GripperRad)
		}
	}
	return nil
}
