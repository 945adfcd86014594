package ingest

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/foxglove/mcap/go/mcap"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
	"gonum.org/v1/gonum/spatial/r3"
)

// rosBag writes a bag as `ros2 bag record --storage mcap` does: zstd chunks, no device clocks, publish time a little before log time.
type rosBag struct {
	t        *testing.T
	file     *os.File
	w        *mcap.Writer
	path     string
	channels map[string]uint16
}

func newBag(t *testing.T, dir string) *rosBag {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, filepath.Base(dir)+"_0.mcap")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := mcap.NewWriter(f, &mcap.WriterOptions{Chunked: true, ChunkSize: 64 << 10, Compression: mcap.CompressionZSTD, IncludeCRC: false})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&mcap.Header{Profile: "ros2", Library: "rosbag2"}); err != nil {
		t.Fatal(err)
	}
	return &rosBag{t, f, w, path, map[string]uint16{}}
}

func (b *rosBag) raw(topic, typeName string, log int64, data []byte) {
	b.t.Helper()
	id, ok := b.channels[topic]
	if !ok {
		id = uint16(len(b.channels) + 1)
		b.channels[topic] = id
		if err := b.w.WriteSchema(&mcap.Schema{ID: id, Name: typeName, Encoding: "ros2msg", Data: []byte(rosmsg.Definition(typeName))}); err != nil {
			b.t.Fatal(err)
		}
		err := b.w.WriteChannel(&mcap.Channel{ID: id, SchemaID: id, Topic: topic, MessageEncoding: "cdr", Metadata: map[string]string{"offered_qos_profiles": "- history: 3"}})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if err := b.w.WriteMessage(&mcap.Message{ChannelID: id, LogTime: uint64(log), PublishTime: uint64(log - 3*ms), Data: data}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *rosBag) msg(topic string, log int64, m rosmsg.Message) {
	b.raw(topic, m.TypeName(), log, m.MarshalCDR(nil))
}

// transforms of one message; stamps in the headers are off by 5 ms, as they are not used for alignment.
func (b *rosBag) tf(topic string, log int64, parent string, poses map[string]frames.Pose) {
	var m rosmsg.TFMessage
	for _, child := range slices.Sorted(maps.Keys(poses)) {
		m.Transforms = append(m.Transforms, stamped(log-hostOffset-5*ms, parent, child, poses[child]))
	}
	b.msg(topic, log, &m)
}

func (b *rosBag) close(m meta.Recording) {
	b.t.Helper()
	if err := b.w.Close(); err != nil {
		b.t.Fatal(err)
	}
	if err := b.file.Close(); err != nil {
		b.t.Fatal(err)
	}
	text, err := json.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(b.path), meta.FileName), text, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

const rosStart = int64(1_780_000_000e9)

// yubiBag is a stationary YUBI recording. The bridge sends head, left and right hand as three messages; the robot state publisher sends
// the fingers; the log also has topics of other nodes that start late, one of them a transform of the centre camera.
func yubiBag(t *testing.T, dir string, fingerRad float64) string {
	b := newBag(t, dir)
	at := func(msec int64) int64 { return rosStart + msec*ms }
	handFrames := map[string]frames.Pose{}
	for _, side := range []string{"left", "right"} {
		handFrames[side] = frames.Translation(r3.Vec{Z: 0.05}) // not our gripper's 0.0426: the log's own transform counts
	}
	b.tf("/tf_static", at(0), "left_hand_root", map[string]frames.Pose{"left_hand_cam_link": handFrames["left"],
		"quest_left_controller": handFromController("left")})
	b.tf("/tf_static", at(0), "right_hand_root", map[string]frames.Pose{"right_hand_cam_link": handFrames["right"],
		"quest_right_controller": handFromController("right")})
	finger := frames.Pose{Pos: r3.Vec{X: -0.016, Y: -0.015}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: -1}, fingerRad)}
	for _, side := range []string{"left", "right"} {
		b.tf("/tf_static", at(0), side+"_right_finger_link", map[string]frames.Pose{side + "_right_finger_tip_link": frames.Translation(r3.Vec{X: 0.10943, Y: -0.014})})
		b.tf("/tf_static", at(0), side+"_left_finger_link", map[string]frames.Pose{side + "_left_finger_tip_link": frames.Translation(r3.Vec{X: 0.10943, Y: 0.014})})
	}
	for i := int64(0); i < 1500; i++ {
		switch {
		case i%14 == 2:
			b.tf("/tf", at(i), "quest_origin", map[string]frames.Pose{"quest_hmd": handPose("head", i*ms)})
		case i%14 == 3:
			b.tf("/tf", at(i), "quest_origin", map[string]frames.Pose{"left_hand_root": handPose("left", i*ms)})
		case i%14 == 4:
			p := handPose("right", i*ms)
			p.Rot = p.Rot.Neg() // the same pose, written with the other sign
			b.tf("/tf", at(i), "quest_origin", map[string]frames.Pose{"right_hand_root": p})
		case i%10 == 5:
			for _, side := range []string{"left", "right"} {
				b.tf("/tf", at(i), side+"_hand_root", map[string]frames.Pose{side + "_right_finger_link": finger, side + "_left_finger_link": finger})
			}
			b.msg("/joint_states", at(i), &rosmsg.JointState{Header: header(0, ""), Name: feature.JointNames, Position: []float64{float64(i), float64(-i)}})
		}
		if i%17 == 6 {
			b.msg("/left_camera/image_raw/compressed", at(i), &rosmsg.CompressedImage{Header: header(i*ms, "l"), Format: "rgb8; jpeg compressed bgr8", Data: greyJPEG(t, grey(i/17))})
			b.msg("/right_camera/image_raw/compressed", at(i), &rosmsg.CompressedImage{Header: header(i*ms, "r"), Format: "jpeg", Data: greyJPEG(t, grey(i/17+9))})
		}
		if i%33 == 7 {
			b.msg("/camera/camera/color/image_raw/compressed", at(i), &rosmsg.CompressedImage{Header: header(i*ms, "c"), Format: "jpeg", Data: greyJPEG(t, grey(i/33+3))})
		}
		if i%100 == 40 {
			b.msg("/footpedal_states", at(i), &rosmsg.Joy{Header: header(i*ms, "foot_pedal"), Buttons: []int32{0, 0, 1}})
		}
		if i == 900 { // late topics, none of them mapped
			b.raw("/rosout", "rcl_interfaces/msg/Log", at(i), []byte{0, 1, 0, 0})
			b.tf("/tf", at(i), "camera_link", map[string]frames.Pose{"camera_color_frame": frames.Identity})
		}
	}
	m := meta.New()
	m.UUID, m.Robot.Type, m.Robot.ID = "0aeb6e0f-4a1d-4b57-9a35-4a3f5ad8ad4b-local", "yubi", "rig-1"
	sec := func(msec int64) float64 { return float64(at(msec)) / 1e9 }
	m.AddSegment("open the lid", sec(200), sec(600), false)
	m.AddSegment("open the lid", sec(600), sec(1000), true)
	m.AddSegment("close the lid", sec(1000), sec(1400), true)
	b.close(m)
	return b.path
}

// A ROS recording is aligned by receive time; its timeline is not touched by topics that are not mapped.
func TestRowsOfARosRecording(t *testing.T) {
	dir := t.TempDir()
	yubiBag(t, dir+"/bag", 0.3)
	rep, d := ingest(t, Options{Sources: []string{dir + "/bag"}, Out: dir + "/set"})
	if rep.Episodes != 3 || rep.Recordings[0].Clock != "" {
		t.Fatalf("report %+v", rep)
	}
	// Streams start at 2, 3, 4 (transforms), 5 (joints), 6 (wrist cameras) and 7 ms (centre camera, which bounds the timeline), although
	// /rosout and the camera's transform only come at 900 ms.
	start := rosStart + 7*ms
	rows := 0
	for e, span := range [][2]int64{{200, 600}, {600, 1000}, {1000, 1400}} {
		ticks := column[int64](t, d, feature.RowStamp, e)
		for _, tk := range ticks {
			k := int64(math.Round(float64(tk-start) * 30 / 1e9))
			if tk != start+int64(math.Round(float64(k)*1e9/30)) {
				t.Fatalf("tick %d is off the grid", tk)
			}
			// meta.json's float seconds are good to a quarter of a microsecond.
			if tk < rosStart+span[0]*ms-250 || tk >= rosStart+span[1]*ms+250 {
				t.Fatalf("episode %d: tick %d ms outside %v", e, (tk-rosStart)/ms, span)
			}
		}
		rows += len(ticks)
		checkRosEpisode(t, e, ticks, column[float64](t, d, feature.LeftHand, e),
			column[float64](t, d, "observation.pose.left_hand_root.relative", e), column[float64](t, d, feature.JointStates, e))
		tip := column[float64](t, d, "observation.pose.left_right_finger_tip.absolute", e)
		cam := column[float64](t, d, "observation.pose.left_hand_cam.absolute", e)
		hand := column[float64](t, d, feature.LeftHand, e)
		handFromTip := frames.Pose{Pos: r3.Vec{X: -0.016, Y: -0.015}, Rot: frames.QuatFromAxisAngle(r3.Vec{Z: -1}, 0.3)}.
			Mul(frames.Translation(r3.Vec{X: 0.10943, Y: -0.014}))
		for row := range ticks {
			nearPose(t, "finger tip", row, poseRow(t, tip, row), poseRow(t, hand, row).Mul(handFromTip))
			nearPose(t, "camera", row, poseRow(t, cam, row), poseRow(t, hand, row).Mul(frames.Translation(r3.Vec{Z: 0.05})))
		}
	}
	// 200 to 1400 ms are 1200 ms: 36 ticks, none of them in two episodes.
	if rows != 36 {
		t.Errorf("%d rows in three segments that touch, want 36", rows)
	}
	ep, err := d.Episode(2)
	if err != nil || ep.Extra["label"] != "close the lid" || !slices.Equal(ep.Tasks, []string{"close the lid"}) ||
		ep.Extra["episode_id"] != "0aeb6e0f-4a1d-4b57-9a35-4a3f5ad8ad4b-local:2" {
		t.Errorf("episode 2: %+v, %v", ep, err)
	}
	if _, err := d.Feature(feature.ImageCenter); err != nil {
		t.Error(err)
	}
	if _, err := d.Feature("observation.pose.left_hand_root.is_tracked"); err == nil {
		t.Error("is_tracked without a tracking topic")
	}
}

func checkRosEpisode(t *testing.T, e int, ticks []int64, hand, relative, joints []float64) {
	t.Helper()
	held := func(tick, first, period int64) int64 {
		i := (tick - rosStart) / ms
		return (i-first)/period*period + first
	}
	for row, tk := range ticks {
		want := handPose("left", held(tk, 3, 14)*ms)
		nearPose(t, "left hand", row, poseRow(t, hand, row), want)
		rel := frames.Identity
		if row > 0 {
			rel = handPose("left", held(ticks[row-1], 3, 14)*ms).Inv().Mul(want)
		}
		nearPose(t, "left hand relative", row, poseRow(t, relative, row), rel)
		// A joint message falls out when a transform has its millisecond (i%14 is 2, 3 or 4): look for the one before.
		j := held(tk, 5, 10)
		for j%14 == 2 || j%14 == 3 || j%14 == 4 {
			j -= 10
		}
		if joints[2*row] != float64(j) || joints[2*row+1] != float64(-j) {
			t.Fatalf("episode %d row %d: joints %v, want those of %d ms", e, row, joints[2*row:2*row+2], j)
		}
	}
}

// The portable rig has neither pedal nor RealSense: the built-in map takes its centre camera.
func TestMapsAreChosenByRobotAndTopics(t *testing.T) {
	topics := func(names ...string) func(string) bool {
		return func(s string) bool { return slices.Contains(names, s) }
	}
	for _, tc := range []struct {
		robot          string
		topics, frames []string
		want           string
	}{
		{"yubi", nil, nil, "stationary"}, {"yubi-stationary", nil, nil, "stationary"},
		{"yubi_portable", []string{"/footpedal_states"}, nil, "portable"}, {"yubi-portable", nil, nil, "portable"},
		{"pinch-sim", []string{"/footpedal_states"}, []string{"quest_origin"}, "stationary"},
		{"", nil, []string{"quest_origin"}, "portable"}, {"fr3_pair", nil, []string{"cell"}, "trial"},
	} {
		if got := MapFor(tc.robot, topics(tc.topics...), topics(tc.frames...)); got.Name != tc.want {
			t.Errorf("%+v gives map %s", tc, got.Name)
		}
	}
}

func TestRigMapFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	text := "name: desk\ncameras:\n- name: top\n  topics: [/top/compressed]\njoint_names: [l, r]\nhead: \"\"\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := LoadMap(path)
	if err != nil || m.Name != "desk" || len(m.Cameras) != 1 || m.Cameras[0].Topics[0] != "/top/compressed" || m.JointNames[1] != "r" ||
		m.Head != "" || m.TF != "/tf" {
		t.Fatalf("map %+v, %v", m, err)
	}
	for name, tc := range map[string][2]string{
		"wrong key":  {"joint_state: /j\n", "joint_states"},
		"no topic":   {"cameras:\n- name: top\n", "no topic"},
		"twice":      {"cameras:\n- {name: a, topics: [/a]}\n- {name: a, topics: [/b]}\n", "twice"},
		"one joint":  {"joint_names: [l]\n", "joint_names"},
		"third side": {"tracked: {middle: [/t]}\n", "middle"},
	} {
		if err := os.WriteFile(path, []byte(tc[0]), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadMap(path); err == nil || !strings.Contains(err.Error(), tc[1]) {
			t.Errorf("%s: %v does not mention %q", name, err, tc[1])
		}
	}
}

// The map files in docs/dataset.md are valid ones.
func TestDocumentedMaps(t *testing.T) {
	doc, err := os.ReadFile("../../docs/dataset.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "## Which topics a recording needs")
	section, _, _ = strings.Cut(section, "\n## ")
	var maps []*Map
	for _, text := range strings.Split(section, "```yaml\n")[1:] {
		text, _, _ = strings.Cut(text, "```")
		path := filepath.Join(t.TempDir(), "map.yaml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := LoadMap(path)
		if err != nil {
			t.Fatal(err)
		}
		maps = append(maps, m)
	}
	if len(maps) != 2 {
		t.Fatalf("%d maps", len(maps))
	}
	if m := maps[0]; len(m.Cameras) != 3 || !m.Cameras[2].Optional || len(m.Tracked) != 0 || m.Head != "" || m.Controllers || m.JointNames[0] != "left_finger" || !m.Hands {
		t.Errorf("map %+v", m)
	}
	if m := maps[1]; m.Hands || len(m.Features) != 5 || m.Features[2].Fields[1] != "data[3]" {
		t.Errorf("map %+v", m)
	}
}
