package ingest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
	"gonum.org/v1/gonum/spatial/r3"
)

// survey is everything of a log but its pictures: who sent what when, all poses and angles.
type survey struct {
	path     string
	sha      string // of the log
	meta     meta.Recording
	m        Map
	align    *aligner
	warnings []string

	tree    *frames.Tree
	moves   map[string][]sample // by frame, one for each transform of it
	cameras []*camera
	joints  []jointSample
	pedal   []pedalSample
	flags   map[string][]flagSample // by topic
	fields  map[string]*fieldStream // by topic
	events  []event
	salvage bool
	broken  int // records left out
	lost    *Lost
	rebake  *rebakeLog    // nil: our rules
	tracker *trackerClock // nil: transforms count at their receive time
	before  lastContent

	planned *rows // by plan
}

// camera is one camera's stream.
type camera struct {
	name, topic   string
	video         bool // H.264 access units, not JPEG
	height, width int
	samples       []sample
	units         video.Units // of an H.264 stream
	// skipped counts access units before the first one that can be decoded; they have ordinals too.
	skipped int
}

type jointSample struct {
	sample
	rad [2]float64
}

type pedalSample struct {
	at      frames.Stamp
	buttons [3]int32
}

type flagSample struct {
	at frames.Stamp
	on bool
}

// fixBroken is the advice for a single bad record.
const fixBroken = "record it again, or run `pinch ingest --salvage` to leave such records out"

// takeSurvey opens, reads and hashes a log. The caller closes the reader.
func takeSurvey(path string, o Options) (*survey, *rawlog.Reader, error) {
	md, found, err := readMeta(path)
	if err != nil {
		return nil, nil, err
	}
	if !found && o.Task == "" {
		return nil, nil, fmt.Errorf("log %s has no %s beside it; run `pinch record --recover %s` if pinch recorded it, or name its instruction with --task",
			path, meta.FileName, filepath.Dir(path))
	}
	r, err := rawlog.Open(path)
	if err != nil {
		return nil, nil, err
	}
	s := &survey{path: path, meta: md, tree: frames.NewTree(), moves: map[string][]sample{}, flags: map[string][]flagSample{}, salvage: o.Salvage,
		fields: map[string]*fieldStream{}, before: newLastContent()}
	hashed := make(chan error, 1)
	go func() { // beside the survey: both read all of the log
		var err error
		s.sha, err = hashFile(path)
		hashed <- err
	}()
	err = s.read(r, o)
	herr := <-hashed
	switch {
	case err != nil:
		err = fmt.Errorf("log %s: %w", path, err)
	case herr != nil:
		err = herr
	default:
		return s, r, nil
	}
	_ = r.Close()
	return nil, nil, err
}

func (s *survey) read(r *rawlog.Reader, o Options) error {
	if err := s.losses(r.Info()); err != nil {
		return err
	}
	if o.Map != nil {
		s.m = *o.Map
	} else {
		has := func(topic string) bool { c, ok := r.Channel(topic); return ok && c.Messages > 0 }
		s.m = MapFor(s.meta.Robot.Type, has, func(frame string) bool { return logHasFrame(r, frame) })
	}
	streams, others, err := s.channels(r)
	if err != nil {
		return err
	}
	if err := s.clocks(r, o.Compat, streams, others); err != nil {
		return err
	}
	if err := s.messages(r, slices.Concat(streams, others)); err != nil {
		return err
	}
	s.sort()
	if s.broken > 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("%d broken records were left out", s.broken))
	}
	if s.rebake != nil {
		s.rebake.finish()
		return nil // it knows no gripper but that of the log
	}
	s.tracker.warn(s)
	if !s.m.Hands {
		return nil
	}
	return s.gripper()
}

// clocks chooses how messages get their stamps.
func (s *survey) clocks(r *rawlog.Reader, compat string, streams, others []rawlog.Channel) (err error) {
	if compat == CompatRebake {
		s.align, s.rebake = &aligner{receive: true}, newRebakeLog(r.Info().Channels)
		return nil
	}
	var warnings []string
	if s.align, warnings, err = newAligner(r, streams, others); err != nil {
		return err
	}
	s.warnings = append(s.warnings, warnings...)
	s.align.header = map[string]bool{}
	for _, topic := range s.m.HeaderTime {
		s.align.header[topic] = true
	}
	s.tracker, err = readTrackerClock(r, s.m.TrackerState, s.m.TF)
	return err
}

// logHasFrame looks for a frame among the first transforms of a log.
func logHasFrame(r *rawlog.Reader, frame string) bool {
	const enough = 500
	n := 0
	for m, err := range r.Messages("/tf", "/tf_static") {
		var tf rosmsg.TFMessage
		if n++; err != nil || n > enough || tf.UnmarshalCDR(m.Data) != nil {
			return false
		}
		for _, t := range tf.Transforms {
			if frameName(t.Header.FrameID) == frame || frameName(t.ChildFrameID) == frame {
				return true
			}
		}
	}
	return false
}

// frameName drops the leading slash that old ROS 1 style names have.
func frameName(s string) string { return strings.TrimPrefix(s, "/") }

// channels finds the mapped channels: streams bound the timeline, others only hold.
func (s *survey) channels(r *rawlog.Reader) (streams, others []rawlog.Channel, err error) {
	find := func(topic string) (rawlog.Channel, bool) {
		c, ok := r.Channel(topic)
		return c, ok && c.Messages > 0
	}
	for _, ct := range s.m.Cameras {
		i := slices.IndexFunc(ct.Topics, func(t string) bool { _, ok := find(t); return ok })
		if i < 0 && ct.Optional {
			continue
		}
		if i < 0 {
			return nil, nil, missingTopic(r, "camera "+ct.Name, ct.Topics)
		}
		c, _ := find(ct.Topics[i])
		cam := &camera{name: ct.Name, topic: c.Topic}
		switch c.Schema.Name {
		case rosmsg.TypeCompressedImage:
		case rosmsg.TypeCompressedVideo:
			cam.video = true
		default:
			return nil, nil, fmt.Errorf("camera %s: topic %s has messages of type %s; want %s or %s",
				ct.Name, c.Topic, c.Schema.Name, rosmsg.TypeCompressedImage, rosmsg.TypeCompressedVideo)
		}
		s.cameras = append(s.cameras, cam)
		streams = append(streams, c)
	}
	var needs [][2]string
	if s.m.Hands {
		needs = append(needs, [2]string{"finger angles", s.m.JointStates})
	}
	if s.m.needsTransforms() {
		needs = append(needs, [2]string{"transforms", s.m.TF})
	}
	for _, topic := range s.m.fieldTopics() {
		if topic != s.m.JointStates || !s.m.Hands {
			needs = append(needs, [2]string{"features", topic})
		}
	}
	for _, need := range needs {
		c, ok := find(need[1])
		if !ok {
			return nil, nil, missingTopic(r, need[0], need[1:])
		}
		streams = append(streams, c)
	}
	for _, topic := range s.m.fieldTopics() {
		if err := s.openField(r, topic); err != nil {
			return nil, nil, err
		}
	}
	optional := []string{s.m.TFStatic, rawlog.TopicSession}
	if s.m.Hands {
		optional = append(append(append(optional, s.m.Pedal), s.m.Tracked["left"]...), s.m.Tracked["right"]...)
	}
	for _, t := range optional {
		if c, ok := find(t); ok {
			others = append(others, c)
		}
	}
	return streams, others, nil
}

// openField prepares reading the numbers of a topic by its schema.
func (s *survey) openField(r *rawlog.Reader, topic string) error {
	c, ok := r.Channel(topic)
	if !ok || c.MessageEncoding != rawlog.EncodingCDR || c.Schema.Encoding != rawlog.SchemaROS2 {
		return fmt.Errorf("topic %s has messages in %q with a schema in %q; features are read from %q with %q",
			topic, c.MessageEncoding, c.Schema.Encoding, rawlog.EncodingCDR, rawlog.SchemaROS2)
	}
	types, err := parseRosTypes(c.Schema.Name, string(c.Schema.Data))
	if err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	s.fields[topic] = &fieldStream{topic: topic, types: types, root: c.Schema.Name, names: map[string][]string{}}
	return nil
}

func missingTopic(r *rawlog.Reader, what string, topics []string) error {
	var there []string
	for _, c := range r.Info().Channels {
		if c.Messages > 0 {
			there = append(there, c.Topic)
		}
	}
	slices.Sort(there)
	if len(there) == 0 {
		there = []string{"no messages at all"}
	}
	return fmt.Errorf("%s: no messages on %s; the log has %s: name the topics in a rig map (--map), or leave the recording out",
		what, strings.Join(topics, " or "), strings.Join(there, ", "))
}

// messages reads all mapped channels once. A bad record is an error that names it, or left out when salvaging.
func (s *survey) messages(r *rawlog.Reader, channels []rawlog.Channel) error {
	var topics []string
	for _, c := range channels {
		topics = append(topics, c.Topic)
	}
	count := map[string]int{}
	for m, err := range r.Messages(topics...) {
		switch {
		case isLoss(err):
			continue
		case err != nil:
			return err
		}
		n := count[m.Channel.Topic]
		count[m.Channel.Topic]++
		if err := s.message(m, n); err != nil {
			if !s.salvage {
				return fmt.Errorf("%s record %d (received at %d ns): %w; %s", m.Channel.Topic, n, m.LogTime, err, fixBroken)
			}
			s.broken++
		}
	}
	return nil
}

// message takes in the n-th message of its channel.
func (s *survey) message(m rawlog.Message, n int) error {
	topic := m.Channel.Topic
	if i := slices.IndexFunc(s.cameras, func(c *camera) bool { return c.topic == topic }); i >= 0 {
		return s.picture(s.cameras[i], m, n)
	}
	if st := s.fields[topic]; st != nil {
		if err := s.field(st, m, n); err != nil || !s.m.Hands || topic != s.m.JointStates {
			return err
		}
	}
	switch topic {
	case s.m.TF:
		return s.transforms(m, n, false)
	case s.m.TFStatic:
		return s.transforms(m, n, true)
	case s.m.JointStates:
		return s.joint(m, n)
	case s.m.Pedal:
		var joy rosmsg.Joy
		if err := joy.UnmarshalCDR(m.Data); err != nil {
			return err
		}
		p := pedalSample{at: s.align.stamp(m)}
		copy(p.buttons[:], joy.Buttons)
		s.pedal = append(s.pedal, p)
	case rawlog.TopicSession:
		e := event{at: s.align.stamp(m)}
		if err := json.Unmarshal(m.Data, &e.SessionEvent); err != nil {
			return err
		}
		s.events = append(s.events, e)
	default:
		var b rosmsg.Bool
		if err := b.UnmarshalCDR(m.Data); err != nil {
			return err
		}
		s.flags[topic] = append(s.flags[topic], flagSample{s.align.stamp(m), b.Data})
	}
	return nil
}

// transforms adds a TF message to the tree.
func (s *survey) transforms(m rawlog.Message, n int, static bool) error {
	var tf rosmsg.TFMessage
	if err := tf.UnmarshalCDR(m.Data); err != nil {
		return err
	}
	for _, t := range tf.Transforms {
		parent, child := frameName(t.Header.FrameID), frameName(t.ChildFrameID)
		p := t.Transform
		pose := frames.Pose{
			Pos: r3.Vec{X: p.Translation.X, Y: p.Translation.Y, Z: p.Translation.Z},
			Rot: frames.Quat{X: p.Rotation.X, Y: p.Rotation.Y, Z: p.Rotation.Z, W: p.Rotation.W},
		}
		if s.rebake != nil && pose.Rot.Norm() >= frames.MinQuatNorm {
			if err := s.rebake.add(s.align.stamp(m), parent, child, pose); err != nil {
				return err
			}
		}
		if static {
			if err := s.tree.AddStatic(parent, child, pose); err != nil {
				return err
			}
			continue
		}
		sm := s.align.sampleOf(m, t.Header.Stamp.Nanos(), n)
		s.tracker.correct(&sm, t.Header.Stamp.Nanos())
		sm.same = s.before.pose(child, pose)
		if err := s.tree.AddDynamic(parent, child, sm.at, pose); err != nil {
			return err
		}
		s.moves[child] = append(s.moves[child], sm)
	}
	return nil
}

// joint takes the two finger angles out of a JointState; a message that has neither joint is somebody else's.
func (s *survey) joint(m rawlog.Message, n int) error {
	var js rosmsg.JointState
	if err := js.UnmarshalCDR(m.Data); err != nil {
		return err
	}
	out := jointSample{sample: s.align.sampleOf(m, js.Header.Stamp.Nanos(), n)}
	found := 0
	for i, name := range s.m.JointNames {
		j := slices.Index(js.Name, name)
		if j < 0 {
			continue
		}
		found++
		if j >= len(js.Position) {
			return fmt.Errorf("joint %s has no position", name)
		}
		out.rad[i] = js.Position[j]
		if math.IsNaN(out.rad[i]) || math.IsInf(out.rad[i], 0) {
			return fmt.Errorf("angle of joint %s is %v: %w", name, out.rad[i], frames.ErrNotFinite)
		}
	}
	switch found {
	case 0:
		return nil
	case len(s.m.JointNames):
		out.same = s.before.angles(out.rad)
		s.joints = append(s.joints, out)
		return nil
	}
	return fmt.Errorf("joints %s: only one of %s", strings.Join(js.Name, ", "), strings.Join(s.m.JointNames, ", "))
}

// sort puts every stream in order of its stamps; messages of one stamp keep the order of the file.
func (s *survey) sort() {
	for _, c := range s.cameras {
		slices.SortStableFunc(c.samples, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	}
	for _, h := range s.moves {
		slices.SortStableFunc(h, func(a, b sample) int { return cmp.Compare(a.at, b.at) })
	}
	for _, st := range s.fields {
		slices.SortStableFunc(st.samples, func(a, b fieldSample) int { return cmp.Compare(a.at, b.at) })
	}
	slices.SortStableFunc(s.joints, func(a, b jointSample) int { return cmp.Compare(a.at, b.at) })
	slices.SortStableFunc(s.pedal, func(a, b pedalSample) int { return cmp.Compare(a.at, b.at) })
	for _, f := range s.flags {
		slices.SortStableFunc(f, func(a, b flagSample) int { return cmp.Compare(a.at, b.at) })
	}
	slices.SortStableFunc(s.events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

// stampsOf lists the stamps of sorted samples.
func stampsOf[T any](s []T, at func(T) frames.Stamp) []frames.Stamp {
	out := make([]frames.Stamp, len(s))
	for i, x := range s {
		out[i] = at(x)
	}
	return out
}
