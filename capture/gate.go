package capture

import (
	"fmt"
	"slices"
	"time"
)

// gate watches the devices and tells what is wrong. It takes no clock: each device is judged on a time axis of its own, the shared device
// clock where there is one (so that a simulation at any speed is judged the same), else host time.
//
// A fault begins when its condition held for FailAfter without a break, and ends when it was absent for RecoverHold without a break:
// one bad sample stops nothing, and one good one heals nothing. Every sample counts, not only the newest at an instant.
type gate struct {
	cfg     Gate
	devices []watched
}

// watched is one device under watch. Times are nanoseconds of its axis.
type watched struct {
	name   string
	rateHz float64 // 0: no rate is expected (pedal)

	first, last int64
	seen        bool
	times       []int64 // of the samples in the rate window
	bad         [2]bool // a sample since the last judgement had this fault (tracked, jump), by side
	silent      debounced
	slow        debounced
	marks       [2]debounced
}

// debounced is one condition with its two holds.
type debounced struct {
	fault bool
	since int64 // when the raw condition began to differ from fault
	moved bool  // since is set
}

// update judges the raw condition at time now and tells whether fault changed.
func (d *debounced) update(now int64, bad bool, failAfter, recoverHold time.Duration) bool {
	if bad == d.fault {
		d.moved = false
		return false
	}
	if !d.moved {
		d.moved, d.since = true, now
	}
	hold := failAfter
	if d.fault {
		hold = recoverHold
	}
	if now-d.since < int64(hold) {
		return false
	}
	d.fault, d.moved = bad, false
	return true
}

func newGate(cfg Gate, names []string, ratesHz []float64) *gate {
	g := &gate{cfg: cfg, devices: make([]watched, len(names))}
	for i := range names {
		g.devices[i] = watched{name: names[i], rateHz: ratesHz[i]}
	}
	return g
}

// sample notes one reading of a device at time at of its axis. untracked marks faults of the reading itself, by side.
func (g *gate) sample(device int, at int64, untracked [2]bool) {
	d := &g.devices[device]
	if !d.seen {
		d.seen, d.first = true, at
	}
	d.last = max(d.last, at)
	for i, u := range untracked {
		d.bad[i] = d.bad[i] || u
	}
	if d.rateHz > 0 {
		d.times = append(d.times, at)
		d.trim(at, g.cfg.RateWindow)
	}
}

func (d *watched) trim(now int64, window time.Duration) {
	n := 0
	for n < len(d.times) && d.times[n] <= now-int64(window) {
		n++
	}
	d.times = d.times[n:]
}

// judge brings one device's conditions up to time now of its axis. start is when the session began on that axis.
func (g *gate) judge(device int, now, start int64) {
	d := &g.devices[device]
	settled := now-start >= int64(g.cfg.Settle)
	silent := settled && (!d.seen || now-d.last > int64(g.cfg.SilentAfter))
	if d.rateHz > 0 {
		d.silent.update(now, silent, 0, g.cfg.RecoverHold) // silent_after is its failure hold
		d.trim(now, g.cfg.RateWindow)
		full := d.seen && now-d.first >= int64(g.cfg.RateWindow)
		rate := float64(len(d.times)) / g.cfg.RateWindow.Seconds()
		d.slow.update(now, settled && full && rate < g.cfg.MinRate*d.rateHz, g.cfg.FailAfter, g.cfg.RecoverHold)
	}
	for i := range d.marks {
		d.marks[i].update(now, g.cfg.NeedTracked && d.bad[i], g.cfg.FailAfter, g.cfg.RecoverHold)
		d.bad[i] = false
	}
}

// missing lists the devices that never sent anything.
func (g *gate) missing() []string {
	var out []string
	for _, d := range g.devices {
		if !d.seen && d.rateHz > 0 {
			out = append(out, d.name)
		}
	}
	return out
}

// faults lists what is wrong now, in words, sorted.
func (g *gate) faults() []string {
	var out []string
	for i := range g.devices {
		d := &g.devices[i]
		switch {
		case d.silent.fault:
			out = append(out, d.name+" is silent")
		case d.slow.fault:
			out = append(out, fmt.Sprintf("%s is slow: %.1f of %g Hz", d.name, float64(len(d.times))/g.cfg.RateWindow.Seconds(), d.rateHz))
		}
		for s, m := range d.marks {
			if m.fault {
				out = append(out, fmt.Sprintf("%s does not track the %s controller", d.name, sides[s]))
			}
		}
	}
	slices.Sort(out)
	return out
}
