package franka

import (
	"fmt"
	"strings"
	"time"
)

// timingEdges are the upper edges of the histogram's buckets; the last bucket has none.
var timingEdges = [...]time.Duration{20 * time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 200 * time.Microsecond, 300 * time.Microsecond,
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond}

// Histogram counts durations without allocating.
type Histogram struct {
	Counts [len(timingEdges) + 1]int
	Max    time.Duration
}

func (h *Histogram) add(d time.Duration) {
	h.Max = max(h.Max, d)
	for i, e := range timingEdges {
		if d < e {
			h.Counts[i]++
			return
		}
	}
	h.Counts[len(timingEdges)]++
}

// String lists the buckets that are not empty.
func (h Histogram) String() string {
	var parts []string
	for i, n := range h.Counts {
		switch {
		case n == 0:
		case i < len(timingEdges):
			parts = append(parts, fmt.Sprintf("<%v: %d", timingEdges[i], n))
		default:
			parts = append(parts, fmt.Sprintf(">=%v: %d", timingEdges[i-1], n))
		}
	}
	return fmt.Sprintf("%s, longest %v", strings.Join(parts, ", "), h.Max.Round(time.Microsecond))
}

// Timing is how a loop kept up.
type Timing struct {
	Answer Histogram // from a state's arrival in this process to its answer
	Gap    Histogram // between arrivals
	Link   LinkStats
	// LongestLate is the longest run of commands, sent or not, that did not reach the arm in time.
	LongestLate int
}
