package rosmsg

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/wire/cdr"
)

// minTransformBytes is a lower bound for one TransformStamped: stamp 8, two strings of at least 4, seven float64.
const minTransformBytes = 8 + 4 + 4 + 7*8

// UnmarshalCDR fills m from b.
func (m *TFMessage) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	n := r.Count(minTransformBytes)
	*m = TFMessage{}
	for i := 0; i < n && r.Err() == nil; i++ {
		var t TransformStamped
		t.Header = getHeader(r)
		t.ChildFrameID = r.String()
		t.Transform.Translation = getVector3(r)
		t.Transform.Rotation = getQuaternion(r)
		m.Transforms = append(m.Transforms, t)
	}
	return finish(r, TypeTFMessage)
}

// UnmarshalCDR fills m from b; Data shares b's memory.
func (m *CompressedImage) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Header, m.Format, m.Data = getHeader(r), r.String(), r.Octets()
	return finish(r, TypeCompressedImage)
}

// UnmarshalCDR fills m from b; Data shares b's memory.
func (m *CompressedVideo) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Timestamp, m.FrameID, m.Data, m.Format = getTime(r), r.String(), r.Octets(), r.String()
	return finish(r, TypeCompressedVideo)
}

// UnmarshalCDR fills m from b.
func (m *CameraInfo) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Header, m.Height, m.Width = getHeader(r), r.Uint32(), r.Uint32()
	m.DistortionModel, m.D = r.String(), r.Float64s()
	r.FixedFloat64s(m.K[:])
	r.FixedFloat64s(m.R[:])
	r.FixedFloat64s(m.P[:])
	m.BinningX, m.BinningY = r.Uint32(), r.Uint32()
	m.ROI = RegionOfInterest{XOffset: r.Uint32(), YOffset: r.Uint32(), Height: r.Uint32(), Width: r.Uint32(), DoRectify: r.Bool()}
	return finish(r, TypeCameraInfo)
}

// UnmarshalCDR fills m from b. Lengths of Position, Velocity and Effort must be 0 or that of Name.
func (m *JointState) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Header, m.Name = getHeader(r), r.Strings()
	m.Position, m.Velocity, m.Effort = r.Float64s(), r.Float64s(), r.Float64s()
	if err := finish(r, TypeJointState); err != nil {
		return err
	}
	for _, n := range []int{len(m.Position), len(m.Velocity), len(m.Effort)} {
		if n != 0 && n != len(m.Name) {
			return fmt.Errorf("decode %s: %d names but %d values", TypeJointState, len(m.Name), n)
		}
	}
	return nil
}

// UnmarshalCDR fills m from b.
func (m *Joy) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Header, m.Axes, m.Buttons = getHeader(r), r.Float32s(), r.Int32s()
	return finish(r, TypeJoy)
}

// UnmarshalCDR fills m from b.
func (m *Bool) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Data = r.Bool()
	return finish(r, TypeBool)
}

// UnmarshalCDR fills m from b.
func (m *PoseStamped) UnmarshalCDR(b []byte) error {
	r := cdr.NewReader(b)
	m.Header, m.Position, m.Orientation = getHeader(r), getVector3(r), getQuaternion(r)
	return finish(r, TypePoseStamped)
}

func getTime(r *cdr.Reader) Time { return Time{Sec: r.Int32(), Nanosec: r.Uint32()} }

func getHeader(r *cdr.Reader) Header { return Header{Stamp: getTime(r), FrameID: r.String()} }

func getVector3(r *cdr.Reader) Vector3 {
	return Vector3{X: r.Float64(), Y: r.Float64(), Z: r.Float64()}
}

func getQuaternion(r *cdr.Reader) Quaternion {
	return Quaternion{X: r.Float64(), Y: r.Float64(), Z: r.Float64(), W: r.Float64()}
}
