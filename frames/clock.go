package frames

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// HostTime is nanoseconds of the host's monotonic clock, shifted once, at the start of a process, to Unix time.
type HostTime int64

// DeviceTime is nanoseconds of one named device's clock; its zero means whatever the device says.
type DeviceTime int64

// Stamp is nanoseconds of the one clock that a set of rows is aligned on: host time, or the device time that all streams
// of a rig share. The caller keeps stamps of different clocks apart.
type Stamp int64

// Time is t as a calendar time (UTC).
func (t HostTime) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

// Sub is t - o.
func (t HostTime) Sub(o HostTime) time.Duration { return time.Duration(t - o) }

// Add is t + d.
func (t HostTime) Add(d time.Duration) HostTime { return t + HostTime(d) }

// Sub is t - o, of one device's clock.
func (t DeviceTime) Sub(o DeviceTime) time.Duration { return time.Duration(t - o) }

// Add is t + d.
func (t DeviceTime) Add(d time.Duration) DeviceTime { return t + DeviceTime(d) }

// Sub is t - o.
func (t Stamp) Sub(o Stamp) time.Duration { return time.Duration(t - o) }

// Add is t + d.
func (t Stamp) Add(d time.Duration) Stamp { return t + Stamp(d) }

// ErrOverflow is returned, wrapped, where a clock conversion leaves 64 bits.
var ErrOverflow = errors.New("clock conversion overflows 64 bits of nanoseconds")

// ErrNoClock is returned, wrapped, while no clock exchange was good enough for an estimate.
var ErrNoClock = errors.New("no usable clock exchange")

// ClockSample is one exchange with a device: Device was read by the device, Host is the middle of the host's send and
// receive times, RoundTrip the time between them.
type ClockSample struct {
	Device    DeviceTime
	Host      HostTime
	RoundTrip time.Duration
}

// ClockMap takes one device's time to host time by a constant offset.
type ClockMap struct {
	// OffsetNS is host minus device, in nanoseconds.
	OffsetNS int64
	// RoundTrip is the largest round trip among the samples used; the offset is good to half of it.
	RoundTrip time.Duration
	// Samples is the number of samples used.
	Samples int
}

// Host is the host time at device time d. The error wraps ErrOverflow.
func (m ClockMap) Host(d DeviceTime) (HostTime, error) {
	sum, ok := addInt64(int64(d), m.OffsetNS)
	if !ok {
		return 0, fmt.Errorf("device time %d plus offset %d: %w", d, m.OffsetNS, ErrOverflow)
	}
	return HostTime(sum), nil
}

// Device is the device time at host time h. The error wraps ErrOverflow.
func (m ClockMap) Device(h HostTime) (DeviceTime, error) {
	diff, ok := subInt64(int64(h), m.OffsetNS)
	if !ok {
		return 0, fmt.Errorf("host time %d minus offset %d: %w", h, m.OffsetNS, ErrOverflow)
	}
	return DeviceTime(diff), nil
}

// EstimateClock takes the median offset of the samples whose round trip is at most maxRoundTrip (0: of the quicker half).
// Slow exchanges are left out because their two ways may differ by the whole round trip. The error wraps ErrNoClock or
// ErrOverflow.
func EstimateClock(samples []ClockSample, maxRoundTrip time.Duration) (ClockMap, error) {
	if len(samples) == 0 {
		return ClockMap{}, fmt.Errorf("0 samples: %w", ErrNoClock)
	}
	if maxRoundTrip == 0 {
		trips := make([]time.Duration, len(samples))
		for i, s := range samples {
			trips[i] = s.RoundTrip
		}
		slices.Sort(trips)
		maxRoundTrip = trips[(len(trips)-1)/2]
	}
	var offsets []int64
	m := ClockMap{}
	for _, s := range samples {
		if s.RoundTrip < 0 || s.RoundTrip > maxRoundTrip {
			continue
		}
		off, ok := subInt64(int64(s.Host), int64(s.Device))
		if !ok {
			return ClockMap{}, fmt.Errorf("host time %d minus device time %d: %w", s.Host, s.Device, ErrOverflow)
		}
		offsets = append(offsets, off)
		m.RoundTrip = max(m.RoundTrip, s.RoundTrip)
	}
	if len(offsets) == 0 {
		return ClockMap{}, fmt.Errorf("none of %d samples came back within %v: %w", len(samples), maxRoundTrip, ErrNoClock)
	}
	slices.Sort(offsets)
	m.Samples = len(offsets)
	m.OffsetNS = middle(offsets[(m.Samples-1)/2], offsets[m.Samples/2])
	return m, nil
}

// ClockEstimator keeps the newest exchanges with one device. It is not safe for concurrent use.
type ClockEstimator struct {
	// Window is the number of samples kept; 0 means 15, as in YUBI's Quest bridge.
	Window int
	// MaxRoundTrip is the slowest exchange taken; 0 means 8 ms, as in YUBI's Quest bridge.
	MaxRoundTrip time.Duration
	samples      []ClockSample
}

// Add takes in an exchange and says whether it was quick enough to be used.
func (e *ClockEstimator) Add(s ClockSample) bool {
	if s.RoundTrip < 0 || s.RoundTrip > e.maxRoundTrip() {
		return false
	}
	window := e.Window
	if window <= 0 {
		window = 15
	}
	e.samples = append(e.samples, s)
	if n := len(e.samples); n > window {
		e.samples = append(e.samples[:0], e.samples[n-window:]...)
	}
	return true
}

// Map is the present estimate: the median offset of the samples kept. The error wraps ErrNoClock or ErrOverflow.
func (e *ClockEstimator) Map() (ClockMap, error) { return EstimateClock(e.samples, e.maxRoundTrip()) }

func (e *ClockEstimator) maxRoundTrip() time.Duration {
	if e.MaxRoundTrip <= 0 {
		return 8 * time.Millisecond
	}
	return e.MaxRoundTrip
}

// Rescale is value*num/den rounded to the nearest integer (halves away from zero), with a 128-bit product, for clocks of
// different rates: RTP ticks of 90 kHz to nanoseconds is Rescale(ticks, 1e9, 90000). It panics unless num >= 0 and
// den > 0; the error wraps ErrOverflow.
func Rescale(value, num, den int64) (int64, error) {
	if num < 0 || den <= 0 {
		panic(fmt.Sprintf("frames: Rescale by %d/%d", num, den))
	}
	neg := value < 0
	mag := uint64(value)
	if neg {
		mag = -mag
	}
	hi, lo := bits.Mul64(mag, uint64(num))
	lo, carry := bits.Add64(lo, uint64(den)/2, 0)
	hi += carry
	if hi < uint64(den) {
		quo, _ := bits.Div64(hi, lo, uint64(den))
		switch {
		case quo <= math.MaxInt64 && neg:
			return -int64(quo), nil
		case quo <= math.MaxInt64:
			return int64(quo), nil
		}
	}
	return 0, fmt.Errorf("%d times %d/%d: %w", value, num, den, ErrOverflow)
}

// middle is the mean of a <= b, rounded down, without overflow.
func middle(a, b int64) int64 { return a + int64((uint64(b)-uint64(a))/2) }

func addInt64(a, b int64) (int64, bool) {
	s := a + b
	return s, (a >= 0) != (b >= 0) || (s >= 0) == (a >= 0)
}

func subInt64(a, b int64) (int64, bool) {
	d := a - b
	return d, (a >= 0) == (b >= 0) || (d >= 0) == (a >= 0)
}
