package rig

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
)

// At a terminal the block is drawn over itself at most five times a second; elsewhere there is a line each five seconds. Rates are per second of this machine.
func TestWatcher(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		var out strings.Builder
		now := time.Unix(100, 0)
		w := newWatcher(&out, func() time.Time { return now })
		if w.terminal {
			t.Fatal("a buffer is no terminal")
		}
		w.terminal = terminal
		for i := range 101 { // ten seconds of views, ten a second
			w.show(deploy.View{Elapsed: time.Duration(i) * 100 * time.Millisecond, Steps: 10 * i, Frames: [2]int{3 * i, 2 * i}, PolicyP50: 120 * time.Millisecond,
				ChunkAge: 250 * time.Millisecond, JointRoomRad: 0.31, JointName: "left joint 4", ArmDistanceM: 0.2, TableRoomM: math.Inf(1), LastEvent: "rejected: too fast"})
			now = now.Add(100 * time.Millisecond)
		}
		w.end()
		text := out.String()
		blocks := strings.Count(text, "rates: ")
		if want := map[bool]int{true: 51, false: 3}[terminal]; blocks != want {
			t.Errorf("terminal %v: drawn %d times, want %d", terminal, blocks, want)
		}
		if ups := strings.Count(text, "\x1b[5A"); terminal && ups != blocks-1 || !terminal && ups != 0 {
			t.Errorf("terminal %v: drawn over itself %d times", terminal, ups)
		}
		for _, want := range []string{"control 100 Hz, cameras 30.0 and 20.0 Hz", "policy: 120 ms", "chunk 250 ms old", "0.31 rad to the end of left joint 4", "200 mm apart", "table clear",
			"last: rejected: too fast"} {
			if !strings.Contains(text, want) {
				t.Errorf("terminal %v: %q is missing in\n%s", terminal, want, text)
			}
		}
	}
}
