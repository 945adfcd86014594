package frames

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// Slow exchanges are off by up to half their round trip; the median of the quick ones is not.
func TestEstimateClockLeavesSlowExchangesOut(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	const offset = 1_700_000_000_123_456_789
	var samples []ClockSample
	for i := range 101 {
		dev := DeviceTime(1e9 + int64(i)*1e9)
		s := ClockSample{Device: dev, Host: HostTime(int64(dev) + offset + r.Int64N(2001) - 1000), RoundTrip: 2 * time.Millisecond}
		if i%3 == 0 {
			s.RoundTrip, s.Host = 90*time.Millisecond, s.Host.Add(45*time.Millisecond)
		}
		samples = append(samples, s)
	}
	for _, limit := range []time.Duration{0, 8 * time.Millisecond} {
		m, err := EstimateClock(samples, limit)
		if err != nil {
			t.Fatal(err)
		}
		if d := m.OffsetNS - offset; d < -1000 || d > 1000 || m.RoundTrip != 2*time.Millisecond || m.Samples != 67 {
			t.Errorf("limit %v: offset off by %d ns, %+v", limit, d, m)
		}
		h, err := m.Host(5e9)
		if err != nil || int64(h) != 5e9+m.OffsetNS {
			t.Errorf("host time %d, %v", h, err)
		}
		if d, err := m.Device(h); err != nil || d != 5e9 {
			t.Errorf("device time %d, %v", d, err)
		}
	}
	if _, err := EstimateClock(samples, time.Microsecond); !errors.Is(err, ErrNoClock) {
		t.Errorf("no sample is quick enough, but the error is %v", err)
	}
}

func TestClockEstimatorWindow(t *testing.T) {
	e := ClockEstimator{Window: 3}
	if _, err := e.Map(); !errors.Is(err, ErrNoClock) {
		t.Fatalf("empty estimator: %v", err)
	}
	for i, off := range []int64{100, 200, 10, 20, 30} {
		if !e.Add(ClockSample{Device: DeviceTime(i), Host: HostTime(int64(i) + off), RoundTrip: time.Millisecond}) {
			t.Fatal("a quick sample was refused")
		}
	}
	if e.Add(ClockSample{RoundTrip: 9 * time.Millisecond}) || e.Add(ClockSample{RoundTrip: -1}) {
		t.Error("a slow or negative exchange was taken")
	}
	if m, err := e.Map(); err != nil || m.OffsetNS != 20 || m.Samples != 3 {
		t.Errorf("map %+v, %v; want the median 20 of the last three", m, err)
	}
}

func TestClockOverflow(t *testing.T) {
	_, err := EstimateClock([]ClockSample{{Device: math.MinInt64, Host: 1}}, time.Second)
	if !errors.Is(err, ErrOverflow) {
		t.Errorf("estimate: %v", err)
	}
	if _, err := (ClockMap{OffsetNS: math.MaxInt64}).Host(1); !errors.Is(err, ErrOverflow) {
		t.Errorf("host: %v", err)
	}
	if _, err := (ClockMap{OffsetNS: math.MinInt64}).Device(0); !errors.Is(err, ErrOverflow) {
		t.Errorf("device: %v", err)
	}
	m, err := EstimateClock([]ClockSample{{Host: math.MaxInt64}, {Host: math.MaxInt64 - 2}}, time.Second)
	if err != nil || m.OffsetNS != math.MaxInt64-1 {
		t.Errorf("median of two large offsets: %+v, %v", m, err)
	}
}

func TestRescaleAgainstBigIntegers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 2))
	for range 2000 {
		v, num, den := r.Int64()>>r.IntN(60), r.Int64()>>r.IntN(60), 1+r.Int64()>>r.IntN(60)
		if r.IntN(2) == 0 {
			v = -v
		}
		// floor((2 |v| num + den) / (2 den)) rounds halves away from zero.
		n := new(big.Int).Mul(big.NewInt(v), big.NewInt(num))
		sign := n.Sign()
		n.Abs(n).Mul(n, big.NewInt(2)).Add(n, big.NewInt(den))
		n.Div(n, new(big.Int).Mul(big.NewInt(den), big.NewInt(2)))
		got, err := Rescale(v, num, den)
		if !n.IsInt64() {
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("Rescale(%d, %d, %d) = %d, %v; want overflow", v, num, den, got, err)
			}
			continue
		}
		want := n.Int64() * int64(max(sign, -1))
		if err != nil || got != want {
			t.Fatalf("Rescale(%d, %d, %d) = %d, %v; want %d", v, num, den, got, err, want)
		}
	}
}

// Times of one kind differ by spans and move by spans; a host time is a calendar time in UTC.
func TestTimesAndSpans(t *testing.T) {
	if got := HostTime(7e9).Sub(5e9); got != 2*time.Second {
		t.Errorf("host times: %v", got)
	}
	if got := HostTime(5e9).Add(-time.Second); got != 4e9 {
		t.Errorf("host time: %d", got)
	}
	if got := DeviceTime(7e9).Sub(5e9); got != 2*time.Second {
		t.Errorf("device times: %v", got)
	}
	if got := DeviceTime(5e9).Add(time.Millisecond); got != 5_001_000_000 {
		t.Errorf("device time: %d", got)
	}
	if got := Stamp(1).Sub(4); got != -3 {
		t.Errorf("stamps: %v", got)
	}
	if got := Stamp(1).Add(3); got != 4 {
		t.Errorf("stamp: %d", got)
	}
	if got, want := HostTime(1_000_000_000_000_000_001).Time(), time.Date(2001, 9, 9, 1, 46, 40, 1, time.UTC); !got.Equal(want) || got.Location() != time.UTC {
		t.Errorf("calendar time %v, want %v", got, want)
	}
}
