package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// stage opens what was made so far, as if its metadata were there already.
func (r *rebuild) stage() error {
	if r.p.v21() {
		return r.stageV21()
	}
	n := len(r.p.Episodes)
	t := &table{root: r.d.abs(nextDir), info: r.info, files: []tableFile{{rows: n}}, extras: map[int]fileExtras{0: {}}}
	t.tasks.start = make([]int32, n+1)
	for i := range n {
		t.length, t.from = append(t.length, int32(r.l.lengths[i])), append(t.from, int64(r.l.from[i]))
		t.data = append(t.data, narrowRef(r.l.data[r.l.dataRun[i]].file))
	}
	fps := float64(r.p.FPS)
	for _, c := range r.l.cameras {
		var v videoColumns
		for i := range n {
			v.file = append(v.file, narrowRef(c.files[c.run[i]].file))
			v.from = append(v.from, float64(c.first[i])/fps)
			v.to = append(v.to, float64(c.first[i]+r.l.lengths[i])/fps)
		}
		t.cameras, t.videos = append(t.cameras, c.f.Name), append(t.videos, v)
	}
	if err := r.describeVideos(); err != nil {
		return err
	}
	t.info = r.info
	r.staged = &Dataset{root: t.root, info: r.info, table: t, tasks: r.tasks, files: map[string]*dataFile{}}
	return nil
}

// describeVideos fills the video features' info.
func (r *rebuild) describeVideos() (err error) {
	r.info.Features = slices.Clone(r.info.Features)
	for i, f := range r.info.Features {
		if f.DType == Video {
			if r.info.Features[i].Info, err = r.videoInfo(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func narrowRef(f fileIndex) fileRef { return fileRef{uint16(f.chunk), uint16(f.file)} }

// videoInfo is what info.json says of a camera: the sources' words where they agree and nothing was encoded, else the container's.
func (r *rebuild) videoInfo(f Feature) (map[string]any, error) {
	i := slices.IndexFunc(r.l.cameras, func(c *camera) bool { return c.f.Name == f.Name })
	c := r.l.cameras[i]
	probed, err := video.Probe(r.d.abs(nextDir + "/" + r.videoPath(c.files[0], f.Name)))
	if err != nil {
		return nil, err
	}
	made := videoInfo(probed, r.p.FPS)
	if c.f.Encode != nil {
		return made, nil
	}
	var said map[string]any
	seen := map[*Dataset]bool{}
	for _, pe := range r.p.Episodes {
		if seen[pe.From] {
			continue
		}
		seen[pe.From] = true
		s, err := pe.From.Feature(c.f.From)
		if err != nil {
			return nil, err
		}
		if said == nil {
			said = maps.Clone(s.Info)
		}
		maps.DeleteFunc(said, func(k string, v any) bool { return !reflect.DeepEqual(v, s.Info[k]) })
	}
	for k, v := range made {
		if _, ok := said[k]; ok || said == nil || k == "video.codec" || k == "video.pix_fmt" || k == "video.height" || k == "video.width" {
			if said == nil {
				said = map[string]any{}
			}
			if k != "video.g" { // says how it was encoded; a file of few frames shows less
				said[k] = v
			}
		}
	}
	return said, nil
}

// tableRows is how many episodes are in a row group of meta/episodes.
const tableRows = 512

// makeMeta writes meta/ of the new dataset.
func (r *rebuild) makeMeta(ctx context.Context) error {
	if err := r.d.remove(nextDir + "/meta"); err != nil {
		return err
	}
	extra := r.extraColumns()
	pictures := map[string][]Stats{}
	n := len(r.p.Episodes)
	at := fileIndex{}
	for lo := 0; lo < n; at = at.next(defaultChunksSize) {
		hi, err := r.episodesFile(ctx, at, lo, extra, pictures)
		if err != nil {
			return err
		}
		lo = hi
	}
	if err := r.writeTotals(ctx, pictures); err != nil {
		return err
	}
	if len(r.tasks) > 0 {
		return r.d.write(nextDir+"/"+tasksPath, func(w io.Writer) error {
			return pq.Write(w, len(r.tasks), taskColumns(r.tasks), map[string]string{"pandas": tasksPandas})
		})
	}
	return nil
}

// writeTotals writes stats.json and info.json.
func (r *rebuild) writeTotals(ctx context.Context, pictures map[string][]Stats) error {
	all := newMeasure(r.info.Features)
	var paths []string
	for _, f := range r.l.data {
		paths = append(paths, r.dataPath(f))
	}
	if err := all.files(ctx, r.staged.root, paths); err != nil {
		return fmt.Errorf("measure: %w", err)
	}
	stats := all.stats()
	r.result.RankError = all.rankError()
	for name, parts := range pictures {
		stats[name] = mixPictures(parts)
	}
	b, err := encodeStats(r.info.Features, stats)
	if err != nil {
		return err
	}
	if err := r.d.writeBytes(nextDir+"/"+statsPath, b); err != nil {
		return err
	}
	if b, err = r.info.encode(); err != nil {
		return err
	}
	return r.d.writeBytes(nextDir+"/"+infoPath, b)
}

// extraColumns is the union of the episodes' extra columns; episodes without one get null there. A name that is used for two types is
// kept for the first.
func (r *rebuild) extraColumns() []extraColumn {
	kinds := map[string]string{}
	for _, pe := range r.p.Episodes {
		for name, v := range r.extra(pe) {
			if _, ok := kinds[name]; !ok && kindOf(v) != "" {
				kinds[name] = kindOf(v)
			}
		}
	}
	var out []extraColumn
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		out = append(out, extraColumn{name, kinds[name]})
	}
	return out
}

func (r *rebuild) extra(pe PlanEpisode) map[string]any {
	if pe.Extra != nil {
		return pe.Extra
	}
	e, _ := pe.From.Episode(pe.Index)
	return e.Extra
}

// episodesFile writes one file of the episode table from episode lo on and returns the first episode of the next.
func (r *rebuild) episodesFile(ctx context.Context, at fileIndex, lo int, extra []extraColumn, pictures map[string][]Stats) (hi int, err error) {
	hi = lo
	to := nextDir + "/" + at.path(episodesPath, "")
	err = r.d.write(to, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		var out *pq.Writer
		for hi < len(r.p.Episodes) && (out == nil || out.Size() < defaultDataFileMB<<20) {
			if err := ctx.Err(); err != nil {
				return err
			}
			end := min(hi+tableRows, len(r.p.Episodes))
			rows, err := r.episodeRows(ctx, hi, end, at, pictures)
			if err != nil {
				return err
			}
			columns := episodesTable(r.info.Features, rows, extra, true)
			if out == nil {
				fields := make([]pq.Field, len(columns))
				for i, c := range columns {
					if fields[i], err = c.Field(); err != nil {
						return err
					}
				}
				if out, err = pq.NewWriter(b, fields, nil); err != nil {
					return err
				}
			}
			if err := out.WriteGroup(len(rows), mapSlice(columns, func(c pq.Column) pq.Part { return pq.Part{Column: c} })); err != nil {
				return err
			}
			hi = end
			if r.o.Progress != nil {
				r.o.Progress("episodes", hi, len(r.p.Episodes))
			}
		}
		return errors.Join(out.Close(), b.Flush())
	})
	return hi, err
}

// episodeRows are rows of the new episode table with statistics and content hashes.
func (r *rebuild) episodeRows(ctx context.Context, lo, hi int, at fileIndex, pictures map[string][]Stats) ([]EpisodeMeta, error) {
	rows := make([]EpisodeMeta, hi-lo)
	for k := range rows {
		i := lo + k
		pe := r.p.Episodes[i]
		source, err := pe.From.Episode(pe.Index)
		if err != nil {
			return nil, err
		}
		e, err := r.staged.at(i)
		if err != nil {
			return nil, err
		}
		for _, t := range source.Tasks {
			if text := r.p.task(t); !slices.Contains(e.Tasks, text) {
				e.Tasks = append(e.Tasks, text)
			}
		}
		if len(e.Tasks) == 0 {
			if e.Tasks, err = r.staged.orderedTasks(e); err != nil {
				return nil, err
			}
		}
		e.Extra, e.meta = r.extra(pe), at
		if e.Stats, err = r.episodeStats(ctx, i, e); err != nil {
			return nil, fmt.Errorf("statistics of episode %d of %s: %w", pe.Index, pe.From.root, err)
		}
		content, err := r.content(pe, source, e)
		if err != nil {
			return nil, fmt.Errorf("hash of episode %d of %s: %w", pe.Index, pe.From.root, err)
		}
		e.content = content.encode(r.info.Features)
		for _, f := range r.info.Features {
			if f.DType.Visual() {
				pictures[f.Name] = append(pictures[f.Name], e.Stats[f.Name])
			}
		}
		rows[k] = e
	}
	return rows, nil
}

// episodeStats takes over the statistics of what did not change and computes the others.
func (r *rebuild) episodeStats(ctx context.Context, i int, e EpisodeMeta) (map[string]Stats, error) {
	pe := r.p.Episodes[i]
	have, err := pe.From.EpisodeStats(pe.Index)
	if err != nil {
		return nil, err
	}
	out := map[string]Stats{}
	for _, f := range r.info.Features {
		plan, own := r.p.planned(f.Name)
		var s Stats
		switch {
		case f.DType.Visual():
			s = have[plan.From]
			if !s.complete(3) || plan.Encode != nil || r.p.Recompute || r.encoded(f) {
				s, err = r.pictureStats(ctx, f, e)
			}
		case !f.DType.Numeric():
			continue
		case !own:
			s, err = r.defaultStats(f, i, e)
		case own && !r.p.Recompute && plan.From != "" && kept(have[plan.From], plan, pe.From, e.Length):
			s = have[plan.From]
			if plan.Elements != nil {
				s = s.pick(plan.Elements)
			}
		default:
			var v []float64
			if v, err = ReadColumn[float64](r.staged, f.Name, e.Index); err == nil {
				s = columnStats(v, f.Dim())
			}
		}
		if err != nil {
			return nil, err
		}
		out[f.Name] = s
	}
	return out, nil
}

// defaultStats are the statistics of one of the five default columns, which follow from the length and the place of the episode.
func (r *rebuild) defaultStats(f Feature, i int, e EpisodeMeta) (Stats, error) {
	var values []float64
	switch f.Name {
	case Timestamp:
		if s, ok := r.times[e.Length]; ok {
			return s, nil
		}
		s := columnStats(ramp(e.Length, func(k int) float64 { return float64(float32(float64(k) / float64(r.p.FPS))) }), 1)
		r.times[e.Length] = s
		return s, nil
	case FrameIndex, Index:
		s, ok := r.frames[e.Length]
		if !ok {
			s = columnStats(ramp(e.Length, func(k int) float64 { return float64(k) }), 1)
			r.frames[e.Length] = s
		}
		if f.Name == Index {
			s = s.clone()
			for _, name := range statNames {
				if p := s.part(name); p != nil && name != "std" {
					(*p)[0] += float64(r.l.from[i])
				}
			}
		}
		return s, nil
	case EpisodeIndex:
		values = ramp(e.Length, func(int) float64 { return float64(i) })
	default:
		if len(e.Tasks) == 1 {
			k := slices.Index(r.tasks, e.Tasks[0])
			values = ramp(e.Length, func(int) float64 { return float64(k) })
			break
		}
		var err error
		if values, err = ReadColumn[float64](r.staged, f.Name, e.Index); err != nil {
			return Stats{}, err
		}
	}
	return columnStats(values, 1), nil
}

// kept reports whether stored statistics are whole and count all rows.
func kept(s Stats, plan PlanFeature, d *Dataset, length int) bool {
	f, err := d.Feature(plan.From)
	return err == nil && s.complete(f.Dim()) && s.Count == int64(length)
}

// pick takes the statistics of some elements.
func (s Stats) pick(elements []int) Stats {
	out := Stats{Count: s.Count}
	for _, name := range statNames {
		if p := s.part(name); p != nil {
			if *p != nil {
				*out.part(name) = pickOf(*p, len(*p), elements)
			}
		}
	}
	return out
}

// pictureStats decodes LeRobot's sample of an episode's new pictures.
func (r *rebuild) pictureStats(ctx context.Context, f Feature, e EpisodeMeta) (Stats, error) {
	if f.DType == Video {
		path, first, err := r.staged.VideoFrame(e.Index, f.Name)
		if err != nil {
			return Stats{}, err
		}
		return sampleStats(ctx, path, first, e.Length)
	}
	p, err := r.staged.readPictures(f, e.Index)
	if err != nil {
		return Stats{}, err
	}
	return stillStats(ctx, p)
}

// content is the hash of an episode: that of its source, less what left or changed, plus what is new.
func (r *rebuild) content(pe PlanEpisode, source, e EpisodeMeta) (contentSum, error) {
	if r.p.Recompute {
		return r.staged.computeContent(e)
	}
	all, err := pe.From.content(source)
	if err != nil {
		return all, err
	}
	taken := map[string]bool{}
	for _, f := range r.p.Features {
		if !f.changed() && !r.encoded(f.Feature) {
			if s, err := pe.From.Feature(f.From); err == nil && s.DType == f.DType && slices.Equal(s.Shape, f.Shape) {
				taken[f.From] = true
				continue
			}
		}
		s, err := r.staged.featureContent(f.Feature, e)
		if err != nil {
			return all, err
		}
		all = all.plus(s)
	}
	for _, f := range pe.From.info.Features {
		if isDefault(f.Name) || taken[f.Name] {
			continue
		}
		s, err := pe.From.featureContent(f, source)
		if err != nil {
			return all, err
		}
		all = all.minus(s)
	}
	if r.p.Task == nil || len(source.Tasks) == 1 {
		return all, nil
	}
	return r.regroup(all, pe, e)
}

// regroup replaces the hash of which rows share a task.
func (r *rebuild) regroup(all contentSum, pe PlanEpisode, e EpisodeMeta) (contentSum, error) {
	old, err := ReadColumn[int64](pe.From, TaskIndex, pe.Index)
	if err != nil {
		return all, err
	}
	now, err := ReadColumn[int64](r.staged, TaskIndex, e.Index)
	if err != nil {
		return all, err
	}
	a, err1 := tasksSum(old)
	b, err2 := tasksSum(now)
	return all.minus(a).plus(b), errors.Join(err1, err2)
}

// encoded reports whether a camera's pictures were encoded anew, asked for or not.
func (r *rebuild) encoded(f Feature) bool {
	return slices.ContainsFunc(r.l.cameras, func(c *camera) bool { return c.f.Name == f.Name && c.f.Encode != nil })
}
