package dataset

import (
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// maxGOP is the key-frame distance up to which random access is cheap: LeRobot and we write 2.
const maxGOP = 4

// use is what the episode table expects of one mp4.
type use struct {
	camera   Feature
	path     string // as the table says
	found    string // where it really is; empty when nowhere
	episodes []EpisodeMeta
}

// checkVideos compares every mp4 with the rows and with info.json.
func (c *checker) checkVideos() {
	c.did("video containers")
	for _, cam := range c.d.info.cameras() {
		var gone []int
		seen := 0
		for _, u := range c.uses(cam) {
			if u.found == "" {
				for _, e := range u.episodes {
					gone = append(gone, e.Index)
				}
				continue
			}
			seen++
			if c.ctx.Err() != nil {
				return
			}
			c.checkVideo(u)
		}
		if len(gone) > 0 {
			sort.Ints(gone)
			where := c.d.episodes[0].Videos[cam.Name].Path
			if i := slices.IndexFunc(c.d.episodes, func(e EpisodeMeta) bool { return e.Index == gone[0] }); i >= 0 {
				where = c.d.episodes[i].Videos[cam.Name].Path
			}
			c.errorf("video-missing", where, "complete the copy, or keep what is there with pinch dataset extract",
				"the video %q of %d of %d episodes is missing: %s; the loader asks the hub for it and fails offline", cam.Name, len(gone), len(c.d.episodes), ranges(gone))
		}
		if !c.o.Decode && seen > 0 {
			c.skipped("pictures of %q (ask for decoding)", cam.Name)
		}
	}
}

// uses groups the episodes of a camera by file.
func (c *checker) uses(cam Feature) []*use {
	var list []*use
	byPath := map[string]*use{}
	for _, e := range c.d.episodes {
		s, ok := e.Videos[cam.Name]
		if !ok {
			continue
		}
		u := byPath[s.Path]
		if u == nil {
			u = &use{camera: cam, path: s.Path, found: c.locate(s.Path)}
			byPath[s.Path] = u
			list = append(list, u)
		}
		u.episodes = append(u.episodes, e)
	}
	return list
}

// locate finds a file where the template says, or under another top folder by the same rest of the path; "" when nowhere.
func locate(root, path string) string {
	if (disk{root: root}).exists(path) {
		return path
	}
	_, rest, _ := strings.Cut(path, "/")
	found, _ := filepath.Glob(filepath.Join(root, "*", filepath.FromSlash(rest)))
	if rest == "" || len(found) == 0 {
		return ""
	}
	rel, _ := filepath.Rel(root, found[0])
	return filepath.ToSlash(rel)
}

// locate reports a video that lies in another folder.
func (c *checker) locate(path string) string {
	rel := locate(c.root, path)
	if rel == "" || rel == path {
		return rel
	}
	want, _, _ := strings.Cut(path, "/")
	have, _, _ := strings.Cut(rel, "/")
	c.each(Error, "video-folder", have, rel, -1, -1, "rename the folder "+have+"/ to "+want+"/",
		"the file lies at %s, video_path in info.json says %s; the loader does not find it", rel, path)
	return rel
}

func (c *checker) checkVideo(u *use) {
	info, err := video.Probe(filepath.Join(c.root, u.found))
	if err != nil {
		c.each(Error, "video-file", u.camera.Name, u.found, u.episodes[0].Index, -1, "restore it", "%v", err)
		return
	}
	c.checkContainer(u, info)
	c.checkFrameCount(u, info)
	if c.o.Decode {
		c.checkPictures(u, info)
	}
}

// checkContainer compares the container with the feature.
func (c *checker) checkContainer(u *use, v video.Info) {
	f, cam := u.camera, u.camera.Name
	if said, ok := f.Info["video.codec"].(string); ok && said != string(v.Codec) {
		c.each(Error, "video-codec", cam, u.found, -1, -1, "write the real codec into info.json, or re-encode",
			"info.json says video.codec %q, the mp4 holds %s", said, codecName(v.Codec))
	}
	if !slices.Contains([]video.Codec{video.H264, video.AV1, "hevc"}, v.Codec) {
		c.each(Warn, "video-codec-tools", cam, u.found, -1, -1, "re-encode as h264 or av1", "the mp4 holds %s: LeRobot's edit tools refuse it and browsers do not play it", codecName(v.Codec))
	}
	if said, ok := f.Info["video.pix_fmt"].(string); ok && v.PixFmt != "" && said != v.PixFmt {
		c.each(Warn, "video-pixfmt", cam, u.found, -1, -1, "correct info.json", "info.json says %s, the mp4 holds %s", said, v.PixFmt)
	}
	if h, w := heightWidth(f); h != v.Height || w != v.Width {
		c.each(Error, "video-size", cam, u.found, -1, -1, "correct the shape in info.json, or re-encode", "the feature says %dx%d pixels, the mp4 has %dx%d", w, h, v.Width, v.Height)
	}
	if r := v.Rate(); math.Abs(r-float64(c.d.info.FPS)) > 0.01 {
		c.each(Error, "video-rate", cam, u.found, -1, -1, "encode at the rate of the rows", "the mp4 runs at %.4f Hz, the rows at %d: pictures drift from rows by %.3f s a minute", r, c.d.info.FPS, 60*math.Abs(1-r/float64(c.d.info.FPS)))
	}
	if v.MaxGOP > maxGOP {
		c.each(Warn, "video-gop", cam, u.found, -1, -1, "encode with a key frame every 2 frames",
			"up to %d frames between key frames: one picture at random costs up to %d decodes, %.1f on average", v.MaxGOP, v.MaxGOP, float64(v.MaxGOP+1)/2)
	}
	if v.HasBFrames {
		c.each(Warn, "video-bframes", cam, u.found, -1, -1, "encode without B-frames", "the stream has B-frames; the last frames have been lost in such files when they are copied")
	}
	if v.HasAudio {
		c.each(Note, "video-audio", cam, u.found, -1, -1, "none needed", "the mp4 has an audio track")
	}
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
func heightWidth(f Feature) (h, w int) {
	if len(f.Shape) != 3 {
		return 0, 0
	}
	if len(f.Names) == 3 && (f.Names[2] == "channel" || f.Names[2] == "channels") || f.Shape[2] == 3 || f.Shape[2] == 1 {
		return f.Shape[0], f.Shape[1]
	}
	return f.Shape[1], f.Shape[2]
}

// checkFrameCount compares frames and frame times with the rows of each episode in the file.
func (c *checker) checkFrameCount(u *use, v video.Info) {
	used, cam := 0, u.camera.Name
	for _, e := range u.episodes {
		s := e.Videos[cam]
		if c.d.info.major() == 2 && v.Frames() != e.Length {
			c.each(Error, "video-frames", cam, u.found, e.Index, -1, "trim rows or video, or leave the episode out", "the mp4 has %d frames, the episode %d rows", v.Frames(), e.Length)
		} else if end := s.FirstFrame + e.Length; end > v.Frames() {
			if c.rows[e.Index] == 0 {
				continue // an incomplete copy: said already
			}
			c.each(Error, "video-frames", cam, u.found, e.Index, max(0, v.Frames()-s.FirstFrame), "trim the rows, or leave the episode out",
				"its rows use frames %d to %d, the mp4 has %d", s.FirstFrame, end-1, v.Frames())
		}
		used = max(used, s.FirstFrame+e.Length)
		if s.FirstFrame < v.Frames() && !v.Key[s.FirstFrame] {
			c.each(Note, "video-start", cam, u.found, e.Index, -1, "start every episode on a key frame", "its first picture is frame %d, no key frame: cutting it out needs a new encoding", s.FirstFrame)
		}
	}
	if extra := v.Frames() - used; extra > 0 && c.d.info.major() == 3 {
		c.each(Note, "video-extra", cam, u.found, -1, -1, "none needed", "%d frames after the last episode belong to no row", extra)
	}
	if k, off := v.WorstTime(c.d.info.FPS); off > timeTolerance {
		e := episodeAt(u.episodes, cam, k)
		c.each(Error, "video-times", cam, u.found, e, k, "encode at a constant rate from time 0",
			"frame %d of the file is at %.6f s, want %.6f s: off by %.6f s, the loader allows %g", k, v.Time(k), float64(k)/float64(c.d.info.FPS), off, timeTolerance)
	}
}

func episodeAt(episodes []EpisodeMeta, camera string, frame int) int {
	for _, e := range episodes {
		if s := e.Videos[camera]; frame >= s.FirstFrame && frame < s.FirstFrame+e.Length {
			return e.Index
		}
	}
	return -1
}

// checkPictures decodes LeRobot's sample of each episode's frames.
func (c *checker) checkPictures(u *use, v video.Info) {
	for _, e := range u.episodes {
		first := e.Videos[u.camera.Name].FirstFrame
		n := min(e.Length, v.Frames()-first)
		if n < 1 || c.ctx.Err() != nil {
			continue
		}
		c.checkEpisodePictures(u, e, first, n)
	}
	if !slices.Contains(c.r.Checked, "pictures") {
		c.did("pictures")
	}
}

func (c *checker) checkEpisodePictures(u *use, e EpisodeMeta, first, n int) {
	r, err := video.Open(filepath.Join(c.root, u.found), video.ReaderOptions{})
	if err != nil {
		c.each(Error, "video-decode", u.camera.Name, u.found, e.Index, -1, "restore it", "%v", err)
		return
	}
	defer r.Close()
	width, height := r.Size()
	buf, last := make([]byte, width*height*3), []byte(nil)
	var acc ImageAccumulator
	same, longest := 0, 0
	for _, k := range SampleFrames(n) {
		if err := r.Frame(first+k, buf); err != nil {
			c.each(Error, "video-decode", u.camera.Name, u.found, e.Index, k, "restore it or encode the episode again", "%v", err)
			return
		}
		acc.Add(buf, width, height)
		if same++; !slices.Equal(buf, last) {
			same = 0
		}
		longest = max(longest, same)
		last = append(last[:0], buf...)
	}
	s := acc.Stats()
	if slices.Max(s.Mean) < 0.02 {
		c.each(Warn, "pictures-black", u.camera.Name, u.found, e.Index, -1, "look whether the camera was covered", "the pictures are black: mean %.4f of 1", slices.Max(s.Mean))
	}
	if samples := len(SampleFrames(n)); samples > 4 && longest*4 > samples {
		c.each(Warn, "pictures-frozen", u.camera.Name, u.found, e.Index, -1, "look whether the camera stopped", "%d of %d sampled pictures in a row are equal", longest+1, samples)
	}
	c.comparePictureStats(u, e, s)
}

// comparePictureStats compares stored picture statistics of an episode with those of its pictures.
func (c *checker) comparePictureStats(u *use, e EpisodeMeta, s Stats) {
	stored := e.Stats[u.camera.Name]
	for _, q := range []struct {
		name      string
		said, got []float64
	}{{"mean", stored.Mean, s.Mean}, {"std", stored.Std, s.Std}} {
		for ch := range q.got {
			if len(q.said) == 3 && math.Abs(q.said[ch]-q.got[ch]) > 0.03 {
				c.each(Warn, "stats-pictures", u.camera.Name+q.name, u.found, e.Index, -1, "recompute the statistics from the pictures",
					"channel %d of %q: stored %s %.4f, the pictures give %.4f", ch, u.camera.Name, q.name, q.said[ch], q.got[ch])
				return
			}
		}
	}
}
