package pedal

import (
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// debounce drops the chatter of a switch: after an accepted change of a button, further changes within hold are held back, and the level at
// the end of hold wins. A press is reported at its first edge, so no press is late and none, however short, is lost.
type debounce struct {
	hold    time.Duration
	level   [Buttons]bool              // last reported
	raw     [Buttons]bool              // last seen
	changed [Buttons]frames.DeviceTime // of the last report
	once    [Buttons]bool              // a report has been made
}

// edge is one reported change.
type edge struct {
	button int
	down   bool
	at     frames.DeviceTime
}

// add takes a raw change and gives the change to report, if any.
func (d *debounce) add(button int, down bool, at frames.DeviceTime) (edge, bool) {
	d.raw[button] = down
	if down == d.level[button] || (d.once[button] && at.Sub(d.changed[button]) < d.hold) {
		return edge{}, false
	}
	return d.report(button, at), true
}

// settle reports the changes that were held back and have outlived hold by time at.
func (d *debounce) settle(at frames.DeviceTime) []edge {
	var out []edge
	for b := range d.level {
		if d.raw[b] != d.level[b] && at.Sub(d.changed[b]) >= d.hold {
			out = append(out, d.report(b, d.changed[b].Add(d.hold)))
		}
	}
	return out
}

func (d *debounce) report(button int, at frames.DeviceTime) edge {
	d.level[button], d.changed[button], d.once[button] = d.raw[button], at, true
	return edge{button, d.level[button], at}
}
