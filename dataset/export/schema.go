package export

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/pinch-robotics/pinch/dataset"
)

// The messages of Foxglove that we write, as its published schemas define them: name, number and type of each field.
// A test compares them with the published package.
type field struct {
	name   string
	number int32
	typ    descriptorpb.FieldDescriptorProto_Type
	of     string // type name of a message or enum field
	many   bool
}

const (
	tDouble  = descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
	tFloat   = descriptorpb.FieldDescriptorProto_TYPE_FLOAT
	tInt64   = descriptorpb.FieldDescriptorProto_TYPE_INT64
	tUint64  = descriptorpb.FieldDescriptorProto_TYPE_UINT64
	tInt32   = descriptorpb.FieldDescriptorProto_TYPE_INT32
	tFixed32 = descriptorpb.FieldDescriptorProto_TYPE_FIXED32
	tBool    = descriptorpb.FieldDescriptorProto_TYPE_BOOL
	tString  = descriptorpb.FieldDescriptorProto_TYPE_STRING
	tBytes   = descriptorpb.FieldDescriptorProto_TYPE_BYTES
	tMessage = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	tEnum    = descriptorpb.FieldDescriptorProto_TYPE_ENUM
)

const stampType = ".google.protobuf.Timestamp"

var stampField = field{name: "timestamp", number: 1, typ: tMessage, of: stampType}

// messages by their full names.
var messages = map[string][]field{
	"google.protobuf.Timestamp": {{name: "seconds", number: 1, typ: tInt64}, {name: "nanos", number: 2, typ: tInt32}},
	"foxglove.Vector3":          {{name: "x", number: 1, typ: tDouble}, {name: "y", number: 2, typ: tDouble}, {name: "z", number: 3, typ: tDouble}},
	"foxglove.Quaternion":       {{name: "x", number: 1, typ: tDouble}, {name: "y", number: 2, typ: tDouble}, {name: "z", number: 3, typ: tDouble}, {name: "w", number: 4, typ: tDouble}},
	"foxglove.Pose":             {{name: "position", number: 1, typ: tMessage, of: ".foxglove.Vector3"}, {name: "orientation", number: 2, typ: tMessage, of: ".foxglove.Quaternion"}},
	"foxglove.PoseInFrame":      {stampField, {name: "frame_id", number: 2, typ: tString}, {name: "pose", number: 3, typ: tMessage, of: ".foxglove.Pose"}},
	"foxglove.FrameTransform": {stampField, {name: "parent_frame_id", number: 2, typ: tString}, {name: "child_frame_id", number: 3, typ: tString},
		{name: "translation", number: 4, typ: tMessage, of: ".foxglove.Vector3"}, {name: "rotation", number: 5, typ: tMessage, of: ".foxglove.Quaternion"}},
	"foxglove.FrameTransforms": {{name: "transforms", number: 1, typ: tMessage, of: ".foxglove.FrameTransform", many: true}},
	"foxglove.CompressedVideo": {stampField, {name: "frame_id", number: 2, typ: tString}, {name: "data", number: 3, typ: tBytes}, {name: "format", number: 4, typ: tString}},
	"foxglove.CompressedImage": {stampField, {name: "frame_id", number: 4, typ: tString}, {name: "data", number: 2, typ: tBytes}, {name: "format", number: 3, typ: tString}},
	"foxglove.Log": {stampField, {name: "level", number: 2, typ: tEnum, of: ".foxglove.Log.Level"}, {name: "message", number: 3, typ: tString}, {name: "name", number: 4, typ: tString},
		{name: "file", number: 5, typ: tString}, {name: "line", number: 6, typ: tFixed32}},
}

// logLevels are the values of foxglove.Log.Level.
var logLevels = []string{"UNKNOWN", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"}

const levelInfo = 2

// descriptors is the FileDescriptorSet of a message and all that it is made of: a file for each, those that others import first.
func descriptors(full string, fields []field) ([]byte, error) {
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(full string, fields []field)
	add = func(full string, fields []field) {
		if seen[full] {
			return
		}
		seen[full] = true
		file := describe(full, fields)
		for _, f := range fields {
			if name := strings.TrimPrefix(f.of, "."); f.typ == tMessage {
				add(name, messages[name])
				if path := protoPath(name); !contains(file.Dependency, path) {
					file.Dependency = append(file.Dependency, path)
				}
			}
		}
		set.File = append(set.File, file)
	}
	add(full, fields)
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("describe message %s: %w", full, err)
	}
	return b, nil
}

func contains(list []string, s string) bool {
	for _, x := range list {
		if x == s {
			return true
		}
	}
	return false
}

func protoPath(full string) string {
	if full == "google.protobuf.Timestamp" {
		return "google/protobuf/timestamp.proto"
	}
	return strings.ReplaceAll(full, ".", "/") + ".proto"
}

// describe is the file of one message.
func describe(full string, fields []field) *descriptorpb.FileDescriptorProto {
	at := strings.LastIndexByte(full, '.')
	m := &descriptorpb.DescriptorProto{Name: proto.String(full[at+1:])}
	for _, f := range fields {
		label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
		if f.many {
			label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
		}
		d := &descriptorpb.FieldDescriptorProto{Name: proto.String(f.name), Number: proto.Int32(f.number), Type: f.typ.Enum(), Label: label.Enum()}
		if f.of != "" {
			d.TypeName = proto.String(f.of)
		}
		m.Field = append(m.Field, d)
		if f.typ == tEnum {
			e := &descriptorpb.EnumDescriptorProto{Name: proto.String("Level")}
			for k, name := range logLevels {
				e.Value = append(e.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(name), Number: proto.Int32(int32(k))})
			}
			m.EnumType = append(m.EnumType, e)
		}
	}
	return &descriptorpb.FileDescriptorProto{Name: proto.String(protoPath(full)), Package: proto.String(full[:at]), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{m}}
}

// rowMessage is the message of a numeric feature: its time, then a field for each element.
func rowMessage(f dataset.Feature) (full string, fields []field) {
	fields = []field{stampField}
	used := map[string]bool{"timestamp": true}
	for k := range f.Dim() {
		name := f.Name[strings.LastIndexByte(f.Name, '.')+1:]
		if k < len(f.Names) {
			name = f.Names[k]
		} else if f.Dim() > 1 {
			name = fmt.Sprintf("e%d", k)
		}
		if name = identifier(name); used[name] {
			name = fmt.Sprintf("%s_%d", name, k)
		}
		used[name] = true
		fields = append(fields, field{name: name, number: int32(k + 2), typ: numberType(f.DType)})
	}
	return "pinch." + identifier(f.Name), fields
}

func numberType(t dataset.DType) descriptorpb.FieldDescriptorProto_Type {
	switch t {
	case dataset.Float32:
		return tFloat
	case dataset.Bool:
		return tBool
	case dataset.Int64, dataset.Int32, "int8", "int16", "uint8", "uint16", "uint32":
		return tInt64
	case "uint64":
		return tUint64
	}
	return tDouble
}

// identifier makes a name that Protocol Buffers take: letters, digits and _, not a digit first.
func identifier(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			out[i] = '_'
		}
	}
	if len(out) == 0 || out[0] >= '0' && out[0] <= '9' {
		out = append([]byte{'_'}, out...)
	}
	return string(out)
}
