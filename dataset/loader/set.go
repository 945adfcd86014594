package loader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
)

// set is one dataset of a mixture, ready to be drawn from: about 40 bytes an episode stay in memory, everything else is mapped or
// read when needed.
type set struct {
	path     string
	cache    string // folder of this content's caches
	files    files
	fps      int
	tasks    []string
	episodes []episode
	first    []int64 // window number of each episode's first window; the last entry is their number
	columns  []*columnFile
	task     *columnFile
	videos   [][]clip // per image of the Config, per episode
	paths    []string // video files
}

// episode is one that may be drawn.
type episode struct {
	index, length int
	row           int64 // of its first frame in the column files
	skip          int   // frames at its start that no window begins at
}

// clip is where an episode's pictures of one camera begin.
type clip struct{ path, frame uint32 }

// openSet reads the metadata of a dataset and makes or finds its columns.
func (l *Loader) openSet(ctx context.Context, s Set, m Mixture) (_ *set, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("load dataset %s: %w", s.Path, err)
		}
	}()
	out := &set{path: s.Path}
	ds, err := l.openDataset(ctx, out)
	if err != nil {
		return nil, err
	}
	out.fps, out.tasks = ds.Info().FPS, ds.Tasks()
	meta, err := out.files.list(ctx, "meta")
	if err != nil {
		return nil, err
	}
	data, err := out.files.list(ctx, "data")
	if err != nil {
		return nil, err
	}
	videos, err := out.files.list(ctx, "videos")
	if err != nil {
		return nil, err
	}
	key, err := keyOf(ds, !out.files.remote(), out.cache, meta, data, videos)
	if err != nil {
		return nil, err
	}
	out.cache = filepath.Join(out.cache, key)
	sources, rows := withRows(ds.Episodes(), data)
	build := &columnBuild{tables: &tables{files: out.files}, folder: filepath.Join(out.cache, "columns"), rows: rows, progress: l.cfg.progress(s.Path)}
	for _, e := range sources {
		build.episodes = append(build.episodes, source{e.Index, e.Length, e.DataPath})
	}
	if err := l.openColumns(ctx, ds, out, build); err != nil {
		return nil, errors.Join(err, out.close())
	}
	if err := l.chooseEpisodes(ctx, ds, out, sources, videos, s, m, build); err != nil {
		return nil, errors.Join(err, out.close())
	}
	return out, nil
}

// openDataset finds the files and the metadata of a set, on disk or in a bucket, and the folder of its caches.
func (l *Loader) openDataset(ctx context.Context, s *set) (*dataset.Dataset, error) {
	if !strings.HasPrefix(s.path, s3Scheme) {
		s.files = disk{s.path}
		s.cache = cmp.Or(l.cfg.CacheDir, filepath.Clean(s.path)+".cache")
		return dataset.Open(s.path)
	}
	b, err := openBucket(s.path, &l.fetched)
	if err != nil {
		return nil, err
	}
	s.files, s.cache = b, l.cfg.CacheDir
	if s.cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("find a folder for caches: %w; name one", err)
		}
		s.cache = filepath.Join(user, "pinch", "loader")
	}
	place := sha256.Sum256([]byte(b.client.EndpointURL().String() + "/" + b.name("")))
	mirror := filepath.Join(s.cache, "buckets", hex.EncodeToString(place[:8]))
	if err := mirrorMeta(ctx, b, mirror); err != nil {
		return nil, err
	}
	return dataset.Open(mirror)
}

// withRows lists the episodes whose rows are there, in order, and counts their rows.
func withRows(episodes []dataset.EpisodeMeta, data []fileInfo) (have []dataset.EpisodeMeta, rows int64) {
	for _, e := range episodes {
		if contains(data, e.DataPath) {
			have = append(have, e)
			rows += int64(e.Length)
		}
	}
	return have, rows
}

func contains(list []fileInfo, path string) bool {
	_, ok := slices.BinarySearchFunc(list, path, func(f fileInfo, p string) int { return cmp.Compare(f.path, p) })
	return ok
}

func (l *Loader) openColumns(ctx context.Context, ds *dataset.Dataset, s *set, build *columnBuild) error {
	features := []dataset.Feature{}
	for _, c := range append([]Columns{{Feature: dataset.TaskIndex}}, l.cfg.Columns...) {
		f, err := ds.Feature(c.Feature)
		if err != nil {
			return err
		}
		if f.DType.Visual() || !f.DType.Numeric() {
			return fmt.Errorf("feature %q (%s) is no number; pictures are asked for with Images", f.Name, f.DType)
		}
		features = append(features, f)
	}
	if len(build.episodes) == 0 {
		return fmt.Errorf("no episode has its files")
	}
	unique := slices.Clone(features)
	slices.SortFunc(unique, func(a, b dataset.Feature) int { return cmp.Compare(a.Name, b.Name) })
	unique = slices.CompactFunc(unique, func(a, b dataset.Feature) bool { return a.Name == b.Name })
	if err := build.ensure(ctx, unique); err != nil {
		return err
	}
	for i, f := range features {
		c, err := openColumn(columnPath(build.folder, f.Name))
		if err != nil {
			return err
		}
		if i == 0 {
			s.task = c
		} else {
			s.columns = append(s.columns, c)
		}
	}
	return nil
}

// chooseEpisodes applies filters, split and presence of videos, and lays out the windows.
func (l *Loader) chooseEpisodes(ctx context.Context, ds *dataset.Dataset, s *set, sources []dataset.EpisodeMeta, videos []fileInfo, from Set, m Mixture, build *columnBuild) error {
	rows := map[int]int64{}
	var row int64
	for _, e := range sources {
		rows[e.Index] = row
		row += int64(e.Length)
	}
	chosen, err := choose(sources, m.Filter, from.Filter)
	if err != nil {
		return err
	}
	if l.cfg.Part != All && m.Split.Share > 0 {
		ids, err := build.identities(ctx, ds, chosen)
		if err != nil {
			return err
		}
		kept := chosen[:0:0]
		for i, e := range chosen {
			if m.Split.takes(l.cfg.Part, ids[i]) {
				kept = append(kept, e)
			}
		}
		chosen = kept
	}
	paths := map[string]uint32{}
	s.videos, s.first = make([][]clip, len(l.cfg.Images)), []int64{0}
	missing := 0
	for _, e := range chosen {
		clips, ok, err := l.clips(ds, s, e, videos, paths)
		if err != nil {
			return err
		}
		if !ok {
			missing++
			continue
		}
		for i, c := range clips {
			s.videos[i] = append(s.videos[i], c)
		}
		windows := max(e.Length-l.cfg.DropFirst-l.cfg.DropLast, 0)
		s.episodes = append(s.episodes, episode{e.Index, e.Length, rows[e.Index], l.cfg.DropFirst})
		s.first = append(s.first, s.first[len(s.first)-1]+int64(windows))
	}
	if gone := missing + len(ds.Episodes()) - len(sources); gone > 0 {
		l.log.Warn("episodes without files are left out", "dataset", s.path, "missing", gone, "present", len(s.episodes))
	}
	return nil
}

// clips locates an episode's pictures; ok is false when a video file is absent.
func (l *Loader) clips(ds *dataset.Dataset, s *set, e dataset.EpisodeMeta, videos []fileInfo, paths map[string]uint32) (out []clip, ok bool, err error) {
	for _, im := range l.cfg.Images {
		f, err := ds.Feature(im.Feature)
		if err != nil {
			return nil, false, err
		}
		span, have := e.Videos[im.Feature]
		if f.DType != dataset.Video || !have {
			return nil, false, fmt.Errorf("feature %q (%s) has no video in episode %d; pictures are read from videos", f.Name, f.DType, e.Index)
		}
		if !contains(videos, span.Path) {
			return nil, false, nil
		}
		n, known := paths[span.Path]
		if !known {
			if len(s.paths) == math.MaxUint32 {
				return nil, false, fmt.Errorf("too many video files")
			}
			n = uint32(len(s.paths))
			paths[span.Path] = n
			s.paths = append(s.paths, span.Path)
		}
		out = append(out, clip{n, uint32(span.FirstFrame)})
	}
	return out, true, nil
}

// windows is the number of windows of the set.
func (s *set) windows() int { return int(s.first[len(s.first)-1]) }

// locate gives place in episodes and frame of a window.
func (s *set) locate(window int64) (at, frame int) {
	at = sort.Search(len(s.first), func(i int) bool { return s.first[i] > window }) - 1
	return at, int(window-s.first[at]) + s.episodes[at].skip
}

func (s *set) close() error {
	var errs []error
	for _, c := range append([]*columnFile{s.task}, s.columns...) {
		if c != nil {
			errs = append(errs, c.unmap())
		}
	}
	s.columns, s.task = nil, nil
	return errors.Join(errs...)
}
