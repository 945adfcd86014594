package check

import (
	"maps"
	"slices"
	"strings"

	"fmt"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// checkInfo looks at meta/info.json. False when nothing else can be said.
func (c *checker) checkInfo() bool {
	c.did("metadata")
	i, here := c.set.Info, in(survey.InfoPath)
	if i.Err != nil {
		c.say("info-json", here, nil, "it does not decode: %v", i.Err)
		return false
	}
	c.report.Version = i.Version
	for _, key := range i.Bad {
		c.say("info-value", here.on(key).keyed(key), nil, "key %q is %.80s, which is no value of its kind", key, i.Raw[key])
	}
	switch {
	case i.Major == 2:
		c.say("version-2", here, nil, "format %s: LeRobot from 0.4 on refuses it, openpi reads only this one", i.Version)
	case i.Major != 3:
		c.say("version", here, nil, "format %q is neither v3.x nor v2.1", i.Version)
		return false
	}
	if i.FPS == 0 {
		c.say("fps-value", here, nil, "fps is %q, want a positive whole number", i.FPSText)
		return false
	}
	if i.FPS != float64(int(i.FPS)) {
		c.say("fps-value", here, nums{"fps": i.FPS}, "fps is %s, want a whole number: the loader computes frame numbers with it", i.FPSText)
	} else if strings.ContainsAny(i.FPSText, ".eE") {
		c.say("fps-float", here, nums{"fps": i.FPS}, "fps is %s; LeRobot refuses to resume a recording unless it is an integer", i.FPSText)
	}
	if c.v3() {
		c.checkInfoKeys()
	} else {
		c.checkInfoV21()
	}
	return len(i.Features) > 0
}

func (c *checker) checkInfoKeys() {
	i, here := c.set.Info, in(survey.InfoPath)
	for _, key := range []string{"total_videos", "total_chunks"} {
		if _, ok := i.Raw[key]; ok {
			c.say("info-key", here.on(key).keyed(key), nil, "key %q belongs to v2.1", key)
		}
	}
	for _, t := range []struct{ key, got, want string }{{"data_path", i.DataPath, survey.DataPath}, {"video_path", i.VideoPath, survey.VideoPath}} {
		if t.got != t.want && (t.key == "data_path" || len(c.set.Cameras()) > 0) {
			c.say("path-template", here.on(t.key).keyed(t.key), nil, "%s is %q; merge, split and convert ignore it and use %q", t.key, t.got, t.want)
		}
	}
	if raw := string(i.Raw["video_path"]); (raw == "null" || raw == "") && len(c.set.Cameras()) > 0 {
		c.say("path-template", here.on("video_path").keyed("video_path"), nil, "video_path is absent, yet there are cameras")
	}
}

func (c *checker) checkInfoV21() {
	for key, want := range map[string]int{"total_videos": max(0, c.set.Info.TotalEpisodes) * len(c.set.Cameras()), "total_chunks": -1} {
		raw, ok := c.set.Info.Raw[key]
		if !ok {
			c.say("info-key-v2", in(survey.InfoPath).on(key).keyed(key), nil, "key %q is absent: the official conversion to v3.0 stops there", key)
		} else if want >= 0 && string(raw) != fmt.Sprint(want) {
			c.say("info-totals-videos", in(survey.InfoPath), nums{"total_videos": float64(want)}, "total_videos is %s, %d episodes with %d cameras make %d", raw, c.set.Info.TotalEpisodes, len(c.set.Cameras()), want)
		}
	}
}

// checkFeatures looks at names, types, shapes and element names.
func (c *checker) checkFeatures() {
	var noRole []string
	observed := false
	for _, f := range c.set.Info.Features {
		c.checkFeature(f)
		if strings.HasPrefix(f.Name, "observation") {
			observed = true
		} else if !strings.HasPrefix(f.Name, "action") && !isDefault(f.Name) {
			noRole = append(noRole, f.Name)
		}
	}
	if !observed && len(noRole) > 0 {
		c.say("feature-role", in(survey.InfoPath), nil,
			"no feature is an observation: policies take only names that begin with \"observation\" or \"action\" and ignore %s", strings.Join(noRole, ", "))
	}
	for _, want := range dataset.DefaultFeatures() {
		got, ok := c.set.Info.Feature(want.Name)
		if !ok {
			c.say("feature-missing", of(want.Name, survey.InfoPath), nil, "feature %q is missing; every dataset has it", want.Name)
		} else if got.DType != want.DType && got.Err == nil {
			c.say("feature-type", of(want.Name, survey.InfoPath).fixedBy("store it as "+string(want.DType)), nil, "feature %q is %s, want %s", want.Name, got.DType, want.DType)
		}
	}
}

func (c *checker) checkFeature(f survey.Feature) {
	here := of(f.Name, survey.InfoPath)
	if f.Err != nil {
		c.say("feature-entry", here, nil, "feature %q: %v", f.Name, f.Err)
		return
	}
	if strings.Contains(f.Name, "/") {
		c.say("feature-name", here, nil, "feature %q: LeRobot refuses \"/\" in names", f.Name)
	}
	if len(f.Shape) == 0 || f.Dim() == 0 {
		c.say("feature-shape", here, nil, "feature %q has shape %v, which does not load", f.Name, f.Shape)
	}
	if !f.DType.Numeric() && !f.DType.Visual() && f.DType != dataset.String && f.DType != "language" {
		c.say("feature-dtype", here, nil, "feature %q has dtype %q, which no reader knows", f.Name, f.DType)
	}
	if slices.Contains(f.Keys, "fps") && c.v3() {
		c.say("feature-fps", in(survey.InfoPath).keyed("*"), nil, "feature %q has a key fps of its own (from a v2.1 conversion); it defeats the check on resume", f.Name)
	}
	if f.DType.Visual() {
		c.checkPictureFeature(f)
		return
	}
	if strings.Contains(f.Name, "image") && f.DType.Numeric() && f.Dim() != 1 && f.Dim() != 3 {
		c.say("feature-image-name", here, nums{"elements": float64(f.Dim())},
			"feature %q holds %d numbers, but LeRobot's merge, delete and split take every name with \"image\" for a picture and want statistics of shape (3,1,1) or (1,1,1)", f.Name, f.Dim())
	}
	if f.NamesKind == "nested" {
		c.say("feature-names-nested", in(survey.InfoPath).keyed("*"), nil, "feature %q has its names in a list inside a list", f.Name)
	} else if n := len(f.Names); n > 0 && n != f.Dim() {
		c.say("feature-names", here, nums{"names": float64(n), "elements": float64(f.Dim())}, "feature %q has %d names for %d elements", f.Name, n, f.Dim())
	}
}

func (c *checker) checkPictureFeature(f survey.Feature) {
	here := of(f.Name, survey.InfoPath)
	if f.NamesKind == "null" || f.NamesKind == "absent" {
		c.say("picture-names", here, nil, "picture feature %q has no names; making a policy fails", f.Name)
		return
	}
	if len(f.Shape) != 3 || len(f.Names) != 3 {
		c.say("picture-shape", here, nil, "picture feature %q has shape %v and names %v", f.Name, f.Shape, f.Names)
		return
	}
	if last := f.Names[2]; last != "channel" && last != "channels" {
		c.say("picture-order", here, nil, "picture feature %q has names %v, so it is taken as (channels, height, width)", f.Name, f.Names)
	} else if f.Shape[2] != 3 && f.Shape[2] != 1 && f.Shape[2] != 4 {
		c.say("picture-shape", here, nil, "picture feature %q has shape %v: its last number is that of the channels", f.Name, f.Shape)
	}
	if fps, ok := f.Info["video.fps"].(float64); ok && fps != c.fps {
		c.say("video-fps", here, nums{"video.fps": fps, "fps": c.fps}, "picture feature %q says video.fps %v, the rows have %g", f.Name, fps, c.fps)
	}
	if f.DType == dataset.Video && c.v3() && len(f.Info) == 0 {
		c.say("video-info", here, nil, "video feature %q has no info (codec, size, rate): the edit tools can not build an encoder from it", f.Name)
	}
}

func isDefault(name string) bool {
	return slices.ContainsFunc(dataset.DefaultFeatures(), func(f dataset.Feature) bool { return f.Name == name })
}

// checkTotals compares the counters of info.json with the episode table.
func (c *checker) checkTotals() {
	i, here, rows := c.set.Info, in(survey.InfoPath), 0
	for _, e := range c.set.Episodes {
		rows += max(0, e.Length)
	}
	if len(c.set.Episodes) == 0 && i.TotalEpisodes > 0 {
		return // said already
	}
	broken := slices.ContainsFunc(c.set.EpisodeFiles, func(f survey.EpisodeFile) bool { return f.Err != nil })
	if i.TotalEpisodes != len(c.set.Episodes) && !broken {
		c.say("info-totals", here, nums{"total_episodes": float64(i.TotalEpisodes), "listed": float64(len(c.set.Episodes))},
			"total_episodes is %d, the episode table has %d", i.TotalEpisodes, len(c.set.Episodes))
	}
	if i.TotalFrames != rows && !broken {
		c.say("info-totals-frames", here, nums{"total_frames": float64(i.TotalFrames), "listed": float64(rows)},
			"total_frames is %d, the episode lengths add up to %d", i.TotalFrames, rows)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Splits)) {
		span := i.Splits[name]
		var from, to int
		if n, err := fmt.Sscanf(span, "%d:%d", &from, &to); n != 2 || err != nil || from < 0 || to > len(c.set.Episodes) && !broken || from > to {
			c.say("info-splits", here.on(name).keyed(name), nil, "split %q is %q, there are %d episodes", name, span, len(c.set.Episodes))
		}
	}
}
