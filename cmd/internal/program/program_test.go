package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// verbThat makes a verb that returns an error.
func verbThat(name string, err error) *cobra.Command {
	return &cobra.Command{Use: name, Short: name, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return err }}
}

func testRoot(ctx context.Context) *cobra.Command {
	return Root("pinch", "short", "long",
		verbThat("fine", nil),
		verbThat("found", ErrFound),
		verbThat("broken", errors.New("read x.yaml: no such file")),
		verbThat("misused", Usage("--out: name a folder")),
		verbThat("paused", fmt.Errorf("train: %w; go on with --resume", context.Canceled)),
		verbThat("stopped", fmt.Errorf("train: %w", context.Canceled)),
		Group("dataset", "datasets", verbThat("check", nil), verbThat("info", nil)))
}

func TestErrorsBecomeStatuses(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	cases := []struct {
		ctx    context.Context
		args   []string
		status int
		stderr string
	}{
		{t.Context(), []string{"fine"}, 0, ""},
		{t.Context(), []string{"found"}, 3, ""},
		{t.Context(), []string{"broken"}, 1, "pinch: read x.yaml: no such file\n"},
		{t.Context(), []string{"misused"}, 2, "pinch: --out: name a folder\n"},
		{t.Context(), []string{"fine", "--fast"}, 2, "unknown flag: --fast"},
		{t.Context(), []string{"fine", "extra"}, 2, "pinch fine: unknown command"},
		{t.Context(), []string{"brokne"}, 2, `unknown verb "brokne"; the nearest is "broken"`},
		{t.Context(), []string{"zzzzzzzzz"}, 2, `unknown verb "zzzzzzzzz"; there are broken, dataset, fine, found, misused, paused, stopped`},
		{t.Context(), []string{"dataset"}, 2, "say what to do: check, info"},
		{t.Context(), []string{"dataset", "chek"}, 2, `the nearest is "check"`},
		{cancelled, []string{"stopped"}, 130, "pinch: interrupted\n"},
		{cancelled, []string{"paused"}, 130, "pinch: interrupted; go on with --resume\n"},
		{t.Context(), []string{"stopped"}, 1, "train: context canceled"}, // nobody interrupted: it is a fault
		{t.Context(), nil, 0, ""},
		{t.Context(), []string{"--help"}, 0, ""},
	}
	for _, c := range cases {
		root := testRoot(c.ctx)
		var out, errOut bytes.Buffer
		root.SetArgs(c.args)
		if c.args == nil {
			root.SetArgs([]string{})
		}
		root.SetOut(&out)
		root.SetErr(&errOut)
		status := Run(c.ctx, root, &errOut)
		if status != c.status || !strings.Contains(errOut.String(), c.stderr) || c.stderr == "" && errOut.Len() > 0 {
			t.Errorf("%v: status %d with %q, want %d with %q", c.args, status, errOut.String(), c.status, c.stderr)
		}
	}
}

// Every verb of every program ends its long help with the exit statuses; the table of helpers has each verb once.
func TestHelperTable(t *testing.T) {
	seen := map[string]bool{}
	for _, h := range Helpers {
		for _, v := range h.Verbs {
			if seen[v.Name] || v.Short == "" {
				t.Errorf("verb %q of %s stands twice or has no description", v.Name, h.Name)
			}
			seen[v.Name] = true
		}
	}
	for _, want := range strings.Fields("record sim ingest dataset train serve deploy home eval bench") {
		if !seen[want] {
			t.Errorf("no helper has the verb %q", want)
		}
	}
}

func TestAMissingHelperIsOneError(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(self))
	if err != nil {
		t.Fatal(err)
	}
	_, err = HelperPath("pinch-rig")
	if want := fmt.Sprintf("the helper program pinch-rig is not at %s/pinch-rig; run `make build`", dir); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	// A file that is no program is none either.
	path := filepath.Join(dir, "pinch-node")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if _, err := HelperPath("pinch-node"); err == nil {
		t.Error("a file without the executable bit was taken for the helper")
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := HelperPath("pinch-node"); err != nil || got != path {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestEpisodeLists(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "0-2": {0, 1, 2}, "1, 5,7-8": {1, 5, 7, 8}} {
		if got, err := ParseEpisodes(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", list, got, err)
		}
	}
	var usage UsageError
	for _, list := range []string{"x", "3-1", "-1", "1,,2", "0-9999999999", "5000000", "0-99999999999999999999"} {
		if got, err := ParseEpisodes(list); !errors.As(err, &usage) {
			t.Errorf("%q: %d episodes, %v", list, len(got), err)
		}
	}
}

func TestNumbersOutOfRangeAreUsage(t *testing.T) {
	var usage UsageError
	for _, v := range []float64{math.NaN(), math.Inf(1), -1, 11} {
		if err := CheckNumber("--speed", v, 0, 10); !errors.As(err, &usage) || !strings.Contains(err.Error(), "--speed") {
			t.Errorf("%v: %v", v, err)
		}
	}
	for _, v := range []int{-1, 11} {
		if err := CheckCount("--clients", v, 0, 10); !errors.As(err, &usage) {
			t.Errorf("%v: %v", v, err)
		}
	}
	if err := errors.Join(CheckNumber("--speed", 0, 0, 10), CheckNumber("--speed", 10, 0, 10), CheckCount("--clients", 10, 0, 10)); err != nil {
		t.Error(err)
	}
}
