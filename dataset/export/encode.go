package export

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/descriptorpb"
)

// The messages are put together by hand: they are few, and no copy of the pictures is made on the way.

func appendStamp(dst []byte, number protowire.Number, ns int64) []byte {
	var b []byte
	b = appendInt(b, 1, ns/1e9)
	b = appendInt(b, 2, ns%1e9)
	return appendBytes(dst, number, b)
}

func appendInt(dst []byte, number protowire.Number, v int64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), uint64(v))
}

func appendDouble(dst []byte, number protowire.Number, v float64) []byte {
	return protowire.AppendFixed64(protowire.AppendTag(dst, number, protowire.Fixed64Type), math.Float64bits(v))
}

func appendFloat(dst []byte, number protowire.Number, v float32) []byte {
	return protowire.AppendFixed32(protowire.AppendTag(dst, number, protowire.Fixed32Type), math.Float32bits(v))
}

func appendBytes(dst []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), v)
}

func appendText(dst []byte, number protowire.Number, v string) []byte {
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), v)
}

// numbers encodes doubles as fields 1, 2, ... of a Vector3 or a Quaternion.
func numbers(v []float64) []byte {
	var b []byte
	for k, x := range v {
		b = appendDouble(b, protowire.Number(k+1), x)
	}
	return b
}

func encodeLog(ns int64, name, text string) []byte {
	b := appendStamp(nil, 1, ns)
	b = appendInt(b, 2, levelInfo)
	b = appendText(b, 3, text)
	return appendText(b, 4, name)
}

func encodeVideo(dst []byte, ns int64, frame, format string, data []byte) []byte {
	dst = appendStamp(dst, 1, ns)
	dst = appendText(dst, 2, frame)
	dst = appendBytes(dst, 3, data)
	return appendText(dst, 4, format)
}

func encodeImage(dst []byte, ns int64, frame, format string, data []byte) []byte {
	dst = appendStamp(dst, 1, ns)
	dst = appendBytes(dst, 2, data)
	dst = appendText(dst, 3, format)
	return appendText(dst, 4, frame)
}

// encodePose encodes x y z qx qy qz qw.
func encodePose(ns int64, frame string, p []float64) []byte {
	pose := appendBytes(appendBytes(nil, 1, numbers(p[:3])), 2, numbers(p[3:7]))
	b := appendStamp(nil, 1, ns)
	b = appendText(b, 2, frame)
	return appendBytes(b, 3, pose)
}

// appendTransform adds one transform to a FrameTransforms.
func appendTransform(dst []byte, ns int64, parent, child string, p []float64) []byte {
	t := appendStamp(nil, 1, ns)
	t = appendText(t, 2, parent)
	t = appendText(t, 3, child)
	t = appendBytes(t, 4, numbers(p[:3]))
	t = appendBytes(t, 5, numbers(p[3:7]))
	return appendBytes(dst, 1, t)
}

// row holds the values of a feature: one of the two lists.
type row struct {
	floats []float64
	ints   []int64
}

// encodeRow encodes row r of a feature of dim elements.
func encodeRow(ns int64, typ descriptorpb.FieldDescriptorProto_Type, v row, r, dim int) []byte {
	b := appendStamp(nil, 1, ns)
	for k := range dim {
		number, i := protowire.Number(k+2), r*dim+k
		switch typ {
		case tInt64, tUint64, tBool:
			b = appendInt(b, number, v.ints[i])
		case tFloat:
			b = appendFloat(b, number, float32(v.floats[i]))
		default:
			b = appendDouble(b, number, v.floats[i])
		}
	}
	return b
}
