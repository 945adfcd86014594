package capture

import (
	"fmt"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/encoder"
	"github.com/pinch-robotics/pinch/internal/device/pedal"
	"github.com/pinch-robotics/pinch/internal/device/tracker"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// message is one message on its way to the log.
type message struct {
	topic    string
	typeName string
	clock    string // device clock of the topic; "" for none
	host     frames.HostTime
	device   frames.DeviceTime // meaningful when clock is set
	data     []byte
	video    bool // part of an H.264 stream; key marks where decoding may begin
	key      bool
}

// publisher turns readings into messages, in the forms and under the topics of YUBI's recordings. Not safe for concurrent use.
type publisher struct {
	rig    *Rig
	clocks clockMaps
	mounts [2]frames.Pose // controller from hand: inverse of the mount
	unwrap [2]encoder.Unwrapper
	pair   jointPair
	pedal  pedalTicks
	out    []message
}

func newPublisher(rig *Rig) *publisher {
	p := &publisher{rig: rig, clocks: clockMaps{}}
	p.mounts = [2]frames.Pose{rig.Tracker.Mounts.Left.Pose().Inv(), rig.Tracker.Mounts.Right.Pose().Inv()}
	for _, e := range rig.Encoders {
		p.unwrap[sideIndex(e.Side)] = encoder.Unwrapper{ClosedRawRad: e.ClosedRawRad, Direction: float64(e.Direction)}
	}
	return p
}

func sideIndex(side string) int {
	if side == sides[1] {
		return 1
	}
	return 0
}

// stamp is the header stamp of a reading: its capture time as host time. A simulated rig keeps its simulated time, as ROS
// does with use_sim_time: at any speed but real time there is no sensible map to host time, and the same run must give the same bytes.
func (p *publisher) stamp(clock string, e event) rosmsg.Time {
	if p.rig.Robot.Simulation && clock != "" && e.timed {
		return rosmsg.TimeFromNanos(int64(e.device))
	}
	return rosmsg.TimeFromNanos(int64(p.clocks.host(clock, e)))
}

// add appends a message of one reading; its topic has the device's clock.
func (p *publisher) add(e event, clock, topic string, m rosmsg.Message) *message {
	p.out = append(p.out, message{
		topic: topic, typeName: m.TypeName(), clock: clock, host: e.host, device: e.device, data: m.MarshalCDR(nil),
	})
	return &p.out[len(p.out)-1]
}

// take hands out the messages made since the last call; the slice is valid until the next reading.
func (p *publisher) take() []message {
	out := p.out
	p.out = p.out[:0]
	return out
}

// needTime refuses a reading without device time from a device whose clock the rig file names: its publish time would be wrong.
func needTime(e event, name, clock string) error {
	if clock == "" || e.timed {
		return nil
	}
	return &device.ConfigError{
		Device: name, Fault: fmt.Sprintf("sends no device time, but the rig file names its clock %q", clock), Fix: "remove `clock` of this device from the rig file",
	}
}

// camera publishes a good frame; bad ones are left out, as no decoder should see them.
func (p *publisher) camera(e event, c *Camera, f camera.Frame) error {
	if f.Bad {
		return nil
	}
	if err := needTime(e, c.Name+" camera", c.Clock); err != nil {
		return err
	}
	h := rosmsg.Header{Stamp: p.stamp(c.Clock, e), FrameID: c.Name + "_camera_optical_frame"}
	topic := topicCamera(c.Name, f.Codec)
	if f.Codec == camera.H264 {
		m := p.add(e, c.Clock, topic, &rosmsg.CompressedVideo{Timestamp: h.Stamp, FrameID: h.FrameID, Data: f.Data, Format: "h264"})
		m.video, m.key = true, f.Key
	} else {
		p.add(e, c.Clock, topic, &rosmsg.CompressedImage{Header: h, Format: "jpeg", Data: f.Data})
	}
	info := rosmsg.CameraInfo{Header: h, Width: uint32(c.Width), Height: uint32(c.Height)}
	p.add(e, c.Clock, topicCameraInfo(c.Name), &info)
	return nil
}

// encoder publishes the finger angle of one side, and both together whenever both are new. Failed reads (suspect zeros) are left
// out: a sample that nobody measured must not look fresh.
func (p *publisher) encoder(e event, c *Encoder, r encoder.Reading) error {
	if err := needTime(e, c.Side+" encoder", c.Clock); err != nil {
		return err
	}
	side := sideIndex(c.Side)
	angle, ok := p.unwrap[side].Add(r.RawRad)
	if r.Suspect || !ok {
		return nil
	}
	h := rosmsg.Header{Stamp: p.stamp(c.Clock, e)}
	p.add(e, c.Clock, topicGripper(c.Side), &rosmsg.JointState{Header: h, Name: []string{jointName(c.Side)}, Position: []float64{angle}})
	both, ok := p.pair.add(side, angle, axisTime(c.Clock, e))
	if ok {
		p.add(e, p.pairClock(), topicJointStates, &rosmsg.JointState{
			Header: h, Name: []string{jointName(sides[0]), jointName(sides[1])}, Position: both[:],
		})
	}
	return nil
}

// pairClock is the clock of /joint_states: the encoders' common one, or none.
func (p *publisher) pairClock() string {
	clock := ""
	for i, e := range p.rig.Encoders {
		if i > 0 && e.Clock != clock {
			return ""
		}
		clock = e.Clock
	}
	return clock
}

// axisTime is device time where there is a device clock, else host time, in nanoseconds.
func axisTime(clock string, e event) int64 {
	if clock != "" {
		return int64(e.device)
	}
	return int64(e.host)
}

// jointPair joins the two encoders: a pair is due when both sides have a sample newer than the last pair, and is stamped with the newer
// one. A side older than 0.5 s is stale and joins nothing.
type jointPair struct {
	angle [2]float64
	at    [2]int64
	fresh [2]bool
}

const jointStale = 500 * time.Millisecond

func (j *jointPair) add(side int, angle float64, at int64) (both [2]float64, ok bool) {
	j.angle[side], j.at[side], j.fresh[side] = angle, at, true
	other := 1 - side
	if !j.fresh[other] || at-j.at[other] > int64(jointStale) {
		return both, false
	}
	j.fresh = [2]bool{}
	return j.angle, true
}

// tracker publishes one frame of the headset: one TF message with the headset and the hands that have a pose, and the flags. A pose that
// jumped counts as not valid whatever the headset says.
func (p *publisher) tracker(e event, r tracker.Reading) error {
	clock := p.rig.Tracker.Clock
	if err := needTime(e, "tracker", clock); err != nil {
		return err
	}
	h := rosmsg.Header{Stamp: p.stamp(clock, e), FrameID: frameOrigin}
	var tf rosmsg.TFMessage
	if r.HasHMD {
		tf.Transforms = append(tf.Transforms, transform(h, frameHMD, r.HMD))
	}
	for i, c := range r.Controllers {
		if c.HasPose {
			tf.Transforms = append(tf.Transforms, transform(h, frameHand(sides[i]), c.Pose.Mul(p.mounts[i])))
		}
	}
	p.add(e, clock, topicTF, &tf)
	for i, c := range r.Controllers {
		p.add(e, clock, topicTracked(sides[i]), &rosmsg.Bool{Data: c.Tracked && c.HasPose})
		p.add(e, clock, topicValid(sides[i]), &rosmsg.Bool{Data: c.Valid && c.HasPose && !r.Jump[i]})
	}
	return nil
}

func transform(h rosmsg.Header, child string, p frames.Pose) rosmsg.TransformStamped {
	q := p.Rot.Canonical()
	return rosmsg.TransformStamped{Header: h, ChildFrameID: child, Transform: rosmsg.Transform{
		Translation: rosmsg.Vector3{X: p.Pos.X, Y: p.Pos.Y, Z: p.Pos.Z},
		Rotation:    rosmsg.Quaternion{X: q.X, Y: q.Y, Z: q.Z, W: q.W},
	}}
}

// pedalPublish publishes the pedal's levels at each change, and at 10 Hz as long as the pedal tells the time.
func (p *publisher) pedalPublish(e event, r pedal.Reading) {
	clock := p.rig.Pedal.Clock
	if !p.pedal.due(axisTime(clock, e), r.Changed) {
		return
	}
	m := rosmsg.Joy{Header: rosmsg.Header{Stamp: p.stamp(clock, e), FrameID: "foot_pedal"}, Buttons: make([]int32, pedal.Buttons)}
	for i, down := range r.Level {
		if down {
			m.Buttons[i] = 1
		}
	}
	p.add(e, clock, topicPedal, &m)
}

type pedalTicks struct {
	last int64
	any  bool
}

func (t *pedalTicks) due(at int64, changed bool) bool {
	if !changed && t.any && at-t.last < int64(100*time.Millisecond) {
		return false
	}
	t.last, t.any = at, true
	return true
}

// clockMaps takes device times to host time, by clock: by the exchanges with the device when there are any, else by the fastest
// message so far, whose delay is the smallest.
type clockMaps map[string]*clockMap

type clockMap struct {
	exchange frames.ClockEstimator
	offset   int64 // smallest receive time minus device time
	seen     bool
}

func (c clockMaps) of(clock string) *clockMap {
	m := c[clock]
	if m == nil {
		m = &clockMap{}
		c[clock] = m
	}
	return m
}

// host is the capture time of e on the host's clock.
func (c clockMaps) host(clock string, e event) frames.HostTime {
	if clock == "" || !e.timed {
		return e.host
	}
	m := c.of(clock)
	if off := int64(e.host) - int64(e.device); !m.seen || off < m.offset {
		m.seen, m.offset = true, off
	}
	if est, err := m.exchange.Map(); err == nil {
		if t, err := est.Host(e.device); err == nil {
			return t
		}
	}
	return frames.HostTime(int64(e.device) + m.offset)
}

// sampled notes one exchange with a device.
func (c clockMaps) sampled(clock string, s frames.ClockSample) { c.of(clock).exchange.Add(s) }

// staticTransforms are the fixed frames of the rig, for /tf_static.
func staticTransforms(rig *Rig, stamp rosmsg.Time) *rosmsg.TFMessage {
	var m rosmsg.TFMessage
	mounts := [2]Transform{rig.Tracker.Mounts.Left, rig.Tracker.Mounts.Right}
	for i, side := range sides {
		h := rosmsg.Header{Stamp: stamp, FrameID: frameHand(side)}
		m.Transforms = append(m.Transforms,
			transform(h, frameController(side), mounts[i].Pose()),
			transform(h, side+"_hand_cam_link", frames.Pose{Pos: handCamera, Rot: frames.IdentityQuat}))
	}
	return &m
}
