package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/feature"
	"github.com/pinch-robotics/pinch/internal/rawlog"
)

// Columns of meta/episodes that ingest adds.
const (
	extraID             = "episode_id"
	extraUUID           = "recording_uuid"
	extraSHA            = "recording_sha256"
	extraSegment        = "segment"
	extraLabel          = "label"
	extraSuccess        = "success"
	extraEpisodeSuccess = "episode_success"
	extraRobotType      = "robot_type"
	extraRobotID        = "robot_id"
	extraClock          = "clock"
	extraStart          = "start_ns"
	extraWarnings       = "warnings"
	extraDescription    = "recording_segments_sha256"
	extraLate           = "late"
	extraLost           = "lost"
	extraRepeated       = "repeated"
)

// prepared is a converted recording that waits to be added, or why it could not be converted.
type prepared struct {
	report   RecordingReport
	episodes []dataset.Episode
	err      error
}

// prepare converts recording i as far as possible without the dataset.
func (r *run) prepare(ctx context.Context, i int) prepared {
	p := prepared{report: RecordingReport{Path: r.paths[i]}}
	if p.err = r.convert(ctx, i, &p); p.err != nil {
		p.episodes = nil
	}
	return p
}

func (r *run) convert(ctx context.Context, i int, p *prepared) error {
	path := r.paths[i]
	if skipped, err := r.known(path, p); skipped || err != nil {
		return err
	}
	s, log, err := r.survey(i)
	if err != nil {
		return err
	}
	defer log.Close()
	p.report.UUID, p.report.Clock, p.report.Lost = s.meta.UUID, s.align.clock, s.lost
	defer func() { p.report.Warnings = s.warnings }()
	sha := s.sha
	if old, ok := r.shaOf[s.meta.UUID]; ok && s.meta.UUID != "" && old != sha {
		return fmt.Errorf("log %s: the dataset has recording %s already, from a log with other content; make a new dataset, or leave this one out",
			path, s.meta.UUID)
	}
	if err := r.episodes(ctx, s, log, sha, i, p); err != nil {
		return fmt.Errorf("log %s: %w", path, err)
	}
	return nil
}

// known looks whether the dataset has the recording already, before its log is read as a whole. What cannot be said without the log
// is left to its survey.
func (r *run) known(path string, p *prepared) (skipped bool, err error) {
	if len(r.have) == 0 {
		return false, missingLog(path)
	}
	md, found, err := readMeta(path)
	if err != nil || !found || r.shaOf[md.UUID] == "" {
		return false, missingLog(path)
	}
	sha, err := hashFile(path)
	if err != nil {
		return false, err
	}
	if err := r.sameDescription(path, sha, md); err != nil {
		return false, err
	}
	if !r.hasAll(sha, len(md.Segments)) {
		return false, nil
	}
	p.report.UUID, p.report.Skipped = md.UUID, true
	return true, nil
}

// hasAll tells whether the dataset has every segment of a log.
func (r *run) hasAll(sha string, segments int) bool {
	for n := range segments {
		if _, ok := r.have[key(sha, n)]; !ok {
			return false
		}
	}
	return segments > 0
}

// survey takes over the one that create made, or makes one.
func (r *run) survey(i int) (*survey, *rawlog.Reader, error) {
	if i == r.firstIndex {
		log := r.firstReader
		r.firstReader = nil
		return r.first, log, nil
	}
	return takeSurvey(r.paths[i], r.o)
}

// episodes makes the episodes that the dataset lacks.
func (r *run) episodes(ctx context.Context, s *survey, log *rawlog.Reader, sha string, i int, p *prepared) error {
	rows, err := s.plan(r.o.FPS, r.o.Task)
	if err != nil {
		return err
	}
	features := s.features()
	if err := sameFeatures(r.features, datasetFeatures(features)); err != nil {
		return err
	}
	spans := slices.DeleteFunc(rows.spans, func(sp span) bool { _, ok := r.have[key(sha, sp.index)]; return ok })
	if len(spans) == 0 {
		p.report.Skipped = true
		return nil
	}
	rs := s.resample(rows.tl)
	streams := s.markStreams()
	p.report.Marks = map[string]MarkCount{}
	for _, sp := range spans {
		cols, err := rs.columns(features, sp)
		if err != nil {
			return fmt.Errorf("segment %d: %w", sp.index, err)
		}
		p.episodes = append(p.episodes, dataset.Episode{Length: sp.len(), Tasks: []string{sp.label}, Columns: cols,
			Videos: map[string]string{}, Extra: r.keep(s.extra(sp, sha, int64(rows.tl.At(sp.first)), rs.mark(streams, sp, p.report.Marks)))})
	}
	videos, err := rs.encodeVideos(ctx, log, spans, r.writer.Scratch(), fmt.Sprintf("%06d", i),
		video.EncodeOptions{Codec: r.o.Codec, CRF: r.o.CRF, Preset: r.o.Preset})
	if err != nil {
		return err
	}
	for n := range p.episodes {
		for camera, file := range videos[n] {
			p.episodes[n].Videos["observation.image."+camera] = file
		}
	}
	return nil
}

// extra are the episode's columns of meta/episodes: where it comes from.
func (s *survey) extra(sp span, sha string, start int64, m marks) map[string]any {
	id := s.meta.UUID
	if id == "" {
		id = sha
	}
	warnings := slices.Clone(s.warnings)
	if warnings == nil {
		warnings = []string{}
	}
	return map[string]any{
		extraID: fmt.Sprintf("%s:%d", id, sp.index), extraUUID: s.meta.UUID, extraSHA: sha, extraSegment: int64(sp.index),
		extraLabel: sp.label, extraSuccess: sp.success, extraEpisodeSuccess: s.meta.Episode.Success || s.meta.UUID == "",
		extraRobotType: s.meta.Robot.Type, extraRobotID: s.meta.Robot.ID, extraClock: s.align.clock, extraStart: start,
		extraWarnings: warnings, extraDescription: describe(s.meta), extraLate: m.late, extraLost: m.lost, extraRepeated: m.repeated,
	}
}

// keep drops the columns that a dataset made before they existed does not have; its first episode fixed the set.
func (r *run) keep(extra map[string]any) map[string]any {
	if r.extras != nil {
		maps.DeleteFunc(extra, func(name string, _ any) bool { return !r.extras[name] })
	}
	return extra
}

// datasetFeatures turns features into the dataset's.
func datasetFeatures(all []feature.Feature) (out []dataset.Feature) {
	for _, f := range all {
		out = append(out, dataset.Feature{Name: f.Name, DType: dataset.DType(f.DType), Shape: f.Shape, Names: f.Names})
	}
	return out
}

// withoutDefaults drops the columns that every dataset has.
func withoutDefaults(all []dataset.Feature) []dataset.Feature {
	defaults := dataset.DefaultFeatures()
	return slices.DeleteFunc(slices.Clone(all), func(f dataset.Feature) bool {
		return slices.ContainsFunc(defaults, func(d dataset.Feature) bool { return d.Name == f.Name })
	})
}

// sameFeatures refuses a recording whose features are not those of the dataset.
func sameFeatures(has, rec []dataset.Feature) error {
	describe := func(list []dataset.Feature) map[string]string {
		out := map[string]string{}
		for _, f := range list {
			out[f.Name] = fmt.Sprint(f.DType, f.Shape)
		}
		return out
	}
	want, got := describe(has), describe(rec)
	var diff []string
	for _, f := range has {
		switch g, ok := got[f.Name]; {
		case !ok:
			diff = append(diff, "the recording lacks "+f.Name)
		case g != want[f.Name]:
			diff = append(diff, fmt.Sprintf("%s is %s in the dataset and %s in the recording", f.Name, want[f.Name], g))
		}
	}
	for _, f := range rec {
		if _, ok := want[f.Name]; !ok {
			diff = append(diff, "the dataset lacks "+f.Name)
		}
	}
	if len(diff) == 0 {
		return nil
	}
	const most = 5
	if len(diff) > most {
		diff = append(diff[:most], fmt.Sprintf("and %d more", len(diff)-most))
	}
	return fmt.Errorf("the recording does not fit the dataset: %s; ingest it into a dataset of its own", strings.Join(diff, "; "))
}
