package arm

import "time"

// clock maps arm time, which advances by exactly one tick per step of the runtime, to the host's clock, which stamps segments and states and
// which all arms of a cell share. A controller's crystal, skipped cycles and late packages make the two drift; the offset follows slowly, so
// that a path under way is never stretched by more than slewShare.
type clock struct {
	armNS    int64
	offsetNS int64
}

const (
	slewShare = 1e-3
	// jump is a difference that no drift explains: the loop was held up, or the host's clock was set.
	jump = 50 * time.Millisecond
)

func newClock(hostNS int64) clock { return clock{armNS: hostNS} }

// host is the host's time that arm time stands for.
func (c *clock) host() int64 { return c.armNS + c.offsetNS }

// toArm maps a host time stamp.
func (c *clock) toArm(hostNS int64) int64 { return hostNS - c.offsetNS }

// tick lets one step pass.
func (c *clock) tick(step time.Duration) { c.armNS += int64(step) }

// follow moves the offset toward the host's clock after a cycle; it reports by how much it is behind when that is more than a drift, and leaves
// the offset alone then.
func (c *clock) follow(hostNS int64, cycle time.Duration) (behind time.Duration, ok bool) {
	diff := hostNS - c.host()
	if diff > int64(jump) || diff < -int64(jump) {
		return time.Duration(diff), false
	}
	most := int64(float64(cycle) * slewShare)
	c.offsetNS += min(max(diff/64, -most), most)
	return time.Duration(diff), true
}

// set makes the two equal at once; only for an arm that stands. Time never runs back.
func (c *clock) set(hostNS int64) {
	if hostNS > c.host() {
		c.offsetNS += hostNS - c.host()
	}
}
