package rig

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
)

// watcher shows a run while it drives: a block that is drawn over itself at a terminal, else a line now and then.
type watcher struct {
	out      io.Writer
	now      func() time.Time
	terminal bool

	lines  int // drawn and to be drawn over
	last   time.Time
	before deploy.View
	rates  [3]float64 // steps and pictures per second of this machine's clock
}

// The block is drawn that often, a line is written that often.
const (
	drawEvery = 200 * time.Millisecond
	lineEvery = 5 * time.Second
)

func newWatcher(out io.Writer, now func() time.Time) *watcher {
	return &watcher{out: out, now: now, terminal: terminal(out)}
}

// show takes a view, and draws it unless it has just drawn one.
func (w *watcher) show(v deploy.View) {
	every := lineEvery
	if w.terminal {
		every = drawEvery
	}
	now := w.now()
	passed := now.Sub(w.last)
	if !w.last.IsZero() && passed < every {
		return
	}
	if s := passed.Seconds(); !w.last.IsZero() && s > 0 {
		w.rates = [3]float64{float64(v.Steps-w.before.Steps) / s, float64(v.Frames[0]-w.before.Frames[0]) / s, float64(v.Frames[1]-w.before.Frames[1]) / s}
	}
	w.last, w.before = now, v
	if !w.terminal {
		fmt.Fprintln(w.out, strings.Join(w.text(v), "; "))
		return
	}
	var b strings.Builder
	if w.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", w.lines)
	}
	text := w.text(v)
	for _, l := range text {
		fmt.Fprintf(&b, "\x1b[2K%s\n", l)
	}
	w.lines = len(text)
	_, _ = io.WriteString(w.out, b.String())
}

// end leaves the last block standing.
func (w *watcher) end() { w.lines = 0 }

// text is the view in lines.
func (w *watcher) text(v deploy.View) []string {
	table := "clear"
	if !math.IsInf(v.TableRoomM, 1) {
		table = fmt.Sprintf("%.0f mm", 1e3*v.TableRoomM)
	}
	last := "none"
	if v.LastEvent != "" {
		last = fmt.Sprintf("%s (at %.1f s)", v.LastEvent, v.LastEventTime.Seconds())
	}
	return []string{
		fmt.Sprintf("%.1f s %q, left %s, right %s, speed %.0f %%", v.Elapsed.Seconds(), v.Prompt, v.Modes[0], v.Modes[1], 100*v.Rate),
		fmt.Sprintf("rates: control %.0f Hz, cameras %.1f and %.1f Hz", w.rates[0], w.rates[1], w.rates[2]),
		fmt.Sprintf("policy: %.0f ms (longest %.0f), chunk %.0f ms old, %.0f rows left; %d taken, %d rejected, ran out %d times", ms(v.PolicyP50), ms(v.PolicyMax), ms(v.ChunkAge),
			v.RowsLeft, v.Chunks, v.Rejected, v.Starved),
		fmt.Sprintf("room: %.2f rad to the end of %s, arms %.0f mm apart, table %s, fastest joint at %.0f %% of its limit, %.3f rad behind", v.JointRoomRad, v.JointName,
			1e3*v.ArmDistanceM, table, 100*v.SpeedShare, v.FollowingRad),
		"last: " + last,
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }
