package capture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/meta"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/sim/rigserve"
)

// killEnv makes the test program a recorder: "rig file\x00output folder".
const killEnv = "PINCH_TEST_RECORDER"

func TestMain(m *testing.M) {
	if v := os.Getenv(killEnv); v != "" {
		rig, out, _ := strings.Cut(v, "|")
		if err := tellingRecorder(rig, out); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tellingRecorder records and tells on standard output every message it shows: wall time, topic, publish time. The pipe outlives it.
func tellingRecorder(rigFile, out string) error {
	w := bufio.NewWriterSize(os.Stdout, 1) // each line at once
	shownHook = func(m *message) {
		fmt.Fprintf(w, "%d %s %d\n", time.Now().UnixNano(), m.topic, int64(m.device))
		_ = w.Flush()
	}
	_, err := Record(context.Background(), Options{RigFile: rigFile, Out: out, MinFreeBytes: -1})
	return err
}

// shownMessage is one line of a telling recorder.
type shownMessage struct {
	wall    int64
	topic   string
	publish int64
}

// killRecorder starts a recorder on a rig that runs in real time, kills it with SIGKILL after a while, and gives what it had shown and
// when it died.
func killRecorder(t *testing.T, after time.Duration) (out string, shown []shownMessage, killed int64) {
	t.Helper()
	rig := newFakeRig()
	rig.episodeS = after.Seconds() + 30 // it never comes to its end
	rig.presses = rig.presses[:2]       // one subtask accepted, the second open
	s := serve(t, 1, rig, func(o *rigserve.Options) { o.Speed = 1 })
	out = filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+s.rigFile+"|"+out)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []shownMessage)
	first := make(chan struct{})
	go readShown(stdout, first, lines)
	select {
	case <-first:
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		t.Fatalf("the recorder showed nothing: %s", stderr.String())
	}
	time.Sleep(after)
	killed = time.Now().UnixNano()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	shown = <-lines
	_ = cmd.Wait()
	s.cancel()
	<-s.done
	return out, shown, killed
}

func readShown(r io.Reader, first chan<- struct{}, out chan<- []shownMessage) {
	var all []shownMessage
	in := bufio.NewScanner(r)
	for in.Scan() {
		var m shownMessage
		if n, _ := fmt.Sscanf(in.Text(), "%d %s %d", &m.wall, &m.topic, &m.publish); n != 3 {
			continue // the last line may be cut
		}
		if all = append(all, m); len(all) == 1 {
			close(first)
		}
	}
	out <- all
}

// Whenever the recorder is killed, everything it had shown a second before is in the recording after recovery.
func TestKilledRecorderLosesAtMostOneSecond(t *testing.T) {
	kills := 2
	if os.Getenv("PINCH_SOAK") != "" {
		kills = 300
	}
	rng := rand.New(rand.NewPCG(7, 7))
	for i := range kills {
		out, shown, killed := killRecorder(t, time.Duration(300+rng.IntN(2500))*time.Millisecond)
		report, err := Recover(t.Context(), out)
		if err != nil {
			t.Fatalf("kill %d: %v", i, err)
		}
		if len(report.Recordings) != 1 {
			t.Fatalf("kill %d: %+v", i, report)
		}
		rec := report.Recordings[0]
		checkSurvivors(t, rec, shown, killed)
		if again, err := Recover(t.Context(), out); err != nil || len(again.Recordings) != 0 {
			t.Errorf("kill %d: second recovery: %+v, %v", i, again, err)
		}
	}
}

func checkSurvivors(t *testing.T, rec Recovered, shown []shownMessage, killed int64) {
	t.Helper()
	logs, _ := filepath.Glob(filepath.Join(rec.Folder, "*.mcap"))
	r, err := rawlog.Open(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.Info().Complete || len(r.Info().Losses) > 0 {
		t.Errorf("the recovered log is not healthy: %+v", r.Info())
	}
	have := map[string]map[int64]bool{}
	for m, err := range r.Messages() {
		if err != nil {
			t.Fatal(err)
		}
		if have[m.Channel.Topic] == nil {
			have[m.Channel.Topic] = map[int64]bool{}
		}
		have[m.Channel.Topic][m.PublishTime] = true
	}
	old, missing := 0, 0
	for _, m := range shown {
		if m.wall < killed-int64(time.Second) {
			old++
			if !have[m.topic][m.publish] {
				missing++
			}
		}
	}
	if missing > 0 {
		t.Errorf("%d of %d messages shown a second before the kill are missing", missing, old)
	}
	if !rec.Discarded {
		m, err := meta.Read(rec.Folder)
		if err != nil {
			t.Errorf("recovered description: %v", err)
		} else if len(m.Segments) == 0 || m.Episode.Success {
			t.Errorf("recovered description: %+v", m)
		}
	}
}

// An attempt without verdict is closed as failed, in the log and in meta.json alike, so that both agree.
func TestRecoveryClosesTheOpenAttempt(t *testing.T) {
	out, _, _ := killRecorder(t, 2500*time.Millisecond)
	report, err := Recover(t.Context(), out)
	if err != nil || len(report.Recordings) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	rec := report.Recordings[0]
	if rec.Discarded || !rec.Unjudged || rec.Segments != 2 || strings.HasPrefix(filepath.Base(rec.Folder), ".") {
		t.Fatalf("%+v", rec)
	}
	m, err := meta.Read(rec.Folder)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Segments[0].Success || m.Segments[1].Success || m.Labels[1] != sim.Prompts[1] || m.Episode.Label != "put the block on the tray" {
		t.Errorf("%+v", m)
	}
	log := load(t, rec.Folder)
	ms := log.topics[rawlog.TopicSession]
	var last rawlog.SessionEvent
	if err := json.Unmarshal(ms[len(ms)-1].Data, &last); err != nil {
		t.Fatal(err)
	}
	if last.Event != rawlog.EventReject || last.Success == nil || *last.Success {
		t.Errorf("last event %+v", last)
	}
	for topic, all := range log.topics { // the attempt ends with the last message
		if d := all[len(all)-1].PublishTime; topic != rawlog.TopicClock && d > ms[len(ms)-1].PublishTime {
			t.Errorf("%s has a message at %d ns, after the end of the attempt", topic, d)
		}
	}
}

func TestRecoverRefusesWhatIsNotThere(t *testing.T) {
	if _, err := Recover(t.Context(), filepath.Join(t.TempDir(), "no")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".x.recording"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "recording x") {
		t.Errorf("a working folder without description: %v", err)
	}
}
