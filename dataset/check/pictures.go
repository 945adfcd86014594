package check

import (
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// thumbWidth is the width, in pixels, at which pictures are decoded: small differences between frames survive, noise does not.
const thumbWidth = 64

// filmed is what the pictures of one episode and camera tell.
type filmed struct {
	sink
	u      *use
	e      *survey.Episode
	hist   [3][16]float64 // share of pixels by level, per channel
	thumb  []float64      // mean picture, grey
	bright []float64      // mean of each frame, 0..255
	move   []float32      // mean absolute difference to the frame before
	equal  stretch        // longest run of equal frames
	dark   int            // frames without light
	ok     bool
}

// checkPictures decodes every frame once, small, and compares what it sees with the set.
func (c *checker) checkPictures() {
	c.did("pictures")
	type job struct {
		u *use
		e *survey.Episode
	}
	var jobs []job
	for _, cam := range c.cameras() {
		c.episodesWith(cam, func(u *use, e *survey.Episode, _ int) { jobs = append(jobs, job{u, e}) })
	}
	results := make([]*filmed, len(jobs))
	var g errgroup.Group
	g.SetLimit(c.o.Workers)
	var mu sync.Mutex
	done := 0
	for i, j := range jobs {
		g.Go(func() error {
			if c.ctx.Err() != nil {
				return nil
			}
			results[i] = c.film(j.u, j.e)
			mu.Lock()
			defer mu.Unlock()
			done++
			c.progress("pictures", done, len(jobs))
			return nil
		})
	}
	g.Wait()
	if c.ctx.Err() != nil {
		return
	}
	for _, cam := range c.cameras() {
		var mine []*filmed
		for _, r := range results {
			if r.u.camera.Name == cam {
				c.take(&r.sink)
				if r.ok {
					mine = append(mine, r)
				}
			}
		}
		c.compareCamera(cam, mine, results)
	}
}

// film decodes the frames of an episode.
func (c *checker) film(u *use, e *survey.Episode) *filmed {
	r := &filmed{u: u, e: e}
	here := at(u.found, e.Index, -1).on(u.camera.Name)
	height := max(2, thumbWidth*u.info.Height/max(1, u.info.Width))
	frame := 0
	var last []byte
	n := 1
	first := u.first(e, c.fps)
	err := video.Each(c.set.Abs(u.found), video.ReaderOptions{Geometry: &imaging.Geometry{Mode: imaging.Squash, Width: thumbWidth, Height: height}}, first, e.Length, func(i int, rgb []byte) error {
		k := i - first
		frame = k + 1
		r.add(k, rgb, last)
		if k > 0 && slices.Equal(rgb, last) {
			if n++; n > r.equal.rows {
				r.equal = stretch{k - n + 1, n}
			}
		} else {
			n = 1
		}
		last = append(last[:0], rgb...)
		return c.ctx.Err()
	})
	if err != nil {
		if c.ctx.Err() == nil {
			here.frame = frame
			r.say("video-decode", here, nums{"frame": float64(frame)}, "%v", err)
		}
		return r
	}
	r.finish(e.Length)
	r.ok = true
	return r
}

// add counts one frame.
func (r *filmed) add(k int, rgb, last []byte) {
	if r.thumb == nil {
		r.thumb = make([]float64, len(rgb)/3)
	}
	sum, diff := 0, 0
	for i := 0; i+2 < len(rgb); i += 3 {
		for ch := range 3 {
			r.hist[ch][rgb[i+ch]>>4]++
		}
		grey := int(rgb[i]) + int(rgb[i+1]) + int(rgb[i+2])
		r.thumb[i/3] += float64(grey) / 3
		sum += grey
		if last != nil {
			d := grey - int(last[i]) - int(last[i+1]) - int(last[i+2])
			diff += max(d, -d)
		}
	}
	mean := float64(sum) / float64(len(rgb))
	r.bright = append(r.bright, mean)
	r.move = append(r.move, float32(diff)/float32(len(rgb)))
	if mean < 4 { // of 255: sensor noise of a covered lens
		r.dark++
	}
}

func (r *filmed) finish(n int) {
	total := 0.0
	for _, x := range r.hist[0] {
		total += x
	}
	for ch := range r.hist {
		for i := range r.hist[ch] {
			r.hist[ch][i] /= total
		}
	}
	for i := range r.thumb {
		r.thumb[i] /= float64(n)
	}
}

// compareCamera holds the episodes of a camera against each other and against the other cameras.
func (c *checker) compareCamera(cam string, mine, all []*filmed) {
	if len(mine) == 0 {
		return
	}
	c.checkDark(mine)
	c.checkFrozenPictures(mine)
	c.checkFlicker(mine)
	c.checkScene(cam, mine, all)
	c.checkStoredPictures(cam, mine)
	s := series{cam, map[int][]float32{}}
	for _, r := range mine {
		s.of[r.e.Index] = r.move
	}
	c.checkLag("pictures-lag", s, c.carriers())
}

func (c *checker) checkDark(mine []*filmed) {
	for _, r := range mine {
		if r.dark > 0 && float64(r.dark) > 0.02*float64(len(r.bright)) {
			k := slices.IndexFunc(r.bright, func(x float64) bool { return x < 4 })
			c.say("pictures-black", at(r.u.found, r.e.Index, k).on(r.u.camera.Name).lasting(r.dark), nums{"frames": float64(r.dark), "mean": r.bright[k] / 255},
				"%d of %d pictures are black: mean %.4f of 1", r.dark, len(r.bright), r.bright[k]/255)
		}
	}
}

// checkFrozenPictures: equal pictures in a row, for longer than the set has.
func (c *checker) checkFrozenPictures(mine []*filmed) {
	var longest []float64
	for _, r := range mine {
		longest = append(longest, float64(r.equal.rows))
	}
	limit := c.fps / 2
	if len(longest) >= enough {
		sp := runsOf(longest)
		limit = math.Max(sp.above(len(longest), math.Max(0.3, 0.1*sp.mid)), 2)
	}
	for _, r := range mine {
		if float64(r.equal.rows) > limit && !c.standsStill(r.e.Index, r.equal) {
			c.say("pictures-frozen", at(r.u.found, r.e.Index, r.equal.start).on(r.u.camera.Name).lasting(r.equal.rows), nums{"pictures": float64(r.equal.rows), "limit": limit},
				"%d pictures in a row are equal (%.2f s); the set's fence is %.1f", r.equal.rows, float64(r.equal.rows)/c.fps, limit)
		}
	}
}

// checkFlicker finds sudden changes of brightness: exposure that jumps, frames of another camera, single broken frames.
func (c *checker) checkFlicker(mine []*filmed) {
	jump := func(r *filmed) (float64, int) {
		worst, at := 0.0, -1
		for k := 1; k < len(r.bright); k++ {
			if d := math.Abs(r.bright[k] - r.bright[k-1]); d > worst {
				worst, at = d, k
			}
		}
		return worst, at
	}
	change := func(r *filmed) (float64, int) {
		worst, at := 0.0, -1
		for k := 1; k < len(r.move); k++ {
			if d := float64(r.move[k]); d > worst {
				worst, at = d, k
			}
		}
		return worst, at
	}
	for _, q := range []struct {
		code, what string
		of         func(r *filmed) (float64, int)
	}{{"pictures-flicker", "brightness", jump}, {"pictures-cut", "content", change}} {
		var logs []float64
		for _, r := range mine {
			if x, _ := q.of(r); x > 0 {
				logs = append(logs, math.Log(x))
			}
		}
		if len(logs) < enough {
			continue
		}
		limit := math.Max(2, math.Exp(spreadOf(logs).above(len(logs), 0.1))) // two grey levels are coding noise
		for _, r := range mine {
			if x, k := q.of(r); x > limit {
				c.say(q.code, at(r.u.found, r.e.Index, k).on(r.u.camera.Name), nums{"change": x, "limit": limit}, "the %s changes by %.1f of 255 from one picture to the next; the set's fence is %.1f", q.what, x, limit)
			}
		}
	}
}

// checkScene compares the colours and the mean picture of each episode with the middle of the camera's and with those of the other cameras.
func (c *checker) checkScene(cam string, mine, all []*filmed) {
	if len(mine) < enough {
		return
	}
	centre := middle(mine)
	var own []float64
	for _, r := range mine {
		own = append(own, centre.away(r))
	}
	logs := make([]float64, len(own))
	for i, x := range own {
		logs[i] = math.Log(x + 1e-6)
	}
	limit := math.Exp(spreadOf(logs).above(len(logs), 0.15))
	others := map[string]scene{}
	for _, name := range c.cameras() {
		var theirs []*filmed
		for _, r := range all {
			if r.u.camera.Name == name && r.ok {
				theirs = append(theirs, r)
			}
		}
		if name != cam && len(theirs) >= enough {
			others[name] = middle(theirs)
		}
	}
	for i, r := range mine {
		if own[i] <= limit {
			continue
		}
		here := at(r.u.found, r.e.Index, -1).on(cam)
		like, nearest := "", own[i]/2
		for name, s := range others {
			if d := s.away(r); d < nearest {
				like, nearest = name, d
			}
		}
		if like != "" {
			c.say("pictures-swapped", here, nums{"distance": own[i], "limit": limit, "to": nearest}, "its pictures look like those of %q (distance %.3f), not like %q (%.3f; the set's fence is %.3f)", like, nearest, cam, own[i], limit)
		} else {
			c.say("pictures-outlier", here, nums{"distance": own[i], "limit": limit}, "its pictures have other colours or light than those of the set: distance %.3f, the set's fence is %.3f", own[i], limit)
		}
	}
}

// scene is the middle of the colours of a camera.
type scene struct{ hist [3][16]float64 }

func middle(list []*filmed) scene {
	var s scene
	v := make([]float64, len(list))
	for ch := range s.hist {
		for i := range s.hist[ch] {
			for k, r := range list {
				v[k] = r.hist[ch][i]
			}
			s.hist[ch][i] = median(slices.Clone(v))
		}
	}
	return s
}

// away is the mean over the channels of the earth mover's distance between colour histograms, 1 being black to white.
func (s scene) away(r *filmed) float64 {
	total := 0.0
	for ch := range s.hist {
		sum := 0.0
		for i := range s.hist[ch] {
			sum += r.hist[ch][i] - s.hist[ch][i]
			total += math.Abs(sum) / 16 / 3
		}
	}
	return total
}

// checkStoredPictures compares stored picture statistics with the pictures.
func (c *checker) checkStoredPictures(cam string, mine []*filmed) {
	for _, r := range mine {
		stored, ok := r.e.Stats[cam]
		if !ok || len(stored.Mean) != 3 {
			continue
		}
		got := 0.0
		for _, b := range r.bright {
			got += b / 255
		}
		got /= float64(len(r.bright))
		said := (stored.Mean[0] + stored.Mean[1] + stored.Mean[2]) / 3
		if math.Abs(said-got) > pictureTolerance {
			c.say("stats-pictures", at(r.u.found, r.e.Index, -1).on(cam), nums{"stored": said, "pictures": got}, "%q: stored mean %.4f, the pictures give %.4f", cam, said, got)
		}
	}
}

// pictureTolerance is how far a stored mean may be from that of the decoded pictures, of 1: codecs and the sampling of frames shift it.
const pictureTolerance = 0.03
