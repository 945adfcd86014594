package rig

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// Values that no run could use are wrong usage, said before anything is reached or written.
func TestFlagsOutOfRange(t *testing.T) {
	t.Chdir(t.TempDir())
	wrongRig := filepath.Join(t.TempDir(), "rig.yaml")
	if err := os.WriteFile(wrongRig, []byte("camers: []\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"record --rig none.yaml":                                         "none.yaml",
		"record --rig " + wrongRig:                                       "camers",
		"record --rig none.yaml --episodes -1":                           "--episodes",
		"record --rig none.yaml --episodes 9999999999":                   "--episodes",
		"record --rig none.yaml --connect-timeout -1s":                   "--connect-timeout",
		"deploy --policy ws://127.0.0.1:1 --seconds nan":                 "--seconds",
		"deploy --policy ws://127.0.0.1:1 --seconds=-5":                  "--seconds",
		"deploy --policy ws://127.0.0.1:1 --seconds 1e30":                "--seconds",
		"eval run --task x.yaml --baselines hold --trials 100000000":     "--trials",
		"deploy --policy ws://127.0.0.1:1 --record " + wrongRig:          "give another name",
		"eval run --task x.yaml --baselines hold --trials 0":             "--trials",
		"eval replay d --policy ws://127.0.0.1:1 --episodes 0-999999999": "--episodes",
	} {
		root := program.Root("pinch", "", "", Record(), Deploy(), Eval())
		root.SetArgs(strings.Fields(line))
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		var usage program.UsageError
		if err := root.ExecuteContext(t.Context()); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", line, err)
		}
	}
	if left, _ := os.ReadDir("."); len(left) != 0 {
		t.Errorf("wrong usage left %v", left)
	}
}

// An error before anything was recorded stands alone.
func TestAnErrorHasNoResultBesideIt(t *testing.T) {
	rig := filepath.Join(t.TempDir(), "rig.yaml") // nothing listens at port 1
	text := "task: {name: x, subtasks: [x]}\ntracker: {address: \"127.0.0.1:1\"}\npedal: {path: nowhere}\n"
	if err := os.WriteFile(rig, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	root := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	root.AddCommand(Record())
	root.SetArgs([]string{"record", "--rig", rig, "--out", filepath.Join(t.TempDir(), "out"), "--connect-timeout", "100ms"})
	root.SetOut(&out)
	root.SetErr(io.Discard)
	var usage program.UsageError
	if err := root.ExecuteContext(t.Context()); err == nil || errors.As(err, &usage) || out.Len() > 0 {
		t.Errorf("got %v and the output %q", err, out.String())
	}
}

// The null device is a character device, but no terminal.
func TestTheNullDeviceIsNoTerminal(t *testing.T) {
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if terminal(f) || terminal(io.Discard) {
		t.Error("taken for a terminal")
	}
}
