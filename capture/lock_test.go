package capture

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// One session at a time writes into a folder: a second recorder would take the same names, and recovery would finish a recording
// under the hands of its recorder. Both are told, and touch nothing.
func TestFolderInUse(t *testing.T) {
	rig, err := loadText(t, goodRig)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	work := filepath.Join(out, ".20260101-120000-0001.recording")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := folderlock.Take(out)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := Record(t.Context(), Options{Rig: &rig, Out: out, MinFreeBytes: -1}); !errors.Is(err, folderlock.ErrHeld) || !strings.Contains(err.Error(), out) {
		t.Errorf("second recorder: %v", err)
	}
	for _, dir := range []string{out, work} {
		if _, err := Recover(t.Context(), dir); !errors.Is(err, folderlock.ErrHeld) {
			t.Errorf("recover %s: %v", dir, err)
		}
	}
	if left, _ := os.ReadDir(work); len(left) != 0 {
		t.Errorf("touched: %v", left)
	}
}

// A finished recording whose log lost its end is recovered with its description: both then name the same segments.
func TestRecoveryOfAFinishedRecordingMendsItsDescription(t *testing.T) {
	rig := serve(t, 1, newFakeRig(), nil)
	res, err := Record(t.Context(), Options{RigFile: rig.rigFile, Out: t.TempDir(), MinFreeBytes: -1, Writer: rawlog.WriterOptions{ChunkBytes: 20_000}})
	if err != nil || len(res.Saved) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	dir := res.Saved[0]
	before, err := meta.Read(dir)
	if err != nil || len(before.Segments) != 2 {
		t.Fatalf("%+v, %v", before, err)
	}
	path := filepath.Join(dir, filepath.Base(dir)+"_0.mcap")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if report, err := Recover(t.Context(), dir); err != nil || len(report.Recordings) != 0 {
		t.Fatalf("a healthy recording: %+v, %v", report, err)
	}
	if again, _ := os.ReadFile(path); string(again) != string(whole) {
		t.Fatal("a healthy log was rewritten")
	}
	cut := cutAfter(t, path, whole)
	if err := os.WriteFile(path, whole[:cut], 0o644); err != nil {
		t.Fatal(err)
	}
	report, err := Recover(t.Context(), dir)
	if err != nil || len(report.Recordings) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	after, err := meta.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var closed int
	for _, m := range load(t, dir).topics[rawlog.TopicSession] {
		var e rawlog.SessionEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		if e.Event == rawlog.EventAccept || e.Event == rawlog.EventReject {
			closed++
		}
	}
	if n := len(after.Segments); n != closed || n != report.Recordings[0].Segments || n == 0 || n >= len(before.Segments) {
		t.Errorf("%d segments described, %d closed in the log, %d reported; before %d", n, closed, report.Recordings[0].Segments, len(before.Segments))
	}
	var kept meta.Recording
	b, err := os.ReadFile(filepath.Join(dir, meta.FileName+".before"))
	if err != nil || json.Unmarshal(b, &kept) != nil || len(kept.Segments) != 2 {
		t.Errorf("the description as it was: %v", err)
	}
}

// cutAfter finds a length at which the log has lost its end but still has the start of its session.
func cutAfter(t *testing.T, path string, whole []byte) int {
	t.Helper()
	for cut := len(whole) * 9 / 10; cut > 0; cut -= len(whole) / 20 {
		try := filepath.Join(t.TempDir(), filepath.Base(path))
		if err := os.WriteFile(try, whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := rawlog.Open(try)
		if err != nil {
			continue
		}
		s, err := readSession(r)
		_ = r.Close()
		if err == nil && s.open() != nil && len(s.events) < 4 {
			return cut
		}
	}
	t.Fatal("no such length")
	return 0
}

// A rig that ends before the recordings that were asked for is an error: a script would go on with too few.
func TestTooFewRecordingsIsAnError(t *testing.T) {
	rig := serve(t, 1, newFakeRig(), nil)
	res, err := Record(t.Context(), Options{RigFile: rig.rigFile, Out: t.TempDir(), MinFreeBytes: -1, Episodes: 2})
	if len(res.Saved) != 1 || err == nil || !strings.Contains(err.Error(), "1 of 2 recordings") {
		t.Errorf("saved %v, error %v", res.Saved, err)
	}
}
