package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/rosmsg"
)

// mustFail runs ingest and wants an error with all the texts, and no dataset left behind.
func mustFail(t *testing.T, o Options, texts ...string) error {
	t.Helper()
	_, err := Run(context.Background(), o)
	if err == nil {
		t.Fatalf("no error; want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not say %q", err, text)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n > 0 {
		t.Errorf("error has %d line breaks: %q", n, err)
	}
	if _, serr := os.Stat(o.Out); !errors.Is(serr, fs.ErrNotExist) {
		t.Errorf("a dataset was left at %s: %v", o.Out, serr)
	}
	return err
}

// spoiled is a rig log with one more message that spoil writes at 5.2 s.
func spoiled(t *testing.T, dir string, spoil func(l *testLog)) string {
	l := newLog(t, dir, "spoiled", "rig")
	l.session(5100*ms, rawlog.EventSubtask, "put the cup down")
	l.writeRig(5200*ms, true)
	spoil(l)
	l.writeRigFrom(5200*ms, 5600*ms, true)
	l.session(5500*ms, rawlog.EventAccept, "put the cup down")
	l.segment(5100*ms, 5500*ms, "put the cup down", true)
	return l.close("yubi", "33333333-2222-4333-8444-555555555555")
}

func TestNaNNamesFileTopicRecordAndFix(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		spoil func(l *testLog)
		texts []string
	}{
		"pose": {func(l *testLog) {
			p := frames.Identity
			p.Pos.Y = nan
			l.tf(5200*ms, "quest_origin", "left_hand_root", p)
		}, []string{"/tf record 67", "quest_origin to left_hand_root", "NaN", "not finite", "--salvage"}},
		"zero quaternion": {func(l *testLog) { l.tf(5200*ms, "quest_origin", "left_hand_root", frames.Pose{}) },
			[]string{"/tf record 67", "not a rotation"}},
		"angle": {func(l *testLog) { l.joints(5200*ms, nan, 0.1) },
			[]string{"/joint_states record 20", "left_right_finger_joint is NaN", "record it again"}},
		"cut message": {func(l *testLog) {
			s := rawlog.Schema{Name: rosmsg.TypeJointState, Encoding: rawlog.SchemaROS2}
			l.write("/joint_states", s, "rig", 5200*ms, []byte{0, 1, 0, 0, 9})
		}, []string{"/joint_states record 20"}},
		"second parent": {func(l *testLog) { l.tf(5200*ms, "quest_hmd", "left_hand_root", frames.Identity) },
			[]string{"/tf record 67", "two parents", "quest_origin", "quest_hmd"}},
		"no picture": {func(l *testLog) {
			l.ros("/left_camera/image_raw/compressed", 5200*ms, &rosmsg.CompressedImage{Format: "jpeg", Data: []byte("hello")})
		}, []string{"/left_camera/image_raw/compressed record 11", "no JPEG"}},
		"png": {func(l *testLog) {
			l.ros("/left_camera/image_raw/compressed", 5200*ms, &rosmsg.CompressedImage{Format: "png", Data: []byte("\x89PNG")})
		}, []string{`format "png"`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := spoiled(t, dir+"/rec", tc.spoil)
			mustFail(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"}, append(tc.texts, path)...)
		})
	}
}

// Salvaging leaves the broken record out: the rows are those of the log without it.
func TestSalvageLeavesBrokenRecordsOut(t *testing.T) {
	dir := t.TempDir()
	spoiled(t, dir+"/good", func(*testLog) {})
	spoiled(t, dir+"/bad", func(l *testLog) {
		p := frames.Identity
		p.Pos.X = math.Inf(1)
		l.tf(5199*ms, "quest_origin", "left_hand_root", p)
	})
	_, want := ingest(t, Options{Sources: []string{dir + "/good"}, Out: dir + "/want"})
	rep, got := ingest(t, Options{Sources: []string{dir + "/bad"}, Out: dir + "/got", Salvage: true})
	if w := rep.Recordings[0].Warnings; len(w) != 1 || !strings.Contains(w[0], "1 broken record") {
		t.Errorf("warnings %q", w)
	}
	a, b := column[float64](t, want, feature.LeftHand, 0), column[float64](t, got, feature.LeftHand, 0)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("rows differ from those of the log without the broken record")
	}
}

func TestTruncatedLog(t *testing.T) {
	dir := t.TempDir()
	path := rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, st.Size()-200); err != nil {
		t.Fatal(err)
	}
	o := Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"}
	mustFail(t, o, path, "pinch record --recover", "--salvage")
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	o.Salvage = true
	rep, d := ingest(t, o)
	if len(rep.Recordings[0].Warnings) == 0 || rep.Episodes == 0 {
		t.Fatalf("salvaged: %+v", rep)
	}
	if rows := column[int64](t, d, feature.RowStamp, 0); rows[0] != tickAt(3) {
		t.Errorf("first row at %d", rows[0])
	}
}

func TestBadRecordings(t *testing.T) {
	for name, tc := range map[string]struct {
		make  func(t *testing.T, dir string) Options
		texts []string
	}{
		"no meta.json": {func(t *testing.T, dir string) Options {
			path := rigLog(t, dir, "aaaaaaaaaaaa")
			if err := os.Remove(filepath.Join(filepath.Dir(path), meta.FileName)); err != nil {
				t.Fatal(err)
			}
			return Options{}
		}, []string{"meta.json", "pinch record --recover", "--task"}},
		"old metadata": {func(t *testing.T, dir string) Options {
			editMeta(t, rigLog(t, dir, "aaaaaaaaaaaa"), func(m *meta.Recording) { m.SchemaVersion = "1.3" })
			return Options{}
		}, []string{`schema_version is "1.3"`}},
		"not judged": {func(t *testing.T, dir string) Options {
			editMeta(t, rigLog(t, dir, "aaaaaaaaaaaa"), func(m *meta.Recording) { m.Segments = nil })
			return Options{}
		}, []string{"segments is empty", "--recover"}},
		"label out of range": {func(t *testing.T, dir string) Options {
			editMeta(t, rigLog(t, dir, "aaaaaaaaaaaa"), func(m *meta.Recording) { m.Segments[1].LabelIdx = 2 })
			return Options{}
		}, []string{"segments[1].label_idx is 2"}},
		"verdicts differ": {func(t *testing.T, dir string) Options {
			editMeta(t, rigLog(t, dir, "aaaaaaaaaaaa"), func(m *meta.Recording) { m.Segments[0].Success = true })
			return Options{}
		}, []string{"segment 0: success is false on /pinch/session, but true in meta.json"}},
		"segments of another clock": {func(t *testing.T, dir string) Options {
			editMeta(t, yubiBag(t, dir+"/bag", 0), func(m *meta.Recording) {
				for i := range m.Segments {
					m.Segments[i].StartTime -= 1e6
					m.Segments[i].EndTime -= 1e6
				}
			})
			return Options{}
		}, []string{"no segment has a row", "one clock"}},
		"overlapping segments": {func(t *testing.T, dir string) Options {
			editMeta(t, yubiBag(t, dir+"/bag", 0), func(m *meta.Recording) { m.Segments[1].StartTime -= 0.1 })
			return Options{}
		}, []string{"segment 1 begins at", "before segment 0 ends"}},
		"missing camera": {func(t *testing.T, dir string) Options {
			rigLog(t, dir, "aaaaaaaaaaaa")
			m := Stationary()
			m.Cameras[1].Topics = []string{"/right_cam/image"}
			return Options{Map: &m}
		}, []string{"camera right", "/right_cam/image", "/right_camera/image_raw/compressed", "rig map"}},
		"unknown origin": {func(t *testing.T, dir string) Options {
			rigLog(t, dir, "aaaaaaaaaaaa")
			m := Stationary()
			m.Origin = "quest_orign"
			return Options{Map: &m}
		}, []string{`unknown frame "quest_orign"`, "nearest names: quest_origin"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			o := tc.make(t, dir+"/rec")
			o.Sources, o.Out = []string{dir + "/rec"}, dir+"/set"
			mustFail(t, o, tc.texts...)
		})
	}
	dir := t.TempDir()
	mustFail(t, Options{Sources: []string{dir}, Out: dir + "/set"}, "holds no .mcap file")
	mustFail(t, Options{Sources: []string{dir + "/none"}, Out: dir + "/set"}, "no such file")
	mustFail(t, Options{Out: dir + "/set"}, "no recordings given")
	mustFail(t, Options{Sources: []string{dir}, Out: dir + "/set", FPS: -1}, "row rate")
}

func editMeta(t *testing.T, log string, edit func(*meta.Recording)) {
	t.Helper()
	path := filepath.Join(filepath.Dir(log), meta.FileName)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var m meta.Recording
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	edit(&m)
	if b, err = json.Marshal(m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// One bad recording among good ones does not stop them, and is named.
func TestBadRecordingAmongGoodOnes(t *testing.T) {
	dir := t.TempDir()
	bad := rigLog(t, dir+"/rec", "aaaaaaaaaaaa") // the first one, which would have given the dataset its features
	rigLog(t, dir+"/rec", "bbbbbbbbbbbb")
	if err := os.WriteFile(bad, []byte("no log"), 0o644); err != nil {
		t.Fatal(err)
	}
	rep, err := Run(context.Background(), Options{Sources: []string{dir + "/rec"}, Out: dir + "/set", Workers: 2})
	if err == nil || !strings.Contains(err.Error(), bad) {
		t.Fatalf("error %v does not name %s", err, bad)
	}
	if rep.Episodes != 2 || rep.Failed != 1 || rep.Recordings[0].Error == "" || len(rep.Recordings) != 2 {
		t.Errorf("report %+v", rep)
	}
	if d, err := dataset.Open(dir + "/set"); err != nil || len(d.Episodes()) != 2 {
		t.Errorf("dataset: %v", err)
	}
}

// A recording with other features does not go into a dataset; the dataset stays as it was.
func TestRecordingThatDoesNotFitTheDataset(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	yubiBag(t, dir+"/bag", 0)
	o := Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"}
	ingest(t, o)
	before := treeHash(t, o.Out)
	o.Sources = []string{dir + "/bag"}
	_, err := Run(context.Background(), o)
	if err == nil || !strings.Contains(err.Error(), "does not fit the dataset") || !strings.Contains(err.Error(), "observation.image.center") {
		t.Fatalf("error %v", err)
	}
	if treeHash(t, o.Out) != before {
		t.Error("the dataset changed")
	}
	o.FPS = 15
	if _, err := Run(context.Background(), o); err == nil || !strings.Contains(err.Error(), "30 rows per second, not 15") {
		t.Errorf("other rate: %v", err)
	}
}

// Settings that no recording could be converted with are one error at the start, not one for each recording.
func TestEncoderSettingsAreOneError(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec/a", "aaaaaaaaaaaa")
	rigLog(t, dir+"/rec/b", "bbbbbbbbbbbb")
	for want, o := range map[string]Options{"h264 or av1": {Codec: "vp9"}, "1 to 51": {CRF: 999}, "ultrafast": {Preset: "foo"}} {
		o.Sources, o.Out = []string{dir + "/rec"}, dir+"/set"
		mustFail(t, o, want)
	}
}

// A folder whose meta.json names a log that is not there is a recording gone missing: it is named, and the others are added.
func TestMissingLogIsNamed(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec/a", "aaaaaaaaaaaa")
	gone := rigLog(t, dir+"/rec/b", "bbbbbbbbbbbb")
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	rep, err := Run(context.Background(), Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	if err == nil || !strings.Contains(err.Error(), gone+" is missing") || rep.Failed != 1 || rep.Episodes == 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
}
