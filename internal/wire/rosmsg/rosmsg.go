// Package rosmsg holds the ROS 2 messages that recordings are made of: their fields, their CDR form and their definition text
// (MCAP schema encoding "ros2msg"). Field names and order follow the published interface definitions of common_interfaces,
// geometry2 and foxglove_msgs; units are ROS's: metres, radians, seconds, quaternions x y z w.
//
//	var m rosmsg.JointState
//	err := m.UnmarshalCDR(message.Data)
//	b := m.MarshalCDR(nil)
//	text := rosmsg.Definition(m.TypeName())
package rosmsg

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/wire/cdr"
)

// Message is one ROS message type. Unmarshal fills a fresh value; byte slices in it share the memory of its argument.
type Message interface {
	TypeName() string // "sensor_msgs/msg/JointState"
	MarshalCDR(dst []byte) []byte
	UnmarshalCDR(b []byte) error
}

// Time is builtin_interfaces/Time: seconds and nanoseconds since the Unix epoch.
type Time struct {
	Sec     int32
	Nanosec uint32
}

// TimeFromNanos splits nanoseconds since the Unix epoch. Seconds beyond int32 (year 2038) are cut as in ROS.
func TimeFromNanos(ns int64) Time {
	sec := ns / 1e9
	rest := ns % 1e9
	if rest < 0 {
		sec, rest = sec-1, rest+1e9
	}
	return Time{Sec: int32(sec), Nanosec: uint32(rest)}
}

// Nanos is the time in nanoseconds since the Unix epoch.
func (t Time) Nanos() int64 { return int64(t.Sec)*1e9 + int64(t.Nanosec) }

// Header is std_msgs/Header.
type Header struct {
	Stamp   Time
	FrameID string
}

// Vector3 is geometry_msgs/Vector3 or Point.
type Vector3 struct{ X, Y, Z float64 }

// Quaternion is geometry_msgs/Quaternion.
type Quaternion struct{ X, Y, Z, W float64 }

// Transform is geometry_msgs/Transform: parent from child.
type Transform struct {
	Translation Vector3
	Rotation    Quaternion
}

// TransformStamped is geometry_msgs/TransformStamped; Header.FrameID is the parent.
type TransformStamped struct {
	Header       Header
	ChildFrameID string
	Transform    Transform
}

// TFMessage is tf2_msgs/TFMessage (topics /tf and /tf_static).
type TFMessage struct{ Transforms []TransformStamped }

// CompressedImage is sensor_msgs/CompressedImage; Format is "jpeg" for our wrist cameras.
type CompressedImage struct {
	Header Header
	Format string
	Data   []byte
}

// CompressedVideo is foxglove_msgs/CompressedVideo: one access unit, Format "h264" (Annex B, parameter sets at each IDR).
type CompressedVideo struct {
	Timestamp Time
	FrameID   string
	Data      []byte
	Format    string
}

// RegionOfInterest is sensor_msgs/RegionOfInterest.
type RegionOfInterest struct {
	XOffset, YOffset, Height, Width uint32
	DoRectify                       bool
}

// CameraInfo is sensor_msgs/CameraInfo; K, R, P are row-major.
type CameraInfo struct {
	Header             Header
	Height, Width      uint32
	DistortionModel    string
	D                  []float64
	K, R               [9]float64
	P                  [12]float64
	BinningX, BinningY uint32
	ROI                RegionOfInterest
}

// JointState is sensor_msgs/JointState; each of Position, Velocity, Effort is empty or as long as Name.
type JointState struct {
	Header                     Header
	Name                       []string
	Position, Velocity, Effort []float64
}

// Joy is sensor_msgs/Joy.
type Joy struct {
	Header  Header
	Axes    []float32
	Buttons []int32
}

// Bool is std_msgs/Bool.
type Bool struct{ Data bool }

// PoseStamped is geometry_msgs/PoseStamped.
type PoseStamped struct {
	Header      Header
	Position    Vector3
	Orientation Quaternion
}

// Type names as they appear in MCAP schemas.
const (
	TypeTFMessage       = "tf2_msgs/msg/TFMessage"
	TypeCompressedImage = "sensor_msgs/msg/CompressedImage"
	TypeCompressedVideo = "foxglove_msgs/msg/CompressedVideo"
	TypeCameraInfo      = "sensor_msgs/msg/CameraInfo"
	TypeJointState      = "sensor_msgs/msg/JointState"
	TypeJoy             = "sensor_msgs/msg/Joy"
	TypeBool            = "std_msgs/msg/Bool"
	TypePoseStamped     = "geometry_msgs/msg/PoseStamped"
)

// TypeName is the type's name in MCAP schemas.
func (*TFMessage) TypeName() string { return TypeTFMessage }

// TypeName is the type's name in MCAP schemas.
func (*CompressedImage) TypeName() string { return TypeCompressedImage }

// TypeName is the type's name in MCAP schemas.
func (*CompressedVideo) TypeName() string { return TypeCompressedVideo }

// TypeName is the type's name in MCAP schemas.
func (*CameraInfo) TypeName() string { return TypeCameraInfo }

// TypeName is the type's name in MCAP schemas.
func (*JointState) TypeName() string { return TypeJointState }

// TypeName is the type's name in MCAP schemas.
func (*Joy) TypeName() string { return TypeJoy }

// TypeName is the type's name in MCAP schemas.
func (*Bool) TypeName() string { return TypeBool }

// TypeName is the type's name in MCAP schemas.
func (*PoseStamped) TypeName() string { return TypePoseStamped }

// finish turns the reader's state into the error of UnmarshalCDR.
func finish(r *cdr.Reader, name string) error {
	if err := r.Err(); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	return nil
}
