package check

import (
	"math"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// series gives one number per row for some episodes.
type series struct {
	name string
	of   map[int][]float32
}

// checkLags measures how far one signal runs behind another: actions behind states, the right hand behind the left, pictures behind
// the hands. Only a pair whose signals agree in most of the set can tell; its fence is that of the lags of all episodes.
func (c *checker) checkLags() {
	var states, actions, left []series
	for _, f := range c.set.Info.Features {
		s := series{f.Name, map[int][]float32{}}
		for _, e := range c.episodes {
			if m := e.motion[f.Name]; m != nil {
				s.of[e.index] = m
			}
		}
		if len(s.of) == 0 {
			continue
		}
		if strings.HasPrefix(f.Name, "action") {
			actions = append(actions, s)
		} else {
			states = append(states, s)
			if strings.Contains(f.Name, "left") && !strings.Contains(f.Name, "right") {
				left = append(left, s)
			}
		}
	}
	for _, a := range actions {
		c.checkLag("action-lag", a, states)
	}
	for _, l := range left {
		if twin, ok := find(states, strings.ReplaceAll(l.name, "left", "right")); ok {
			c.checkLag("hands-lag", twin, []series{l})
		}
	}
	hands := c.carriers()
	for _, cam := range c.cameras() {
		s := series{cam, map[int][]float32{}}
		c.episodesWith(cam, func(u *use, e *survey.Episode, first int) {
			if size := energy(u.info, first, e.Length); size != nil {
				s.of[e.Index] = size
			}
		})
		c.checkLag("video-lag", s, hands)
	}
}

// carriers are the signals that pictures move with: the poses of hands and tools, or the joints where there are no poses.
func (c *checker) carriers() []series {
	var poses, others []series
	for _, f := range c.set.Info.Features {
		if strings.HasPrefix(f.Name, "action") || isMotion(f.Feature) {
			continue
		}
		s := series{f.Name, map[int][]float32{}}
		for _, e := range c.episodes {
			if m := e.motion[f.Name]; m != nil {
				s.of[e.index] = m
			}
		}
		switch {
		case len(s.of) == 0:
		case isPose(f.Feature):
			poses = append(poses, s)
		default:
			others = append(others, s)
		}
	}
	if len(poses) > 0 {
		return poses
	}
	return others
}

func find(list []series, name string) (series, bool) {
	for _, s := range list {
		if s.name == name {
			return s, true
		}
	}
	return series{}, false
}

// sampled bounds the episodes in which partners are tried.
const sampled = 16

// agreement is the correlation from which two signals are taken for one motion. Two hands move by one plan but not as one.
const (
	agreement     = 0.5
	handAgreement = 0.75
)

func agreementOf(code string) float64 {
	if code == "hands-lag" {
		return handAgreement
	}
	return agreement
}

// checkLag finds the partner whose motion agrees best with a signal, and the episodes in which the lag between them is not the set's.
func (c *checker) checkLag(code string, s series, partners []series) {
	var at []int
	for i := range s.of {
		at = append(at, i)
	}
	if len(at) < enough {
		return
	}
	sort.Ints(at)
	best, bestAgrees := -1, agreementOf(code)
	for p, partner := range partners {
		var peaks []float64
		for i := 0; i < len(at); i += 1 + len(at)/sampled {
			if l, ok := c.lag(s.of[at[i]], partner.of[at[i]]); ok {
				peaks = append(peaks, l.peak)
			}
		}
		if len(peaks) >= min(enough, sampled/2) {
			if m := median(peaks); m > bestAgrees {
				best, bestAgrees = p, m
			}
		}
	}
	if best >= 0 {
		c.compareLags(code, s, partners[best], at)
	}
}

// lagResult is the lag of the highest correlation, in rows, positive when the first signal is later.
type lagResult struct {
	episode int
	rows    float64
	peak    float64
	curve   []float64 // correlation at lags -reach..reach
}

// maxLag bounds the search, in seconds.
const maxLag = 0.6

func (c *checker) lag(a, b []float32) (lagResult, bool) {
	n := min(len(a), len(b))
	most := min(int(math.Ceil(maxLag*c.fps)), n/4)
	if n < 20 || most < 2 || len(a) != len(b) {
		return lagResult{}, false
	}
	x, y := standard(a), standard(b)
	if x == nil || y == nil {
		return lagResult{}, false
	}
	out := lagResult{curve: make([]float64, 2*most+1), peak: -1}
	for l := -most; l <= most; l++ {
		sum, na, nb := 0.0, 0.0, 0.0
		for k := max(1, l+1); k < n && k-l < n; k++ { // a[k] with b[k-l]
			p, q := x[k], y[k-l]
			sum += p * q
			na += p * p
			nb += q * q
		}
		r := 0.0
		if na > 0 && nb > 0 {
			r = sum / math.Sqrt(na*nb)
		}
		out.curve[l+most] = r
		if r > out.peak {
			out.peak, out.rows = r, float64(l)
		}
	}
	return out, true
}

// standard takes logarithms, so that one fast moment does not outweigh the rest, and removes mean and scale. Nil when nothing changes.
func standard(v []float32) []float64 {
	out := make([]float64, len(v))
	top := float32(0)
	for _, x := range v {
		top = max(top, x)
	}
	if top == 0 {
		return nil
	}
	mean := 0.0
	for k, x := range v {
		out[k] = math.Log(float64(x/top) + 0.05)
		if k > 0 {
			mean += out[k]
		}
	}
	mean /= float64(len(v) - 1)
	for k := range out {
		out[k] -= mean
	}
	return out
}

func (c *checker) compareLags(code string, s, partner series, at_ []int) {
	var lags []lagResult
	var rows []float64
	for _, i := range at_ {
		if l, ok := c.lag(s.of[i], partner.of[i]); ok && l.peak >= agreementOf(code) {
			l.episode = i
			lags = append(lags, l)
			rows = append(rows, l.rows)
		}
	}
	if len(rows) < enough {
		return
	}
	sp := spreadOf(rows)
	fence := math.Max(1.5, reach(len(rows))*sp.dev) // lags come in whole rows, and one row is the rounding of two clocks
	if fence > maxLag*c.fps/2 {
		return // the set has no lag of its own
	}
	usual := int(math.Round(sp.mid))
	for _, l := range lags {
		if math.Abs(l.rows-sp.mid) <= fence {
			continue
		}
		most := len(l.curve) / 2
		if usual+most < 0 || usual+most >= len(l.curve) || l.peak-l.curve[usual+most] < 0.1 {
			continue // as good at the usual lag
		}
		if math.Abs(l.rows) >= float64(most) {
			continue // the end of the search is no peak
		}
		e := c.byIndex[l.episode]
		c.say(code, at(e.path, e.index, -1).on(s.name), nums{"rows": l.rows, "usual": sp.mid, "fence": fence, "correlation": l.peak},
			"%q runs %.0f rows (%.3f s) behind %q; in the set it is %.0f rows, the fence %.1f rows around that", s.name, l.rows, l.rows/c.fps, partner.name, sp.mid, fence)
	}
}
