package check

import (
	"math"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// marks describes a yes/no feature over an episode.
type marks struct {
	off  int     // rows that are false
	long stretch // the longest run of them
}

// clock describes when the samples of an episode were taken.
type clock struct {
	gap   float64 // the longest time between rows, in seconds more than 1/fps
	gapAt int
	age   float64 // the oldest sample held at a row, in seconds
	ageAt int
}

func isFlag(f dataset.Feature) bool { return f.DType == dataset.Bool && f.Dim() == 1 }

func isDone(name string) bool    { return strings.HasSuffix(name, "done") }
func isSuccess(name string) bool { return strings.Contains(name, "success") }

// checkFlags verifies the marks that a whole episode shares, and measures the others.
func checkFlags(c *checker, r *fileResult, e *episode, rows map[string][]float64) {
	e.flags = map[string]marks{}
	for _, f := range c.set.Info.Features {
		v := rows[f.Name]
		if v == nil || !isFlag(f.Feature) {
			continue
		}
		switch {
		case isDone(f.Name):
			checkDone(r, e, f.Name, v)
		case isSuccess(f.Name):
			if s := e.summaries[f.Name]; s.moves() && strings.HasPrefix(f.Name, "success") {
				r.say("success-flag", at(r.path, e.index, changeOf(v)).on(f.Name), nil, "feature %q changes inside the episode", f.Name)
			}
		default:
			e.flags[f.Name] = runsOff(v)
		}
	}
}

func changeOf(v []float64) int {
	for k := 1; k < len(v); k++ {
		if v[k] != v[k-1] {
			return k
		}
	}
	return 0
}

// checkDone: an episode ends once, at its last row (and may mark the ends of its parts).
func checkDone(r *fileResult, e *episode, name string, v []float64) {
	if v[len(v)-1] == 0 {
		on := 0
		for _, x := range v {
			if x != 0 {
				on++
			}
		}
		r.say("done-flag", at(r.path, e.index, len(v)-1).on(name), nums{"true": float64(on)}, "feature %q is false in the last row; it is true in %d rows", name, on)
	}
}

func runsOff(v []float64) marks {
	out := marks{}
	n := 0
	for k, x := range v {
		if x != 0 {
			n = 0
			continue
		}
		out.off++
		if n++; n > out.long.rows {
			out.long = stretch{k - n + 1, n}
		}
	}
	return out
}

const rowClock = "observation.capture_time.row"

// checkCaptureTimes looks at the times at which rows and samples were taken: they never go back, and a sample is not younger than
// its row.
func checkCaptureTimes(c *checker, r *fileResult, e *episode, values map[string]column, run run) {
	e.clocks = map[string]clock{}
	base := values[rowClock].v
	if base != nil {
		base = base[run.lo:run.hi]
	}
	for _, f := range c.set.Info.Features {
		col := values[f.Name]
		if col.v == nil || isDefault(f.Name) || !isClock(f.Feature) || f.DType != dataset.Int64 {
			continue
		}
		dim := f.Dim()
		v := col.v[run.lo*dim : run.hi*dim]
		k := clock{gapAt: -1, ageAt: -1}
		for d := range dim {
			k.follow(r, e, f.Feature, v, d, dim, c.fps)
		}
		if base != nil && f.Name != rowClock {
			k.compare(v, base, dim)
		}
		e.clocks[f.Name] = k
	}
}

// follow looks at one column of times in nanoseconds.
func (k *clock) follow(r *fileResult, e *episode, f dataset.Feature, v []float64, d, dim int, fps float64) {
	for i := 1; i < e.rows; i++ {
		before, now := v[(i-1)*dim+d], v[i*dim+d]
		if before == 0 || now == 0 { // 0: this clock does not exist
			continue
		}
		if now < before {
			r.say("capture-time", at(r.path, e.index, i).on(f.Name), nums{"seconds": (now - before) / 1e9}, "feature %q, element %s goes back by %.6f s", f.Name, element(f, d), (before-now)/1e9)
			return
		}
		if gap := (now-before)/1e9 - 1/fps; gap > k.gap {
			k.gap, k.gapAt = gap, i
		}
	}
}

// compare measures how old samples are at their rows. The row's clock is one of the columns' clocks: the one that is nearer.
func (k *clock) compare(v, base []float64, dim int) {
	best := math.Inf(1)
	for d := range dim {
		worst, at, sum := 0.0, -1, 0.0
		for i := range base {
			age := (base[i] - v[i*dim+d]) / 1e9
			sum += math.Abs(age)
			if age > worst {
				worst, at = age, i
			}
		}
		if mean := sum / float64(len(base)); mean < best {
			best = mean
			k.age, k.ageAt = worst, at
		}
	}
	if best > 10 { // seconds: another clock altogether
		k.age, k.ageAt = 0, -1
	}
}
