package ingest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// TestMain turns the test program into a run of ingest that a test kills.
func TestMain(m *testing.M) {
	if src := os.Getenv("PINCH_TEST_INGEST"); src != "" {
		_, err := Run(context.Background(), Options{Sources: []string{src}, Out: os.Getenv("PINCH_TEST_OUT"), FPS: 15,
			Progress: func(p Progress) { fmt.Println("rows", p.Rows) }})
		fmt.Println("end", err)
		return
	}
	os.Exit(m.Run())
}

// shortLog is a recording of one attempt with few rows, quick to convert.
func shortLog(t *testing.T, dir string, n int) {
	l := newLog(t, dir, fmt.Sprintf("short%02d", n), "rig")
	l.session(5010*ms, rawlog.EventStart, fmt.Sprint(n))
	l.session(5060*ms, rawlog.EventSubtask, "wave")
	l.writeRig(5400*ms, false)
	l.session(5380*ms, rawlog.EventAccept, "wave")
	l.segment(5060*ms, 5380*ms, "wave", true)
	l.close("yubi_portable", fmt.Sprintf("aaaaaaaa-2222-4333-8444-%012d", n))
}

// Kill -9 at random moments of ingest: whatever was told to be accepted is there when the dataset is opened next, complete and with the
// right rows, and the same command goes on from there to the same bytes.
func TestKilledIngest(t *testing.T) {
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	kills, recordings := 30, 8
	switch {
	case os.Getenv("PINCH_SOAK") != "":
		kills = 300
	case testing.Short():
		kills = 3
	}
	dir := t.TempDir()
	for n := range recordings {
		shortLog(t, dir+"/rec", n)
	}
	want := ""
	if kills > 3 {
		rep, d := ingest(t, Options{Sources: []string{dir + "/rec"}, Out: dir + "/whole", FPS: 15})
		if rep.Episodes != recordings {
			t.Fatalf("report %+v", rep)
		}
		want = treeHash(t, d.Root(), "meta/stats.json")
	}
	rng := rand.New(rand.NewPCG(11, 12))
	set, done := 0, 0
	for range kills {
		out := fmt.Sprintf("%s/set%d", dir, set)
		finished, rows := killIngest(t, dir+"/rec", out, rng)
		if after := intact(t, out); after < rows {
			t.Fatalf("%s has %d rows, %d were told to be in it", out, after, rows)
		}
		if !finished {
			continue
		}
		// A run killed between its last episode and its end leaves statistics merged from those of the episodes.
		if hash := treeHash(t, out, "meta/stats.json"); want != "" && hash != want {
			t.Fatalf("%s, made in several runs, has other bytes than a run in one go", out)
		}
		done++
		set++
	}
	t.Logf("%d kills, %d datasets finished in between", kills-done, done)
	if want != "" && set == 0 {
		t.Error("no dataset was finished: the runs got nowhere")
	}
	if intact(t, fmt.Sprintf("%s/set%d", dir, set)) > 0 { // the official loader has no datasets without episodes
		readByPython(t, fmt.Sprintf("%s/set%d", dir, set))
	}
}

// killIngest runs ingest until a random moment: right at the start, or some time after it has told a random number of recordings.
func killIngest(t *testing.T, src, out string, rng *rand.Rand) (finished bool, rows int) {
	t.Helper()
	before := intact(t, out)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PINCH_TEST_INGEST="+src, "PINCH_TEST_OUT="+out)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its encoders go with it
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	told, timer := rng.IntN(3), (*time.Timer)(nil)
	if told == 0 {
		timer = time.AfterFunc(time.Duration(rng.IntN(150))*time.Millisecond, kill)
	}
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		var added int
		if n, _ := fmt.Sscanf(lines.Text(), "rows %d", &added); n == 1 {
			rows = before + added
			if added == 0 {
				continue // it was there already
			}
			if told--; told == 0 {
				timer = time.AfterFunc(time.Duration(rng.IntN(100))*time.Millisecond, kill)
			}
			continue
		}
		if lines.Text() == "end <nil>" {
			finished = true
		} else if strings.HasPrefix(lines.Text(), "end ") {
			t.Fatalf("ingest: %s", lines.Text())
		}
	}
	err = cmd.Wait()
	if timer != nil {
		timer.Stop()
	}
	return finished && err == nil, rows
}

// intact opens a dataset as the next command would and looks at everything in it. It returns the number of rows.
func intact(t *testing.T, root string) (rows int) {
	t.Helper()
	if _, err := os.Stat(root); err != nil {
		return 0
	}
	w, err := dataset.OpenWriter(root, dataset.WriterOptions{})
	// A child that was forked and killed before it became an encoder holds the lock until the kernel has ended it.
	for try := 0; errors.Is(err, dataset.ErrLocked) && try < 600; try++ {
		time.Sleep(50 * time.Millisecond)
		w, err = dataset.OpenWriter(root, dataset.WriterOptions{})
	}
	if os.IsNotExist(err) || strings.Contains(fmt.Sprint(err), "info.json") {
		return 0 // killed before the dataset was made
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range d.Episodes() {
		for _, key := range []string{feature.ImageLeft, feature.ImageRight} {
			path, first, err := d.VideoFrame(e.Index, key)
			if err != nil {
				t.Fatal(err)
			}
			if info, err := video.Probe(path); err != nil || info.Frames() < first+e.Length {
				t.Fatalf("episode %d: %s has %d frames of %d: %v", e.Index, key, info.Frames(), e.Length, err)
			}
		}
		ticks := column[int64](t, d, feature.RowStamp, e.Index)
		hand := column[float64](t, d, feature.LeftHand, e.Index)
		for row := range ticks {
			_, at := leftTF.held(ticks[row])
			nearPose(t, "left hand after a kill", row, poseRow(t, hand, row), handPose("left", at))
		}
		rows += len(ticks)
	}
	return rows
}
