package ingest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/frames"
	"github.com/pinch-robotics/pinch/internal/rawlog"
	"github.com/pinch-robotics/pinch/internal/wire/cdr"
)

// trackerClock takes the jitter of the network out of a tracker's poses. The bridge of the ROS stack stamps all messages of one frame
// of the headset with one receive time, transforms and state messages alike, and the state messages hold the headset's own clock. So
// the header stamp of a transform finds the device time of its frame, and one offset for the recording, with the drift of the two
// clocks, brings that to receive time.
//
// Source: airoa_quest_msgs/msg/QuestController.msg (header, uint64 device_time_ns, uint64 pc_monotonic_ns, ...), the bridge's
// description of the offline alignment.
type trackerClock struct {
	device map[int64]int64 // device time by header stamp, ns
	// offset of receive time minus device time at device time origin, and how much it grows for each ns of device time.
	origin, offset int64
	drift          float64
	matched, other int // transforms with and without a device time
}

// driftWindow is the device time of one sample of the drift; within it the quickest message counts, as a delay only ever adds.
const driftWindow = 10 * time.Second

// maxDrift is more than any two quartz clocks differ; a greater one is the network's doing.
const maxDrift = 200e-6

// readTrackerClock reads the state topics; nil when the log has none, or they hold no device time.
func readTrackerClock(r *rawlog.Reader, topics []string, tf string) (*trackerClock, error) {
	var found []string
	for _, t := range topics {
		if c, ok := r.Channel(t); ok && c.Messages > 0 && c.Clock() == "" && strings.HasPrefix(c.Schema.Name, "airoa_quest_msgs/") {
			found = append(found, t)
		}
	}
	if c, ok := r.Channel(tf); len(found) == 0 || !ok || c.Clock() != "" {
		return nil, nil
	}
	t := &trackerClock{device: map[int64]int64{}}
	var sent []frames.ClockSample
	for m, err := range r.Messages(found...) {
		if isLoss(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		stamp, device, err := trackerState(m.Data)
		if err != nil || device <= 0 || stamp <= 0 {
			continue // a broken state message costs its frame the correction, no more
		}
		if _, ok := t.device[stamp]; !ok {
			sent = append(sent, frames.ClockSample{Device: frames.DeviceTime(device), Host: m.LogTime})
		}
		t.device[stamp] = device
	}
	if len(sent) == 0 {
		return nil, nil
	}
	t.fit(sent)
	return t, nil
}

// trackerState reads the header stamp and the device time (ns) of a state message.
func trackerState(data []byte) (stamp, device int64, err error) {
	r := cdr.NewReader(data)
	sec, nsec := r.Int32(), r.Uint32()
	_ = r.String() // frame_id
	d := r.Uint64()
	if err := r.Err(); err != nil {
		return 0, 0, err
	}
	if d > math.MaxInt64 {
		return 0, 0, fmt.Errorf("device time %d ns is out of range", d)
	}
	return int64(sec)*1e9 + int64(nsec), int64(d), nil
}

// fit finds drift and offset: the drift from the quickest messages of each window, the offset as the median of what remains, so that
// a pose keeps the delay that is typical for it and stays comparable with streams that have only receive times.
func (t *trackerClock) fit(sent []frames.ClockSample) {
	slices.SortStableFunc(sent, func(a, b frames.ClockSample) int { return int(min(max(a.Device-b.Device, -1), 1)) })
	t.origin = int64(sent[0].Device)
	delay := func(s frames.ClockSample) int64 { return int64(s.Host) - int64(s.Device) }
	type point struct{ x, y float64 }
	var quick []point
	for i := 0; i < len(sent); {
		end := sent[i].Device.Add(driftWindow)
		best := i
		for ; i < len(sent) && sent[i].Device < end; i++ {
			if delay(sent[i]) < delay(sent[best]) {
				best = i
			}
		}
		quick = append(quick, point{float64(int64(sent[best].Device) - t.origin), float64(delay(sent[best]) - delay(sent[0]))})
	}
	var slopes []float64
	for i := range quick {
		for j := range i {
			if dx := quick[i].x - quick[j].x; dx > 0 {
				slopes = append(slopes, (quick[i].y-quick[j].y)/dx)
			}
		}
	}
	if len(quick) >= 4 {
		slices.Sort(slopes)
		if d := slopes[len(slopes)/2]; math.Abs(d) <= maxDrift {
			t.drift = d
		}
	}
	rest := make([]int64, len(sent))
	for i, s := range sent {
		rest[i] = delay(s) - t.grown(int64(s.Device))
	}
	slices.Sort(rest)
	t.offset = rest[len(rest)/2]
}

// grown is how much the offset has grown since the origin.
func (t *trackerClock) grown(device int64) int64 {
	return int64(math.Round(t.drift * float64(device-t.origin)))
}

// correct gives the sample of a transform its stamp by the device's clock, when its frame is known.
func (t *trackerClock) correct(s *sample, header int64) {
	if t == nil {
		return
	}
	device, ok := t.device[header]
	if !ok {
		t.other++
		return
	}
	t.matched++
	s.device = device
	s.at = frames.Stamp(device + t.offset + t.grown(device))
}

// warn tells when the state topics are there but do not belong to the transforms.
func (t *trackerClock) warn(s *survey) {
	if t != nil && t.matched == 0 {
		s.warnings = append(s.warnings, fmt.Sprintf("no transform has the stamp of a message on %s: poses keep the jitter of their receive times",
			strings.Join(s.m.TrackerState, ", ")))
	}
}
