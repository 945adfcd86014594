package ingest

import (
	"time"

	"github.com/pinch-robotics/pinch/frames"
)

// phases is how many positions of the row grid within one period are tried: 2 ms apart at 30 Hz.
const phases = 16

// gridStart is where the row grid begins: at first, or within one row period after it, where the held JPEG pictures are freshest. Rows hold the
// newest picture and the newest pose; on a grid that ticks just before each frame every picture would be a whole period older than the
// pose beside it, which at a hand speed of 0.25 m/s is 8 mm. The grid stays at first unless another place makes pictures
// fresher by a quarter of a period on average.
func (s *survey) gridStart(first, end frames.Stamp, period time.Duration) frames.Stamp {
	best, start := s.pictureAge(first, end, period)-period/4, first
	for i := 1; i < phases; i++ {
		at := first.Add(period * time.Duration(i) / phases)
		if age := s.pictureAge(at, end, period); at <= end && age < best {
			best, start = age, at
		}
	}
	return start
}

// pictureAge is the mean age of the held JPEG pictures of all cameras on a grid; zero without such a camera.
func (s *survey) pictureAge(start, end frames.Stamp, period time.Duration) time.Duration {
	var sum, n time.Duration
	for _, c := range s.cameras {
		if c.video || len(c.samples) == 0 {
			continue
		}
		i := 0
		for at := start; at <= end; at = at.Add(period) {
			for i+1 < len(c.samples) && c.samples[i+1].at <= at {
				i++
			}
			sum += at.Sub(c.samples[i].at)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}
