package capture

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/device"
	"github.com/pinch-robotics/pinch/internal/device/camera"
	"github.com/pinch-robotics/pinch/internal/device/tracker"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// judgeEvery is how often the gate judges, on the axis of each device.
const judgeEvery = 100 * time.Millisecond

// watch shows one event to the gate and, on a shared clock, lets the gate judge when that clock has gone on.
func (e *engine) watch(ev event) {
	d := e.devices[ev.source]
	if f, ok := ev.body.(camera.Frame); ok && f.Bad {
		return // a damaged frame is as good as none
	}
	var untracked [2]bool
	if r, ok := ev.body.(tracker.Reading); ok {
		for i, c := range r.Controllers {
			untracked[i] = !c.HasPose || !c.Tracked || !c.Valid || r.Jump[i]
		}
	}
	if !e.merge.shared(ev.source) || !ev.timed {
		e.gate.sample(ev.source, int64(ev.host), untracked)
		return
	}
	if _, ok := e.firstTime[d.clock]; !ok {
		e.firstTime[d.clock], e.judgedAt[d.clock] = ev.device, ev.device
	}
	e.newest[d.clock] = max(e.newest[d.clock], ev.device)
	e.gate.sample(ev.source, int64(ev.device), untracked)
	if ev.device.Sub(e.judgedAt[d.clock]) >= judgeEvery {
		e.judgedAt[d.clock] = ev.device
		for i, x := range e.devices {
			if x.clock == d.clock {
				e.gate.judge(i, int64(ev.device), int64(e.firstTime[d.clock]))
			}
		}
		e.noteFaults(instant{ev.device, ev.host})
	}
}

// tick does what depends on host time only.
func (e *engine) tick() error {
	now := e.clock()
	if err := e.drain(now); err != nil { // devices may have run out of patience
		return err
	}
	for i := range e.devices {
		if !e.merge.shared(i) {
			e.gate.judge(i, int64(now), int64(e.begun))
		}
	}
	e.noteFaults(e.now())
	if err := e.checkConnected(now); err != nil {
		return err
	}
	if e.rec != nil {
		if err := e.rec.log.Err(); err != nil {
			return err
		}
	}
	if e.pedalDone && now.Sub(e.lastEvent) > time.Second {
		e.merge.flush() // nothing more comes: whatever waits may pass
		if err := e.drain(now); err != nil {
			return err
		}
		if e.rec != nil && e.closing == nil {
			if err := e.apply(e.state.stop("the rig ended the session"), e.now()); err != nil {
				return err
			}
		}
	}
	e.showStatus(now)
	return e.maybeFinish()
}

// checkConnected gives up when a device has not answered in time.
func (e *engine) checkConnected(now frames.HostTime) error {
	if e.connected {
		return nil
	}
	var missing []string
	for _, d := range e.devices {
		if d.state == device.Connecting {
			why := "it sends nothing: check its power and settings"
			if d.err != nil {
				why = d.err.Error()
			}
			missing = append(missing, d.name+": "+why)
		}
	}
	if len(missing) == 0 {
		e.connected = true
		e.console.line("connected to %d devices; press accept to start", len(e.devices))
		return nil
	}
	if now.Sub(e.begun) < e.opts.ConnectTimeout {
		return nil
	}
	return fmt.Errorf("no answer within %v from %s", e.opts.ConnectTimeout, strings.Join(missing, "; and from "))
}

// noteFaults writes faults that began during a recording into it, once each.
func (e *engine) noteFaults(at instant) {
	if e.rec == nil || e.closing != nil {
		return
	}
	now := e.gate.faults()
	for f := range e.faults {
		if !slices.ContainsFunc(now, func(s string) bool { return faultKind(s) == f }) {
			delete(e.faults, f)
		}
	}
	for _, f := range now {
		if e.faults[faultKind(f)] {
			continue
		}
		e.faults[faultKind(f)] = true
		e.res.Faults++
		e.console.line("warning: %s", f)
		// A failure of the log shows at the next write.
		_ = e.rec.event(rawlog.SessionEvent{Event: rawlog.EventFault, Label: f, Subtask: e.state.subtask}, e.axis.clock, at.host, at.device)
	}
}

// faultKind is a fault without its numbers.
func faultKind(f string) string {
	kind, _, _ := strings.Cut(f, ":")
	return kind
}

// checkFree refuses to begin on a disk that is nearly full.
func checkFree(dir string, least int64) error {
	if least <= 0 {
		return nil
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, os.NewSyscallError("statfs", err))
	}
	if free := int64(st.Bavail) * st.Bsize; free < least {
		return fmt.Errorf("the disk of %s is nearly full: %d MB free, %d MB wanted; free some space or choose another folder", dir, free>>20, least>>20)
	}
	return nil
}
