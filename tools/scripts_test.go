package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// machine is a folder that is the whole PATH: made-up programs, and the real ones that scripts need.
type machine struct{ bin, dir string }

func newMachine(t *testing.T, programs map[string]string) machine {
	t.Helper()
	m := machine{t.TempDir(), t.TempDir()}
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(m.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"sh", "env", "tail", "grep", "sed", "cmp", "cp", "rm", "mkdir", "mktemp", "touch", "cat"} {
		real, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(real, filepath.Join(m.bin, name)); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	return m
}

// run runs a script of this folder on the machine.
func (m machine) run(t *testing.T, script string, args ...string) (output string, ok bool) {
	t.Helper()
	path, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", append([]string{path}, args...)...)
	cmd.Dir, cmd.Env = m.dir, []string{"PATH=" + m.bin, "HOME=" + m.dir}
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// list writes a package list of the form of debian-packages.txt.
func list(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "list")
	if err := os.WriteFile(path, []byte("# packages\nlibone    for one thing\nlibtwo    for another\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// dpkg knows the packages whose names are files in the machine's folder; apt makes those files.
const (
	dpkg = `for p; do :; done; [ -e "installed-$p" ] && echo "ii " || exit 1`
	apt  = `echo "apt-get $*" >>calls; case "$1" in install) for p; do touch "installed-$p"; done;; esac`
	root = `echo 0`
	user = `echo 1000`
)

func (m machine) calls() string {
	data, _ := os.ReadFile(filepath.Join(m.dir, "calls"))
	return string(data)
}

func TestInstallNamesPackagesAndIsTwiceSafe(t *testing.T) {
	m := newMachine(t, map[string]string{"dpkg-query": dpkg, "apt-get": apt, "id": root})
	out, ok := m.run(t, "install-debian.sh", list(t))
	if !ok || !strings.Contains(out, "missing: libone (for one thing)") || !strings.Contains(out, "installed: libone libtwo") {
		t.Fatalf("first run:\n%s", out)
	}
	if want := "apt-get update -q\napt-get install -q -y --no-install-recommends libone libtwo\n"; m.calls() != want {
		t.Errorf("calls:\n%swant\n%s", m.calls(), want)
	}
	if out, ok := m.run(t, "install-debian.sh", list(t)); !ok || out != "" {
		t.Errorf("second run: %v\n%s", ok, out)
	}
	_ = os.Remove(filepath.Join(m.dir, "installed-libone"))
	if out, ok := m.run(t, "install-debian.sh", list(t)); !ok || strings.Contains(out, "libtwo") {
		t.Errorf("only one is missing: %v\n%s", ok, out)
	}
}

func TestInstallAsAUserGoesThroughSudo(t *testing.T) {
	m := newMachine(t, map[string]string{"dpkg-query": dpkg, "apt-get": apt, "id": user, "sudo": `echo "sudo $*" >>calls; "$@"`})
	if out, ok := m.run(t, "install-debian.sh", list(t)); !ok {
		t.Fatal(out)
	}
	if !strings.Contains(m.calls(), "sudo env DEBIAN_FRONTEND=noninteractive apt-get install") {
		t.Errorf("calls:\n%s", m.calls())
	}
}

func TestInstallFailsWithASentence(t *testing.T) {
	cases := map[string]struct {
		programs map[string]string
		want     string
	}{
		"no apt-get": {map[string]string{"dpkg-query": dpkg, "id": root}, "this machine has no apt-get; install the packages named above"},
		"no sudo":    {map[string]string{"dpkg-query": dpkg, "apt-get": apt, "id": user}, "needs root; run as root or install sudo, or ask an administrator for: apt-get install libone libtwo"},
		"no network": {map[string]string{"dpkg-query": dpkg, "apt-get": `echo "E: could not resolve host"; exit 100`, "id": root}, "apt-get update failed (last lines above)"},
		"no package": {map[string]string{"dpkg-query": dpkg, "apt-get": `[ "$1" = update ] || { echo "E: unable to locate package libone"; exit 100; }`, "id": root}, "apt-get install failed (last lines above)"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, ok := newMachine(t, c.programs).run(t, "install-debian.sh", list(t))
			if ok || !strings.Contains(out, c.want) || !strings.Contains(out, "make: ") {
				t.Errorf("ok %v:\n%s", ok, out)
			}
		})
	}
}

func TestGoIsCheckedWithASentence(t *testing.T) {
	m := newMachine(t, nil)
	if err := os.WriteFile(filepath.Join(m.dir, "go.mod"), []byte("module x\n\ngo 1.26.0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, ok := m.run(t, "check-go.sh"); ok || !strings.Contains(out, "Go is not installed; get Go 1.26.0 or newer") {
		t.Errorf("no go: %v\n%s", ok, out)
	}
	old := newMachine(t, map[string]string{"go": `echo "go: download go1.26.0: no network" >&2; exit 1`})
	old.dir = m.dir
	if out, ok := old.run(t, "check-go.sh"); ok || !strings.Contains(out, "can not provide version 1.26.0") {
		t.Errorf("old go: %v\n%s", ok, out)
	}
}

// Where PyPI can not be reached the script succeeds, says so, and leaves the reason for the tests that skip; later, with a network,
// the note goes.
func TestPeersWithoutANetworkLeaveTheReason(t *testing.T) {
	venv := `mkdir -p .venv/bin; printf '#!/bin/sh\nif [ -e online ]; then exit 0; fi\necho "ERROR: No matching distribution found for numpy"; exit 1\n' >.venv/bin/python; ` +
		`/bin/chmod +x .venv/bin/python`
	m := newMachine(t, map[string]string{"python3": venv})
	if err := os.MkdirAll(filepath.Join(m.dir, "tools", "python"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "tools", "python", "requirements.txt"), []byte("# peers\nnumpy==1.26.4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	reason := filepath.Join(m.dir, "build", "peers-missing")
	out, ok := m.run(t, "peers.sh")
	note, _ := os.ReadFile(reason)
	if !ok || !strings.Contains(string(note), "pip install failed: ERROR: No matching distribution found for numpy") || !strings.Contains(out, "installing into .venv: numpy==1.26.4") {
		t.Fatalf("ok %v, note %q:\n%s", ok, note, out)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "online"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for run := range 2 {
		out, ok := m.run(t, "peers.sh")
		if _, err := os.Stat(reason); !ok || err == nil {
			t.Errorf("online run %d: ok %v, note still there %v:\n%s", run, ok, err == nil, out)
		}
		if run == 1 && out != "" {
			t.Errorf("a filled environment is filled again:\n%s", out)
		}
	}
}

// Every package that a list names has its reason beside it.
func TestListsGiveReasons(t *testing.T) {
	for _, name := range []string{"debian-packages.txt", "debian-packages-test.txt"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
			if !strings.HasPrefix(line, "#") && len(strings.Fields(line)) < 3 {
				t.Errorf("%s: %q says no reason", name, line)
			}
		}
	}
}
