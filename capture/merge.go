package capture

import (
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// event is one reading of one device on its way to the session.
type event struct {
	source int // index of the device in the session
	host   frames.HostTime
	device frames.DeviceTime
	timed  bool // device is set
	bytes  int  // memory it holds, for the back-pressure
	body   any  // camera.Frame, encoder.Reading, tracker.Reading, pedal.Reading, clockReading
}

// merger brings the events of devices that share a clock into the order of that clock. Without it, the order would depend on the
// scheduling of their connections, which may lie seconds apart when a simulated rig runs faster than real time. Events of devices on
// clocks of their own, or on none, pass as they come.
//
// An event of a shared clock passes when every other live device of that clock has a later event waiting. A device that has sent nothing for
// patience of host time while others wait is left out until it sends again. Not safe for concurrent use.
type merger struct {
	clocks   []string // by source; "" for none
	lanes    []lane
	groups   [][]int // sources that share a clock, two or more each, in the order of their first source
	patience time.Duration
	ready    []event // events that may pass
}

// lane is the queue of one source of a shared clock.
type lane struct {
	queue []event
	live  bool // connected, or not yet heard of
	heard frames.HostTime
}

// mergePatience is longer than any pause between two samples of a simulated device: a slow machine renders three frames in well
// under a second.
const mergePatience = 5 * time.Second

func newMerger(clocks []string, now frames.HostTime) *merger {
	m := &merger{clocks: clocks, lanes: make([]lane, len(clocks)), patience: mergePatience}
	for i, c := range clocks {
		m.lanes[i] = lane{live: true, heard: now}
		if c == "" || slices.Index(clocks, c) != i {
			continue
		}
		group := []int{}
		for j := i; j < len(clocks); j++ {
			if clocks[j] == c {
				group = append(group, j)
			}
		}
		if len(group) > 1 {
			m.groups = append(m.groups, group)
		}
	}
	return m
}

// shared tells whether a source is merged with others.
func (m *merger) shared(source int) bool {
	return slices.ContainsFunc(m.groups, func(g []int) bool { return slices.Contains(g, source) })
}

// setLive notes that a source went away (its queue passes without it being waited for) or came back.
func (m *merger) setLive(source int, live bool, now frames.HostTime) {
	m.lanes[source].live = live
	m.lanes[source].heard = now
}

// add takes one event.
func (m *merger) add(e event, now frames.HostTime) {
	m.lanes[e.source].heard = now
	if !e.timed || !m.shared(e.source) {
		m.ready = append(m.ready, e)
		return
	}
	m.lanes[e.source].queue = append(m.lanes[e.source].queue, e)
}

// next gives the next event that may pass.
func (m *merger) next(now frames.HostTime) (event, bool) {
	if len(m.ready) > 0 {
		e := m.ready[0]
		m.ready = m.ready[1:]
		return e, true
	}
	for _, sources := range m.groups {
		if e, ok := m.nextOf(sources, now); ok {
			return e, true
		}
	}
	return event{}, false
}

func (m *merger) nextOf(sources []int, now frames.HostTime) (event, bool) {
	best := -1
	for _, s := range sources {
		l := &m.lanes[s]
		if len(l.queue) == 0 {
			if l.live && now.Sub(l.heard) < m.patience {
				return event{}, false // its next event may be earlier than those that wait
			}
			continue
		}
		if best < 0 || l.queue[0].device < m.lanes[best].queue[0].device {
			best = s
		}
	}
	if best < 0 {
		return event{}, false
	}
	l := &m.lanes[best]
	e := l.queue[0]
	l.queue[0] = event{}
	l.queue = l.queue[1:]
	return e, true
}

// flush gives up waiting: every event passes, in order. For the end of a session.
func (m *merger) flush() {
	for i := range m.lanes {
		m.lanes[i].live = false
	}
}

// waiting tells whether an event of a source for which is returns true has not passed yet.
func (m *merger) waiting(source int, is func(event) bool) bool {
	for _, q := range [][]event{m.ready, m.lanes[source].queue} {
		for _, e := range q {
			if e.source == source && is(e) {
				return true
			}
		}
	}
	return false
}
