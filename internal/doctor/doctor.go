// Package doctor looks at the machine and says what pinch can use of it, and what to do about the rest. It is pure Go and links
// no native library, so that it can report one that does not load.
//
// Every check reads files or starts a program through Machine, so tests give it a made-up machine.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// State is the outcome of one check.
type State string

// Outcomes. Missing means that a verb named in the line does not work; Absent that something optional is not there.
const (
	OK      State = "ok"
	Missing State = "missing"
	Absent  State = "absent"
)

// Line is one line of the report.
type Line struct {
	Topic  string `json:"topic"` // what was looked for, such as "OpenCV"
	State  State  `json:"state"`
	Detail string `json:"detail"`        // what was found: versions, paths, counts
	Fix    string `json:"fix,omitempty"` // what to do, when the state is not OK
}

// Report is all lines, in a fixed order.
type Report struct {
	Lines []Line `json:"lines"`
}

// OK tells whether nothing is missing; absent options do not count.
func (r Report) OK() bool {
	for _, l := range r.Lines {
		if l.State == Missing {
			return false
		}
	}
	return true
}

// WriteText prints the report for people: a column each for state and topic, the fix under its line.
func (r Report) WriteText(w io.Writer) error {
	for _, l := range r.Lines {
		if _, err := fmt.Fprintf(w, "%-8s %-14s %s\n", l.State, l.Topic, l.Detail); err != nil {
			return err
		}
		if l.Fix == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%-8s %-14s fix: %s\n", "", "", l.Fix); err != nil {
			return err
		}
	}
	return nil
}

// Machine is what the checks look at.
type Machine interface {
	// ReadFile reads a file such as /proc/driver/nvidia/version.
	ReadFile(path string) ([]byte, error)
	// Glob lists paths, as filepath.Glob does.
	Glob(pattern string) []string
	// LookPath finds a program.
	LookPath(name string) (string, error)
	// Output runs a program and returns its output and error output together.
	Output(ctx context.Context, name string, args ...string) (string, error)
	// FreeBytes is the space that is free for the user where path lies, and the size of that file system.
	FreeBytes(path string) (free, total uint64, err error)
	// Getenv reads the environment.
	Getenv(name string) string
	// HelperPath finds a program of ours beside the running one.
	HelperPath(name string) (string, error)
	// CheckLibraries asks the loader whether a program's native libraries are there.
	CheckLibraries(ctx context.Context, path string) error
}

// Examine runs every check. dir is where recordings would go, for the disk line.
func Examine(ctx context.Context, m Machine, dir string) Report {
	var r Report
	for _, check := range []func(context.Context, Machine) []Line{
		system, codecs, helpers, plugins, gpus, cameras, serialPorts, realTime,
	} {
		r.Lines = append(r.Lines, check(ctx, m)...)
	}
	r.Lines = append(r.Lines, disk(m, dir))
	return r
}

// firstLine is the first line of a program's output.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}
