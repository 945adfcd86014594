package check

import (
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// maxGOP is the key-frame distance up to which random access is cheap: LeRobot and pinch write 2.
const maxGOP = 4

// use is what the episode table expects of one mp4.
type use struct {
	camera   survey.Feature
	path     string // as the table says
	found    string // where it really is; empty when nowhere
	episodes []*survey.Episode
	info     video.Info
	err      error
}

// first is the frame of the file that shows row 0 of an episode.
func (u *use) first(e *survey.Episode, fps float64) int {
	from := e.Videos[u.camera.Name].From
	if math.IsNaN(from) || from < 0 || from > 1e7 {
		return 0
	}
	return int(math.Round(from * fps))
}

// probeVideos reads the containers of all videos, several at a time.
func (c *checker) probeVideos() {
	byPath := map[string]*use{}
	for _, cam := range c.set.Cameras() {
		for i := range c.set.Episodes {
			e := &c.set.Episodes[i]
			s, ok := e.Videos[cam.Name]
			if !ok || s.Path == "" || e.Index < 0 {
				continue
			}
			key := cam.Name + "\x00" + s.Path
			u := byPath[key]
			if u == nil {
				u = &use{camera: cam, path: s.Path, found: c.set.Locate(s.Path)}
				byPath[key] = u
				c.videos = append(c.videos, u)
			}
			u.episodes = append(u.episodes, e)
		}
	}
	var g errgroup.Group
	g.SetLimit(c.o.Workers)
	var mu sync.Mutex
	done := 0
	for _, u := range c.videos {
		if u.found == "" || c.ctx.Err() != nil {
			continue
		}
		g.Go(func() error {
			u.info, u.err = video.Probe(c.set.Abs(u.found))
			mu.Lock()
			defer mu.Unlock()
			done++
			c.progress("video containers", done, len(c.videos))
			return nil
		})
	}
	g.Wait()
}

// checkVideos compares every mp4 with the rows and with info.json.
func (c *checker) checkVideos() {
	if len(c.set.Cameras()) == 0 {
		return
	}
	c.did("video containers")
	for _, cam := range c.set.Cameras() {
		c.checkCamera(cam)
	}
	c.checkVideoOrphans()
	c.checkVideoTwins()
	c.checkStalls()
	if !c.o.Decode {
		c.skipped("pictures (ask for decoding)")
	}
}

func (c *checker) checkCamera(cam survey.Feature) {
	var gone []int
	where := ""
	var model *use
	for _, u := range c.videos {
		if u.camera.Name != cam.Name {
			continue
		}
		if u.found == "" {
			for _, e := range u.episodes {
				gone = append(gone, e.Index)
			}
			if where == "" {
				where = u.path
			}
			continue
		}
		if u.found != u.path {
			c.say("video-folder", in(u.found).on(cam.Name).keyed("*"), nil, "the file lies at %s, video_path in info.json says %s; the loader does not find it", u.found, u.path)
		}
		if u.err != nil {
			c.say("video-file", at(u.found, u.episodes[0].Index, -1).on(cam.Name), nil, "%v", u.err)
			continue
		}
		c.checkContainer(u)
		c.checkFrames(u)
		if model == nil {
			model = u
		} else {
			c.checkAlike(model, u)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		c.say("video-missing", in(where).on(cam.Name).keyed("*"), nums{"missing": float64(len(gone)), "listed": float64(len(c.set.Episodes))},
			"the video %q of %d of %d episodes is missing: %s; the loader asks the hub for it and fails offline", cam.Name, len(gone), len(c.set.Episodes), dataset.Ranges(gone))
	}
}

// checkContainer compares the container with the feature.
func (c *checker) checkContainer(u *use) {
	f, v, here := u.camera, u.info, of(u.camera.Name, u.found)
	if said, ok := f.Info["video.codec"].(string); ok && said != string(v.Codec) {
		c.say("video-codec", here, nil, "info.json says video.codec %q, the mp4 holds %s", said, codecName(v.Codec))
	}
	if !slices.Contains([]video.Codec{video.H264, video.AV1, "hevc"}, v.Codec) {
		c.say("video-codec-tools", here, nil, "the mp4 holds %s: LeRobot's edit tools refuse it and browsers do not play it", codecName(v.Codec))
	}
	if said, ok := f.Info["video.pix_fmt"].(string); ok && v.PixFmt != "" && said != v.PixFmt {
		c.say("video-pixfmt", here, nil, "info.json says %s, the mp4 holds %s", said, v.PixFmt)
	}
	if h, w := heightWidth(f.Feature); h != v.Height || w != v.Width {
		c.say("video-size", here.keyed(u.found), nums{"width": float64(v.Width), "height": float64(v.Height)}, "the feature says %dx%d pixels, the mp4 has %dx%d", w, h, v.Width, v.Height)
	}
	if r := v.Rate(); math.Abs(r-c.fps) > 0.01 && v.Frames() > 1 {
		c.say("video-rate", c.place(u), nums{"rate": r, "fps": c.fps}, "the mp4 runs at %.4f Hz, the rows at %g: pictures drift from rows by %.3f s a minute", r, c.fps, 60*math.Abs(1-r/c.fps))
	}
	if v.MaxGOP > maxGOP {
		c.say("video-gop", here, nums{"frames": float64(v.MaxGOP)}, "up to %d frames between key frames: one picture at random costs up to %d decodes, %.1f on average", v.MaxGOP, v.MaxGOP, float64(v.MaxGOP+1)/2)
	}
	if v.HasBFrames {
		c.say("video-bframes", here, nil, "the stream has B-frames; the last frames have been lost in such files when they are copied")
	}
	if v.HasAudio {
		c.say("video-audio", here, nil, "the mp4 has an audio track")
	}
}

// place of a finding about a file: its episode when there is only one.
func (c *checker) place(u *use) place {
	if len(u.episodes) == 1 {
		return at(u.found, u.episodes[0].Index, -1).on(u.camera.Name)
	}
	return in(u.found).on(u.camera.Name)
}

func codecName(codec video.Codec) string {
	switch codec {
	case "mpeg4":
		return "mpeg4 (MPEG-4 part 2, tag mp4v)"
	case "":
		return "an unknown codec"
	}
	return string(codec)
}

// heightWidth reads the picture size from the shape, whichever way round the names say.
func heightWidth(f dataset.Feature) (h, w int) {
	if len(f.Shape) != 3 {
		return 0, 0
	}
	if len(f.Names) == 3 && (f.Names[2] == "channel" || f.Names[2] == "channels") || f.Shape[2] == 3 || f.Shape[2] == 1 {
		return f.Shape[0], f.Shape[1]
	}
	return f.Shape[1], f.Shape[2]
}

// checkAlike: all files of a camera share one format, as the info of the first is taken for all.
func (c *checker) checkAlike(a, b *use) {
	if a.info.Codec != b.info.Codec || a.info.PixFmt != b.info.PixFmt || a.info.Width != b.info.Width || a.info.Height != b.info.Height {
		c.say("video-mixed", c.place(b), nil, "it holds %s %s %dx%d, %s holds %s %s %dx%d", codecName(b.info.Codec), b.info.PixFmt, b.info.Width, b.info.Height,
			a.found, codecName(a.info.Codec), a.info.PixFmt, a.info.Width, a.info.Height)
	}
}

// checkFrames compares frames and frame times with the rows of each episode in the file.
func (c *checker) checkFrames(u *use) {
	used, v, cam := 0, u.info, u.camera.Name
	for _, e := range u.episodes {
		first, here := u.first(e, c.fps), at(u.found, e.Index, -1).on(cam)
		rows := e.Length
		if n := c.rows[e.Index]; n > 0 {
			rows = n
		}
		n := nums{"frames": float64(v.Frames()), "rows": float64(rows)}
		if !c.v3() && v.Frames() != rows && rows > 0 {
			here.frame = min(rows, v.Frames())
			c.say("video-frames", here, n, "the mp4 has %d frames, the episode %d rows", v.Frames(), rows)
		} else if end := first + rows; end > v.Frames() && c.v3() {
			if c.rows[e.Index] == 0 {
				continue // an incomplete copy: said already
			}
			here.frame = max(0, v.Frames()-first)
			c.say("video-frames", here, n, "its rows use frames %d to %d, the mp4 has %d", first, end-1, v.Frames())
		}
		used = max(used, first+rows)
		if first < v.Frames() && first < len(v.Key) && !v.Key[first] {
			c.say("video-start", in(u.found).on(cam).keyed("*"), nums{"frame": float64(first)}, "the first picture of episode %d is frame %d, no key frame: cutting it out needs a new encoding", e.Index, first)
		}
	}
	if extra := v.Frames() - used; extra > 0 && c.v3() {
		if alone := len(u.episodes) == 1; alone {
			c.say("video-extra", c.place(u), nums{"frames": float64(extra)}, "the mp4 has %d frames, the episode %d rows: one of them has lost or gained some", v.Frames(), used)
		} else {
			c.say("video-tail", in(u.found).on(cam).keyed("*"), nums{"frames": float64(extra)}, "%d frames after the last episode belong to no row", extra)
		}
	}
	if k, off := v.WorstTime(int(c.fps)); off > timeTolerance {
		p := c.place(u)
		p.frame = k
		if e := c.episodeAt(u, k); e != nil {
			p.episode, p.frame = e.Index, k-u.first(e, c.fps)
		}
		c.say("video-times", p, nums{"time": v.Time(k), "want": float64(k) / c.fps}, "frame %d of the file is at %.6f s, want %.6f s: off by %.6f s, the loader allows %g", k, v.Time(k), float64(k)/c.fps, off, timeTolerance)
	}
}

func (c *checker) episodeAt(u *use, frame int) *survey.Episode {
	for _, e := range u.episodes {
		if first := u.first(e, c.fps); frame >= first && frame < first+e.Length {
			return e
		}
	}
	return nil
}

// checkVideoOrphans finds videos that no episode uses.
func (c *checker) checkVideoOrphans() {
	known := map[string]bool{}
	for _, u := range c.videos {
		known[u.found] = true
	}
	if c.brokenTable() || len(c.set.Episodes) == 0 {
		return
	}
	for _, p := range c.set.VideoFiles() {
		if !known[p] {
			c.say("video-orphan", in(p), nil, "no listed episode uses it")
		}
	}
}

// checkVideoTwins finds two episodes that show the same coded pictures: a copy under another episode's number.
func (c *checker) checkVideoTwins() {
	type owner struct {
		u *use
		e *survey.Episode
	}
	seen := map[uint64]owner{}
	for _, u := range c.videos {
		if u.err != nil || u.found == "" {
			continue
		}
		sizes := u.info.PacketSizes()
		for _, e := range u.episodes {
			first := u.first(e, c.fps)
			if e.Length < 8 || first+e.Length > len(sizes) {
				continue
			}
			var h maphash.Hash
			h.SetSeed(hashSeed)
			var b [8]byte
			total := int64(0)
			for _, s := range sizes[first : first+e.Length] {
				binary.LittleEndian.PutUint64(b[:], uint64(s))
				h.Write(b[:])
				total += s
			}
			sum := h.Sum64()
			if other, ok := seen[sum]; ok && total > int64(64*e.Length) {
				c.say("video-duplicate", at(u.found, e.Index, -1).on(u.camera.Name), nums{"of": float64(other.e.Index)}, "its pictures are those of %q of episode %d (%s)", other.u.camera.Name, other.e.Index, other.u.found)
				continue
			}
			seen[sum] = owner{u, e}
		}
	}
}
