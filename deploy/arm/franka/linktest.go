package franka

import "fmt"

// A motion whose commands arrive more rarely than this for this long is stopped before the arm does it.
const (
	poorRate  = 0.8
	poorTicks = 500
)

// Verdicts of the link test, as the vendor's own test draws them: below the first a robot does not work, below the second it works badly.
const (
	rateInsufficient = 0.90
	rateManyLost     = 0.95
)

// settleTicks is the length of the arm's window of the success rate.
const settleTicks = 100

// linkTest judges the link while the arm is held still at the start of a motion.
type linkTest struct {
	left    int // ticks
	taken   int
	sum     float64
	counted int
}

// take notes the success rate of one state; after the last it returns why the link does not suffice, or nothing.
func (t *linkTest) take(rate float64) string {
	t.left--
	t.taken++
	if t.taken > settleTicks {
		t.sum += rate
		t.counted++
	}
	if t.left > 0 || t.counted == 0 {
		return ""
	}
	if mean := t.mean(); mean < rateInsufficient {
		return fmt.Sprintf("only %.1f %% of the commands reached the arm in time, at least %.0f %% are needed: use a direct cable, a real-time kernel and an idle machine",
			100*mean, 100*rateInsufficient)
	}
	return ""
}

func (t *linkTest) mean() float64 {
	if t.counted == 0 {
		return 0
	}
	return t.sum / float64(t.counted)
}

// LinkStats count what the link did to a motion.
type LinkStats struct {
	States  int
	Lost    int     // commands that did not reach the arm in time
	Longest int     // states missing in a row
	Adopted int     // times the arm held something else than a command of ours or its constant acceleration
	Rate    float64 // the arm's own success rate at the last state
}

func (s *LinkStats) note(gap uint64, rate float64) {
	s.States++
	s.Longest = max(s.Longest, int(gap))
	s.Rate = rate
}
