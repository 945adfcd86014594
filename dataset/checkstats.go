package dataset

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkStats looks at meta/stats.json (v3.0) and the statistics of the episodes.
func (c *checker) checkStats() {
	c.did("statistics")
	if c.d.info.major() == 3 {
		c.checkStatsFile()
	} else if len(c.d.episodes) > 0 && len(c.d.episodes[0].Stats) == 0 {
		c.notef("stats-missing", v21StatsPath, "none needed for extract, which computes them", "no statistics of the episodes")
	}
	for _, f := range c.d.info.Features {
		if !f.DType.Numeric() && !f.DType.Visual() {
			continue
		}
		for _, e := range c.d.episodes {
			c.checkEpisodeStats(f, e)
		}
	}
}

func (c *checker) checkStatsFile() {
	const fix = "recompute the statistics"
	b, err := os.ReadFile(filepath.Join(c.root, statsPath))
	if notExist(err) {
		if c.d.info.TotalEpisodes > 0 {
			c.errorf("stats-missing", statsPath, fix, "it is missing; training stops at the normalisation")
		}
		return
	}
	if bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Infinity")) {
		c.errorf("stats-nan", statsPath, fix, "it holds NaN or Infinity: the loss becomes NaN")
		return
	}
	if c.d.stats, err = decodeStats(b); err != nil {
		c.errorf("stats", statsPath, fix, "%v", err)
		return
	}
	var raw map[string]map[string]any
	if json.Unmarshal(b, &raw) != nil {
		return
	}
	for _, f := range c.d.info.Features {
		if f.DType.Numeric() || f.DType.Visual() {
			c.checkFeatureStats(f, raw[f.Name])
		}
	}
}

// checkFeatureStats looks at one feature of stats.json: keys, shapes, plausible picture numbers.
func (c *checker) checkFeatureStats(f Feature, raw map[string]any) {
	const fix = "recompute the statistics"
	if raw == nil {
		c.each(Error, "stats-feature", f.Name, statsPath, -1, -1, fix, "feature %q has no statistics; training with it stops", f.Name)
		return
	}
	var gone, quantiles []string
	for _, name := range statNames {
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
		c.each(Error, "stats-keys", f.Name, statsPath, -1, -1, fix, "feature %q lacks %s", f.Name, strings.Join(gone, ", "))
		return
	}
	if len(quantiles) > 0 {
		c.each(Warn, "stats-quantiles", "", statsPath, -1, -1, fix, "feature %q lacks %s: policies that normalise by quantiles (pi0.5) refuse the dataset", f.Name, strings.Join(quantiles, ", "))
	}
	c.checkStatShapes(f, raw)
	if s := c.d.stats[f.Name]; f.DType.Visual() {
		c.checkPictureStats(f, s, statsPath, -1)
	} else if strings.Contains(f.Name, "image") {
		c.each(Note, "stats-image-name", "", statsPath, -1, -1, "none needed", "feature %q is numeric but its name contains \"image\"; its statistics have the shape (%d,1,1) that LeRobot's tools demand for such names", f.Name, f.Dim())
	}
}

// checkStatShapes applies the rule of LeRobot's merge: count (1,), pictures and every name with "image" (3,1,1) or
// (1,1,1), the others as wide as the feature.
func (c *checker) checkStatShapes(f Feature, raw map[string]any) {
	for _, name := range statNames {
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
			c.each(Error, "stats-shape", f.Name, statsPath, -1, -1, "recompute the statistics", "%s of feature %q has shape %v, which LeRobot's merge refuses", name, f.Name, shape)
			return
		}
	}
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

// checkPictureStats finds deviations that no picture has: recorders before 2026 summed squares in 8 bits.
func (c *checker) checkPictureStats(f Feature, s Stats, file string, episode int) {
	if len(s.Std) == 0 || len(s.Mean) == 0 {
		return
	}
	if hi := slices.Max(s.Std); hi < 0.02 {
		c.each(Warn, "stats-image-std", file+f.Name, file, episode, -1, "recompute the statistics from the pictures",
			"feature %q has picture deviation %.6g at mean %.3f (range 0 to 1): an overflow of 8-bit squares in older recorders; training would divide by it", f.Name, hi, s.Mean[0])
	}
	if hi := slices.Max(s.Max); hi > 1.001 {
		c.each(Error, "stats-image-range", file+f.Name, file, episode, -1, "divide picture statistics by 255", "feature %q has maximum %g, pictures range from 0 to 1", f.Name, hi)
	}
}

func (c *checker) checkEpisodeStats(f Feature, e EpisodeMeta) {
	s, ok := e.Stats[f.Name]
	if !ok || len(e.Stats) == 0 {
		return
	}
	file := "meta/episodes"
	if c.d.info.major() == 2 {
		file = v21StatsPath
	}
	for _, name := range statNames {
		if p := s.part(name); p != nil && slices.ContainsFunc(*p, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
			c.each(Error, "stats-nan", f.Name, file, e.Index, -1, "recompute the statistics", "%s of feature %q is not finite", name, f.Name)
		}
	}
	if f.DType.Visual() {
		c.checkPictureStats(f, s, file, e.Index)
	}
}

// compareStats compares stored statistics with the rows, when all rows were read.
func (ct *content) compareStats(c *checker) {
	if !c.full || c.d.stats == nil {
		return
	}
	for _, f := range ct.features {
		s, fc := c.d.stats[f.Name], ct.of[f.Name]
		if fc == nil || len(s.Mean) != f.Dim() || len(s.Std) != f.Dim() || len(s.Min) != f.Dim() || len(s.Max) != f.Dim() {
			continue
		}
		for d := range fc.min {
			span := math.Max(fc.max[d]-fc.min[d], 1e-6*math.Max(math.Abs(fc.min[d]), 1e-3))
			for name, pair := range map[string][2]float64{"mean": {s.Mean[d], fc.mean(d)}, "std": {s.Std[d], fc.std(d)}, "min": {s.Min[d], fc.min[d]}, "max": {s.Max[d], fc.max[d]}} {
				if math.Abs(pair[0]-pair[1]) > 0.01*span {
					c.each(Warn, "stats-stale", f.Name, statsPath, -1, -1, "recompute the statistics",
						"feature %q, element %s: stored %s %g, the rows give %g", f.Name, element(f, d), name, pair[0], pair[1])
				}
			}
		}
	}
}
