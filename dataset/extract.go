package dataset

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// ExtractOptions choose what Extract writes.
type ExtractOptions struct {
	// Progress is called after each episode; may be nil.
	Progress func(done, total int)
	WriterOptions
}

// ExtractResult says what Extract did.
type ExtractResult struct {
	// Episodes are the source indices, in the new order.
	Episodes []int
	Frames   int
	// Changes lists what was corrected on the way, one line each.
	Changes []string
}

// SourceEpisode is the extra column in which Extract keeps the number an episode had.
const SourceEpisode = "source_episode"

// extractor copies episodes from one dataset to another.
type extractor struct {
	src      *Dataset
	w        *Writer
	reencode map[string]video.Codec // cameras whose packets can not be copied
	result   *ExtractResult
	noted    map[string]bool
}

// Extract copies the given episodes (nil: all that are present and whose videos have an index and all their packets) of a v2.1 or v3.0 dataset into a new v3.0 dataset at dst.
// Video packets are copied; only a camera whose episodes do not start on key frames is encoded anew, and the result says
// so. Index columns, row times, statistics and tasks are computed anew. On error nothing is left at dst.
func Extract(ctx context.Context, src, dst string, episodes []int, o ExtractOptions) (*ExtractResult, error) {
	d, err := Open(src)
	if err != nil {
		return nil, err
	}
	all := episodes == nil
	if episodes, err = d.choose(episodes); err != nil {
		return nil, fmt.Errorf("extract from %s: %w", src, err)
	}
	var damaged []string
	if all {
		if episodes, damaged, err = d.withVideos(episodes); err != nil {
			return nil, fmt.Errorf("extract from %s: %w", src, err)
		}
	}
	x := &extractor{src: d, result: &ExtractResult{Episodes: episodes, Changes: damaged}, reencode: map[string]video.Codec{}, noted: map[string]bool{}}
	features, err := x.features()
	if err != nil {
		return nil, fmt.Errorf("extract from %s: %w", src, err)
	}
	if err := x.planVideos(episodes); err != nil {
		return nil, fmt.Errorf("extract from %s: %w", src, err)
	}
	_, statErr := os.Stat(dst)
	x.w, err = Create(dst, Options{FPS: d.info.FPS, RobotType: d.info.RobotType, Features: features, WriterOptions: o.WriterOptions})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(x.copyAll(ctx, o.Progress), x.w.Close()); err != nil {
		x.discard(dst, os.IsNotExist(statErr))
		return nil, fmt.Errorf("extract from %s: %w", src, err)
	}
	return x.result, nil
}

// discard removes what this call made: the folder itself when it made it, else only what is inside.
func (x *extractor) discard(dst string, made bool) {
	if made {
		os.RemoveAll(dst)
		return
	}
	for _, dir := range []string{"meta", "data", "videos", workDir} {
		os.RemoveAll(filepath.Join(dst, dir))
	}
}

func (x *extractor) copyAll(ctx context.Context, progress func(done, total int)) error {
	for i, e := range x.result.Episodes {
		if err := x.copyEpisode(ctx, e); err != nil {
			return fmt.Errorf("episode %d: %w", e, err)
		}
		if progress != nil {
			progress(i+1, len(x.result.Episodes))
		}
	}
	return nil
}

// choose verifies the wanted episodes, or lists the present ones.
func (d *Dataset) choose(episodes []int) ([]int, error) {
	if episodes == nil {
		for e := range d.All() {
			if d.HasFiles(e.Index) {
				episodes = append(episodes, e.Index)
			}
		}
		if len(episodes) == 0 {
			return nil, errors.New("no episode has all its files: run pinch dataset check")
		}
		return episodes, nil
	}
	seen := map[int]bool{}
	for _, e := range episodes {
		if _, err := d.Episode(e); err != nil {
			return nil, err
		}
		if missing := d.Missing(e); len(missing) > 0 {
			return nil, fmt.Errorf("episode %d: %s is missing", e, missing[0])
		}
		if seen[e] {
			return nil, fmt.Errorf("episode %d is asked for twice", e)
		}
		seen[e] = true
	}
	if len(episodes) == 0 {
		return nil, errors.New("no episodes asked for")
	}
	return episodes, nil
}

// withVideos leaves out the episodes with a video that can not be read, as a copy that broke off has them, and says which.
func (d *Dataset) withVideos(episodes []int) (whole []int, damaged []string, err error) {
	for _, e := range episodes {
		if err := d.probeVideos(e); err != nil {
			damaged = append(damaged, fmt.Sprintf("episode %d left out: %v", e, err))
			continue
		}
		whole = append(whole, e)
	}
	if len(whole) == 0 {
		return nil, nil, fmt.Errorf("no episode has videos that can be read: %s", damaged[0])
	}
	return whole, damaged, nil
}

// probeVideos reads the containers of an episode's videos.
func (d *Dataset) probeVideos(episode int) error {
	for _, c := range d.info.cameras() {
		path, _, err := d.VideoFrame(episode, c.Name)
		if err != nil {
			return err
		}
		if _, err := video.Probe(path); err != nil {
			return err
		}
	}
	return nil
}

func (x *extractor) note(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	if !x.noted[line] {
		x.noted[line] = true
		x.result.Changes = append(x.result.Changes, line)
	}
}

// features are the source's without the default columns, with names where there are none.
func (x *extractor) features() ([]Feature, error) {
	var out []Feature
	for _, f := range x.src.info.Features {
		if isDefault(f.Name) {
			continue
		}
		if f.DType == Video && !slices.Equal(f.Names, []string{"height", "width", "channels"}) {
			x.note("feature %q: names %v became [height width channels]", f.Name, f.Names)
		}
		if f.DType.Numeric() && len(f.Names) != f.Dim() && (f.Dim() > 1 || len(f.Names) > 0) {
			x.note("feature %q: %d names for %d elements became numbered ones", f.Name, len(f.Names), f.Dim())
			f.Names = nil
			for i := range f.Dim() {
				f.Names = append(f.Names, fmt.Sprintf("%s_%d", f.Name, i))
			}
		}
		out = append(out, f)
	}
	return out, checkFeatures(out)
}

// planVideos finds the cameras whose packets can not be copied.
func (x *extractor) planVideos(episodes []int) error {
	for _, c := range x.src.info.cameras() {
		for _, e := range episodes {
			path, first, err := x.src.VideoFrame(e, c.Name)
			if err != nil {
				return err
			}
			info, err := video.Probe(path)
			if err != nil {
				return fmt.Errorf("episode %d: %w", e, err)
			}
			if first < info.Frames() && (!info.Key[first] || info.HasBFrames) {
				codec := video.H264
				if info.Codec == video.AV1 {
					codec = video.AV1
				}
				x.reencode[c.Name] = codec
			}
		}
		if codec, ok := x.reencode[c.Name]; ok {
			x.note("video %q: encoded anew as %s, because an episode does not start on a key frame or the stream has B-frames", c.Name, codec)
		}
	}
	return nil
}

func (x *extractor) copyEpisode(ctx context.Context, index int) error {
	e, err := x.src.Episode(index)
	if err != nil {
		return err
	}
	ep := Episode{Length: e.Length, Columns: map[string]any{}, Videos: map[string]string{}, Extra: maps.Clone(e.Extra)}
	if ep.Extra == nil {
		ep.Extra = map[string]any{}
	}
	ep.Extra[SourceEpisode] = int64(index)
	if ep.Tasks, err = x.src.RowTasks(index); err != nil {
		return err
	}
	for _, f := range x.w.userFeatures() {
		if f.DType == Video {
			ep.Videos[f.Name], err = x.copyVideo(ctx, e, f)
		} else {
			ep.Columns[f.Name], err = x.column(f, index)
		}
		if err != nil {
			return err
		}
	}
	x.compareTimes(e)
	new, err := x.w.AddEpisode(ctx, ep)
	if err != nil {
		return err
	}
	if new != index {
		x.note("episode %d became %d", index, new)
	}
	x.result.Frames += e.Length
	return nil
}

// column reads a column in the type that info.json promises.
func (x *extractor) column(f Feature, episode int) (any, error) {
	switch f.DType {
	case Float32:
		return ReadColumn[float32](x.src, f.Name, episode)
	case Float64:
		return ReadColumn[float64](x.src, f.Name, episode)
	case Int32:
		return ReadColumn[int32](x.src, f.Name, episode)
	case Int64:
		return ReadColumn[int64](x.src, f.Name, episode)
	case Bool:
		return ReadColumn[bool](x.src, f.Name, episode)
	}
	return ReadColumn[string](x.src, f.Name, episode)
}

// copyVideo brings the episode's frames into scratch as a video of their own.
func (x *extractor) copyVideo(ctx context.Context, e EpisodeMeta, f Feature) (string, error) {
	path, first, err := x.src.VideoFrame(e.Index, f.Name)
	if err != nil {
		return "", err
	}
	info, err := video.Probe(path)
	if err != nil {
		return "", err
	}
	if got := info.Frames() - first; got < e.Length {
		return "", fmt.Errorf("video %q: %s has %d frames from frame %d on, the episode has %d rows", f.Name, path, got, first, e.Length)
	}
	out := filepath.Join(x.w.Scratch(), strings.ReplaceAll(f.Name, ".", "_")+".mp4")
	if codec, ok := x.reencode[f.Name]; ok {
		return out, encodeAgain(ctx, path, out, codec, x.src.info.FPS, info, first, e.Length)
	}
	if first == 0 && info.Frames() == e.Length && x.w.checkVideo(f, info, e.Length) == nil {
		return path, nil // the file as it is; AddEpisode copies it
	}
	_, err = video.Cut(ctx, path, out, first, e.Length)
	return out, err
}

func encodeAgain(ctx context.Context, src, dst string, codec video.Codec, fps int, info video.Info, first, count int) error {
	enc, err := video.NewEncoder(ctx, dst, video.EncodeOptions{Codec: codec, FPS: fps, Width: info.Width, Height: info.Height})
	if err != nil {
		return err
	}
	defer enc.Abort()
	err = video.Each(src, video.ReaderOptions{}, first, count, func(_ int, rgb []byte) error { return enc.WriteRGB(rgb) })
	if err != nil {
		return err
	}
	_, err = enc.Close()
	return err
}

// compareTimes notes row times that were not frame_index / fps.
func (x *extractor) compareTimes(e EpisodeMeta) {
	times, err := ReadColumn[float64](x.src, Timestamp, e.Index)
	if err != nil {
		x.note("episode %d: column %q could not be read and was made anew", e.Index, Timestamp)
		return
	}
	for r, t := range times {
		if want := float64(r) / float64(x.src.info.FPS); t-want > 1e-4 || want-t > 1e-4 {
			x.note("episode %d: row times were not frame_index / fps (row %d at %.6f s, want %.6f) and were made anew", e.Index, r, t, want)
			return
		}
	}
}
