package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// maxFileSeconds bounds an episode: beyond 1024 s the float32 timestamps that the official loader compares are coarser
// than its tolerance of 1e-4 s (2^10 s has an ulp of 1.2e-4 s).
const maxFileSeconds = 1024

// maxFileIndex: the official loader sorts paths as text, and %03d sorts wrongly from 1000 on.
const maxFileIndex = 999

// built is an episode that is checked and staged, with the state of the dataset after it.
type built struct {
	change *change
	meta   EpisodeMeta
	info   Info
	tasks  []string
	stats  map[string]Stats
	extra  []extraColumn
	videos map[string]contentSum // hash of each camera's coded pictures
}

// build checks the episode and stages its file set in the order of publication.
func (w *Writer) build(ctx context.Context, ep Episode) (*built, error) {
	if err := w.checkEpisode(ep); err != nil {
		return nil, err
	}
	b := &built{change: &change{d: w.disk}, info: w.info, tasks: w.tasks, extra: w.extra}
	rows, taskIndex, err := b.assignTasks(ep)
	if err != nil {
		return nil, err
	}
	if err := b.setExtra(ep.Extra, w.episodes > 0); err != nil {
		return nil, err
	}
	b.meta = EpisodeMeta{Index: w.episodes, Length: ep.Length, Tasks: rows, FromIndex: w.frames, data: w.data, meta: w.meta,
		Videos: map[string]VideoSpan{}, Extra: ep.Extra, Stats: map[string]Stats{}}
	if max(w.data.chunk, w.meta.chunk) > maxFileIndex {
		return nil, fmt.Errorf("the dataset is full: %d chunks of %d files; start another", maxFileIndex+1, w.info.ChunksSize)
	}
	if err := w.stageVideos(ctx, b, ep); err != nil {
		return nil, err
	}
	columns := w.columns(ep, taskIndex)
	if err := w.hashContent(b, ep, taskIndex); err != nil {
		return nil, err
	}
	for i, f := range w.nonVideo() {
		if f.DType.Numeric() {
			values, _ := convertTo[float64](columns[i].Values)
			b.meta.Stats[f.Name] = columnStats(values, f.Dim())
		}
	}
	if err := w.stageTables(b, columns, len(b.tasks) > len(w.tasks)); err != nil {
		return nil, err
	}
	return b, ctx.Err()
}

// hashContent sums up the hashes of the episode's features.
func (w *Writer) hashContent(b *built, ep Episode, taskIndex []int64) error {
	if !w.content {
		return nil
	}
	all, err := tasksSum(taskIndex)
	if err != nil {
		return err
	}
	for _, f := range w.userFeatures() {
		s, ok := b.videos[f.Name]
		if !ok {
			if s, err = valuesSum(f, ep.Columns[f.Name]); err != nil {
				return fmt.Errorf("hash feature %q: %w", f.Name, err)
			}
		}
		all = all.plus(s)
	}
	b.meta.content = all.encode(b.info.Features)
	return nil
}

// nonVideo lists the features that are columns of the data files.
func (w *Writer) nonVideo() []Feature {
	return slices.DeleteFunc(slices.Clone(w.info.Features), func(f Feature) bool { return f.DType == Video })
}

func (w *Writer) checkEpisode(ep Episode) error {
	if ep.Length < 1 {
		return errors.New("the episode has no rows")
	}
	if s := float64(ep.Length) / float64(w.info.FPS); s >= maxFileSeconds {
		return fmt.Errorf("the episode lasts %.0f s; from %d s on LeRobot's time check fails by rounding: cut it", s, maxFileSeconds)
	}
	if len(ep.Tasks) != 1 && len(ep.Tasks) != ep.Length {
		return fmt.Errorf("%d task texts for %d rows, want one or one per row", len(ep.Tasks), ep.Length)
	}
	var want, videos []string
	for _, f := range w.userFeatures() {
		if f.DType == Video {
			videos = append(videos, f.Name)
			continue
		}
		want = append(want, f.Name)
		if err := checkColumn(f, ep.Columns[f.Name], ep.Length); err != nil {
			return fmt.Errorf("feature %q: %w", f.Name, err)
		}
	}
	if err := sameNames("column", want, slices.Collect(maps.Keys(ep.Columns))); err != nil {
		return err
	}
	return sameNames("video", videos, slices.Collect(maps.Keys(ep.Videos)))
}

// sameNames finds names that are missing or unknown.
func sameNames(what string, want, got []string) error {
	slices.Sort(got)
	for _, n := range got {
		if !slices.Contains(want, n) {
			return fmt.Errorf("%s %q is no feature of this dataset, which has %s", what, n, strings.Join(want, ", "))
		}
	}
	for _, n := range want {
		if !slices.Contains(got, n) {
			return fmt.Errorf("%s %q is missing", what, n)
		}
	}
	return nil
}

// largest is the largest number of a float64 column: beyond it the squares in a deviation overflow, and statistics are not finite.
const largest = 1e150

// checkColumn verifies type, number and finiteness of a column's values.
func checkColumn(f Feature, values any, length int) error {
	var n int
	var ok bool
	switch v := values.(type) {
	case []float32:
		n, ok = len(v), f.DType == Float32
		for i, x := range v {
			if d := float64(x); math.IsNaN(d) || math.IsInf(d, 0) {
				return notFinite(f, i, d)
			}
		}
	case []float64:
		n, ok = len(v), f.DType == Float64
		for i, x := range v {
			if !(math.Abs(x) <= largest) {
				return notFinite(f, i, x)
			}
		}
	case []int32:
		n, ok = len(v), f.DType == Int32
	case []int64:
		n, ok = len(v), f.DType == Int64
	case []bool:
		n, ok = len(v), f.DType == Bool
	case []string:
		n, ok = len(v), f.DType == String
	case nil:
		return errors.New("no values")
	}
	if !ok {
		return fmt.Errorf("values are %T, its type is %s", values, f.DType)
	}
	if n != length*f.Dim() {
		return fmt.Errorf("%d values, want %d rows of %d", n, length, f.Dim())
	}
	return nil
}

func notFinite(f Feature, i int, x float64) error {
	name := ""
	if e := i % f.Dim(); e < len(f.Names) {
		name = " (" + f.Names[e] + ")"
	}
	return fmt.Errorf("row %d, element %d%s is %v: drop the row or the recording", i/f.Dim(), i%f.Dim(), name, x)
}

// assignTasks maps instructions to numbers, new ones at the end; it returns the distinct texts and the number per row.
func (b *built) assignTasks(ep Episode) (distinct []string, perRow []int64, err error) {
	number := map[string]int{}
	for i, t := range b.tasks {
		number[t] = i
	}
	b.tasks = slices.Clone(b.tasks)
	perRow = make([]int64, ep.Length)
	for r := range perRow {
		text := ep.Tasks[min(r, len(ep.Tasks)-1)]
		if strings.TrimSpace(text) == "" {
			return nil, nil, fmt.Errorf("row %d has an empty task text", r)
		}
		if _, known := number[text]; !known {
			number[text] = len(b.tasks)
			b.tasks = append(b.tasks, text)
		}
		if !slices.Contains(distinct, text) {
			distinct = append(distinct, text)
		}
		perRow[r] = int64(number[text])
	}
	return distinct, perRow, nil
}

// stageVideos verifies every camera's mp4 against the rows and the other episodes, computes picture statistics and stages
// the files.
func (w *Writer) stageVideos(ctx context.Context, b *built, ep Episode) error {
	b.info.Features = slices.Clone(b.info.Features)
	for i, f := range b.info.Features {
		if f.DType != Video {
			continue
		}
		info, err := video.Probe(ep.Videos[f.Name])
		if err != nil {
			return fmt.Errorf("video %q: %w", f.Name, err)
		}
		if err := w.checkVideo(f, info, ep.Length); err != nil {
			return fmt.Errorf("video %q (%s): %w", f.Name, ep.Videos[f.Name], err)
		}
		if b.info.Features[i].Info == nil {
			b.info.Features[i].Info = videoInfo(info, w.info.FPS)
		}
	}
	stats, err := w.videoStats(ctx, b.info.Features, ep)
	if err != nil {
		return err
	}
	b.videos = map[string]contentSum{}
	for i, f := range b.info.Features {
		if f.DType == Video {
			if b.videos[f.Name], err = videoSum(f, ep.Videos[f.Name], 0, ep.Length); err != nil {
				return fmt.Errorf("hash video %q: %w", f.Name, err)
			}
			b.meta.Stats[f.Name] = stats[i]
			if err := w.stageVideo(b, f.Name, ep.Videos[f.Name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// videoStats makes the picture statistics of all video features, several at a time, in the places of the features.
func (w *Writer) videoStats(ctx context.Context, features []Feature, ep Episode) ([]Stats, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(w.o.ImageWorkers)
	stats := make([]Stats, len(features))
	for i, f := range features {
		if f.DType != Video {
			continue
		}
		g.Go(func() (err error) {
			stats[i], err = w.imageStats(ctx, ep, f)
			return err
		})
	}
	return stats, g.Wait()
}

func (w *Writer) stageVideo(b *built, name, from string) error {
	at := w.video[name]
	span := VideoSpan{ToTime: float64(b.meta.Length) / float64(w.info.FPS), Path: at.path(defaultVideoPath, name), file: at}
	b.meta.Videos[name] = span
	return b.change.add(span.Path, func(to string) error { return w.disk.copyIn(from, to, w.inScratch(from)) })
}

// inScratch reports whether a file lies in the writer's own scratch folder and may be moved.
func (w *Writer) inScratch(path string) bool {
	a, err1 := filepath.Abs(path)
	s, err2 := filepath.Abs(w.Scratch())
	rel, err3 := filepath.Rel(s, a)
	return err1 == nil && err2 == nil && err3 == nil && filepath.IsLocal(rel)
}

// checkVideo holds a video to the rules of the official loader: as many frames as rows, frame k at time k/fps, the
// feature's size, and one codec for all episodes.
func (w *Writer) checkVideo(f Feature, v video.Info, length int) error {
	if v.Frames() != length {
		return fmt.Errorf("%d frames for %d rows", v.Frames(), length)
	}
	if v.Height != f.Shape[0] || v.Width != f.Shape[1] {
		return fmt.Errorf("%dx%d pixels, the feature says %dx%d", v.Width, v.Height, f.Shape[1], f.Shape[0])
	}
	if k, off := v.WorstTime(w.info.FPS); off > 1e-5 {
		return fmt.Errorf("frame %d is at %.6f s, want %.6f: encode it at a constant %d Hz from time 0", k, v.Time(k), float64(k)/float64(w.info.FPS), w.info.FPS)
	}
	if !v.Key[0] {
		return errors.New("the first frame is no key frame")
	}
	for key, got := range map[string]string{"video.codec": string(v.Codec), "video.pix_fmt": v.PixFmt} {
		if want, ok := f.Info[key].(string); ok && want != "" && got != "" && want != got {
			return fmt.Errorf("%s is %s, earlier episodes have %s; all episodes of a camera must agree", key, got, want)
		}
	}
	return nil
}

// videoInfo is the "info" map of a video feature.
func videoInfo(v video.Info, fps int) map[string]any {
	return map[string]any{"video.height": v.Height, "video.width": v.Width, "video.codec": string(v.Codec), "video.pix_fmt": v.PixFmt,
		"video.fps": fps, "video.channels": 3, "video.g": v.MaxGOP, "video.is_depth_map": false, "is_depth_map": false, "has_audio": v.HasAudio}
}

// imageStats takes the caller's statistics or decodes LeRobot's sample of frames.
func (w *Writer) imageStats(ctx context.Context, ep Episode, f Feature) (Stats, error) {
	if s, ok := ep.ImageStats[f.Name]; ok {
		if s.Count < 1 || len(s.Mean) != 3 || len(s.Q99) != 3 {
			return Stats{}, fmt.Errorf("video %q: the given statistics are not those of three channels", f.Name)
		}
		return s, nil
	}
	if w.o.SkipImageStats {
		return Stats{}, fmt.Errorf("video %q: no statistics given", f.Name)
	}
	s, err := sampleStats(ctx, ep.Videos[f.Name], 0, ep.Length)
	if err != nil {
		return Stats{}, fmt.Errorf("video %q: %w", f.Name, err)
	}
	return s, nil
}

// sampleStats computes picture statistics of the n frames from first on.
func sampleStats(ctx context.Context, path string, first, n int) (Stats, error) {
	r, err := video.Open(path, video.ReaderOptions{})
	if err != nil {
		return Stats{}, err
	}
	defer r.Close()
	width, height := r.Size()
	buf := make([]byte, width*height*3)
	var acc ImageAccumulator
	for _, i := range SampleFrames(n) {
		if err := ctx.Err(); err != nil {
			return Stats{}, err
		}
		if err := r.Frame(first+i, buf); err != nil {
			return Stats{}, err
		}
		acc.Add(buf, width, height)
	}
	return acc.Stats(), nil
}

// columns lays out the rows: the caller's features and the five default ones, in the order of info.json.
func (w *Writer) columns(ep Episode, taskIndex []int64) []pq.Column {
	n := ep.Length
	at := make([]float32, n)
	frame, episode, index := make([]int64, n), make([]int64, n), make([]int64, n)
	for r := range n {
		at[r] = float32(float64(r) / float64(w.info.FPS))
		frame[r], episode[r], index[r] = int64(r), int64(w.episodes), int64(w.frames+r)
	}
	own := map[string]any{Timestamp: at, FrameIndex: frame, EpisodeIndex: episode, Index: index, TaskIndex: taskIndex}
	var out []pq.Column
	for _, f := range w.nonVideo() {
		c := pq.Column{Name: f.Name, Values: ep.Columns[f.Name]}
		if v, ok := own[f.Name]; ok {
			c.Values = v
		}
		if f.Dim() > 1 {
			c.Shape, c.Fixed = []int{f.Dim()}, true
		}
		out = append(out, c)
	}
	return out
}

// stageTables stages the tables and the JSON files, info.json last.
func (w *Writer) stageTables(b *built, data []pq.Column, newTasks bool) error {
	b.meta.DataPath = b.meta.data.path(defaultDataPath, "")
	hf, err := huggingface(w.nonVideo())
	if err != nil {
		return err
	}
	table := func(to string, rows int, columns []pq.Column, md map[string]string) error {
		return b.change.add(to, func(from string) error {
			return w.disk.write(from, func(out io.Writer) error { return pq.Write(out, rows, columns, md) })
		})
	}
	if err := table(b.meta.DataPath, b.meta.Length, data, map[string]string{"huggingface": hf}); err != nil {
		return err
	}
	if err := table(b.meta.meta.path(episodesPath, ""), 1, episodesTable(b.info.Features, []EpisodeMeta{b.meta}, b.extra, w.content), nil); err != nil {
		return err
	}
	if newTasks {
		if err := table(tasksPath, len(b.tasks), taskColumns(b.tasks), map[string]string{"pandas": tasksPandas}); err != nil {
			return err
		}
	}
	b.stats = maps.Clone(w.stats)
	for name, s := range b.meta.Stats {
		b.stats[name] = merge(b.stats[name], s)
	}
	return b.stageJSON()
}

func (b *built) stageJSON() error {
	b.info.TotalEpisodes = b.meta.Index + 1
	b.info.TotalFrames = b.meta.FromIndex + b.meta.Length
	b.info.TotalTasks = len(b.tasks)
	b.info.Splits = map[string]string{"train": fmt.Sprintf("0:%d", b.info.TotalEpisodes)}
	stats, err := encodeStats(b.info.Features, b.stats)
	if err != nil {
		return err
	}
	if err := b.change.addBytes(statsPath, stats); err != nil {
		return err
	}
	info, err := b.info.encode()
	if err != nil {
		return err
	}
	return b.change.addBytes(infoPath, info)
}

// huggingface is the footer entry from which the datasets library takes the features. "Sequence" is the name of lists
// that both its versions below 4 and above know.
func huggingface(features []Feature) (string, error) {
	types := map[string]any{}
	for _, f := range features {
		value := map[string]any{"dtype": f.DType, "_type": "Value"}
		if f.Dim() > 1 {
			types[f.Name] = map[string]any{"feature": value, "length": f.Dim(), "_type": "Sequence"}
		} else {
			types[f.Name] = value
		}
	}
	b, err := json.Marshal(map[string]any{"info": map[string]any{"features": types}})
	return string(b), err
}
