package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// bin is the folder with the built programs.
var bin string

// TestMain builds the four programs the way the Makefile does, with the tags of this test run.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "pinch-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	status := 1
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		bin = dir
		status = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

func build(dir string) error {
	for _, p := range []struct{ name, tags string }{{"pinch", ""}, {"pinch-rig", rigTags}, {"pinch-sim", simTags}, {"pinch-node", nodeTags}} {
		cmd := exec.Command("go", "build", "-tags", p.tags, "-o", filepath.Join(dir, p.name), "github.com/pinch-robotics/pinch/cmd/"+p.name)
		if p.tags == "" {
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.name, err, out)
		}
	}
	return nil
}

// result is how a command ended.
type result struct {
	status      int
	out, errOut string
}

// pinch runs a command line and returns how it ended.
func pinch(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "pinch"), args...)
	cmd.Dir = t.TempDir()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// must runs a command line that has to succeed.
func must(t *testing.T, args ...string) result {
	t.Helper()
	r := pinch(t, args...)
	if r.status != 0 {
		t.Fatalf("pinch %s: status %d\n%s%s", strings.Join(args, " "), r.status, r.out, r.errOut)
	}
	return r
}

// refused runs a command line that has to fail with one sentence that has all the parts.
func refused(t *testing.T, status int, args []string, parts ...string) {
	t.Helper()
	r := pinch(t, args...)
	if r.status != status {
		t.Errorf("pinch %s: status %d, want %d\n%s%s", strings.Join(args, " "), r.status, status, r.out, r.errOut)
	}
	for _, p := range parts {
		if !strings.Contains(r.errOut, p) {
			t.Errorf("pinch %s: the error lacks %q:\n%s", strings.Join(args, " "), p, r.errOut)
		}
	}
	if strings.Contains(r.errOut, "goroutine ") {
		t.Errorf("pinch %s: a stack instead of a sentence:\n%s", strings.Join(args, " "), r.errOut)
	}
}

// write writes a file in a fresh folder and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEveryVerbExplainsItsStatuses(t *testing.T) {
	for _, verb := range []string{
		"doctor", "demo", "record", "sim handheld", "sim robot", "sim fci", "arm franka", "ingest", "dataset check", "dataset info", "dataset view", "dataset extract",
		"train", "serve", "deploy", "home", "calibrate latency", "calibrate frames", "eval run", "eval replay", "eval show", "eval task", "bench", "bench eval",
	} {
		r := must(t, append(strings.Fields(verb), "--help")...)
		if !strings.Contains(r.out, "Exit status:") || !strings.Contains(r.out, "Usage:") {
			t.Errorf("pinch %s --help:\n%s", verb, r.out)
		}
	}
}

func TestWrongUsageIsStatusTwo(t *testing.T) {
	refused(t, 2, []string{"recrod"}, `unknown verb "recrod"; the nearest is "record"`)
	refused(t, 2, []string{"dataset", "chekc", "x"}, `the nearest is "check"`)
	refused(t, 2, []string{"ingest", "x"}, "--out: name the dataset's folder")
	refused(t, 2, []string{"train", "--data", "x", "--out", "y", "stepz=3"}, `nearest valid key is "steps"`)
	refused(t, 2, []string{"eval", "run", "--policy", "ws://127.0.0.1:1"}, "--task")
	refused(t, 2, []string{"eval", "run", "--task", "x", "--baselines", "reply"}, `"reply", want some of hold, replay, blank`)
	refused(t, 2, []string{"dataset", "view", "x", "--episodes", "4-2"}, "--episodes")
	refused(t, 2, []string{"sim", "robot", "--clock", "sundial"}, "lockstep or realtime")
	refused(t, 2, []string{"home", "--set", "control.lead_m=1"}, `nearest valid key is "lead_ms"`)
}

func TestBadInputIsOneSentence(t *testing.T) {
	refused(t, 1, []string{"dataset", "info", "/nonexistent"}, "/nonexistent")
	refused(t, 1, []string{"dataset", "check", t.TempDir()}, "meta/info.json")
	refused(t, 1, []string{"ingest", "/nonexistent", "--out", "ds"}, "/nonexistent")
	refused(t, 1, []string{"serve", t.TempDir(), "--listen", "127.0.0.1:0"}, "checkpoint")
	refused(t, 1, []string{"deploy", "--policy", "ws://127.0.0.1:1"}, "ws://127.0.0.1:1")
	refused(t, 1, []string{"eval", "show", t.TempDir()}, "report.json")
	refused(t, 1, []string{"bench", "eval", "--demo", t.TempDir()}, "holds no demo")

	task := write(t, "task.yaml", "name: x\nsteps:\n  - promt: go\n")
	refused(t, 2, []string{"eval", "run", "--task", task, "--policy", "ws://127.0.0.1:1"}, task+":3: ", `unknown key "promt" under steps[0]; the nearest valid key is "prompt"`)
	rig := write(t, "rig.yaml", "robot:\n  type: yubi\n  id: r\ncameras:\n- name: left\n  ulr: rtsp://127.0.0.1:1/left\n")
	refused(t, 2, []string{"record", "--rig", rig}, rig+":6: ", `unknown key "ulr" under cameras[0]; the nearest valid key is "url"`)
}

// A log that is cut is refused with the place and the way out, and the dataset that is there is not touched.
func TestATruncatedLogLeavesTheDatasetAlone(t *testing.T) {
	dir := t.TempDir()
	recording := filepath.Join(dir, "recordings", "r")
	if err := os.MkdirAll(recording, 0o755); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(recording, "r_0.mcap")
	if err := os.WriteFile(log, []byte("\x89MCAP0\r\n\x01\x40"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, 1, []string{"ingest", recording, "--out", filepath.Join(dir, "ds"), "--task", "x"}, log)
	if entries, err := os.ReadDir(filepath.Join(dir, "ds", "meta")); err == nil && len(entries) > 0 {
		t.Errorf("a refused log left %v in the dataset", entries)
	}
}
