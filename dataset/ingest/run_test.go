package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// treeHash is a hash of all files below a folder with their names, without those named.
func treeHash(t *testing.T, root string, without ...string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(root, path)
		if slices.Contains(without, rel) {
			return err
		}
		fmt.Fprintf(h, "%s %x\n", rel, sha256.Sum256(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Same logs, same bytes: whatever the number of workers, and in one go or in two.
func TestSameBytesWhateverTheWorkers(t *testing.T) {
	dir := t.TempDir()
	names := []string{"aaaaaaaaaaaa", "bbbbbbbbbbbb"}
	for _, n := range names {
		rigLog(t, dir+"/rec", n)
	}
	var want string
	for _, workers := range []int{1, 2} {
		out := fmt.Sprintf("%s/set%d", dir, workers)
		var seen []int
		rep, _ := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: out, Workers: workers,
			Progress: func(p Progress) { seen = append(seen, p.Done*10+p.Total) }})
		if fmt.Sprint(seen) != "[12 22]" || rep.Episodes != 4 || rep.Rows != 48 || rep.RecordedSeconds < 1.59 || rep.RecordedSeconds > 1.61 {
			t.Errorf("progress %v, report %+v", seen, rep)
		}
		for i, r := range rep.Recordings {
			if !strings.Contains(r.Path, names[i]) || fmt.Sprint(r.Episodes) != fmt.Sprint([]int{2 * i, 2*i + 1}) {
				t.Errorf("recording %d: %+v", i, r)
			}
		}
		hash := treeHash(t, out)
		if want == "" {
			want = hash
		}
		if hash != want {
			t.Errorf("%d workers give other bytes", workers)
		}
	}
	parts := Options{Sources: []string{dir + "/rec/" + names[0]}, Out: dir + "/parts"}
	ingest(t, parts)
	parts.Sources = []string{dir + "/rec"}
	rep, _ := ingest(t, parts)
	if rep.Skipped != 1 || rep.Episodes != 2 || !rep.Recordings[0].Skipped {
		t.Errorf("second part: %+v", rep)
	}
	if treeHash(t, parts.Out) != want {
		t.Error("a dataset made in two parts has other bytes")
	}
	// Once more: nothing to do, nothing changed.
	rep, _ = ingest(t, parts)
	if rep.Skipped != 2 || rep.Episodes != 0 || treeHash(t, parts.Out) != want {
		t.Errorf("third time: %+v", rep)
	}
}

// A copy of a log under another name is the same recording.
func TestCopiedLogIsAddedOnce(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	if err := os.CopyFS(dir+"/rec/copy", os.DirFS(dir+"/rec/aaaaaaaaaaaa")); err != nil {
		t.Fatal(err)
	}
	rep, _ := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"})
	if rep.Episodes != 2 || !rep.Recordings[1].Skipped {
		t.Errorf("report %+v", rep)
	}
	// The same uuid with other content is somebody's mistake.
	other := newLog(t, dir+"/other", "aaaaaaaaaaaa", "rig")
	other.session(5100*ms, rawlog.EventSubtask, "put the cup down")
	other.writeRig(5500*ms, true)
	other.session(5400*ms, rawlog.EventAccept, "put the cup down")
	other.segment(5100*ms, 5400*ms, "put the cup down", true)
	other.close("yubi", "11111111-2222-4333-8444-aaaaaaaaaaaa")
	_, err := Run(context.Background(), Options{Sources: []string{dir + "/other"}, Out: dir + "/set"})
	if err == nil || !strings.Contains(err.Error(), "from a log with other content") {
		t.Errorf("same uuid, other log: %v", err)
	}
}

// Hidden folders hold recordings under way and discarded ones.
func TestHiddenFoldersAreNotSearched(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	rigLog(t, dir+"/rec/.discarded", "bbbbbbbbbbbb")
	rigLog(t, dir+"/rec", ".cccccccccccc.recording")
	logs, err := findLogs([]string{dir + "/rec", dir + "/rec/aaaaaaaaaaaa"})
	if err != nil || len(logs) != 1 {
		t.Errorf("found %v, %v", logs, err)
	}
}

// A log without meta.json is one segment when its instruction is given.
func TestTaskForLogsWithoutMetadata(t *testing.T) {
	dir := t.TempDir()
	l := newLog(t, dir+"/rec", "plain", "rig")
	l.writeRig(5500*ms, false)
	if err := l.w.Close(); err != nil {
		t.Fatal(err)
	}
	rep, d := ingest(t, Options{Sources: []string{l.path}, Out: dir + "/set", Task: "wave", FPS: 10})
	ep, err := d.Episode(0)
	if err != nil || rep.Episodes != 1 || ep.Tasks[0] != "wave" || d.Info().FPS != 10 {
		t.Fatalf("%+v, %v", ep, err)
	}
	// From 5.020 s to one period after the last sample of the stream that ends first; 10 Hz.
	if ticks := column[int64](t, d, feature.RowStamp, 0); ticks[1]-ticks[0] != 100*ms || ticks[0] != rowStart || len(ticks) != 6 {
		t.Errorf("ticks %v", ticks)
	}
	if _, err := d.Feature("observation.state"); err == nil {
		t.Error("a rig without a pedal has pedal buttons")
	}
}

func TestCancelLeavesNoScratch(t *testing.T) {
	dir := t.TempDir()
	rigLog(t, dir+"/rec", "aaaaaaaaaaaa")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, Options{Sources: []string{dir + "/rec"}, Out: dir + "/set"}); err == nil {
		t.Error("a cancelled run gives no error")
	}
	if _, err := os.Stat(dir + "/set"); err == nil {
		t.Error("a cancelled run left a dataset without episodes")
	}
}
