package ingest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// aligner gives every message its stamp on the one clock that the rows are aligned on.
//
//	all streams on one device clock   publish time, exactly
//	no device clock (ROS)             receive time
//	mixed                             host time: device time plus one offset per clock, or receive time
//
// A message that is not on the alignment clock (a pedal without clock beside cameras with one) is brought to it by the same offsets.
type aligner struct {
	// clock is the device clock's name; empty: host time.
	clock string
	// offset is host minus device by clock, for the clocks that need one.
	offset map[string]int64
	// header holds the topics whose header stamps are capture times on the host's clock.
	header map[string]bool
	// receive: every message counts at its receive time, whatever clocks there are.
	receive bool
}

// sharedClock is the clock that all streams have in common, empty when there is none.
func sharedClock(streams []rawlog.Channel) string {
	if len(streams) == 0 {
		return ""
	}
	clock := streams[0].Clock()
	for _, c := range streams {
		if c.Clock() != clock {
			return ""
		}
	}
	return clock
}

// newAligner chooses the clock for the streams that bound the timeline and estimates the offsets that the other channels need.
// warnings tell which offset rests on transport times only.
func newAligner(r *rawlog.Reader, streams, others []rawlog.Channel) (a *aligner, warnings []string, err error) {
	a = &aligner{clock: sharedClock(streams), offset: map[string]int64{}}
	var need []string
	for _, c := range slices.Concat(streams, others) {
		if c.Clock() != a.clock {
			need = append(need, c.Clock(), a.clock)
		}
	}
	slices.Sort(need)
	need = slices.DeleteFunc(slices.Compact(need), func(s string) bool { return s == "" })
	if len(need) == 0 {
		return a, nil, nil
	}
	exchanges, transit, err := clockEvidence(r, slices.Concat(streams, others))
	if err != nil {
		return nil, nil, err
	}
	for _, clock := range need {
		if m, err := frames.EstimateClock(exchanges[clock], 0); err == nil {
			a.offset[clock] = m.OffsetNS
			continue
		}
		m, err := frames.EstimateClock(transit[clock], 0)
		if err != nil {
			return nil, nil, fmt.Errorf("clock %q: %w", clock, err)
		}
		a.offset[clock] = m.OffsetNS
		warnings = append(warnings, fmt.Sprintf("clock %q has no exchange on %s: its offset rests on receive times and holds the transport delay",
			clock, rawlog.TopicClock))
	}
	return a, warnings, nil
}

// clockEvidence reads the clock exchanges of the log, and as a second choice how long each message of a channel with a clock took
// (receive time against device time; the quickest half counts, as a delay only ever adds).
func clockEvidence(r *rawlog.Reader, channels []rawlog.Channel) (exchanges, transit map[string][]frames.ClockSample, err error) {
	exchanges, transit = map[string][]frames.ClockSample{}, map[string][]frames.ClockSample{}
	topics := []string{rawlog.TopicClock}
	for _, c := range channels {
		topics = append(topics, c.Topic)
	}
	n := 0
	for m, err := range r.Messages(topics...) {
		if err != nil {
			if isLoss(err) {
				continue
			}
			return nil, nil, err
		}
		if m.Channel.Topic != rawlog.TopicClock {
			if d, ok := m.DeviceTime(); ok {
				clock := m.Channel.Clock()
				transit[clock] = append(transit[clock], frames.ClockSample{Device: d, Host: m.LogTime})
			}
			continue
		}
		var s rawlog.ClockSample
		if err := json.Unmarshal(m.Data, &s); err != nil {
			return nil, nil, fmt.Errorf("%s record %d: %w", rawlog.TopicClock, n, err)
		}
		exchanges[s.Clock] = append(exchanges[s.Clock], frames.ClockSample{
			Device: frames.DeviceTime(s.DeviceNS), Host: frames.HostTime(s.HostNS), RoundTrip: time.Duration(s.RoundTripNS)})
		n++
	}
	for clock, s := range transit {
		transit[clock] = trips(s)
	}
	return exchanges, transit, nil
}

// trips turns receive times into round trips above the quickest message, so that the estimate can prefer quick ones.
func trips(s []frames.ClockSample) []frames.ClockSample {
	least := int64(math.MaxInt64)
	for _, x := range s {
		least = min(least, int64(x.Host)-int64(x.Device))
	}
	for i, x := range s {
		s[i].RoundTrip = time.Duration(int64(x.Host) - int64(x.Device) - least)
	}
	return s
}

// stamp is the message's time on the alignment clock.
func (a *aligner) stamp(m rawlog.Message) frames.Stamp {
	if a.receive {
		return frames.Stamp(m.LogTime)
	}
	device, ok := m.DeviceTime()
	clock := m.Channel.Clock()
	switch {
	case ok && clock == a.clock:
		return frames.Stamp(device)
	case ok:
		return a.fromHost(int64(device) + a.offset[clock])
	}
	return a.fromHost(int64(m.LogTime))
}

// fromHost brings host time to the alignment clock.
func (a *aligner) fromHost(ns int64) frames.Stamp {
	if a.clock == "" {
		return frames.Stamp(ns)
	}
	return frames.Stamp(ns - a.offset[a.clock])
}

// sample is one message of a stream: its stamp on the alignment clock, and when it was taken by its own clocks.
type sample struct {
	at frames.Stamp
	// device is the device time in ns, 0 without a device clock; host is the header's stamp, or the receive time without one.
	device, host int64
	// ordinal counts the stream's messages in file order from 0.
	ordinal int
	// received is the log's receive time in ns.
	received int64
	// same: the content is that of the sample before it in the log.
	same bool
	// key: an IDR picture of an H.264 stream.
	key bool
}

// sampleOf stamps a message; headerNS is the header's stamp, 0 when the message has none.
func (a *aligner) sampleOf(m rawlog.Message, headerNS int64, ordinal int) sample {
	s := sample{at: a.stamp(m), host: headerNS, ordinal: ordinal, received: int64(m.LogTime)}
	if headerNS > 0 && a.header[m.Channel.Topic] {
		s.at = a.fromHost(headerNS)
	}
	if d, ok := m.DeviceTime(); ok {
		s.device = int64(d)
	}
	if headerNS <= 0 {
		s.host = int64(m.LogTime)
	}
	return s
}
