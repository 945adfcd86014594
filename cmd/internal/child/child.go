// Package child starts programs of ours as child processes: the simulated cell for an evaluation, a policy server for the demo.
package child

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options of a child.
type Options struct {
	Path string // program
	Args []string
	Env  []string  // added to the environment
	Log  io.Writer // gets both outputs but the announcement; nil: thrown away
	// Ready is filled from the announcement, the first line of the output that is a JSON object; nil: do not wait for one.
	Ready any
}

// Child is a running child process. It gets SIGTERM when this process dies.
type Child struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
	err  error         // of its end, valid after done
	tail *tail
}

// stopPatience is how long a child may take to end after SIGTERM.
const stopPatience = 10 * time.Second

// Start starts a child and waits for its announcement. When ctx ends before that, or the child does, it is stopped and the error
// has the last lines that it wrote.
func Start(ctx context.Context, o Options) (*Child, error) {
	cmd := exec.Command(o.Path, o.Args...)
	cmd.Env = append(os.Environ(), o.Env...)
	// A process group of its own: a Ctrl-C in the terminal reaches this process, which stops its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	c := &Child{name: strings.TrimSpace(o.Path + " " + strings.Join(o.Args, " ")), cmd: cmd, done: make(chan struct{}), tail: &tail{}}
	log := io.Writer(c.tail)
	if o.Log != nil {
		log = io.MultiWriter(c.tail, &locked{w: o.Log})
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	announced := make(chan error, 1)
	go func() {
		c.read(out, log, o.Ready, announced)
		c.err = cmd.Wait()
		close(c.done)
	}()
	if o.Ready == nil {
		return c, nil
	}
	select {
	case err = <-announced:
	case <-c.done:
		err = errors.New("it ended before it was ready")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Stop()
		return nil, fmt.Errorf("start %s: %w%s", c.name, err, c.tail.text())
	}
	return c, nil
}

// read copies the output to the log and looks for the announcement in it.
func (c *Child) read(out io.Reader, log io.Writer, ready any, announced chan<- error) {
	scan := bufio.NewScanner(out)
	scan.Buffer(nil, 1<<20)
	waiting := ready != nil
	for scan.Scan() {
		line := scan.Bytes()
		if waiting && bytes.HasPrefix(line, []byte("{")) {
			waiting = false
			announced <- json.Unmarshal(line, ready)
			continue
		}
		_, _ = log.Write(append(line, '\n'))
	}
	_, _ = io.Copy(io.Discard, out) // after an overlong line
}

// Done is closed when the child has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait waits for the child's own end. When ctx ends first the child is stopped and the error is ctx's.
func (c *Child) Wait(ctx context.Context) error {
	select {
	case <-c.done:
	case <-ctx.Done():
		_ = c.Stop()
		return ctx.Err()
	}
	return c.own()
}

// own is the error with which an ended child ended, with the last lines that it wrote.
func (c *Child) own() error {
	if c.err != nil {
		return fmt.Errorf("%s: %w%s", c.name, c.err, c.tail.text())
	}
	return nil
}

// Finish waits for a child that ends by itself now, such as a server whose last client has left, and returns its own error; it stops
// a child that does not end.
func (c *Child) Finish() error {
	select {
	case <-c.done:
		return c.own()
	case <-time.After(stopPatience):
		return c.Stop()
	}
}

// Stop asks the child to end, kills it if it does not within ten seconds, and waits. It may be called again.
func (c *Child) Stop() error {
	select {
	case <-c.done:
		return nil
	default:
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
		return nil
	case <-time.After(stopPatience):
	}
	_ = c.cmd.Process.Kill()
	<-c.done
	return fmt.Errorf("%s did not end within %v and was killed", c.name, stopPatience)
}

// tailLines is how many of a child's last lines an error quotes.
const tailLines = 6

// tail keeps the last lines written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps the end of what was written.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - 4096; over > 0 {
		t.kept = t.kept[over:]
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.kept)), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "; it wrote:\n  " + strings.Join(lines, "\n  ")
}

// locked serialises writes from the two output streams.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

// Write passes on.
func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
