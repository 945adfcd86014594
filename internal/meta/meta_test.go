package meta

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func sample() Recording {
	r := New()
	r.UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	r.Robot = Robot{Type: "yubi", ID: "rig-1"}
	r.Files = []File{{Type: "mcap", Name: "a_0.mcap"}}
	r.Environment = Environment{Type: Simulation, Site: "desk"}
	r.Runner = Runner{Type: Operator, Name: "kim"}
	r.Devices = []Device{{Role: "left_camera", Type: "rtsp", ID: "rtsp://cam/left"}}
	r.Programs = []Program{{Role: "interface", Name: "pinch"}}
	r.Episode = Episode{StartTime: 1.5, EndTime: 9, Success: true, Label: "block to tray"}
	r.AddSegment("pick up the block", 2, 4, false)
	r.AddSegment("pick up the block", 4, 6, true)
	return r
}

func TestWrittenMetadataReadsBackAndHasTheSchemasKeys(t *testing.T) {
	dir := t.TempDir()
	want := sample()
	if err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	b, _ := os.ReadFile(filepath.Join(dir, FileName))
	var keys map[string]any
	if err := json.Unmarshal(b, &keys); err != nil {
		t.Fatal(err)
	}
	for _, k := range strings.Fields("$schema schema_version uuid robot files environment runner devices programs episode labels segments") {
		if _, ok := keys[k]; !ok {
			t.Errorf("required key %q is missing", k)
		}
	}
	if got := keys["programs"].([]any)[0].(map[string]any); got["source"] != nil || len(got) != 3 {
		t.Errorf("program %v: source must be null, not absent", got)
	}
}

func TestBrokenMetadataIsRefusedByKey(t *testing.T) {
	for key, spoil := range map[string]func(*Recording){
		"uuid:":                   func(r *Recording) { r.UUID = "" },
		"schema_version:":         func(r *Recording) { r.SchemaVersion = "1.3" },
		"environment.type:":       func(r *Recording) { r.Environment.Type = "moon" },
		"runner.type:":            func(r *Recording) { r.Runner.Type = "robot" },
		"devices:":                func(r *Recording) { r.Devices = nil },
		"segments: at least":      func(r *Recording) { r.Segments = nil },
		"segments[1].label_idx:":  func(r *Recording) { r.Segments[1].LabelIdx = 2 },
		"segments[0]: goes":       func(r *Recording) { r.Segments[0].EndTime = 2 },
		"segments[1].start_time:": func(r *Recording) { r.Segments[1].StartTime = 3 },
		"episode: goes":           func(r *Recording) { r.Episode.EndTime = 1 },
	} {
		r := sample()
		spoil(&r)
		dir := t.TempDir()
		err := Write(dir, r)
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error %v does not contain %q", err, key)
		}
		if _, err := os.Stat(filepath.Join(dir, FileName)); err == nil {
			t.Errorf("%s: a file was written all the same", key)
		}
	}
}

func TestSecondsOfNanoseconds(t *testing.T) {
	if got := Seconds(1_500_000_000); got != 1.5 {
		t.Errorf("1500000000 ns are %v s", got)
	}
}
