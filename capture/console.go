package capture

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// console is what the operator sees: lines for what happens and, on a terminal, one status line that is kept up to date.
type console struct {
	w     io.Writer
	live  bool
	shown int // length of the status line on the screen
	last  frames.HostTime
}

func (c *console) line(format string, args ...any) {
	c.clear()
	fmt.Fprintf(c.w, format+"\n", args...)
}

func (c *console) clear() {
	if c.shown > 0 {
		fmt.Fprintf(c.w, "\r%s\r", strings.Repeat(" ", c.shown))
		c.shown = 0
	}
}

func (c *console) session(name string, e rawlog.SessionEvent) {
	switch e.Event {
	case rawlog.EventStart:
		c.line("recording %s: %s", name, e.Label)
	case rawlog.EventSubtask:
		c.line("  now: %s", e.Label)
	case rawlog.EventAccept, rawlog.EventReject:
		c.line("  %sed: %s", e.Event, e.Label)
	case rawlog.EventCancel:
		c.line("  ended early: %s", e.Label)
	}
}

// showStatus renews the status line twice a second.
func (e *engine) showStatus(now frames.HostTime) {
	if !e.opts.Live || now.Sub(e.console.last) < 500*time.Millisecond {
		return
	}
	e.console.last = now
	s := e.statusLine()
	pad := max(0, e.console.shown-len(s))
	fmt.Fprintf(e.console.w, "\r%s%s", s, strings.Repeat(" ", pad))
	e.console.shown = len(s)
}

// statusLine is state, frames received and lost per camera, messages by how safe they are, and faults.
func (e *engine) statusLine() string {
	var b strings.Builder
	switch {
	case !e.connected:
		b.WriteString("connecting")
	case e.state.recording:
		fmt.Fprintf(&b, "REC %d/%d %s", e.state.subtask+1, len(e.rig.Task.Subtasks), e.rig.Task.Subtasks[e.state.subtask])
	default:
		fmt.Fprintf(&b, "waiting, %d saved", len(e.res.Saved))
	}
	for _, d := range e.devices {
		if d.camera != nil {
			n := d.camera.Counts()
			fmt.Fprintf(&b, " | %s %d/%d lost", d.rig.Name, n.Frames, n.Bad)
		}
	}
	logged, durable := e.finished.Written, e.finished.Durable
	if e.rec != nil {
		s := e.rec.log.Stats()
		logged, durable = logged+s.Written, durable+s.Durable
	}
	fmt.Fprintf(&b, " | shown %d logged %d durable %d", e.shown, logged, durable)
	if f := e.gate.faults(); len(f) > 0 {
		b.WriteString(" | " + strings.Join(f, "; "))
	}
	return b.String()
}
