package capture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/rigserve"
)

// lockedBuffer is a console that a test reads while the recorder writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// waitFor waits until the console shows a text.
func (l *lockedBuffer) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(l.String(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the console never showed %q:\n%s", text, l.String())
		}
	}
}

func events(t *testing.T, log stored) (out []string) {
	t.Helper()
	for _, m := range log.topics[rawlog.TopicSession] {
		var e rawlog.SessionEvent
		if err := json.Unmarshal(m.Data, &e); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Event)
	}
	return out
}

// A rejected attempt stays as a failed segment; a cancel keeps what was accepted before it, and puts a recording in which nothing was accepted
// out of sight without deleting it.
func TestRejectAndCancel(t *testing.T) {
	rig := newFakeRig()
	rig.episodeS = 6
	rig.presses = []fakePress{
		{0.5, sim.PedalAccept}, {0.9, sim.PedalReject}, {1.3, sim.PedalAccept}, {1.7, sim.PedalAccept}, // a failed and a good attempt
		{2.4, sim.PedalAccept}, {2.8, sim.PedalCancel}, // nothing accepted
		{3.6, sim.PedalAccept}, {4.0, sim.PedalAccept}, {4.4, sim.PedalCancel}, // the first subtask accepted
		{5.0, sim.PedalReject}, // nothing to reject
	}
	res, out := recordFake(t, 1, rig)
	if len(res.Saved) != 2 || len(res.Discarded) != 1 {
		t.Fatalf("saved %v, discarded %v", res.Saved, res.Discarded)
	}
	for i, want := range []struct {
		events  string
		verdict []bool
		success bool
	}{
		{"start subtask reject subtask accept subtask accept", []bool{false, true, true}, true},
		{"start subtask accept subtask cancel", []bool{true}, false},
	} {
		m, err := meta.Read(res.Saved[i])
		if err != nil {
			t.Fatal(err)
		}
		var verdicts []bool
		for _, s := range m.Segments {
			verdicts = append(verdicts, s.Success)
		}
		if got := strings.Join(events(t, load(t, res.Saved[i])), " "); got != want.events || m.Episode.Success != want.success || len(verdicts) != len(want.verdict) {
			t.Errorf("recording %d: events %q, segments %v, success %v; want %+v", i, got, verdicts, m.Episode.Success, want)
		}
	}
	if filepath.Dir(res.Discarded[0]) != filepath.Join(out, meta.DiscardedDir) {
		t.Errorf("discarded to %s", res.Discarded[0])
	}
	if got := strings.Join(events(t, load(t, res.Discarded[0])), " "); got != "start subtask cancel" {
		t.Errorf("discarded recording: %q", got)
	}
	if n := checkFolders(t, out); n != 2 {
		t.Errorf("%d recordings in the folder, want 2", n)
	}
}

// checkFolders counts the visible recordings and finds leftovers.
func checkFolders(t *testing.T, out string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".recording"):
			t.Errorf("left behind: %s", e.Name())
		case !strings.HasPrefix(e.Name(), "."):
			n++
		}
	}
	return n
}

// An interrupt finishes the current recording cleanly: what was accepted is saved.
func TestInterruptFinishesTheRecording(t *testing.T) {
	rig := newFakeRig()
	rig.episodeS, rig.presses = 60, rig.presses[:2]
	s := serve(t, 1, rig, func(o *rigserve.Options) { o.Speed = 1 })
	ctx, interrupt := context.WithCancel(t.Context())
	var console lockedBuffer
	out := filepath.Join(t.TempDir(), "out")
	go func() {
		console.waitFor(t, "now: "+sim.Prompts[1])
		console.waitFor(t, "REC 2/2 "+sim.Prompts[1]+" | left ") // the status line: state, frames per camera, how safe the messages are
		console.waitFor(t, "/0 lost | shown ")
		interrupt()
	}()
	res, err := Record(ctx, Options{RigFile: s.rigFile, Out: out, MinFreeBytes: -1, Console: &console, Live: true})
	if err != nil || len(res.Saved) != 1 {
		t.Fatalf("%+v, %v\n%s", res, err, console.String())
	}
	m, err := meta.Read(res.Saved[0])
	if err != nil || len(m.Segments) != 1 || !m.Segments[0].Success || m.Episode.Success {
		t.Errorf("%+v, %v", m, err)
	}
	checkClock(t, load(t, res.Saved[0]))
	if n := len(load(t, res.Saved[0]).topics[rawlog.TopicClock]); n == 0 { // the recording began half a second or more after the first exchange
		t.Error("the recording has no clock exchange")
	}
	if log := load(t, res.Saved[0]); strings.Join(events(t, log), " ") != "start subtask accept subtask cancel" {
		t.Errorf("events %v", events(t, log))
	}
	checkFolders(t, out)
}

func TestMissingDevicesAreNamedWithTheFix(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := l.Addr().String()
	_ = l.Close()
	dir := t.TempDir()
	rig := DefaultRig()
	rig.Cameras = []Camera{{Name: "left", URL: "rtsp://" + refused + "/left", RateHz: 30}}
	rig.Encoders = []Encoder{{Side: "right", Port: filepath.Join(dir, "nothing"), Direction: -1, RateHz: 190}}
	rig.Tracker.Address = refused
	rig.Pedal.Path = filepath.Join(dir, "pedal")
	rig.Task = Task{Name: "t", Subtasks: []string{"s"}}
	res, err := Record(t.Context(), Options{Rig: &rig, Out: filepath.Join(dir, "out"), MinFreeBytes: -1, ConnectTimeout: 300 * time.Millisecond})
	if err == nil || len(res.Saved) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	for _, want := range []string{
		"left camera at rtsp://" + refused + "/left", "nothing listens there", "right encoder", "nothing", "plug it in or correct the path",
		"connect tracker at " + refused, "open pedal at " + rig.Pedal.Path,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

// The other hand's encoder ends the session with the fix, before anything is recorded.
func TestSwappedEncodersEndTheSession(t *testing.T) {
	s := serve(t, 1, newFakeRig(), nil)
	rig, err := LoadRig(s.rigFile)
	if err != nil {
		t.Fatal(err)
	}
	rig.Encoders[0].Port, rig.Encoders[1].Port = rig.Encoders[1].Port, rig.Encoders[0].Port
	rig.Encoders[0].ID, rig.Encoders[1].ID = "", ""
	out := filepath.Join(t.TempDir(), "out")
	_, err = Record(t.Context(), Options{Rig: &rig, Out: out, MinFreeBytes: -1})
	if err == nil || !strings.Contains(err.Error(), "swap the two cables") {
		t.Errorf("error %v", err)
	}
	if n := checkFolders(t, out); n != 0 {
		t.Errorf("%d recordings", n)
	}
}

// A device that never sends blocks the start and is named; the others are not held up by it.
func TestSilentDeviceBlocksTheStart(t *testing.T) {
	rig := newFakeRig()
	rig.mute = func(s *sim.Sample) bool { return s.Image != nil && s.Image.Camera == sim.RightWrist }
	s := serve(t, 1, rig, nil)
	var console lockedBuffer
	out := filepath.Join(t.TempDir(), "out")
	res, err := Record(t.Context(), Options{RigFile: s.rigFile, Out: out, MinFreeBytes: -1, Console: &console})
	if err != nil || len(res.Saved) != 0 {
		t.Fatalf("%+v, %v", res, err)
	}
	if !strings.Contains(console.String(), "cannot start: nothing yet from right camera") {
		t.Errorf("console:\n%s", console.String())
	}
}

// fullDisk is a log file on a disk that fills up after some bytes.
type fullDisk struct {
	*os.File
	room int
}

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.Write(b)
}

// A full disk ends the session with one clear error; finished recordings are untouched and the open one can be recovered.
func TestFullDiskEndsTheSessionAndKeepsEverything(t *testing.T) {
	rig := newFakeRig()
	s := serve(t, 3, rig, nil)
	out := filepath.Join(t.TempDir(), "out")
	logs := 0
	opt := rawlog.WriterOptions{ChunkBytes: 20_000, OpenFile: func(path string) (rawlog.File, error) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if logs++; logs == 2 {
			return &fullDisk{f, 60_000}, err
		}
		return f, err
	}}
	res, err := Record(t.Context(), Options{RigFile: s.rigFile, Out: out, MinFreeBytes: -1, Writer: opt})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "the disk is full") || !strings.Contains(err.Error(), "--recover") {
		t.Fatalf("error %v", err)
	}
	if len(res.Saved) != 1 {
		t.Fatalf("saved %v", res.Saved)
	}
	checkTimes(t, load(t, res.Saved[0]), 0)
	report, err := Recover(t.Context(), out)
	if err != nil || len(report.Recordings) != 1 || report.Recordings[0].Messages == 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := meta.Read(res.Saved[0]); err != nil {
		t.Error(err)
	}
}

func TestNearlyFullDiskIsRefusedAtTheStart(t *testing.T) {
	rig, err := loadText(t, goodRig)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	_, err = Record(t.Context(), Options{Rig: &rig, Out: out, MinFreeBytes: 1 << 60})
	if err == nil || !strings.Contains(err.Error(), "nearly full") || !strings.Contains(err.Error(), out) {
		t.Errorf("error %v", err)
	}
}

// Two rows of presses in the same device time axis: the pre-roll and the end are cut in device time, not by arrival.
func TestEpisodesFollowEachOtherClosely(t *testing.T) {
	rig := newFakeRig()
	rig.episodeS = 4
	rig.presses = []fakePress{{0.5, sim.PedalAccept}, {1.0, sim.PedalAccept}, {1.5, sim.PedalAccept}, {1.6, sim.PedalAccept}, {2.2, sim.PedalAccept}, {2.8, sim.PedalAccept}}
	res, _ := recordFake(t, 1, rig)
	if len(res.Saved) != 2 {
		t.Fatalf("saved %v", res.Saved)
	}
	second := load(t, res.Saved[1])
	first := second.topics["/left_camera/image_raw/compressed"][0]
	if at := float64(first.PublishTime-int64(sim.StartTime)) / 1e9; at < 1.2-1e-6 || at > 1.2+1.0/fakeWristHz {
		t.Errorf("the second recording begins at %.3f s, want 0.4 s before its press at 1.6 s", at)
	}
}
