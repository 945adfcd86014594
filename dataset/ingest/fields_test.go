package ingest

import (
	"fmt"
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
	"github.com/pinch-robotics/pinch/internal/wire/cdr"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

const commandSchema = `# a command of an arm
uint8 MODE_POSITION=1
std_msgs/Header header
int16 mode
bool enabled
Gain[2] gains   # of both loops
float32[] torque
int64 count
string<=8 label "none"
================================================================================
MSG: arm_msgs/Gain
uint16 kind
float64 value 1.0
================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
`

// command is a message of that schema, written field by field.
func command(i int64) []byte {
	w := cdr.NewWriter(nil)
	w.Int32(int32(rosStart / 1e9))
	w.Uint32(uint32(i))
	w.String("base")
	w.Bytes()                 // nothing is written by it
	put16 := func(v uint16) { // the writer has no 16-bit fields: two bytes after aligning to two
		if len(w.Bytes())%2 != 0 {
			w.Uint8(0)
		}
		w.Uint8(uint8(v))
		w.Uint8(uint8(v >> 8))
	}
	put16(uint16(0xffff - uint16(i%3))) // -1, -2, -3
	w.Bool(i%2 == 1)
	for k := range int64(2) {
		put16(uint16(40000 + k))
		w.Float64(float64(i) + float64(k)/4)
	}
	w.Float32s([]float32{float32(i) / 8, float32(-i)})
	w.Uint64(uint64(1)<<53 - uint64(i))
	w.String("x")
	return w.Bytes()
}

// armBag is a recording of an arm with one camera: no hands, no tracker.
func armBag(t *testing.T, dir string) string {
	b := newBag(t, dir)
	if err := b.w.WriteSchema(&mcap.Schema{ID: 900, Name: "arm_msgs/msg/Command", Encoding: "ros2msg", Data: []byte(commandSchema)}); err != nil {
		t.Fatal(err)
	}
	if err := b.w.WriteChannel(&mcap.Channel{ID: 900, SchemaID: 900, Topic: "/arm/command", MessageEncoding: "cdr"}); err != nil {
		t.Fatal(err)
	}
	b.channels["/arm/command"] = 900
	for i := int64(0); i < 1200; i += 5 {
		at := rosStart + i*ms
		if i%10 == 0 {
			b.msg("/arm/joint_states", at, &rosmsg.JointState{Name: []string{"wrist", "elbow", "other"}, Position: []float64{float64(i), float64(-i), 7}})
			b.raw("/arm/command", "arm_msgs/msg/Command", at+ms, command(i))
		}
		if i%15 == 0 {
			b.tf("/tf", at, "base", map[string]frames.Pose{"tool": handPose("left", i*ms)})
		}
		if i%30 == 0 {
			b.msg("/head/compressed", at, &rosmsg.CompressedImage{Format: "jpeg", Data: greyJPEG(t, grey(i/30))})
		}
	}
	m := meta.New()
	m.UUID, m.Robot.Type, m.Robot.ID = "2aeb6e0f-4a1d-4b57-9a35-4a3f5ad8ad4b", "arm", "a-1"
	m.AddSegment("push", float64(rosStart+100*ms)/1e9, float64(rosStart+1000*ms)/1e9, true)
	b.close(m)
	return b.path
}

const armMap = `name: arm
hands: false
cameras:
- {name: head, topics: [/head/compressed]}
features:
- {name: observation.state, topic: /arm/joint_states, fields: [position], select: [elbow, wrist], unit: rad}
- {name: action, topic: /arm/joint_states, fields: [position], select: [elbow, wrist], timing: next}
- {name: observation.command, topic: /arm/command, fields: [mode, gains, "torque[1]", torque], type: float32}
- {name: observation.enabled, topic: /arm/command, fields: [enabled], type: bool}
- {name: observation.count, topic: /arm/command, fields: [count], type: int64}
- {name: observation.tool, parent: base, child: tool}
- {name: action.tool, parent: base, child: tool, timing: next}
`

// A rig that a map describes, down to messages of its own types: an arm with one camera, no hands.
func TestArmByMap(t *testing.T) {
	dir := t.TempDir()
	armBag(t, dir+"/bag")
	path := filepath.Join(dir, "arm.yaml")
	if err := os.WriteFile(path, []byte(armMap), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := LoadMap(path)
	if err != nil {
		t.Fatal(err)
	}
	rep, d := ingest(t, Options{Sources: []string{dir + "/bag"}, Out: dir + "/set", Map: m, FPS: 20})
	if len(rep.Recordings[0].Warnings) > 0 {
		t.Errorf("warnings %q", rep.Recordings[0].Warnings)
	}
	ticks := column[int64](t, d, feature.RowStamp, 0)
	state, action := column[float64](t, d, "observation.state", 0), column[float64](t, d, "action", 0)
	cmd, count, enabled := column[float32](t, d, "observation.command", 0), column[int64](t, d, "observation.count", 0), column[bool](t, d, "observation.enabled", 0)
	tool, motion := column[float64](t, d, "observation.tool", 0), column[float64](t, d, "action.tool", 0)
	if len(ticks) != 18 {
		t.Fatalf("%d rows, want 18 in 0.9 s at 20 Hz", len(ticks))
	}
	held := func(row int, period, first int64) float64 {
		at := (ticks[row]-rosStart)/ms - first
		return float64(at / period * period)
	}
	for row := range ticks {
		j, next := held(row, 10, 0), held(min(row+1, len(ticks)-1), 10, 0)
		if state[2*row] != -j || state[2*row+1] != j || action[2*row] != -next || action[2*row+1] != next {
			t.Fatalf("row %d: state %v, action %v, want -+%v and -+%v", row, state[2*row:2*row+2], action[2*row:2*row+2], j, next)
		}
		i := held(row, 10, 1)
		want := []float32{-1 - float32(int64(i)%3), 40000, float32(i), 40001, float32(i + 0.25), float32(-i), float32(i / 8), float32(-i)}
		if !slices.Equal(cmd[8*row:8*row+8], want) || enabled[row] || count[row] != 1<<53-int64(i) {
			t.Fatalf("row %d: command %v %v %d, want %v", row, cmd[8*row:8*row+8], enabled[row], count[row], want)
		}
		p := func(row int) frames.Pose { return handPose("left", int64(held(row, 15, 0))*ms) }
		nearPose(t, "tool", row, poseRow(t, tool, row), p(row))
		nearPose(t, "motion of the tool", row, poseRow(t, motion, row), p(row).Inv().Mul(p(min(row+1, len(ticks)-1))))
	}
	f, err := d.Feature("observation.command")
	if err != nil || fmt.Sprint(f.Names) != "[mode gains.0.kind gains.0.value gains.1.kind gains.1.value torque[1] torque.0 torque.1]" {
		t.Errorf("names %q, %v", f.Names, err)
	}
	if _, err := d.Feature(feature.LeftHand); err == nil {
		t.Error("an arm without hands has poses of hands")
	}
	if _, err := d.Feature("observation.capture_time.arm_command"); err != nil {
		t.Error(err)
	}
	checkVideoAt(t, d, 0, "observation.image.head", stream{30 * ms, rosStart}, 0, ticks, 20)
}

// What a map cannot mean is refused, with the place.
func TestMapOfFeaturesIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "map.yaml")
	for text, want := range map[string]string{
		"hands: false\n":                      "needs some",
		"features:\n- {name: a, topic: /t}\n": "want topic and fields",
		"features:\n- {name: a, topic: /t, fields: [x], parent: b, child: c}\n":              "either topic and fields, or parent and child",
		"features:\n- {name: a.image, topic: /t, fields: [x]}\n":                             "only cameras may say image",
		"features:\n- {name: a, topic: /t, fields: [x], timing: previous}\n":                 "want next",
		"features:\n- {name: a, topic: /t, fields: [x], type: float16}\n":                    "float16",
		"features:\n- {name: a, topic: /t, fields: [x, y], select: [q]}\n":                   "select goes with one field",
		"features:\n- {name: a, topic: /t, fields: [x]}\n- {name: a, parent: b, child: c}\n": "is there twice",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadMap(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v does not say %q", text, err, want)
		}
	}
}

// A wrong path, a list that changes its length and a number that is none name topic, record and feature.
func TestFieldErrors(t *testing.T) {
	types, err := parseRosTypes("arm_msgs/msg/Command", commandSchema)
	if err != nil {
		t.Fatal(err)
	}
	v, err := types.decode("arm_msgs/msg/Command", command(4))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"gain": `no field "gain"; the message has header, mode, enabled, gains`, "gains[2].value": "gains has 2 elements",
		"header.frame_id": "holds no number", "torque[x]": "is no index"} {
		f := FieldFeature{Name: "a", Topic: "/t", Fields: []string{path}}
		if _, err := f.numbers(v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := types.decode("arm_msgs/msg/Command", command(4)[:40]); err == nil {
		t.Error("a cut message is read")
	}
	if _, err := parseRosTypes("a/msg/B", "float64[x] y\n"); err == nil {
		t.Error("a length that is no number")
	}
	if _, err := (rosTypes{"a/B": {{name: "b", kind: "a/B"}}}).decode("a/msg/B", make([]byte, 64)); err == nil || !strings.Contains(err.Error(), "contains itself") {
		t.Errorf("a type in itself: %v", err)
	}
	nan := &survey{align: &aligner{receive: true}, m: Map{Features: []FieldFeature{{Name: "a", Topic: "/t", Fields: []string{"value"}}}}}
	st := &fieldStream{topic: "/t", types: rosTypes{"a/B": {{name: "value", kind: "float64"}}}, root: "a/msg/B", names: map[string][]string{}}
	w := cdr.NewWriter(nil)
	w.Float64(math.NaN())
	if err := nan.field(st, message(w.Bytes()), 0); err == nil || !strings.Contains(err.Error(), "feature a: value is NaN") {
		t.Errorf("NaN: %v", err)
	}
}
