package check

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// checkContent compares every episode with the set: all thresholds are fences of the set's own distribution.
func (c *checker) checkContent() {
	if len(c.episodes) == 0 {
		return
	}
	c.did("content")
	c.checkConstant()
	for _, f := range c.set.Info.Features {
		if !f.DType.Numeric() || isDefault(f.Name) || f.Err != nil {
			continue
		}
		if isFloat(f.Feature) && !isClock(f.Feature) {
			c.checkJumps(f)
			c.checkStill(f)
			c.checkRough(f)
			c.checkConstantEpisodes(f)
		}
		if isPose(f.Feature) {
			c.checkSigns(f)
		}
	}
	c.checkIdle()
	c.checkFlagRuns()
	c.checkClocks()
	c.checkLaws()
	c.checkOutliers()
	c.checkTwins()
	c.checkLags()
}

// has gives the summary of a feature that can be used.
func (e *episode) has(name string) *summary {
	s := e.summaries[name]
	if s == nil || s.bad {
		return nil
	}
	return s
}

// checkConstant reports elements with one value in all rows of the set.
func (c *checker) checkConstant() {
	var others []string
	total := 0
	for _, f := range c.set.Info.Features {
		if !f.DType.Numeric() || isDefault(f.Name) || f.Err != nil {
			continue
		}
		still := c.stillElements(f.Feature)
		if len(still) == 0 {
			continue
		}
		if isFlag(f.Feature) || !(strings.HasPrefix(f.Name, "action") || strings.HasPrefix(f.Name, "observation.state")) {
			total++
			others = append(others, fmt.Sprintf("%s (%d of %d)", f.Name, len(still), f.Dim()))
			continue
		}
		c.say("constant", of(f.Name, ""), nums{"elements": float64(len(still))},
			"feature %q: %d of %d elements never change over %d rows (deviation 0): %s", f.Name, len(still), f.Dim(), c.totalRows(), few(still, 8))
	}
	if total > 0 {
		c.say("constant-other", in(""), nums{"features": float64(total)}, "elements that never change in %d other features: %s", total, few(others, 6))
	}
}

func (c *checker) totalRows() int {
	n := 0
	for _, e := range c.episodes {
		n += e.rows
	}
	return n
}

func (c *checker) stillElements(f dataset.Feature) []string {
	var out []string
	for d := range f.Dim() {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, e := range c.episodes {
			if s := e.has(f.Name); s != nil {
				lo, hi = math.Min(lo, s.min[d]), math.Max(hi, s.max[d])
			}
		}
		if lo == hi {
			out = append(out, fmt.Sprintf("%s = %.6g", element(f, d), lo))
		}
	}
	return out
}

// checkJumps finds sudden displacements: a fence over the square root of each episode's largest one, which has neither the long upper
// tail of the displacement nor the long lower tail of its logarithm. A set of few episodes is judged
// by all its channels together, each in units of its ordinary step.
func (c *checker) checkJumps(f survey.Feature) {
	if n := c.channelCount(f.Name); n > 0 {
		for ch := range n {
			c.checkJump(f, ch)
		}
	}
}

func (c *checker) channelCount(name string) int {
	for _, e := range c.episodes {
		if s := e.has(name); s != nil && len(s.channels) > 0 {
			return len(s.channels)
		}
	}
	return 0
}

func (c *checker) checkJump(f survey.Feature, ch int) {
	var roots, steps []float64
	for _, e := range c.episodes {
		if s := e.has(f.Name); s != nil && ch < len(s.channels) && s.channels[ch].step > 0 {
			steps = append(steps, s.channels[ch].step)
			roots = append(roots, math.Sqrt(s.channels[ch].jump))
		}
	}
	if len(steps) == 0 {
		return
	}
	step := median(steps)
	limit := 0.0
	if len(roots) >= enough {
		// the width is a tenth at least: the largest of a few dozen steps varies that much from take to take
		sp := jumpsOf(roots)
		limit = math.Pow(sp.above(len(roots)*c.channelsAll(), 0.1*sp.mid), 2)
	} else if fence, ok := c.pooledJumps(); ok {
		limit = fence * step
	} else {
		return
	}
	limit = math.Max(limit, 2*step) // less than two ordinary steps is no jump in any set
	for _, e := range c.episodes {
		s := e.has(f.Name)
		if s == nil || ch >= len(s.channels) || s.channels[ch].jump <= limit {
			continue
		}
		k := s.channels[ch]
		code := "jump"
		if isPose(f.Feature) {
			code = "pose-jump"
		}
		c.say(code, at(e.path, e.index, k.at).on(f.Name).keyed(fmt.Sprint(e.index)), nums{"jump": k.jump, "limit": limit, "step": step},
			"feature %q, %s: a sudden step %.4g beyond the steps around it; the set's fence is %.4g, its ordinary step %.4g", f.Name, k.name, k.jump, limit, step)
	}
}

// channelsAll counts the channels of the set.
func (c *checker) channelsAll() int {
	if c.channelTotal == 0 {
		c.channelTotal = 1
		for _, f := range c.set.Info.Features {
			c.channelTotal += c.channelCount(f.Name)
		}
	}
	return c.channelTotal
}

// pooledJumps is the fence over jump / step of all channels together.
func (c *checker) pooledJumps() (float64, bool) {
	var logs []float64
	for _, e := range c.episodes {
		for _, s := range e.summaries {
			for _, k := range s.channels {
				if k.step > 0 && k.jump > 0 && !s.bad {
					logs = append(logs, math.Log(k.jump/k.step))
				}
			}
		}
	}
	if len(logs) < enough {
		return 0, false
	}
	return math.Exp(spreadOf(logs).above(len(logs), 0.3)), true
}

// checkStill finds a sensor that stopped: all elements, or one of them, keep a value for longer than the set ever does.
func (c *checker) checkStill(f survey.Feature) {
	limit := c.stillFence(func(s *summary) stretch { return s.frozen }, f.Name)
	for _, e := range c.episodes {
		s := e.has(f.Name)
		if s == nil || !s.moves() || e.idleHolds(s.frozen) {
			continue
		}
		if float64(s.frozen.rows) > limit {
			code := "frozen"
			if strings.Contains(f.Name, "joint") || strings.Contains(f.Name, "gripper") || strings.Contains(f.Name, "finger") && f.Dim() < 7 {
				code = "encoder-stall"
			}
			c.say(code, at(e.path, e.index, s.frozen.start).on(f.Name).lasting(s.frozen.rows), nums{"rows": float64(s.frozen.rows), "limit": limit},
				"feature %q keeps all %d elements exactly equal for %d rows (%.2f s); the set's fence is %.1f rows", f.Name, f.Dim(), s.frozen.rows, float64(s.frozen.rows)/c.fps, limit)
		}
	}
	if f.Dim() > 1 {
		c.checkStillElements(f)
	}
}

// idleHolds: a stretch in which nothing at all moves is one finding, of the episode.
func (e *episode) idleHolds(s stretch) bool {
	return s.rows <= e.idle.rows+2 && s.start >= e.idle.start-1 && s.start+s.rows <= e.idle.start+e.idle.rows+1
}

// leastStill is the shortest stretch that is ever reported, in rows: two samples that agree are chance, three a held sample.
const leastStill = 4

// stillFence is the limit of the longest stretch of an episode. In a set of few episodes all elements of all features are judged
// together: what many of them do is how this robot moves.
func (c *checker) stillFence(get func(*summary) stretch, name string) float64 {
	var longest []float64
	for _, e := range c.episodes {
		if s := e.has(name); s != nil && s.moves() {
			longest = append(longest, float64(get(s).rows))
		}
	}
	if len(longest) < enough {
		return c.pooledStill()
	}
	sp := runsOf(longest)
	return math.Max(sp.above(len(longest)*c.channelsAll(), math.Max(0.4, 0.1*sp.mid)), leastStill-1)
}

// pooledStill is the fence over the longest runs of all elements in all episodes of a small set.
func (c *checker) pooledStill() float64 {
	if c.pooledRuns > 0 {
		return c.pooledRuns
	}
	var longest []float64
	for _, e := range c.episodes {
		for _, s := range e.summaries {
			for d := range s.still {
				if !s.bad && s.min[d] != s.max[d] && isFloat(s.f) && !isClock(s.f) {
					longest = append(longest, math.Log(float64(s.still[d].rows)))
				}
			}
		}
	}
	c.pooledRuns = math.Inf(1)
	if len(longest) >= enough { // arms, hands and grippers move in different ways: runs are compared by their logarithms
		c.pooledRuns = math.Max(math.Exp(runsOf(longest).above(len(longest), 0.3)), c.fps/2)
	}
	return c.pooledRuns
}

func (c *checker) checkStillElements(f survey.Feature) {
	for d := range f.Dim() {
		limit := c.stillFence(func(s *summary) stretch { return s.still[d] }, f.Name)
		for _, e := range c.episodes {
			s := e.has(f.Name)
			if s == nil || s.min[d] == s.max[d] || s.still[d].rows <= s.frozen.rows || e.idleHolds(s.still[d]) {
				continue
			}
			if float64(s.still[d].rows) <= limit {
				continue
			}
			code, what := "stuck", "keeps one value while others move"
			if c.atExtreme(e, s, d) {
				code, what = "clipped", "stays at its extreme as if cut off there"
			}
			c.say(code, at(e.path, e.index, s.still[d].start).on(f.Name).lasting(s.still[d].rows), nums{"rows": float64(s.still[d].rows), "limit": limit, "element": float64(d)},
				"feature %q, element %s %s for %d rows (%.2f s); the set's fence is %.1f rows", f.Name, element(f.Feature, d), what, s.still[d].rows, float64(s.still[d].rows)/c.fps, limit)
		}
	}
}

// atExtreme reports whether the longest still stretch lies at the episode's least or greatest value; only its place is known, so the
// value comes from comparing with the extremes that the summary saw during it.
func (c *checker) atExtreme(_ *episode, s *summary, d int) bool {
	return s.stillValue[d] == s.min[d] || s.stillValue[d] == s.max[d]
}

// checkRough finds signals much noisier than the set's.
func (c *checker) checkRough(f survey.Feature) {
	for ch := range c.channelCount(f.Name) {
		var v []float64
		for _, e := range c.episodes {
			if s := e.has(f.Name); s != nil && ch < len(s.channels) && s.channels[ch].path > 0 && e.rows >= 10 {
				v = append(v, s.channels[ch].rough)
			}
		}
		if len(v) < enough {
			continue
		}
		limit := spreadOf(v).above(len(v)*c.channelsAll(), 0.05)
		for _, e := range c.episodes {
			s := e.has(f.Name)
			if s == nil || ch >= len(s.channels) || e.rows < 10 || s.channels[ch].rough <= limit || s.channels[ch].jump > 0 && c.jumped(e, f.Name) {
				continue
			}
			c.say("noisy", at(e.path, e.index, -1).on(f.Name), nums{"roughness": s.channels[ch].rough, "limit": limit},
				"feature %q, %s: it goes back and forth by %.2f of its steps; the set's fence is %.2f", f.Name, s.channels[ch].name, s.channels[ch].rough, limit)
		}
	}
}

// jumped reports whether a jump of this feature was said: it makes the episode rough too.
func (c *checker) jumped(e *episode, name string) bool {
	return slices.ContainsFunc(c.list, func(f dataset.Finding) bool {
		return f.Episode == e.index && f.Feature == name && (f.Code == "jump" || f.Code == "pose-jump")
	})
}

// checkConstantEpisodes finds a feature that moves in the set but not in an episode, where the set has no small motions either.
func (c *checker) checkConstantEpisodes(f survey.Feature) {
	var ranges []float64
	still := 0
	for _, e := range c.episodes {
		if s := e.has(f.Name); s != nil {
			if s.moves() {
				ranges = append(ranges, s.span())
			} else {
				still++
			}
		}
	}
	if still == 0 || len(ranges) < enough || float64(len(ranges)) < majority*float64(len(ranges)+still) {
		return
	}
	// a feature that at times hardly moves may also not move at all
	logs := make([]float64, len(ranges))
	for i, r := range ranges {
		logs[i] = math.Log(r)
	}
	if low := slices.Min(logs); low < spreadOf(logs).below(len(logs), 0.3) {
		return
	}
	for _, e := range c.episodes {
		if s := e.has(f.Name); s != nil && !s.moves() && e.rows >= 10 {
			c.say("constant-episode", at(e.path, e.index, -1).on(f.Name), nums{"moving": float64(len(ranges)), "episodes": float64(len(ranges) + still)},
				"feature %q never changes in this episode; it moves in %d of %d", f.Name, len(ranges), len(ranges)+still)
		}
	}
}

// span is the widest range of an element.
func (s *summary) span() float64 {
	w := 0.0
	for d := range s.min {
		w = math.Max(w, s.max[d]-s.min[d])
	}
	return w
}

// checkSigns: a quaternion and its negative are one rotation, but a network that reads them sees a jump.
func (c *checker) checkSigns(f survey.Feature) {
	var flips []float64
	canonical, n := 0, 0
	for _, e := range c.episodes {
		if s := e.has(f.Name); s != nil {
			n++
			flips = append(flips, float64(s.flips))
			if s.negative == 0 {
				canonical++
			}
		}
	}
	if n < 2 {
		return
	}
	limit := spreadOf(flips).above(n, 0.1)
	for _, e := range c.episodes {
		s := e.has(f.Name)
		if s == nil {
			continue
		}
		if float64(s.flips) > limit {
			c.say("quaternion-sign", at(e.path, e.index, s.flipAt).on(f.Name), nums{"flips": float64(s.flips), "limit": limit},
				"feature %q: its quaternion changes its sign %d times; the set's fence is %.1f", f.Name, s.flips, limit)
		} else if s.negative > 0 && n >= enough && float64(canonical) >= majority*float64(n) {
			c.say("quaternion-sign", at(e.path, e.index, -1).on(f.Name), nums{"negative": float64(s.negative)},
				"feature %q: w is negative in %d of %d rows; %d of %d episodes keep it positive", f.Name, s.negative, e.rows, canonical, n)
		}
	}
}
