package child

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func shell(script string, ready any) Options {
	return Options{Path: "/bin/sh", Args: []string{"-c", script}, Ready: ready}
}

func TestStartReadsTheAnnouncement(t *testing.T) {
	var ready struct{ Addr string }
	o := shell(`echo starting; echo '{"addr":"127.0.0.1:5"}'; echo later; exec cat`, &ready)
	var log bytes.Buffer
	o.Log = &log
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if ready.Addr != "127.0.0.1:5" {
		t.Errorf("announcement %+v", ready)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
	if got := log.String(); !strings.Contains(got, "starting\n") || strings.Contains(got, "addr") {
		t.Errorf("log %q, want the lines but not the announcement", got)
	}
}

func TestAnEarlyEndIsAnErrorWithTheLastLines(t *testing.T) {
	var ready struct{}
	_, err := Start(t.Context(), shell("for i in 1 2 3 4 5 6 7 8; do echo line $i; done; echo port in use >&2; exit 1", &ready))
	if err == nil || !strings.Contains(err.Error(), "port in use") || strings.Contains(err.Error(), "line 1\n") {
		t.Errorf("got %v", err)
	}
	c, err := Start(t.Context(), shell("echo no such file >&2; exit 3", nil))
	if err != nil {
		t.Fatal(err)
	}
	err = c.Wait(t.Context())
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestFinishReturnsTheChildsOwnError(t *testing.T) {
	for script, want := range map[string]string{"exit 0": "", "echo lost a frame >&2; exit 1": "lost a frame"} {
		c, err := Start(t.Context(), shell(script, nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", script, err)
		}
	}
}

func TestCancelStopsTheChild(t *testing.T) {
	var ready struct{ PID int }
	c, err := Start(t.Context(), shell(`echo "{\"pid\":$$}"; exec sleep 60`, &ready))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := syscall.Kill(ready.PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", ready.PID, err)
	}
}

// A child must not outlive this process, however it dies. The test's own binary is the parent that gets killed.
func TestChildDiesWithItsParent(t *testing.T) {
	if os.Getenv("PINCH_CHILD_PARENT") == "1" {
		var ready struct{ PID int }
		if _, err := Start(context.Background(), shell(`echo "{\"pid\":$$}"; exec sleep 60`, &ready)); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("grandchild " + strconv.Itoa(ready.PID) + "\n")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestChildDiesWithItsParent$")
	cmd.Env = append(os.Environ(), "PINCH_CHILD_PARENT=1")
	out, _ := cmd.Output() // killed
	_, after, ok := strings.Cut(string(out), "grandchild ")
	if !ok {
		t.Fatalf("parent wrote %q", out)
	}
	pid, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return // gone, or a zombie that only its new parent can reap
		}
	}
	// The signal may still be on its way; give the scheduler a bounded number of turns.
	for range 200 {
		if err := exec.Command("sleep", "0.01").Run(); err != nil {
			t.Fatal(err)
		}
		state, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d outlived its parent", pid)
}
