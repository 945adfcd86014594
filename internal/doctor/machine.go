package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// This returns the machine that the program runs on; helperPath finds the helper programs.
func This(helperPath func(name string) (string, error)) Machine {
	return this{helperPath}
}

type this struct{ helperPath func(string) (string, error) }

func (this) ReadFile(path string) ([]byte, error)             { return os.ReadFile(path) }
func (this) LookPath(name string) (string, error)             { return exec.LookPath(name) }
func (this) Getenv(name string) string                        { return os.Getenv(name) }
func (t this) HelperPath(name string) (string, error)         { return t.helperPath(name) }
func (this) CheckLibraries(c context.Context, p string) error { return CheckLibraries(c, p) }

func (this) Glob(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // the only error is a bad pattern, and ours are constants
	return paths
}

// outputTimeout bounds each started program: a graphics driver in a bad state can hang its tools.
const outputTimeout = 20 * time.Second

func (this) Output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, outputTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	return string(out), err
}

func (this) FreeBytes(path string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("free space at %s: %w", path, err)
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}
