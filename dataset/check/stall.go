package check

import (
	"math"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// energy is how much each picture of an episode differs from the one before, as the bytes that coding the difference took. Key frames
// code no difference and take the mean of their neighbours. Nil when the stream does not tell (all key frames, B-frames, too short).
func energy(v video.Info, first, rows int) []float32 {
	sizes := v.PacketSizes()
	if v.HasBFrames || first < 0 || first+rows > len(sizes) || len(v.Key) < len(sizes) || rows < 8 {
		return nil
	}
	out := make([]float32, rows)
	coded := 0
	for k := range rows {
		if v.Key[first+k] {
			out[k] = -1
			continue
		}
		coded++
		out[k] = float32(sizes[first+k])
	}
	if coded*3 < rows {
		return nil
	}
	for k := range out {
		if out[k] >= 0 {
			continue
		}
		sum, n := float32(0), float32(0)
		if k > 0 && out[k-1] >= 0 {
			sum, n = sum+out[k-1], n+1
		}
		if k+1 < rows && !v.Key[first+k+1] {
			sum, n = sum+out[k+1], n+1
		}
		if out[k] = 0; n > 0 {
			out[k] = sum / n
		}
	}
	return out
}

// episodesWith calls f for every episode of a camera whose frames are there.
func (c *checker) episodesWith(camera string, f func(u *use, e *survey.Episode, first int)) {
	for _, u := range c.videos {
		if u.camera.Name != camera || u.err != nil || u.found == "" {
			continue
		}
		for _, e := range u.episodes {
			if first := u.first(e, c.fps); e.Length > 0 && first+e.Length <= u.info.Frames() {
				f(u, e, first)
			}
		}
	}
}

// checkStalls finds pictures that repeat, from the sizes of the coded pictures alone: a repeated picture codes to almost nothing.
func (c *checker) checkStalls() {
	for _, cam := range c.cameras() {
		c.checkStall(cam)
	}
}

func (c *checker) checkStall(cam string) {
	type seen struct {
		u    *use
		e    *survey.Episode
		size []float32
	}
	var all []seen
	var logs []float64
	c.episodesWith(cam, func(u *use, e *survey.Episode, first int) {
		size := energy(u.info, first, e.Length)
		if size == nil {
			return
		}
		all = append(all, seen{u, e, size})
		for k := 0; k < len(size); k += 1 + len(size)/64 {
			logs = append(logs, math.Log(float64(size[k])+1))
		}
	})
	if len(logs) < 4*enough {
		return
	}
	small := float32(math.Exp(spreadOf(logs).below(2, 0.25)))
	var longest []float64
	runs := make([]stretch, len(all))
	for i, s := range all {
		runs[i] = runBelow(s.size, small)
		longest = append(longest, float64(runs[i].rows))
	}
	limit := c.fps / 2
	if len(longest) >= enough {
		sp := runsOf(longest)
		limit = math.Max(sp.above(len(longest), math.Max(0.4, 0.15*sp.mid)), leastStill-1)
	}
	for i, s := range all {
		if r := runs[i]; float64(r.rows) > limit && !c.standsStill(s.e.Index, r) {
			c.say("video-stall", at(s.u.found, s.e.Index, r.start).on(cam).lasting(r.rows), nums{"rows": float64(r.rows), "limit": limit, "bytes": float64(small)},
				"%d pictures in a row differ so little that each codes to under %.0f bytes, while rows change; the set's fence is %.1f pictures", r.rows, small, limit)
		}
	}
}

func runBelow(size []float32, limit float32) stretch {
	best, n := stretch{}, 0
	for k, s := range size {
		if s >= limit {
			n = 0
			continue
		}
		if n++; n > best.rows {
			best = stretch{k - n + 1, n}
		}
	}
	return best
}

// standsStill reports whether the rows do not move either, so that equal pictures are what one expects.
func (c *checker) standsStill(index int, r stretch) bool {
	e := c.byIndex[index]
	return e != nil && e.idle.rows > 0 && r.start >= e.idle.start-1 && r.start+r.rows <= e.idle.start+e.idle.rows+1
}
