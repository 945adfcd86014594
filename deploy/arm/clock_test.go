package arm

import (
	"testing"
	"time"
)

// A controller whose crystal is off by 50 ppm and whose packages arrive up to 3 ms late: the clock stays within 3 ms of the host's and never
// runs more than a thousandth off its own pace.
func TestClockFollowsTheHost(t *testing.T) {
	host := int64(1e18)
	c := newClock(host)
	last := c.host()
	for i := 0; i < 200_000; i++ {
		host += 2_000_100 // 50 ppm slow controller
		c.tick(time.Millisecond)
		c.tick(time.Millisecond)
		late := int64(i*7919%3000) * 1000
		if behind, ok := c.follow(host+late, 2*time.Millisecond); !ok {
			t.Fatalf("cycle %d: a drift is taken for a jump of %v", i, behind)
		}
		step := c.host() - last
		last = c.host()
		if step < 1_997_999 || step > 2_002_001 {
			t.Fatalf("cycle %d: time steps by %d ns", i, step)
		}
		if i > 20_000 {
			if d := c.host() - host; d < -3e6 || d > 3e6 {
				t.Fatalf("cycle %d: %d ns from the host", i, d)
			}
		}
	}
	if at := c.toArm(c.host()); at != c.armNS {
		t.Errorf("toArm(host()) = %d, want %d", at, c.armNS)
	}
	if _, ok := c.follow(host+int64(time.Second), 2*time.Millisecond); ok {
		t.Error("a second is taken for a drift")
	}
	before := c.host()
	c.set(before - 5)
	if c.host() != before {
		t.Error("time ran back")
	}
	c.set(before + 1e9)
	if c.host() != before+1e9 {
		t.Error("set does not set")
	}
}
