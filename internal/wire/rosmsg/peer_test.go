package rosmsg_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// readerScript prints every message of a log as the Python MCAP and ROS 2 packages decode it from the schema text in the file.
const readerScript = `
import json, sys
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
def plain(v):
    if hasattr(v, "__slots__"):
        return {k: plain(getattr(v, k)) for k in v.__slots__}
    if isinstance(v, (bytes, bytearray, memoryview)):
        return list(bytes(v))
    if isinstance(v, (list, tuple)) or type(v).__name__ in ("array", "ndarray"):
        return [plain(x) for x in v]
    return v
with open(sys.argv[1], "rb") as f:
    for schema, channel, message, ros in make_reader(f, decoder_factories=[DecoderFactory()]).iter_decoded_messages(log_time_order=False):
        print(json.dumps({"topic": channel.topic, "type": schema.name, "clock": channel.metadata.get("pinch.clock", ""),
            "log": message.log_time, "publish": message.publish_time, "msg": plain(ros)}))
`

// The Python packages mcap and mcap-ros2-support read our log, our schema texts and our CDR, and see the same values.
func TestPythonReadsOurMessages(t *testing.T) {
	python := testpeer.Python(t, "mcap", "mcap_ros2")
	path := filepath.Join(t.TempDir(), "a.mcap")
	w, err := rawlog.Create(path, rawlog.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := rosmsg.Header{Stamp: rosmsg.Time{Sec: 17, Nanosec: 5}, FrameID: "origin"}
	stamp := `{"sec":17,"nanosec":5}`
	header := `{"stamp":` + stamp + `,"frame_id":"origin"}`
	cases := []struct {
		m    rosmsg.Message
		json string
	}{
		{&rosmsg.Bool{Data: true}, `{"data":true}`},
		{&rosmsg.Joy{Header: h, Axes: []float32{0.5}, Buttons: []int32{1, 0, 0}}, `{"header":` + header + `,"axes":[0.5],"buttons":[1,0,0]}`},
		{&rosmsg.JointState{Header: h, Name: []string{"l", "right"}, Position: []float64{0.25, -0.5}},
			`{"header":` + header + `,"name":["l","right"],"position":[0.25,-0.5],"velocity":[],"effort":[]}`},
		{&rosmsg.CompressedImage{Header: h, Format: "jpeg", Data: []byte{1, 2, 255}}, `{"header":` + header + `,"format":"jpeg","data":[1,2,255]}`},
		{&rosmsg.CompressedVideo{Timestamp: h.Stamp, FrameID: "c", Data: []byte{0, 0, 1}, Format: "h264"},
			`{"timestamp":` + stamp + `,"frame_id":"c","data":[0,0,1],"format":"h264"}`},
		{&rosmsg.TFMessage{Transforms: []rosmsg.TransformStamped{{Header: h, ChildFrameID: "left_hand_root",
			Transform: rosmsg.Transform{Translation: rosmsg.Vector3{X: 1, Y: 2, Z: 3}, Rotation: rosmsg.Quaternion{W: 1}}}}},
			`{"transforms":[{"header":` + header + `,"child_frame_id":"left_hand_root","transform":{"translation":{"x":1,"y":2,"z":3},"rotation":{"x":0,"y":0,"z":0,"w":1}}}]}`},
		{&rosmsg.PoseStamped{Header: h, Position: rosmsg.Vector3{X: 1}, Orientation: rosmsg.Quaternion{W: 1}},
			`{"header":` + header + `,"pose":{"position":{"x":1,"y":0,"z":0},"orientation":{"x":0,"y":0,"z":0,"w":1}}}`},
		{&rosmsg.CameraInfo{Header: h, Height: 2, Width: 3, DistortionModel: "plumb_bob", D: []float64{0.5}, K: [9]float64{1}, P: [12]float64{2}, BinningX: 1,
			ROI: rosmsg.RegionOfInterest{XOffset: 4, DoRectify: true}},
			`{"header":` + header + `,"height":2,"width":3,"distortion_model":"plumb_bob","d":[0.5],"k":[1,0,0,0,0,0,0,0,0],"r":[0,0,0,0,0,0,0,0,0],` +
				`"p":[2,0,0,0,0,0,0,0,0,0,0,0],"binning_x":1,"binning_y":0,"roi":{"x_offset":4,"y_offset":0,"height":0,"width":0,"do_rectify":true}}`},
	}
	for i, c := range cases {
		schema := rawlog.Schema{Name: c.m.TypeName(), Encoding: rawlog.SchemaROS2, Data: []byte(rosmsg.Definition(c.m.TypeName()))}
		id, err := w.AddChannel("/"+c.m.TypeName(), schema, map[string]string{rawlog.ClockKey: "rig"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(id, frames.HostTime(100+i), frames.DeviceTime(7000+i), c.m.MarshalCDR(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", readerScript, path)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("python: %v %s", err, err.(*exec.ExitError).Stderr)
	}
	type line struct {
		Topic, Type, Clock string
		Log, Publish       int64
		Msg                any
	}
	dec := json.NewDecoder(bytes.NewReader(out))
	for i, c := range cases {
		var got line
		if err := dec.Decode(&got); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		want := line{Topic: "/" + c.m.TypeName(), Type: c.m.TypeName(), Clock: "rig", Log: int64(100 + i), Publish: int64(7000 + i)}
		if err := json.Unmarshal([]byte(c.json), &want.Msg); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", c.m.TypeName(), d)
		}
	}
}
