package capture

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/frames"
)

const goodRig = `
robot: {type: yubi, id: rig-7}
site: lab
operator: kim
cameras:
  - {name: left, url: "rtsp://cam/left", rate_hz: 60, width: 640, height: 480}
encoders:
  - {side: left, port: dev/left, direction: -1, rate_hz: 190, closed_raw_rad: 0.25}
tracker: {address: "quest:65432", sync: "quest:42000", clock: quest}
pedal: {path: /dev/input/pedal}
task: {name: block to tray, subtasks: [pick up the block]}
gate: {silent_after: 2s}
`

func loadText(t *testing.T, text string) (Rig, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rig.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return LoadRig(path)
}

func TestRigFileReadsAndWrites(t *testing.T) {
	r, err := loadText(t, goodRig)
	if err != nil {
		t.Fatal(err)
	}
	if r.Gate.SilentAfter.Seconds() != 2 || r.Gate.MinRate != 0.8 || r.Pedal.Accept != 2 || r.Tracker.RateHz != 72 || !filepath.IsAbs(r.Encoders[0].Port) {
		t.Errorf("%+v", r)
	}
	path := filepath.Join(t.TempDir(), "again.yaml")
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	again, err := LoadRig(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, again); d != "" {
		t.Error(d)
	}
}

// The mounts of the YUBI URDF: roll, pitch, yaw about fixed axes, so R = Rz Ry Rx.
func TestMountIsTheURDFTransform(t *testing.T) {
	p := DefaultRig().Tracker.Mounts.Left.Pose()
	want := frames.QuatFromRPY(0, 0, 0.25*3.141592653589793).Mul(frames.QuatFromRPY(0, -0.25*3.141592653589793, 0))
	if p.Rot.AngleTo(want) > 1e-9 || p.Pos.X != -0.063 || p.Pos.Y != 0.016 || p.Pos.Z != 0.0525 {
		t.Errorf("%+v", p)
	}
}

func TestRigFaultsNameTheKey(t *testing.T) {
	for old, c := range map[string][2]string{
		"rate_hz: 60":                      {"rate_hz: -1", "cameras[0].rate_hz"},
		"rtsp://cam/left":                  {"http://cam/left", "cameras[0].url"},
		"{name: left, url":                 {"{name: middle, url", "one of left, right, center"},
		"side: left":                       {"side: top", "encoders[0].side"},
		"direction: -1":                    {"direction: 2", "encoders[0].direction"},
		"closed_raw_rad: 0.25":             {"closed_raw_rad: 7", "encoders[0].closed_raw_rad"},
		"path: /dev/input/pedal":           {"path: \"\"", "pedal.path"},
		"path: /dev/input/pedal}":          {"path: /p, accept: 1}", "three buttons"},
		"subtasks: [pick up the block]":    {"subtasks: []", "task.subtasks"},
		"name: block to tray":              {"name: \"\"", "task.name"},
		"gate: {silent_after: 2s}":         {"gate: {min_rate: 2}", "gate"},
		"site: lab":                        {"site: \"\"", "site"},
		"cameras:\n":                       {"camera:\n", "cameras"}, // a wrong key names the nearest valid one
		"operator: kim":                    {"opeator: kim", "operator"},
		"silent_after":                     {"silence_after", "silent_after"},
		"direction: -1, rate_hz: 190":      {"direction: -1, rate: 190", "rate_hz"},
		"width: 640, height: 480}":         {"width: 640, hight: 480}", "height"},
		"sync: \"quest:42000\", clock: qu": {"sink: \"quest:42000\", clock: qu", "sync"},
	} {
		if !strings.Contains(goodRig, old) {
			t.Fatalf("the rig file has no %q", old)
		}
		_, err := loadText(t, strings.Replace(goodRig, old, c[0], 1))
		if err == nil || !strings.Contains(err.Error(), c[1]) || !strings.Contains(err.Error(), "rig.yaml") {
			t.Errorf("%q: error %v does not name %q and the file", c[0], err, c[1])
		}
	}
}

// The shipped example loads, and the defaults it shows are the defaults.
func TestExampleRigShowsTheDefaults(t *testing.T) {
	r, err := LoadRig("rig.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	def := DefaultRig()
	if d := cmp.Diff(def.Gate, r.Gate); d != "" {
		t.Errorf("gate: %s", d)
	}
	if d := cmp.Diff(def.Tracker.Mounts, r.Tracker.Mounts); d != "" {
		t.Errorf("mounts: %s", d)
	}
	def.Pedal.Path = r.Pedal.Path
	if d := cmp.Diff(def.Pedal, r.Pedal); d != "" {
		t.Errorf("pedal: %s", d)
	}
	if r.Tracker.RateHz != def.Tracker.RateHz || len(r.Cameras) != 2 || len(r.Encoders) != 2 {
		t.Errorf("%+v", r)
	}
}
