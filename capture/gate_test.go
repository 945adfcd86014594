package capture

import (
	"strings"
	"testing"
	"time"
)

const gms = int64(time.Millisecond)

func testGate() *gate {
	return newGate(Gate{Settle: time.Second, FailAfter: 500 * time.Millisecond, RecoverHold: 400 * time.Millisecond, SilentAfter: time.Second,
		MinRate: 0.8, RateWindow: 2 * time.Second, NeedTracked: true}, []string{"left camera", "tracker", "pedal"}, []float64{60, 72, 0})
}

// feed sends samples of one device at a rate from..to and judges every 100 ms; it gives the faults over time as text.
func feed(g *gate, device int, hz float64, from, to int64, untracked func(at int64) bool) (log []string) {
	next := from
	for now := from; now < to; now += gms {
		if hz > 0 && now >= next {
			g.sample(device, now, [2]bool{untracked != nil && untracked(now), false})
			next += int64(1e9 / hz)
		}
		if now%(100*gms) == 0 {
			g.judge(device, now, 0)
			log = append(log, strings.Join(g.faults(), "; "))
		}
	}
	return log
}

func faulty(log []string) int {
	n := 0
	for _, s := range log {
		if s != "" {
			n++
		}
	}
	return n
}

// A 60 Hz camera that delivers 59 frames a second must not block every start.
func TestCameraOf59HzIsHealthy(t *testing.T) {
	if log := feed(testGate(), 0, 59, 0, 20_000*gms, nil); faulty(log) != 0 {
		t.Errorf("faults: %q", log)
	}
}

func TestSlowCameraIsAFaultAndRecoversWithoutGettingWorse(t *testing.T) {
	g := testGate()
	feed(g, 0, 60, 0, 5_000*gms, nil)
	log := feed(g, 0, 30, 5_000*gms, 10_000*gms, nil)
	if last := log[len(log)-1]; !strings.Contains(last, "left camera is slow") || !strings.Contains(last, "of 60 Hz") {
		t.Errorf("at 30 Hz: %q", last)
	}
	log = feed(g, 0, 60, 10_000*gms, 15_000*gms, nil)
	if last := log[len(log)-1]; last != "" {
		t.Errorf("after recovery: %q", last)
	}
	for _, s := range log { // the fault on the way back is the same one, never another or a harder one
		if s != "" && !strings.Contains(s, "left camera is slow") {
			t.Errorf("on the way back: %q", s)
		}
	}
}

func TestSilentDeviceIsAFault(t *testing.T) {
	g := testGate()
	feed(g, 0, 60, 0, 3_000*gms, nil)
	log := feed(g, 0, 0, 3_000*gms, 5_000*gms, nil)
	for i, s := range log {
		silent := strings.Contains(s, "left camera is silent")
		if at := i * 100; silent != (at > 1000) && at != 1000 { // the last sample came just before
			t.Errorf("%d ms after the last sample: %q", at, s)
		}
	}
	if feed(testGate(), 0, 0, 0, 900*gms, nil)[8] != "" {
		t.Error("a device is called silent before the settling time")
	}
	if g.missing(); len(testGate().missing()) != 2 {
		t.Error("the pedal must not count as missing, camera and tracker must")
	}
}

// One false tracked sample must not stop a recording (failure is debounced), and one true one must not heal a loss.
func TestTrackingIsDebouncedBothWays(t *testing.T) {
	one := func(at int64) bool { return at >= 5_000*gms && at < 5_014*gms }
	if log := feed(testGate(), 1, 72, 0, 10_000*gms, one); faulty(log) != 0 {
		t.Errorf("one bad sample made %d faulty judgements", faulty(log))
	}
	lost := func(at int64) bool { return at >= 5_000*gms && at < 8_000*gms && !(at >= 7_000*gms && at < 7_014*gms) }
	log := feed(testGate(), 1, 72, 0, 10_000*gms, lost)
	first, last := -1, -1
	for i, s := range log {
		if s != "" {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 54 || first > 57 {
		t.Errorf("the loss counts from %d ms, want 500 ms after it began at 5000 ms", first*100)
	}
	if last < 82 || last > 85 {
		t.Errorf("the loss ends at %d ms, want 400 ms after tracking came back at 8000 ms", last*100)
	}
	for i := first; i <= last; i++ {
		if !strings.Contains(log[i], "tracker does not track the left controller") {
			t.Errorf("at %d ms: %q; one good sample healed the loss", i*100, log[i])
		}
	}
}

// A dropout that begins and ends between two judgements is seen.
func TestShortDropoutsAreSeen(t *testing.T) {
	// Every other sample is untracked, always at times when the newest one at the judgement is good.
	flicker := func(at int64) bool { return at > 2_000*gms && at%(100*gms) > 30*gms && at%(100*gms) < 60*gms }
	if log := feed(testGate(), 1, 72, 0, 5_000*gms, flicker); faulty(log) < 10 {
		t.Errorf("a flicker that every judgement meets gave %d faulty judgements", faulty(log))
	}
}
