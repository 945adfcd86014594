package capture

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

func ev(source int, device int64) event {
	return event{source: source, device: frames.DeviceTime(device), timed: true}
}

func drainAll(m *merger, now frames.HostTime) (out []int64) {
	for {
		e, ok := m.next(now)
		if !ok {
			return out
		}
		out = append(out, int64(e.device)*10+int64(e.source))
	}
}

// Whatever the interleaving of three streams on one clock, they pass in order of device time, ties in order of the devices.
func TestSharedClockPassesInOneOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var want []int64
	for trial := range 50 {
		streams := [3][]event{}
		for k := range 30 {
			for s := range 3 {
				streams[s] = append(streams[s], ev(s, int64(k*(s+1))))
			}
		}
		m := newMerger([]string{"a", "a", "a"}, 0)
		var got []int64
		for len(streams[0])+len(streams[1])+len(streams[2]) > 0 {
			s := rng.IntN(3)
			if len(streams[s]) > 0 {
				m.add(streams[s][0], 0)
				streams[s] = streams[s][1:]
				got = append(got, drainAll(m, 0)...)
			}
		}
		m.flush()
		got = append(got, drainAll(m, 0)...)
		if len(got) != 90 {
			t.Fatalf("%d of 90 events passed", len(got))
		}
		for i := 1; i < len(got); i++ {
			if got[i] <= got[i-1] {
				t.Fatalf("trial %d: %d after %d", trial, got[i], got[i-1])
			}
		}
		if trial == 0 {
			want = got
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("trial %d differs from the first at %d", trial, i)
			}
		}
	}
}

func TestTwoSharedClocksPassInTheOrderOfTheirDevices(t *testing.T) {
	for range 20 {
		m := newMerger([]string{"b", "a", "", "b", "a"}, 0)
		for _, s := range []int{4, 1, 3, 0} {
			m.add(ev(s, 7), 0)
		}
		m.flush()
		if got := drainAll(m, 0); !slices.Equal(got, []int64{70, 73, 71, 74}) {
			t.Fatalf("order %v", got)
		}
	}
}

func TestOwnClocksPassAsTheyCome(t *testing.T) {
	m := newMerger([]string{"a", "b", ""}, 0)
	for i, e := range []event{ev(0, 9), ev(1, 1), {source: 2}} {
		m.add(e, 0)
		if got := drainAll(m, 0); len(got) != 1 {
			t.Errorf("event %d waits", i)
		}
	}
}

func TestDeadDeviceHoldsTheOthersOnlyForAWhile(t *testing.T) {
	m := newMerger([]string{"a", "a"}, 0)
	m.add(ev(0, 5), frames.HostTime(time.Second))
	if got := drainAll(m, frames.HostTime(mergePatience)-1); len(got) != 0 {
		t.Error("the event passed although the other device may send an earlier one")
	}
	if got := drainAll(m, frames.HostTime(mergePatience)); len(got) != 1 {
		t.Error("a silent device holds the others for ever")
	}
	m.add(ev(1, 6), frames.HostTime(mergePatience)) // it is back
	m.add(ev(0, 7), frames.HostTime(mergePatience))
	if got := drainAll(m, frames.HostTime(mergePatience)); len(got) != 1 || got[0] != 61 {
		t.Errorf("after its return: %v", got)
	}
	m.setLive(1, false, frames.HostTime(mergePatience)) // it is lost
	if got := drainAll(m, frames.HostTime(mergePatience)); len(got) != 1 {
		t.Error("a lost device holds the others")
	}
}
