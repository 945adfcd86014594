package faultplant

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// videoKinds are pictures that do not go with their rows.
var videoKinds = []Kind{
	{"video-frames-dropped", "video", "1 to 4 % of one camera's frames, at least one group of pictures, are not in the mp4: the encoder's queue was full (lerobot #4462, #4699; its guide admits 2 %).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		info, err := video.Probe(s.path(span.Path))
		if err != nil {
			return err
		}
		if info.CanCut(0) != nil || info.MaxGOP*3 > s.n || span.FirstFrame != 0 {
			return errNowhere
		}
		drop := map[int]bool{}
		for want := max(1, int(s.between(0.01, 0.04)*float64(s.n))); len(drop) < want; {
			k := 1 + s.rng.IntN(s.n-1)
			for k > 0 && !info.Key[k] {
				k--
			}
			if k == 0 {
				continue
			}
			drop[k] = true
			for j := k + 1; j < info.Frames() && !info.Key[j]; j++ {
				drop[j] = true
			}
		}
		var parts []video.Part
		for k := 0; k < info.Frames(); k++ {
			if drop[k] {
				continue
			}
			if n := len(parts); n > 0 && parts[n-1].First+parts[n-1].Count == k {
				parts[n-1].Count++
				continue
			}
			parts = append(parts, video.Part{Path: s.path(span.Path), First: k, Count: 1})
		}
		s.at(0, s.n, camera.Name, "%d of %d frames missing", len(drop), s.n)
		return s.film(span.Path, func(tmp string) error { return video.Join(tmp, parts, int(s.fps)) })
	}},
	{"video-end-fencepost", "video", "to_timestamp is (length-1)/fps, one frame short (seen in a public set: delete and split assert).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		to := span.FromTime + float64(s.n-1)/s.fps
		s.at(0, s.n, camera.Name, "to_timestamp %.3f instead of %.3f", to, span.ToTime)
		s.setTable("videos/"+camera.Name+"/to_timestamp", to)
		return nil
	}},
	{"video-start-drift", "video", "from_timestamp and to_timestamp are off by 0.2 to 10 ms: a running sum of probed durations (lerobot #3177; the tolerance is 0.1 ms).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		off := s.logBetween(0.0002, 0.010)
		s.at(0, s.n, camera.Name, "off by %.2f ms", 1000*off)
		s.setTable("videos/"+camera.Name+"/from_timestamp", span.FromTime+off)
		s.setTable("videos/"+camera.Name+"/to_timestamp", span.ToTime+off)
		return nil
	}},
	{"video-of-other-episode", "video", "One camera's file number is that of another episode (lerobot #2550: after a merge all episodes showed one file).", func(s *site) error {
		camera, _, err := s.camera()
		if err != nil {
			return err
		}
		other, err := s.otherEpisode()
		if err != nil {
			return err
		}
		chunk, file, err := s.numbers(other, "videos/"+camera.Name+"/")
		if err != nil {
			return err
		}
		s.at(0, s.n, camera.Name, "shows episode %d", other)
		s.setTable("videos/"+camera.Name+"/chunk_index", chunk)
		s.setTable("videos/"+camera.Name+"/file_index", file)
		return nil
	}},
	{"video-codec-other", "video", "The mp4 is MPEG-4 part 2 with key frames 12 apart while info.json says otherwise (OpenCV's writer; seen in a public set).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		s.at(0, s.n, camera.Name, "mpeg4 instead of %v", camera.Info["video.codec"])
		return s.film(span.Path, func(tmp string) error {
			return ffmpeg(s.p.ctx, "-i", s.path(span.Path), "-an", "-c:v", "mpeg4", "-q:v", "3", "-g", "12", "-bf", "0", "-pix_fmt", "yuv420p", "-threads", "1", tmp)
		})
	}},
	{"video-rate-wrong", "video", "The mp4's rate is not that of the rows: twice as many hertz (a camera's 60 for rows at 30), or a converter's default of 100 (rebake), or one less (29.97 cut to 29).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		rate := []int{2 * int(s.fps), 100, int(s.fps) - 1}[s.rng.IntN(3)]
		s.at(0, s.n, camera.Name, "%d Hz for rows at %v", rate, s.fps)
		return s.encode(camera, span, rate, func(int, []byte) {})
	}},
	{"video-keys-far", "video", "Key frames are 250 apart, an encoder's default: every random access decodes from the start (seen with 12 in a public set).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		if s.n < 20 {
			return errNowhere
		}
		s.at(0, s.n, camera.Name, "one key frame in %d", min(s.n, 250))
		return s.film(span.Path, func(tmp string) error {
			return ffmpeg(s.p.ctx, "-i", s.path(span.Path), "-an", "-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-g", "250", "-bf", "0", "-sc_threshold", "0", "-pix_fmt", "yuv420p", "-threads", "1", tmp)
		})
	}},
	{"video-size-other", "video", "The mp4's pictures are half as wide and high as the feature says: the camera fell back to another mode.", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		s.at(0, s.n, camera.Name, "half of %v", camera.Shape)
		return s.film(span.Path, func(tmp string) error {
			return ffmpeg(s.p.ctx, "-i", s.path(span.Path), "-an", "-vf", fmt.Sprintf("scale=%d:%d", camera.Shape[1]/4*2, camera.Shape[0]/4*2),
				"-c:v", "libx264", "-preset", "ultrafast", "-crf", "23", "-g", "2", "-bf", "0", "-pix_fmt", "yuv420p", "-threads", "1", tmp)
		})
	}},
}

// camera draws a camera and finds its video.
func (s *site) camera() (dataset.Feature, dataset.VideoSpan, error) {
	f, err := s.pick(func(f dataset.Feature) bool { return f.DType == dataset.Video })
	if err != nil {
		return f, dataset.VideoSpan{}, err
	}
	span, ok := s.ep.Videos[f.Name]
	if !ok {
		return f, span, errNowhere
	}
	return f, span, nil
}

// film replaces a video by one that fill writes at the path it gets.
func (s *site) film(rel string, fill func(tmp string) error) error {
	tmp := filepath.Join(filepath.Dir(s.path(rel)), "."+filepath.Base(rel)+".new.mp4")
	defer os.Remove(tmp)
	if err := fill(tmp); err != nil {
		return fmt.Errorf("change %s: %w", rel, err)
	}
	s.changed(rel)
	return os.Rename(tmp, s.path(rel))
}

// encode replaces a camera's video by its frames, changed by f in their order, at a rate in Hz and otherwise coded as before.
func (s *site) encode(camera dataset.Feature, span dataset.VideoSpan, rate int, f func(k int, rgb []byte)) error {
	info, err := video.Probe(s.path(span.Path))
	if err != nil {
		return err
	}
	if info.Codec != video.H264 && info.Codec != video.AV1 {
		return errNowhere
	}
	return s.film(span.Path, func(tmp string) error {
		e, err := video.NewEncoder(s.p.ctx, tmp, video.EncodeOptions{Codec: info.Codec, FPS: rate, Width: info.Width, Height: info.Height, GOP: info.MaxGOP})
		if err != nil {
			return err
		}
		err = video.Each(s.path(span.Path), video.ReaderOptions{}, 0, info.Frames(), func(k int, rgb []byte) error {
			f(k, rgb)
			return e.WriteRGB(rgb)
		})
		if err != nil {
			e.Abort()
			return err
		}
		_, err = e.Close()
		return err
	})
}

// refilm is encode at the rows' rate for what a camera itself saw: the statistics of its pictures follow.
func (s *site) refilm(camera dataset.Feature, span dataset.VideoSpan, f func(k int, rgb []byte)) error {
	if err := s.encode(camera, span, int(s.fps), f); err != nil {
		return err
	}
	stats, err := dataset.PictureStats(s.p.ctx, s.path(span.Path), span.FirstFrame, s.n)
	if err != nil {
		return err
	}
	if s.p.pictures[camera.Name] == nil {
		s.p.pictures[camera.Name] = map[int]dataset.Stats{}
	}
	s.p.pictures[camera.Name][s.ep.Index] = stats
	s.setStats(camera, stats)
	return nil
}

// ffmpeg runs the program.
func ffmpeg(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "ffmpeg", append([]string{"-nostdin", "-v", "error", "-y"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("ffmpeg: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// pictureKinds are cameras that saw nothing new, or nothing.
var pictureKinds = []Kind{
	{"camera-frozen", "content", "One wrist camera shows one picture for 0.5 to 2 s while its hand moves 3 cm or more (yubi facts 1.10: a frozen image with running info passes the gate).", func(s *site) error {
		return s.freeze(s.seconds(s.between(0.5, 2)))
	}},
	{"camera-held-to-end", "content", "One wrist camera stops 0.7 to 3 s before the end and its last picture is held while its hand moves on (yubi facts 7.1).", func(s *site) error {
		return s.freeze(-s.seconds(s.between(0.7, 3)))
	}},
	{"camera-half-rate", "content", "One wrist camera repeats every second picture for 1.5 to 4 s of motion: it fell to half its rate (the gate's limit of 30 Hz for 60).", func(s *site) error {
		side, camera, span, err := s.wristCamera()
		if err != nil {
			return err
		}
		w := s.seconds(s.between(1.5, 4))
		from, err := s.whereHandMoves(side, w, 0.05)
		if err != nil {
			return err
		}
		s.at(from, w, camera.Name, "every second picture repeated")
		var last []byte
		return s.refilm(camera, span, func(k int, rgb []byte) {
			if k > from && k < from+w && (k-from)%2 == 1 {
				copy(rgb, last)
				return
			}
			last = append(last[:0], rgb...)
		})
	}},
	{"camera-dark", "content", "One camera is black but for its noise for 0.3 to 2 s: exposure failed or something covered it (yubi facts 1.10: checked nowhere).", func(s *site) error {
		camera, span, err := s.camera()
		if err != nil {
			return err
		}
		w := s.seconds(s.between(0.3, 2))
		from, err := s.window(w, 0, func(int) float64 { return 0 })
		if err != nil {
			return err
		}
		s.at(from, w, camera.Name, "black")
		return s.refilm(camera, span, func(k int, rgb []byte) {
			if k < from || k >= from+w {
				return
			}
			for i := range rgb {
				rgb[i] = byte(s.rng.UintN(4))
			}
		})
	}},
}

// wristCamera draws a hand and finds its camera: the one whose name says the side.
func (s *site) wristCamera() (side string, f dataset.Feature, span dataset.VideoSpan, err error) {
	side = s.side()
	f, err = s.pick(func(f dataset.Feature) bool {
		return f.DType == dataset.Video && f.Name[strings.LastIndexAny(f.Name, "._")+1:] == side
	})
	if err != nil {
		return side, f, span, err
	}
	span, ok := s.ep.Videos[f.Name]
	if !ok {
		return side, f, span, errNowhere
	}
	return side, f, span, nil
}

// freeze repeats one picture for w rows, or for the last -w.
func (s *site) freeze(w int) error {
	side, camera, span, err := s.wristCamera()
	if err != nil {
		return err
	}
	travel, err := s.travel(side)
	if err != nil {
		return err
	}
	from, to := s.n+w, s.n
	if w > 0 {
		if from, err = s.whereHandMoves(side, w, 0.03); err != nil {
			return err
		}
		to = from + w
	} else if from < 2 || travel(from, to) < 0.03 {
		return errNowhere
	}
	s.at(from, to-from, camera.Name, "one picture while the hand moves %.0f mm", 1000*travel(from, to))
	var held []byte
	return s.refilm(camera, span, func(k int, rgb []byte) {
		switch {
		case k == from:
			held = append(held[:0], rgb...)
		case k > from && k < to:
			copy(rgb, held)
		}
	})
}
