package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/internal/folderlock"
	"github.com/pinch-robotics/pinch/internal/meta"
)

// tools writes made-up helper programs: shell scripts that note their command lines and leave the traces of the real ones.
func tools(t *testing.T, scripts map[string]string) (helper func(string) (string, error), calls func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "calls")
	recording(t, dir, true) // a meta.json beside the scripts, for those that make recordings
	for name, script := range scripts {
		text := "#!/bin/sh\necho \"" + name + " $*\" >>" + log + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	helper = func(name string) (string, error) { return filepath.Join(dir, name), nil }
	calls = func() []string {
		data, _ := os.ReadFile(log)
		_ = os.Remove(log)
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	return helper, calls
}

// recording writes the meta.json of a finished recording into dir.
func recording(t *testing.T, dir string, success bool) {
	t.Helper()
	m := meta.New()
	m.UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	m.Robot = meta.Robot{Type: "yubi", ID: "rig"}
	m.Environment = meta.Environment{Type: meta.Simulation, Site: "cell"}
	m.Runner = meta.Runner{Type: meta.Model, Name: "demonstrator"}
	m.Files = []meta.File{{Type: "mcap", Name: "x.mcap"}}
	m.Devices = []meta.Device{{Role: "tracker", Type: "x", ID: "x"}}
	m.Programs = []meta.Program{{Role: "interface", Name: "x"}, {Role: "data_collection", Name: "x"}}
	m.Episode = meta.Episode{StartTime: 1, EndTime: 2, Success: success, Label: "task"}
	m.AddSegment("task", 1, 2, success)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := meta.Write(dir, m); err != nil {
		t.Fatal(err)
	}
}

// The scripts read their arguments by place: $2 is "handheld", and so on.
const (
	simScript = `echo '{"rig_file":"rig.yaml"}'`
	rigScript = `case "$1 $2" in
"record --rig") n=0; while [ $n -lt $7 ]; do d=$5/$(date +%s%N); mkdir -p $d; cp $(dirname $0)/meta.json $d/; n=$((n+1)); done;;
"eval show") echo "the table of $3";;
esac`
	nodeScript = `case "$1" in
serve) echo '{"url":"ws://127.0.0.1:1"}'; exec sleep 30;;
train) mkdir -p $5/checkpoints/step-1;;
esac`
)

func options(t *testing.T, helper func(string) (string, error), console *strings.Builder) Options {
	return Options{Out: filepath.Join(t.TempDir(), "demo"), Episodes: 3, Trials: 2, Seed: 5, Train: []string{"steps=10"}, Console: console, Now: time.Now, Helper: helper}
}

func TestTheScriptRunsVerbsInOrder(t *testing.T) {
	helper, calls := tools(t, map[string]string{"pinch-sim": simScript, "pinch-rig": rigScript, "pinch-node": nodeScript})
	var console strings.Builder
	o := options(t, helper, &console)
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, console.String())
	}
	out := o.Out
	want := []string{
		"pinch-sim sim handheld --json --wrist-hz 10 --rig " + out + "/rig/rig.yaml --first 0 --episodes 3",
		"pinch-rig record --rig rig.yaml --out " + out + "/recordings --episodes 3",
		"pinch-node ingest " + out + "/recordings --out " + out + "/dataset --fps 10",
		"pinch-node dataset check " + out + "/dataset",
		"pinch-node train --data " + out + "/dataset --out " + out + "/policy seed=5 steps=4500 steps=10",
		"pinch-rig eval task --out " + out + "/task.yaml",
		"pinch-node serve " + out + "/policy --json --listen 127.0.0.1:0",
		"pinch-rig eval run --task " + out + "/task.yaml --trials 2 --policy ws://127.0.0.1:1 --sim --baselines hold,replay,blank --demos " + out + "/dataset --out " + out + "/eval --seed 5",
		"pinch-rig eval show " + out + "/eval",
	}
	got := calls()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("call %d:\ngot  %s\nwant %s", i, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
	for _, text := range []string{"[5/5] eval     done in", "the table of " + out + "/eval", "pinch bench eval --demo " + out} {
		if !strings.Contains(console.String(), text) {
			t.Errorf("the console lacks %q:\n%s", text, console.String())
		}
	}

	// A finished demo runs nothing again but its table.
	console.Reset()
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := calls(); len(got) != 1 || !strings.HasPrefix(got[0], "pinch-rig eval show") {
		t.Errorf("second run: %v", got)
	}
	// Other settings do not mix with what is there, and nothing is touched.
	o.Episodes = 4
	if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), `the stage "record" was done there with other settings`) {
		t.Errorf("got %v", err)
	}
	o.Episodes, o.Trials = 3, 60
	if err := Again(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(calls(), "\n"); !strings.Contains(got, "--trials 60") || !strings.Contains(got, "--out "+out+"/eval-60") {
		t.Errorf("bench eval: %s", got)
	}
}

// An interrupted recording goes on with conditions that it has not met, for the demonstrations that are missing, an interrupted training with its checkpoint.
func TestInterruptedStagesGoOn(t *testing.T) {
	helper, calls := tools(t, map[string]string{"pinch-sim": simScript, "pinch-rig": rigScript, "pinch-node": nodeScript})
	var console strings.Builder
	o := options(t, helper, &console)
	recording(t, filepath.Join(o.Out, "recordings/one"), true)
	recording(t, filepath.Join(o.Out, "recordings/two"), false) // cut off, and recovered
	for _, dir := range []string{"recordings/.three.recording", "policy/checkpoints/step-5"} {
		if err := os.MkdirAll(filepath.Join(o.Out, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(calls(), "\n")
	for _, want := range []string{"record --recover " + o.Out + "/recordings", "--first 2 --episodes 2", "/recordings --episodes 2", "/policy --resume seed=5"} {
		if !strings.Contains(got, want) {
			t.Errorf("no call has %q:\n%s", want, got)
		}
	}
}

func TestAFailedStageNamesItsLogAndIsRunAgain(t *testing.T) {
	helper, calls := tools(t, map[string]string{"pinch-sim": simScript, "pinch-rig": rigScript, "pinch-node": `echo "no space left on device" >&2; exit 1`})
	var console strings.Builder
	o := options(t, helper, &console)
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "stage ingest") || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "logs/ingest.log") {
		t.Fatalf("got %v", err)
	}
	calls()
	if err := Run(t.Context(), o); err == nil {
		t.Fatal("the failed stage counted as done")
	}
	if got := calls(); len(got) != 1 || !strings.HasPrefix(got[0], "pinch-node ingest") {
		t.Errorf("second run: %v", got)
	}
}

// What went wrong at the simulated rig is shown: in the error when the recordings are not there, else as a note.
func TestTheRigsOwnErrorIsShown(t *testing.T) {
	const lost = simScript + `; echo "camera left lost a frame" >&2; exit 1`
	helper, _ := tools(t, map[string]string{"pinch-sim": lost, "pinch-rig": `exit 1`, "pinch-node": nodeScript})
	var console strings.Builder
	if err := Run(t.Context(), options(t, helper, &console)); err == nil || !strings.Contains(err.Error(), "camera left lost a frame") {
		t.Errorf("got %v", err)
	}
	helper, _ = tools(t, map[string]string{"pinch-sim": lost, "pinch-rig": rigScript, "pinch-node": nodeScript})
	console.Reset()
	if err := Run(t.Context(), options(t, helper, &console)); err != nil || !strings.Contains(console.String(), "camera left lost a frame") {
		t.Errorf("got %v with the console\n%s", err, console.String())
	}
}

func TestTwoDemosDoNotShareAFolder(t *testing.T) {
	helper, calls := tools(t, map[string]string{"pinch-sim": simScript, "pinch-rig": rigScript, "pinch-node": nodeScript})
	var console strings.Builder
	o := options(t, helper, &console)
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := folderlock.Take(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), o); !errors.Is(err, folderlock.ErrHeld) || calls()[0] != "" {
		t.Errorf("got %v", err)
	}
	lock.Release()
	if err := Run(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestAnInterruptStopsTheChildren(t *testing.T) {
	helper, _ := tools(t, map[string]string{"pinch-sim": `echo $$ >pid; ` + simScript + `; exec sleep 30`, "pinch-rig": `exec sleep 30`, "pinch-node": nodeScript})
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	var console strings.Builder
	o := options(t, helper, &console)
	go func() {
		for {
			if _, err := os.Stat("pid"); err == nil {
				cancel()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if err := Run(ctx, o); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "goes on from here") {
		t.Errorf("got %v", err)
	}
	pid, err := os.ReadFile("pid")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err == nil {
		t.Errorf("the simulated rig, process %s, is still there", pid)
	}
}

func TestBenchEvalNeedsADemo(t *testing.T) {
	var console strings.Builder
	o := options(t, nil, &console)
	if err := Again(t.Context(), o); err == nil || !strings.Contains(err.Error(), "holds no demo") {
		t.Errorf("got %v", err)
	}
}

// Progress lines come at most every ten seconds, the newest one, also when a bar draws over its line.
func TestProgressIsSparse(t *testing.T) {
	now := time.Unix(0, 0)
	var out strings.Builder
	p := &progress{w: &out, now: func() time.Time { return now }}
	for i := range 100 {
		now = time.Unix(1, 0).Add(time.Duration(i) * time.Second)
		fmt.Fprintf(p, "step %d\r", i)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 9 || strings.TrimSpace(lines[0]) != "step 10" {
		t.Errorf("%d lines, first %q", len(lines), lines[0])
	}
}
