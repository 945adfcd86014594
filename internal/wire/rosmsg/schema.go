package rosmsg

import (
	"slices"
	"strings"
)

// part is one message definition in .msg text and the definitions it uses. The comments are our own.
type part struct {
	text string
	uses []string
}

var parts = map[string]part{
	"builtin_interfaces/Time": {text: "# time since the Unix epoch\nint32 sec\nuint32 nanosec\n"},
	"std_msgs/Header": {
		text: "# capture time and coordinate frame\nbuiltin_interfaces/Time stamp\nstring frame_id\n",
		uses: []string{"builtin_interfaces/Time"},
	},
	"geometry_msgs/Vector3":    {text: "float64 x\nfloat64 y\nfloat64 z\n"},
	"geometry_msgs/Point":      {text: "float64 x\nfloat64 y\nfloat64 z\n"},
	"geometry_msgs/Quaternion": {text: "float64 x\nfloat64 y\nfloat64 z\nfloat64 w\n"},
	"geometry_msgs/Transform": {
		text: "# parent from child\ngeometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation\n",
		uses: []string{"geometry_msgs/Vector3", "geometry_msgs/Quaternion"},
	},
	"geometry_msgs/TransformStamped": {
		text: "# header.frame_id is the parent\nstd_msgs/Header header\nstring child_frame_id\ngeometry_msgs/Transform transform\n",
		uses: []string{"std_msgs/Header", "geometry_msgs/Transform"},
	},
	"geometry_msgs/Pose": {
		text: "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n",
		uses: []string{"geometry_msgs/Point", "geometry_msgs/Quaternion"},
	},
	"geometry_msgs/PoseStamped": {
		text: "std_msgs/Header header\ngeometry_msgs/Pose pose\n",
		uses: []string{"std_msgs/Header", "geometry_msgs/Pose"},
	},
	"tf2_msgs/TFMessage": {
		text: "geometry_msgs/TransformStamped[] transforms\n",
		uses: []string{"geometry_msgs/TransformStamped"},
	},
	"sensor_msgs/CompressedImage": {
		text: "std_msgs/Header header\nstring format\nuint8[] data\n",
		uses: []string{"std_msgs/Header"},
	},
	"foxglove_msgs/CompressedVideo": {
		text: "# one access unit; h264 as Annex B with parameter sets at each keyframe, no B-frames\n" +
			"builtin_interfaces/Time timestamp\nstring frame_id\nuint8[] data\nstring format\n",
		uses: []string{"builtin_interfaces/Time"},
	},
	"sensor_msgs/RegionOfInterest": {
		text: "uint32 x_offset\nuint32 y_offset\nuint32 height\nuint32 width\nbool do_rectify\n",
	},
	"sensor_msgs/CameraInfo": {
		text: "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\nfloat64[] d\nfloat64[9] k\n" +
			"float64[9] r\nfloat64[12] p\nuint32 binning_x\nuint32 binning_y\nsensor_msgs/RegionOfInterest roi\n",
		uses: []string{"std_msgs/Header", "sensor_msgs/RegionOfInterest"},
	},
	"sensor_msgs/JointState": {
		text: "# each of position (rad), velocity (rad/s), effort (Nm) is empty or as long as name\n" +
			"std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n",
		uses: []string{"std_msgs/Header"},
	},
	"sensor_msgs/Joy": {
		text: "std_msgs/Header header\nfloat32[] axes\nint32[] buttons\n",
		uses: []string{"std_msgs/Header"},
	},
	"std_msgs/Bool": {text: "bool data\n"},
}

// Definition is the "ros2msg" schema text of a type such as "sensor_msgs/msg/Joy": its definition and then, each after a
// line of 80 '=' and a line "MSG: package/Type", every definition it uses. Unknown types give "".
func Definition(typeName string) string {
	name := strings.Replace(typeName, "/msg/", "/", 1)
	p, ok := parts[name]
	if !ok {
		return ""
	}
	var b strings.Builder
	b.WriteString(p.text)
	for _, dep := range dependencies(name) {
		b.WriteString(strings.Repeat("=", 80) + "\nMSG: " + dep + "\n" + parts[dep].text)
	}
	return b.String()
}

// dependencies lists what name uses, directly or not, each once, in order of first use.
func dependencies(name string) []string {
	var out []string
	var visit func(string)
	visit = func(n string) {
		for _, d := range parts[n].uses {
			if !slices.Contains(out, d) {
				out = append(out, d)
				visit(d)
			}
		}
	}
	visit(name)
	return out
}
