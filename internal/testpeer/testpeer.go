// Package testpeer finds what tests compare against: Python libraries, programs and real recordings.
//
// Where a peer is missing the test skips and says why and what to do. With CI=true in the environment the same test fails
// instead, so that a green run means that every comparison was made.
package testpeer

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Python returns a Python interpreter that imports all the named modules, or skips the test. It is the project's virtual
// environment (`make peers`), or the interpreter that PINCH_PYTHON names.
func Python(t testing.TB, modules ...string) string {
	t.Helper()
	python := os.Getenv("PINCH_PYTHON")
	if python == "" {
		python = filepath.Join(Root(t), ".venv", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		missing(t, "no Python environment at %s%s; run `make peers`", python, whyNoVenv(t))
	}
	for _, m := range modules {
		if why := importFault(python, m); why != "" {
			missing(t, "Python module %s does not import (%s)%s; run `make peers`", m, why, whyNoVenv(t))
		}
	}
	return python
}

// Data returns the path of a folder or file of real recordings, given relative to PINCH_TEST_DATA (default: shared/data beside
// the repository), or skips the test.
func Data(t testing.TB, rel string) string {
	t.Helper()
	base := os.Getenv("PINCH_TEST_DATA")
	if base == "" {
		base = filepath.Join(Root(t), "..", "shared", "data")
	}
	path := filepath.Join(base, rel)
	if _, err := os.Stat(path); err != nil {
		missing(t, "no real recording at %s; set PINCH_TEST_DATA to the folder that holds %s", path, rel)
	}
	return path
}

// Program returns the path of an executable on the PATH, or skips the test; debian names the package that brings it.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "no program %s; run `apt-get install %s`", name, debian)
	}
	return path
}

// Root returns the repository's top directory: the nearest parent with a go.mod.
func Root(t testing.TB) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	for _, dir := range []string{filepath.Dir(here), "."} {
		if root, ok := rootAbove(dir); ok {
			return root
		}
	}
	t.Fatal("no go.mod above this package: run the tests inside the repository")
	return ""
}

func rootAbove(dir string) (string, bool) {
	dir, err := filepath.Abs(dir)
	for err == nil {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, true
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			break
		}
		dir = parent
	}
	return "", false
}

// missing skips the test, or fails it where a run must be complete.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// whyNoVenv returns the reason that the Makefile wrote down when it could not fill the environment.
func whyNoVenv(t testing.TB) string {
	data, err := os.ReadFile(filepath.Join(Root(t), "build", "peers-missing"))
	if err != nil {
		return ""
	}
	return ": " + strings.TrimSpace(string(data))
}

var (
	importsMu sync.Mutex
	imports   = map[[2]string]string{} // interpreter and module to the fault, empty when it imports
)

// importFault returns why a module does not import, or "". Importing takes up to seconds, so each answer is kept.
func importFault(python, module string) string {
	importsMu.Lock()
	defer importsMu.Unlock()
	key := [2]string{python, module}
	if why, known := imports[key]; known {
		return why
	}
	out, err := exec.Command(python, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])", module).CombinedOutput()
	why := ""
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if why = strings.TrimSpace(lines[len(lines)-1]); why == "" {
			why = err.Error()
		}
	}
	imports[key] = why
	return why
}
