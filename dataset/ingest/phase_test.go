package ingest

import (
	"testing"
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// A grid that ticks just before each frame holds pictures a whole period old; it moves to where they are fresh, and stays when there is
// nothing to gain.
func TestGridStart(t *testing.T) {
	const ms = int64(time.Millisecond)
	stream := func(firstMS, everyUS int64, n int) *camera {
		c := &camera{}
		for i := range int64(n) {
			c.samples = append(c.samples, sample{at: frames.Stamp(firstMS*ms + i*everyUS*1000)})
		}
		return c
	}
	const period = 32 * time.Millisecond
	for name, test := range map[string]struct {
		cameras []*camera
		first   int64 // ms
		want    int64
	}{
		"frames 1 ms after each tick": {[]*camera{stream(1, 32000, 50)}, 32, 34},
		"frames at each tick":         {[]*camera{stream(0, 32000, 50)}, 32, 32},
		"little to gain":              {[]*camera{stream(0, 32000, 50)}, 35, 35},
		"two cameras":                 {[]*camera{stream(2, 32000, 50), stream(5, 32000, 50)}, 32, 38},
		"one frame 30 ms late":        {[]*camera{stream(0, 32000, 50), stream(-2, 32000, 50)}, 32, 32},
		"no JPEG camera":              {nil, 32, 32},
	} {
		s := &survey{cameras: test.cameras}
		got := s.gridStart(frames.Stamp(test.first*ms), frames.Stamp(1500*ms), period)
		if int64(got) != test.want*ms {
			t.Errorf("%s: grid starts at %.3f ms, want %d", name, float64(got)/float64(ms), test.want)
		}
	}
}
