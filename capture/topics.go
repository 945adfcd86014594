package capture

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// Topics and frames of a handheld recording, as in YUBI's recordings.
const (
	topicJointStates = "/joint_states"
	topicTF          = "/tf"
	topicTFStatic    = "/tf_static"
	topicPedal       = "/footpedal_states"

	frameOrigin = "quest_origin"
	frameHMD    = "quest_hmd"
)

var sides = [2]string{"left", "right"}

func topicCameraInfo(name string) string { return "/" + name + "_camera/camera_info" }
func topicGripper(side string) string    { return "/yubi/gripper/" + side + "/joint_state" }
func topicTracked(side string) string    { return "/quest/controller/" + side + "/tracked" }
func topicValid(side string) string      { return "/quest/controller/" + side + "/valid" }
func frameHand(side string) string       { return side + "_hand_root" }
func frameController(side string) string { return "quest_" + side + "_controller" }
func jointName(side string) string       { return side + "_right_finger_joint" }

// topicCamera depends on the codec: JPEG and H.264 are different message types.
func topicCamera(name string, c camera.Codec) string {
	if c == camera.H264 {
		return "/" + name + "_camera/video"
	}
	return "/" + name + "_camera/image_raw/compressed"
}

// schemaOf is the log's schema of a ROS message type.
func schemaOf(typeName string) rawlog.Schema {
	def := rosmsg.Definition(typeName)
	if def == "" {
		panic(fmt.Sprintf("capture: no definition of %s", typeName)) // a typing error in this package
	}
	return rawlog.Schema{Name: typeName, Encoding: rawlog.SchemaROS2, Data: []byte(def)}
}
