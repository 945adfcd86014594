// Package demo is the script behind `pinch demo`: other verbs, run one after the other as processes of their own, each with its
// result in one output folder. Stages that are done are not run again, and a stage that was interrupted goes on.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/cmd/internal/child"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// stage is one step of the script.
type stage struct {
	name  string
	about string
	// settings is what the result depends on; a folder made with other settings is not mixed with this one.
	settings string
	run      func(ctx context.Context, r *runner) error
}

// runner runs stages and remembers which are done.
type runner struct {
	out     string // output folder
	console io.Writer
	now     func() time.Time
	helper  func(name string) (string, error)
	lock    *folderlock.Lock
	log     io.WriteCloser // of the stage under way
	done    map[string]finished
}

// finished is a stage that is done, as stages.json keeps it.
type finished struct {
	Settings string  `json:"settings"`
	Seconds  float64 `json:"seconds"`
}

const stateFile = "stages.json"

// newRunner opens the output folder and holds it until its lock is released.
func newRunner(o Options) (_ *runner, err error) {
	r := &runner{out: o.Out, console: o.Console, now: o.Now, helper: o.Helper, done: map[string]finished{}}
	if err := os.MkdirAll(filepath.Join(o.Out, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("make the demo's folder: %w", err)
	}
	if r.lock, err = folderlock.Take(o.Out); err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() {
		if err != nil {
			r.lock.Release()
		}
	}()
	data, err := os.ReadFile(filepath.Join(o.Out, stateFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("read what the demo has done: %w", err)
	}
	if err := json.Unmarshal(data, &r.done); err != nil {
		return nil, fmt.Errorf("read what the demo has done: %s: %w", filepath.Join(o.Out, stateFile), err)
	}
	return r, nil
}

// check refuses a folder in which a stage was done with other settings, before anything runs.
func (r *runner) check(stages []stage) error {
	for _, s := range stages {
		if old, ok := r.done[s.name]; ok && old.Settings != s.settings {
			return fmt.Errorf("%s: the stage %q was done there with other settings (%s, now %s); give another --out or delete the folder",
				r.out, s.name, old.Settings, s.settings)
		}
	}
	return nil
}

// all runs the stages that are not done.
func (r *runner) all(ctx context.Context, stages []stage) error {
	if err := r.check(stages); err != nil {
		return err
	}
	begin := r.now()
	for i, s := range stages {
		head := fmt.Sprintf("[%d/%d] %-8s", i+1, len(stages), s.name)
		if old, ok := r.done[s.name]; ok {
			fmt.Fprintf(r.console, "%s done before, in %s\n", head, clock(old.Seconds))
			continue
		}
		fmt.Fprintf(r.console, "%s %s\n", head, s.about)
		start := r.now()
		if err := r.one(ctx, s); err != nil {
			return err
		}
		took := r.now().Sub(start).Seconds()
		r.done[s.name] = finished{s.settings, took}
		if err := r.save(); err != nil {
			return err
		}
		fmt.Fprintf(r.console, "%s done in %s (%s in all)\n", head, clock(took), clock(r.now().Sub(begin).Seconds()))
	}
	return nil
}

func (r *runner) one(ctx context.Context, s stage) error {
	path := filepath.Join(r.out, "logs", s.name+".log")
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of stage %s: %w", s.name, err)
	}
	defer log.Close()
	r.log = log
	if err := s.run(ctx, r); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w; the same command goes on from here", ctx.Err())
		}
		return fmt.Errorf("stage %s: %w\n(its whole output is in %s)", s.name, err, path)
	}
	return nil
}

func (r *runner) save() error {
	data, err := json.MarshalIndent(r.done, "", "  ")
	if err != nil {
		return fmt.Errorf("note what the demo has done: %w", err)
	}
	return atomicfile.WriteFile(filepath.Join(r.out, stateFile), append(data, '\n'), 0o644)
}

// path is a path in the output folder.
func (r *runner) path(parts ...string) string {
	return filepath.Join(append([]string{r.out}, parts...)...)
}

// verb runs a verb of a helper to its end. Its output goes to the stage's log, and its progress to the console.
func (r *runner) verb(ctx context.Context, helper string, args ...string) error {
	c, err := r.start(ctx, nil, helper, args...)
	if err != nil {
		return err
	}
	return c.Wait(ctx)
}

// start starts a verb that goes on beside others; ready is filled from its announcement.
func (r *runner) start(ctx context.Context, ready any, helper string, args ...string) (*child.Child, error) {
	path, err := r.helper(helper)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.console, "        $ pinch %s\n", strings.Join(args, " "))
	fmt.Fprintf(r.log, "$ pinch %s\n", strings.Join(args, " "))
	progress := &progress{w: r.console, now: r.now}
	return child.Start(ctx, child.Options{Path: path, Args: args, Log: io.MultiWriter(r.log, progress), Ready: ready})
}

// print runs a verb whose output is for the console.
func (r *runner) print(ctx context.Context, helper string, args ...string) error {
	path, err := r.helper(helper)
	if err != nil {
		return err
	}
	c, err := child.Start(ctx, child.Options{Path: path, Args: args, Log: r.console})
	if err != nil {
		return err
	}
	return c.Wait(ctx)
}

// clock prints a span as minutes and seconds.
func clock(seconds float64) string {
	s := int(seconds + 0.5)
	return fmt.Sprintf("%d:%02d min", s/60, s%60)
}

// progressEvery is how often a line of a verb's output reaches the console: enough to see that it goes on.
const progressEvery = 10 * time.Second

// progress passes on one line now and then. A verb may draw over a line with carriage returns; its last state counts.
type progress struct {
	w   io.Writer
	now func() time.Time

	mu   sync.Mutex
	part []byte
	last time.Time
}

// Write takes output of a verb.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		p.last = p.now()
	}
	p.part = append(p.part, b...)
	for {
		end := bytes.IndexAny(p.part, "\r\n")
		if end < 0 {
			return len(b), nil
		}
		line := strings.TrimSpace(string(p.part[:end]))
		p.part = p.part[end+1:]
		if line != "" && p.now().Sub(p.last) >= progressEvery {
			p.last = p.now()
			fmt.Fprintf(p.w, "        %s\n", line)
		}
	}
}
