package testpeer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a testing.TB that notes how a test ended instead of ending it.
type recorder struct {
	testing.TB
	verdict, text string
}

type ended struct{}

func (r *recorder) Helper() {}
func (r *recorder) Skipf(format string, args ...any) {
	r.verdict, r.text = "skip", fmt.Sprintf(format, args...)
	panic(ended{})
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.verdict, r.text = "fail", fmt.Sprintf(format, args...)
	panic(ended{})
}

func outcome(t *testing.T, f func(testing.TB)) *recorder {
	r := &recorder{TB: t, verdict: "pass"}
	func() {
		defer func() {
			if p := recover(); p != nil && p != (ended{}) {
				panic(p)
			}
		}()
		f(r)
	}()
	return r
}

func TestMissingPeersSkipHereAndFailInCI(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PINCH_TEST_DATA", empty)
	t.Setenv("PINCH_PYTHON", filepath.Join(empty, "python"))
	peers := map[string]func(testing.TB){
		"make peers":           func(tb testing.TB) { Python(tb, "numpy") },
		"set PINCH_TEST_DATA":  func(tb testing.TB) { Data(tb, "real/none") },
		"apt-get install nano": func(tb testing.TB) { Program(tb, "no-such-program", "nano") },
	}
	for ci, want := range map[string]string{"": "skip", "true": "fail"} {
		t.Setenv("CI", ci)
		for fix, peer := range peers {
			if got := outcome(t, peer); got.verdict != want || !strings.Contains(got.text, fix) {
				t.Errorf("CI=%q, %s: got %s with %q", ci, fix, got.verdict, got.text)
			}
		}
	}
}

func TestPythonNamesTheModuleThatDoesNotImport(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "python")
	script := "#!/bin/sh\n[ \"$3\" = numpy ] && exit 0\necho Traceback; echo \"ModuleNotFoundError: No module named '$3'\"; exit 1\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PINCH_PYTHON", fake)
	t.Setenv("CI", "")
	if got := outcome(t, func(tb testing.TB) { Python(tb, "numpy") }); got.verdict != "pass" {
		t.Errorf("numpy: %s %s", got.verdict, got.text)
	}
	got := outcome(t, func(tb testing.TB) { Python(tb, "numpy", "pyarrow") })
	if got.verdict != "skip" || !strings.Contains(got.text, "No module named 'pyarrow'") {
		t.Errorf("pyarrow: %s %s", got.verdict, got.text)
	}
}

func TestDataPrefersTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PINCH_TEST_DATA", dir)
	if got := Data(t, "real"); got != filepath.Join(dir, "real") {
		t.Errorf("got %s", got)
	}
}

func TestRootHoldsTheModule(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(Root(t), "go.mod"))
	if err != nil || !strings.HasPrefix(string(data), "module github.com/pinch-robotics/pinch") {
		t.Errorf("root %s: %v", Root(t), err)
	}
}
