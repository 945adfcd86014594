package check

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// checkStats looks at meta/stats.json (v3.0) and the statistics of the episodes, and compares both with the rows.
func (c *checker) checkStats() {
	c.did("statistics")
	if c.v3() {
		c.checkStatsFile()
		c.compareAll()
	} else if !c.set.Exists(survey.StatsPathV21) {
		c.say("stats-episodes", in(survey.StatsPathV21), nil, "there are no statistics of the episodes: the official loader of v2.1 stops")
	}
	for i := range c.set.Episodes {
		c.checkEpisodeStats(&c.set.Episodes[i])
	}
}

func (c *checker) checkStatsFile() {
	b, err := os.ReadFile(c.set.Abs(survey.StatsPath))
	here := in(survey.StatsPath)
	if os.IsNotExist(err) {
		if len(c.set.Episodes) > 0 {
			c.say("stats-missing", here, nil, "it is missing; training stops at the normalisation")
		}
		return
	}
	if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Infinity")) {
		c.say("stats-nan", here, nil, "it holds NaN or Infinity: the loss becomes NaN")
		return
	}
	var raw map[string]map[string]any
	if err == nil {
		err = json.Unmarshal(b, &raw)
	}
	if err != nil {
		c.say("stats-json", here, nil, "it does not decode: %v", err)
		return
	}
	c.stats = map[string]dataset.Stats{}
	for _, f := range c.set.Info.Features {
		if (f.DType.Numeric() || f.DType.Visual()) && f.Err == nil {
			c.checkFeatureStats(f, raw[f.Name])
		}
	}
	for name := range raw {
		if _, ok := c.set.Info.Feature(name); !ok {
			c.say("stats-extra", here.on(name).keyed("*"), nil, "it has statistics of %q, which is no feature", name)
		}
	}
}

// checkFeatureStats looks at one feature of stats.json: keys, shapes, order, plausible picture numbers.
func (c *checker) checkFeatureStats(f survey.Feature, raw map[string]any) {
	here := of(f.Name, survey.StatsPath)
	if raw == nil {
		c.say("stats-feature", here, nil, "feature %q has no statistics; training with it stops", f.Name)
		return
	}
	var gone, quantiles []string
	for _, name := range survey.StatNames {
		if _, ok := raw[name]; ok {
			continue
		}
		if strings.HasPrefix(name, "q") {
			quantiles = append(quantiles, name)
		} else {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		c.say("stats-keys", here, nil, "feature %q lacks %s", f.Name, strings.Join(gone, ", "))
		return
	}
	if len(quantiles) > 0 {
		c.say("stats-quantiles", in(survey.StatsPath).keyed("*"), nil, "feature %q lacks %s: policies that normalise by quantiles (pi0.5) refuse the dataset", f.Name, strings.Join(quantiles, ", "))
	}
	if !c.checkStatShapes(f, raw) {
		return
	}
	s := dataset.Stats{}
	for name, v := range raw {
		if p := survey.Part(&s, name); p != nil {
			*p = flatten(v, nil)
		}
	}
	if n := flatten(raw["count"], nil); len(n) == 1 {
		s.Count = int64(n[0])
	}
	c.stats[f.Name] = s
	c.checkStatOrder(f, s, survey.StatsPath, -1)
	if f.DType.Visual() {
		c.checkPictureStats(f, s, survey.StatsPath, -1)
	} else if strings.Contains(f.Name, "image") {
		c.say("stats-image-name", in(survey.StatsPath).keyed("*"), nil, "feature %q is numeric but its name contains \"image\"; its statistics have the shape (%d,1,1) that LeRobot's tools demand for such names", f.Name, f.Dim())
	}
}

// checkStatShapes applies the rule of LeRobot's merge: count (1,), pictures and every name with "image" (3,1,1) or (1,1,1), the
// others as wide as the feature.
func (c *checker) checkStatShapes(f survey.Feature, raw map[string]any) bool {
	for _, name := range survey.StatNames {
		v, ok := raw[name]
		if !ok {
			continue
		}
		shape := shapeOf(v)
		want := slices.Equal(shape, []int{f.Dim()})
		switch {
		case name == "count":
			want = slices.Equal(shape, []int{1})
		case f.DType.Visual() || strings.Contains(f.Name, "image"):
			want = slices.Equal(shape, []int{3, 1, 1}) || slices.Equal(shape, []int{1, 1, 1})
		}
		if !want {
			c.say("stats-shape", of(f.Name, survey.StatsPath), nil, "%s of feature %q has shape %v, which LeRobot's merge refuses", name, f.Name, shape)
			return false
		}
	}
	return true
}

func shapeOf(v any) []int {
	var shape []int
	for {
		list, ok := v.([]any)
		if !ok {
			return shape
		}
		shape = append(shape, len(list))
		if len(list) == 0 {
			return shape
		}
		v = list[0]
	}
}

func flatten(v any, out []float64) []float64 {
	switch v := v.(type) {
	case float64:
		return append(out, v)
	case bool:
		if v {
			return append(out, 1)
		}
		return append(out, 0)
	case []any:
		for _, e := range v {
			out = flatten(e, out)
		}
	}
	return out
}

// checkStatOrder: min <= q01 <= ... <= q99 <= max, the mean between min and max, no negative deviation.
func (c *checker) checkStatOrder(f survey.Feature, s dataset.Stats, file string, episode int) {
	order := [][]float64{s.Min, s.Q01, s.Q10, s.Q50, s.Q90, s.Q99, s.Max}
	for d := range s.Mean {
		if d >= len(s.Min) || d >= len(s.Max) || d >= len(s.Std) {
			return
		}
		slack := 1e-6*(s.Max[d]-s.Min[d]) + 1e-9*math.Abs(s.Max[d]) + 1e-9
		last, bad := math.Inf(-1), s.Std[d] < 0 || s.Mean[d] < s.Min[d]-slack || s.Mean[d] > s.Max[d]+slack || s.Std[d] > (s.Max[d]-s.Min[d])/2+slack
		for _, q := range order {
			if d < len(q) {
				bad = bad || q[d] < last-slack
				last = q[d]
			}
		}
		if bad {
			c.say("stats-order", at(file, episode, -1).on(f.Name), nums{"element": float64(d), "min": s.Min[d], "max": s.Max[d], "mean": s.Mean[d], "std": s.Std[d]},
				"feature %q, element %s: no numbers have minimum %.4g, mean %.4g, maximum %.4g, deviation %.4g and quantiles in that order", f.Name, element(f.Feature, d), s.Min[d], s.Mean[d], s.Max[d], s.Std[d])
			return
		}
	}
}

// checkPictureStats finds deviations that no picture has: recorders before 2026 summed squares in 8 bits.
func (c *checker) checkPictureStats(f survey.Feature, s dataset.Stats, file string, episode int) {
	if len(s.Std) == 0 || len(s.Mean) == 0 || len(s.Max) == 0 {
		return
	}
	// 0.02 of the range is five grey levels: less contrast than sensor noise on an even wall
	if hi := slices.Max(s.Std); hi < 0.02 {
		c.say("stats-image-std", at(file, episode, -1).on(f.Name), nums{"std": hi, "mean": s.Mean[0]},
			"feature %q has picture deviation %.6g at mean %.3f (range 0 to 1): an overflow of 8-bit squares in older recorders; training would divide by it", f.Name, hi, s.Mean[0])
	}
	if hi := slices.Max(s.Max); hi > 1.001 {
		c.say("stats-image-range", at(file, episode, -1).on(f.Name), nums{"max": hi}, "feature %q has maximum %g, pictures range from 0 to 1", f.Name, hi)
	}
}

func (c *checker) checkEpisodeStats(e *survey.Episode) {
	file := e.File
	if !c.v3() {
		file = survey.StatsPathV21
	}
	for _, f := range c.set.Info.Features {
		s, ok := e.Stats[f.Name]
		if !ok || f.Err != nil {
			continue
		}
		for _, name := range survey.StatNames {
			if p := survey.Part(&s, name); p != nil && slices.ContainsFunc(*p, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
				c.say("stats-episode-nan", at(file, e.Index, -1).on(f.Name), nil, "%s of feature %q is not finite", name, f.Name)
				ok = false
			}
		}
		if !ok {
			continue
		}
		if f.DType.Visual() {
			c.checkPictureStats(f, s, file, e.Index)
		} else {
			c.compareEpisode(f, s, e, file)
		}
	}
}

// staleTolerance is the share of an element's range by which a stored number may be off: histograms and float32 sums are coarse.
const staleTolerance = 0.01

// compareEpisode compares the stored statistics of an episode with its rows.
func (c *checker) compareEpisode(f survey.Feature, s dataset.Stats, e *survey.Episode, file string) {
	rows := c.byIndex[e.Index]
	if rows == nil || rows.has(f.Name) == nil && !isDefault(f.Name) || e.Length != rows.rows || isDefault(f.Name) {
		return
	}
	got := rows.has(f.Name)
	for d := range got.mean {
		if d >= len(s.Mean) || d >= len(s.Std) || d >= len(s.Min) || d >= len(s.Max) {
			return
		}
		if what, stored, real := differs(s, d, got.min[d], got.max[d], got.mean[d], got.std[d]); what != "" {
			c.say("stats-episode-stale", at(file, e.Index, -1).on(f.Name), nums{"element": float64(d), "stored": stored, "rows": real},
				"feature %q, element %s: stored %s %g, the rows give %g", f.Name, element(f.Feature, d), what, stored, real)
			return
		}
	}
}

func differs(s dataset.Stats, d int, lo, hi, mean, std float64) (what string, stored, got float64) {
	span := math.Max(hi-lo, 1e-6*math.Max(math.Abs(lo), 1e-3))
	for _, q := range []struct {
		name        string
		stored, got float64
	}{{"mean", s.Mean[d], mean}, {"std", s.Std[d], std}, {"min", s.Min[d], lo}, {"max", s.Max[d], hi}} {
		if math.Abs(q.stored-q.got) > staleTolerance*span {
			return q.name, q.stored, q.got
		}
	}
	return "", 0, 0
}

// compareAll compares meta/stats.json with the rows, when all rows are there.
func (c *checker) compareAll() {
	if !c.full || c.stats == nil {
		return
	}
	for _, f := range c.set.Info.Features {
		s, ok := c.stats[f.Name]
		if !ok || !f.DType.Numeric() || isDefault(f.Name) || len(s.Mean) != f.Dim() || len(s.Std) != f.Dim() || len(s.Min) != f.Dim() || len(s.Max) != f.Dim() {
			continue
		}
		for d := range f.Dim() {
			lo, hi, mean, std, ok := c.pooled(f.Name, d)
			if !ok {
				break
			}
			if what, stored, real := differs(s, d, lo, hi, mean, std); what != "" {
				c.say("stats-stale", of(f.Name, survey.StatsPath), nums{"element": float64(d), "stored": stored, "rows": real},
					"feature %q, element %s: stored %s %g, the rows give %g", f.Name, element(f.Feature, d), what, stored, real)
				break
			}
		}
		if n := int64(c.totalRows()); s.Count != n {
			c.say("stats-count", of(f.Name, survey.StatsPath), nums{"count": float64(s.Count), "rows": float64(n)}, "feature %q counts %d rows, there are %d", f.Name, s.Count, n)
		}
	}
}

// pooled joins the episodes' numbers of one element.
func (c *checker) pooled(name string, d int) (lo, hi, mean, std float64, ok bool) {
	lo, hi = math.Inf(1), math.Inf(-1)
	n, m2 := 0.0, 0.0
	for _, e := range c.episodes {
		s := e.has(name)
		if s == nil || d >= len(s.mean) {
			return 0, 0, 0, 0, false
		}
		k := float64(e.rows)
		lo, hi = math.Min(lo, s.min[d]), math.Max(hi, s.max[d])
		delta := s.mean[d] - mean
		m2 += k*s.std[d]*s.std[d] + delta*delta*n*k/(n+k)
		mean += delta * k / (n + k)
		n += k
	}
	return lo, hi, mean, math.Sqrt(m2 / math.Max(1, n)), n > 0
}
