package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// FieldFeature is a feature of a rig map: numbers out of the messages of a topic, or a pose out of the transforms.
type FieldFeature struct {
	// Name of the feature in the dataset, such as observation.state.
	Name string `yaml:"name"`
	// Topic and Fields: the numbers at these paths of its messages, one after another (position, pose.position.x, data[3]; a structure
	// or a list stands for all its numbers).
	Topic  string   `yaml:"topic"`
	Fields []string `yaml:"fields"`
	// Select takes of one list the elements that the list of names at NameField (default name) calls so, in this order: joints
	// of a JointState.
	Select    []string `yaml:"select"`
	NameField string   `yaml:"name_field"`
	// Parent and Child frames instead of a topic: the pose of child in parent, or with a timing its motion.
	Parent string `yaml:"parent"`
	Child  string `yaml:"child"`
	// Names of the elements; default: from the fields.
	Names []string `yaml:"names"`
	// Unit of all elements, for the dataset's document.
	Unit string `yaml:"unit"`
	// Type is float64 (default), float32, int64, int32 or bool.
	Type string `yaml:"type"`
	// Timing next takes the row after (the last row repeats its own); for motions next or previous. Empty: the row itself.
	Timing string `yaml:"timing"`
}

// check refuses what cannot be a feature.
func (f *FieldFeature) check() error {
	transform, message := f.Parent != "" || f.Child != "", f.Topic != "" || len(f.Fields) > 0
	switch {
	case f.Name == "" || strings.ContainsAny(f.Name, "/ "):
		return fmt.Errorf("name %q: want a name such as observation.state, without slash and blank", f.Name)
	case strings.Contains(f.Name, "image"):
		return fmt.Errorf("name %q: only cameras may say image", f.Name)
	case transform == message:
		return fmt.Errorf("feature %s: want either topic and fields, or parent and child", f.Name)
	case transform && (f.Parent == "" || f.Child == "" || len(f.Select) > 0 || len(f.Names) > 0 || f.Type != ""):
		return fmt.Errorf("feature %s: a pose has parent, child and timing, and no other key", f.Name)
	case message && (f.Topic == "" || len(f.Fields) == 0):
		return fmt.Errorf("feature %s: want topic and fields", f.Name)
	case len(f.Select) > 0 && len(f.Fields) != 1:
		return fmt.Errorf("feature %s: select goes with one field", f.Name)
	case !slices.Contains([]string{"", feature.Float64, "float32", feature.Int64, feature.Int32, feature.Bool}, f.Type):
		return fmt.Errorf("feature %s: type %q; want float64, float32, int64, int32 or bool", f.Name, f.Type)
	case f.Timing != "" && f.Timing != "next" && !(transform && f.Timing == "previous"):
		return fmt.Errorf("feature %s: timing %q; want next%s", f.Name, f.Timing, map[bool]string{true: " or previous"}[transform])
	}
	return nil
}

func (f *FieldFeature) timing() frames.Timing {
	t, _ := frames.ParseTiming(f.Timing) // check has looked at it
	return t
}

// fieldStream is one topic of field features in a survey.
type fieldStream struct {
	topic   string
	types   rosTypes
	root    string
	samples []fieldSample
	// names of the elements, by feature name, from the first message.
	names map[string][]string
}

// fieldSample holds the numbers of one message, by feature name.
type fieldSample struct {
	sample
	values map[string][]float64
}

// fieldTopics are the topics of a map's features, in order, each once.
func (m *Map) fieldTopics() (out []string) {
	for _, f := range m.Features {
		if f.Topic != "" && !slices.Contains(out, f.Topic) {
			out = append(out, f.Topic)
		}
	}
	return out
}

// field takes the numbers out of a message.
func (s *survey) field(st *fieldStream, m rawlog.Message, n int) error {
	v, err := st.types.decode(st.root, m.Data)
	if err != nil {
		return err
	}
	header := int64(0)
	if sec, err1 := v.at("header.stamp.sec"); err1 == nil {
		if ns, err2 := v.at("header.stamp.nanosec"); err2 == nil {
			header = int64(sec.number)*1e9 + int64(ns.number)
		}
	}
	out := fieldSample{sample: s.align.sampleOf(m, header, n), values: map[string][]float64{}}
	for i := range s.m.Features {
		f := &s.m.Features[i]
		if f.Topic != st.topic {
			continue
		}
		found, err := f.numbers(v)
		if err != nil {
			return fmt.Errorf("feature %s: %w", f.Name, err)
		}
		for _, x := range found {
			if math.IsNaN(x.value) || math.IsInf(x.value, 0) {
				return fmt.Errorf("feature %s: %s is %v: %w", f.Name, x.name, x.value, frames.ErrNotFinite)
			}
			out.values[f.Name] = append(out.values[f.Name], x.value)
		}
		if have := st.names[f.Name]; have != nil && len(have) != len(found) {
			return fmt.Errorf("feature %s has %d elements, %d before", f.Name, len(found), len(have))
		} else if have == nil {
			for _, x := range found {
				st.names[f.Name] = append(st.names[f.Name], x.name)
			}
		}
		if len(f.Names) > 0 && len(f.Names) != len(found) {
			return fmt.Errorf("feature %s has %d elements, but %d names", f.Name, len(found), len(f.Names))
		}
	}
	if k := len(st.samples); k > 0 {
		out.same = fmt.Sprint(st.samples[k-1].values) == fmt.Sprint(out.values)
	}
	st.samples = append(st.samples, out)
	return nil
}

// numbers are the feature's elements in a message.
func (f *FieldFeature) numbers(v rosValue) (out []named, err error) {
	for _, path := range f.Fields {
		x, err := v.at(path)
		if err != nil {
			return nil, err
		}
		if len(f.Select) > 0 {
			return f.selected(v, x)
		}
		n := len(out)
		name := path[strings.LastIndex(path, ".")+1:]
		if out = x.numbers(name, out); len(out) == n {
			return nil, fmt.Errorf("%s %w", path, errNoNumbers)
		}
	}
	return out, nil
}

func (f *FieldFeature) selected(v, list rosValue) (out []named, err error) {
	path := f.NameField
	if path == "" {
		path = "name"
	}
	names, err := v.at(path)
	if err != nil {
		return nil, err
	}
	have := names.texts()
	for _, want := range f.Select {
		i := slices.Index(have, want)
		if i < 0 || i >= len(list.parts) {
			return nil, fmt.Errorf("no element %q; the message has %s", want, strings.Join(have, ", "))
		}
		out = list.parts[i].numbers(want, out)
	}
	return out, nil
}

// fieldFeatures are the dataset's features of the map, with a flag of freshness and the capture time of each topic.
func (s *survey) fieldFeatures() (out []feature.Feature) {
	for i := range s.m.Features {
		f := &s.m.Features[i]
		if f.Topic == "" {
			out = append(out, s.poseFeature(f)...)
			continue
		}
		st := s.fields[f.Topic]
		names := f.Names
		if len(names) == 0 {
			names = st.names[f.Name]
		}
		x := feature.Feature{Name: f.Name, DType: f.Type, Shape: []int{len(names)}, Names: names, Kind: feature.Field, Timing: f.timing(), Stream: f.Topic, Ours: true}
		if x.DType == "" {
			x.DType = feature.Float64
		}
		if len(names) == 1 {
			x.Names = nil
		}
		out = append(out, x, feature.Feature{Name: f.Name + ".is_fresh", DType: feature.Bool, Shape: []int{1}, Kind: feature.JointsFresh, Stream: f.Topic, Ours: true})
	}
	for _, topic := range s.m.fieldTopics() {
		out = append(out, feature.Feature{Name: "observation.capture_time." + streamName(topic), DType: feature.Int64, Shape: []int{2},
			Names: []string{"device_ns", "host_ns"}, Kind: feature.CaptureTime, Stream: topic, Ours: true})
	}
	return out
}

func (s *survey) poseFeature(f *FieldFeature) []feature.Feature {
	x := feature.Feature{Name: f.Name, DType: feature.Float64, Shape: []int{7}, Names: []string{"x", "y", "z", "qx", "qy", "qz", "qw"}, Kind: feature.Pose,
		Parent: f.Parent, Child: f.Child, Ours: true}
	if f.Timing != "" {
		x.Names = []string{"dx", "dy", "dz", "dqx", "dqy", "dqz", "dqw"}
		x.Kind, x.Reference, x.Timing = feature.Motion, frames.BodyPrevious, f.timing()
	}
	fresh := feature.Feature{Name: f.Name + ".is_fresh", DType: feature.Bool, Shape: []int{1}, Kind: feature.PoseFresh, Parent: f.Parent, Child: f.Child, Ours: true}
	return []feature.Feature{x, fresh}
}

// streamName is a topic as part of a feature's name: /arm/joint_states is arm_joint_states.
func streamName(topic string) string { return strings.ReplaceAll(strings.Trim(topic, "/"), "/", "_") }

// fieldColumn is the column of a field feature, in its type.
func (r *resampled) fieldColumn(f feature.Feature, sp span) any {
	samples, picks := r.s.fields[f.Stream].samples, r.fields[f.Stream]
	var flat []float64
	for k := sp.first; k < sp.end; k++ {
		at := k
		if f.Timing == frames.Next && k+1 < sp.end {
			at = k + 1
		}
		flat = append(flat, samples[picks[at].Index].values[f.Name]...)
	}
	switch f.DType {
	case "float32":
		return convert[float32](flat)
	case feature.Int64:
		return convert[int64](flat)
	case feature.Int32:
		return convert[int32](flat)
	case feature.Bool:
		out := make([]bool, len(flat))
		for i, v := range flat {
			out[i] = v != 0
		}
		return out
	}
	return flat
}

func convert[T float32 | int32 | int64](in []float64) []T {
	out := make([]T, len(in))
	for i, v := range in {
		out[i] = T(v)
	}
	return out
}
