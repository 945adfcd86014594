package check

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// checkIdle finds stretches in which nothing moves that are longer than the set's.
func (c *checker) checkIdle() {
	var v []float64
	for _, e := range c.episodes {
		v = append(v, float64(e.idle.rows))
	}
	if len(v) < enough {
		c.skipped("idle stretches, lags and outliers: %d episodes are no distribution, %d are", len(v), enough)
		return
	}
	sp := runsOf(v)
	limit := math.Max(sp.above(len(v), math.Max(0.4, 0.1*sp.mid)), leastStill-1)
	for _, e := range c.episodes {
		if float64(e.idle.rows) > limit {
			c.say("idle", at(e.path, e.index, e.idle.start).lasting(e.idle.rows), nums{"rows": float64(e.idle.rows), "limit": limit},
				"nothing moves for %d rows (%.2f s); the set's fence is %.1f rows", e.idle.rows, float64(e.idle.rows)/c.fps, limit)
		}
	}
}

// checkFlagRuns finds spans without tracking and without fresh samples that are longer than the set's.
func (c *checker) checkFlagRuns() {
	for _, f := range c.set.Info.Features {
		if !isFlag(f.Feature) || isDone(f.Name) || isSuccess(f.Name) {
			continue
		}
		c.checkFlagRun(f)
	}
}

func (c *checker) checkFlagRun(f survey.Feature) {
	var long, share []float64
	for _, e := range c.episodes {
		if k, ok := e.flags[f.Name]; ok {
			long = append(long, float64(k.long.rows))
			share = append(share, float64(k.off)/float64(e.rows))
		}
	}
	if len(long) < enough {
		return
	}
	tracked := strings.Contains(f.Name, "track") || strings.Contains(f.Name, "valid")
	sp := runsOf(long)
	limit := sp.above(len(long), math.Max(0.2, 0.1*sp.mid))
	limitShare := spreadOf(share).above(len(share), 0.02)
	for _, e := range c.episodes {
		k, ok := e.flags[f.Name]
		if !ok || k.off == e.rows && sp.mid >= float64(e.rows) {
			continue
		}
		here := at(e.path, e.index, k.long.start).on(f.Name).lasting(k.long.rows)
		n := nums{"rows": float64(k.long.rows), "limit": limit, "share": float64(k.off) / float64(e.rows)}
		switch {
		case float64(k.long.rows) > limit && tracked:
			c.say("untracked", here, n, "the tracker did not see it for %d rows (%.2f s), %d of %d rows in all; the set's fence is %.1f rows", k.long.rows, float64(k.long.rows)/c.fps, k.off, e.rows, limit)
		case float64(k.long.rows) > limit && k.long.rows >= leastStill:
			c.say("stale", here, n, "no new sample for %d rows (%.2f s); the set's fence is %.1f rows", k.long.rows, float64(k.long.rows)/c.fps, limit)
		case float64(k.off)/float64(e.rows) > limitShare:
			c.say("stale-share", here, n, "%q is false in %.0f %% of the rows; the set's fence is %.0f %%", f.Name, 100*float64(k.off)/float64(e.rows), 100*limitShare)
		}
	}
}

// checkClocks finds gaps between rows and samples older than the set's.
func (c *checker) checkClocks() {
	for _, f := range c.set.Info.Features {
		var gaps, ages []float64
		for _, e := range c.episodes {
			if k, ok := e.clocks[f.Name]; ok {
				gaps, ages = append(gaps, k.gap), append(ages, k.age)
			}
		}
		if len(gaps) < enough {
			continue
		}
		// the least width is a quarter of a row: the jitter of an ordinary computer
		gapLimit, ageLimit := spreadOf(gaps).above(len(gaps), 0.25/c.fps), spreadOf(ages).above(len(ages), 0.25/c.fps)
		for _, e := range c.episodes {
			k, ok := e.clocks[f.Name]
			if ok && k.gap > gapLimit {
				c.say("capture-gap", at(e.path, e.index, k.gapAt).on(f.Name), nums{"seconds": k.gap, "limit": gapLimit},
					"feature %q: %.3f s more than a row between two samples; the set's fence is %.3f s", f.Name, k.gap, gapLimit)
			}
			if ok && k.age > ageLimit {
				c.say("capture-age", at(e.path, e.index, k.ageAt).on(f.Name), nums{"seconds": k.age, "limit": ageLimit},
					"feature %q: the sample of this row is %.3f s old; the set's fence is %.3f s", f.Name, k.age, ageLimit)
			}
		}
	}
}

// checkTwins finds episodes with the same numbers.
func (c *checker) checkTwins() {
	seen := map[uint64]*episode{}
	for _, e := range c.episodes {
		if e.hash == 0 {
			continue
		}
		if first := seen[e.hash]; first != nil && first.rows == e.rows {
			c.say("episode-duplicate", at(e.path, e.index, -1), nums{"of": float64(first.index)}, "its numbers are those of episode %d", first.index)
			continue
		}
		seen[e.hash] = e
	}
}

// groups splits the episodes by task, when each task has enough of them; otherwise all are one group.
func (c *checker) groups() [][]*episode {
	by := map[string][]*episode{}
	for _, e := range c.episodes {
		key := fmt.Sprint(e.tasks)
		by[key] = append(by[key], e)
	}
	var out [][]*episode
	for _, g := range by {
		if len(g) < enough {
			return [][]*episode{c.episodes}
		}
		out = append(out, g)
	}
	sort.Slice(out, func(i, j int) bool { return out[i][0].index < out[j][0].index })
	return out
}

// checkOutliers compares lengths, levels and scales of episodes with those of the same task.
func (c *checker) checkOutliers() {
	for _, g := range c.groups() {
		if len(g) < enough {
			continue
		}
		c.checkLengths(g)
		for _, f := range c.set.Info.Features {
			if isFloat(f.Feature) && !isClock(f.Feature) && f.Err == nil {
				c.checkLevels(g, f)
			}
		}
	}
}

func (c *checker) checkLengths(g []*episode) {
	var logs []float64
	for _, e := range g {
		logs = append(logs, math.Log(float64(e.rows)))
	}
	sp := spreadOf(logs)
	lo, hi := math.Exp(sp.below(len(g), 0.05)), math.Exp(sp.above(len(g), 0.05))
	for _, e := range g {
		if n := float64(e.rows); n < lo || n > hi {
			c.say("outlier-length", at(e.path, e.index, -1), nums{"rows": n, "low": lo, "high": hi}, "it has %d rows; episodes of its task have %.0f to %.0f", e.rows, lo, hi)
		}
	}
}

// hit is one element that is out of the ordinary.
type hit struct {
	text    string
	far     float64 // in fences
	element int
	value   float64
	limit   float64
}

// checkLevels compares mean and deviation of each element. A wrong unit, a wrong origin, swapped sides or another robot show here.
func (c *checker) checkLevels(g []*episode, f survey.Feature) {
	level, scale := map[*episode][]hit{}, map[*episode][]hit{}
	tests := len(g) * c.channelsAll()
	for d := range f.Dim() {
		if d > 2 && isPose(f.Feature) && !isMotion(f.Feature) {
			break // components of a rotation: their signs and sizes say little; jumps and steps are looked at as angles
		}
		var means, logs, stds []float64
		for _, e := range g {
			if s := e.has(f.Name); s != nil {
				means = append(means, s.mean[d])
				stds = append(stds, s.std[d])
				if s.std[d] > 0 {
					logs = append(logs, math.Log(s.std[d]))
				}
			}
		}
		if len(means) < enough {
			continue
		}
		// a mean over one take is not sharper than a tenth of how far the take moves, be it takes in general or this one
		sp := levelsOf(means)
		floor := math.Max(0.1*median(slices.Clone(stds)), 1e-9+1e-6*math.Abs(sp.mid))
		lo, hi := sp.below(tests, floor), sp.above(tests, floor)
		logFence := math.Inf(1)
		if len(logs) >= enough && float64(len(logs)) >= majority*float64(len(means)) {
			logFence = spreadOf(logs).above(tests, 0.15)
		}
		for _, e := range g {
			s := e.has(f.Name)
			if s == nil {
				continue
			}
			own := reach(tests) * 0.1 * s.std[d]
			lo, hi := math.Min(lo, sp.mid-own), math.Max(hi, sp.mid+own)
			if m := s.mean[d]; m < lo || m > hi {
				far := math.Max((lo-m)/(hi-lo), (m-hi)/(hi-lo))
				level[e] = append(level[e], hit{fmt.Sprintf("element %s has mean %.4g, others %.4g to %.4g", element(f.Feature, d), m, lo, hi), far, d, m, hi})
			}
			if s.std[d] > 0 && math.Log(s.std[d]) > logFence {
				scale[e] = append(scale[e], hit{fmt.Sprintf("element %s varies by %.4g, others by up to %.4g", element(f.Feature, d), s.std[d], math.Exp(logFence)), math.Log(s.std[d]) - logFence, d, s.std[d], math.Exp(logFence)})
			}
		}
	}
	for _, e := range g {
		c.sayHits("outlier-level", e, f, level[e])
		c.sayHits("outlier-scale", e, f, scale[e])
	}
}

func (c *checker) sayHits(code string, e *episode, f survey.Feature, hits []hit) {
	if len(hits) == 0 {
		return
	}
	worst := slices.MaxFunc(hits, func(a, b hit) int {
		if a.far < b.far {
			return -1
		}
		return 1
	})
	more := ""
	if len(hits) > 1 {
		more = fmt.Sprintf(" (and %d more elements)", len(hits)-1)
	}
	c.say(code, at(e.path, e.index, -1).on(f.Name), nums{"element": float64(worst.element), "value": worst.value, "limit": worst.limit, "elements": float64(len(hits))},
		"feature %q: %s%s", f.Name, worst.text, more)
}
