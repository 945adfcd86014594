package deploy

import (
	"encoding/json"
	"fmt"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// TrialClock is the name under which a trial's log knows the cell's clock (channel metadata "pinch.clock").
const TrialClock = "cell"

// OriginFrame is the frame in which a trial's /tf gives the hands.
const OriginFrame = "cell"

// Topics of a trial beyond those of a recording.
const (
	TopicChunk   = "/pinch/deploy/chunk"   // one per answer of the policy, ChunkRecord
	TopicCommand = "/pinch/deploy/command" // one per control step, CommandRecord
	TopicEvent   = "/pinch/deploy/event"   // EventRecord
)

// ChunkRecord is what a policy answered and what became of it.
type ChunkRecord struct {
	ObservationNS int64       `json:"observation_ns"` // cell's clock
	AskedNS       int64       `json:"asked_ns"`
	TakenNS       int64       `json:"taken_ns"`
	LatencyMS     float64     `json:"latency_ms"` // cell's clock
	TookNS        int64       `json:"took_ns"`    // this machine's clock
	Prompt        string      `json:"prompt"`
	RateHz        float64     `json:"rate_hz"`
	Actions       [][]float32 `json:"actions"`
	Checkpoint    string      `json:"checkpoint,omitempty"`
	Frames        int         `json:"frames,omitempty"`       // moments that the policy was shown
	PrefixRows    int         `json:"prefix_rows,omitempty"`  // committed rows that it was told
	Rejected      string      `json:"rejected,omitempty"`     // why, when it was
	Error         string      `json:"error,omitempty"`        // of the policy, instead of an answer
	Lost          bool        `json:"lost,omitempty"`         // that error ended the run
	Stale         bool        `json:"stale,omitempty"`        // the prompt had changed meanwhile: dropped
	ReachedRows   int         `json:"reached_rows,omitempty"` // as many rows can be reached; 0: all
	RaisedM       [2]float64  `json:"raised_m"`               // by which the hands' rows were raised at most to keep the fingers off the table
}

// CommandRecord is where the plan stands at a control step.
type CommandRecord struct {
	TNS        int64             `json:"t_ns"`
	PolicyTime float64           `json:"policy_time_s"`
	Rate       float64           `json:"rate"` // of policy time, 0..1
	Q          [2]armlink.Joints `json:"q_rad"`
	FingerRad  [2]float64        `json:"finger_rad"`
}

// EventRecord is something an operator should know.
type EventRecord struct {
	TNS  int64  `json:"t_ns"`
	Kind string `json:"kind"` // begin, prompt, rejected, shortened, lost, starved, stall, contact, fault, stop, end
	Text string `json:"text"`
}

// TrialLog writes runs into a raw log, in the topics of docs/architecture.md. All channels carry the cell's clock as publish time. Its
// methods belong to the goroutine that runs the session. The first failed write is returned by every later call.
type TrialLog struct {
	w       *rawlog.Writer
	host    device.Clock
	ids     map[string]rawlog.ChannelID
	subtask int
	buf     []byte
	err     error
	// tap takes what would be written, for a run that is replayed.
	tap func(topic string, tNS int64, data []byte) error
}

// NewTrialLog declares the topics in w, which stays the caller's to close.
func NewTrialLog(w *rawlog.Writer, hello armlink.Hello) (*TrialLog, error) {
	l := &TrialLog{w: w, host: device.NewClock(), ids: map[string]rawlog.ChannelID{}, subtask: -1}
	ros := func(name string) rawlog.Schema {
		return rawlog.Schema{Name: name, Encoding: rawlog.SchemaROS2, Data: []byte(rosmsg.Definition(name))}
	}
	own := func(name string) rawlog.Schema {
		return rawlog.Schema{Name: name, Encoding: rawlog.SchemaJSONSchema, Data: []byte(`{"type":"object"}`)}
	}
	channels := []struct {
		topic  string
		schema rawlog.Schema
	}{
		{"/tf", ros(rosmsg.TypeTFMessage)},
		{"/joint_states", ros(rosmsg.TypeJointState)},
		{rawlog.TopicSession, rawlog.SessionEventSchema},
		{TopicRun, own("pinch.DeployRun")},
		{TopicState, own("pinch.DeployState")},
		{TopicDirective, own("pinch.DeployDirective")},
		{TopicSegment, own("pinch.DeploySegment")},
		{TopicChunk, own("pinch.DeployChunk")},
		{TopicCommand, own("pinch.DeployCommand")},
		{TopicEvent, own("pinch.DeployEvent")},
	}
	for _, name := range Hands {
		channels = append(channels, struct {
			topic  string
			schema rawlog.Schema
		}{imageTopic(name), ros(rosmsg.TypeCompressedImage)}, struct {
			topic  string
			schema rawlog.Schema
		}{"/yubi/gripper/" + name + "/joint_state", ros(rosmsg.TypeJointState)})
	}
	for _, c := range channels {
		id, err := w.AddChannel(c.topic, c.schema, map[string]string{rawlog.ClockKey: TrialClock, "pinch.sim": fmt.Sprint(hello.Sim)})
		if err != nil {
			return nil, fmt.Errorf("prepare trial log: %w", err)
		}
		l.ids[c.topic] = id
	}
	return l, nil
}

func imageTopic(hand string) string { return "/" + hand + "_camera/image_raw/compressed" }

// HostNow reads the clock that stamps what is logged (log_time), so that a description of the log speaks of the same time.
func (l *TrialLog) HostNow() frames.HostTime { return l.host() }

// SessionEvent logs one of rawlog's session events at tNS of the cell's clock. success counts for accept and reject.
func (l *TrialLog) SessionEvent(tNS int64, event, label string, success bool) error {
	e := rawlog.SessionEvent{Event: event, Label: label}
	switch event {
	case rawlog.EventSubtask:
		l.subtask++
		e.Subtask = l.subtask
	case rawlog.EventAccept, rawlog.EventReject:
		e.Subtask, e.Success = max(l.subtask, 0), &success
	}
	return l.json(rawlog.TopicSession, tNS, e)
}

func (l *TrialLog) json(topic string, tNS int64, v any) error {
	if l == nil {
		return nil
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("trial log, %s: %w", topic, err)
	}
	return l.write(topic, tNS, data)
}

func (l *TrialLog) write(topic string, tNS int64, data []byte) error {
	if l.tap != nil {
		return l.tap(topic, tNS, data)
	}
	if l.err == nil {
		if err := l.w.Write(l.ids[topic], l.host(), frames.DeviceTime(tNS), data); err != nil {
			l.err = fmt.Errorf("trial log, %s: %w", topic, err)
		}
	}
	return l.err
}

func (l *TrialLog) ros(topic string, tNS int64, m rosmsg.Message) error {
	l.buf = m.MarshalCDR(l.buf[:0])
	return l.write(topic, tNS, l.buf)
}

// state logs poses of both hands and finger angles, as the rig's tracker and encoders would.
func (l *TrialLog) state(tNS int64, pose [2]frames.Pose, finger [2]float64) error {
	if l == nil {
		return nil
	}
	stamp := rosmsg.TimeFromNanos(tNS)
	var tf rosmsg.TFMessage
	for h, p := range pose {
		tf.Transforms = append(tf.Transforms, rosmsg.TransformStamped{
			Header:       rosmsg.Header{Stamp: stamp, FrameID: OriginFrame},
			ChildFrameID: Hands[h] + "_hand_root",
			Transform: rosmsg.Transform{
				Translation: rosmsg.Vector3{X: p.Pos.X, Y: p.Pos.Y, Z: p.Pos.Z},
				Rotation:    rosmsg.Quaternion{X: p.Rot.X, Y: p.Rot.Y, Z: p.Rot.Z, W: p.Rot.W},
			},
		})
	}
	_ = l.ros("/tf", tNS, &tf)
	both := rosmsg.JointState{Header: rosmsg.Header{Stamp: stamp}}
	for h, rad := range finger {
		joint := Hands[h] + "_right_finger_joint"
		both.Name = append(both.Name, joint)
		both.Position = append(both.Position, rad)
		_ = l.ros("/yubi/gripper/"+Hands[h]+"/joint_state", tNS,
			&rosmsg.JointState{Header: both.Header, Name: []string{joint}, Position: []float64{rad}})
	}
	return l.ros("/joint_states", tNS, &both)
}

func (l *TrialLog) frame(hand int, f Frame) error {
	if l == nil {
		return nil
	}
	name := Hands[hand]
	return l.ros(imageTopic(name), f.CaptureNS, &rosmsg.CompressedImage{
		Header: rosmsg.Header{Stamp: rosmsg.TimeFromNanos(f.CaptureNS), FrameID: name + "_hand_cam_link"}, Format: "jpeg", Data: f.JPEG})
}

func (l *TrialLog) event(tNS int64, kind, text string) error {
	return l.json(TopicEvent, tNS, EventRecord{tNS, kind, text})
}
