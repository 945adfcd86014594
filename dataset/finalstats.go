package dataset

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/sketch"
)

// finalStats rewrites stats.json: numbers from all rows, pictures from the mixture of the episodes' statistics.
func (w *Writer) finalStats() error {
	d, err := openAsItIs(w.root)
	if err != nil {
		return err
	}
	stats, _, err := d.AllStats(context.Background())
	if err != nil {
		return err
	}
	for name, s := range w.stats {
		if _, ok := stats[name]; !ok {
			stats[name] = s
		}
	}
	b, err := encodeStats(w.info.Features, stats)
	if err != nil {
		return err
	}
	c := &change{d: w.disk}
	if err := c.addBytes(statsPath, b); err != nil {
		return err
	}
	if err := c.publish(); err != nil {
		return err
	}
	w.stats = stats
	return w.disk.remove(stageDir)
}

// AllStats computes the statistics of every numeric feature from all rows in one pass, and those of pictures from the episodes'
// (no picture is decoded). rankError bounds the error of the quantiles of numbers, as a share of the rows; it is 0, and they are exact,
// up to 8191 rows (see dataset/internal/sketch).
func (d *Dataset) AllStats(ctx context.Context) (stats map[string]Stats, rankError float64, err error) {
	var paths []string
	seen := map[string]bool{}
	for i := range d.NumEpisodes() {
		if p := d.dataPath(i); !seen[p] {
			seen[p] = true
			paths = append(paths, p)
		}
	}
	all := newMeasure(d.info.Features)
	if err := all.files(ctx, d.root, paths); err != nil {
		return nil, 0, fmt.Errorf("measure dataset %s: %w", d.root, err)
	}
	stats = all.stats()
	for _, f := range d.info.Features {
		if f.DType.Visual() {
			if s, ok, err := d.pictureStats(f.Name); err != nil {
				return nil, 0, err
			} else if ok {
				stats[f.Name] = s
			}
		}
	}
	return stats, all.rankError(), nil
}

// dataPath is the file of the rows of the i-th episode.
func (d *Dataset) dataPath(i int) string {
	if d.table != nil {
		return d.table.data[i].index().path(d.info.DataPath, "")
	}
	return d.episodes[i].DataPath
}

// measure summarises the numeric features of data files.
type measure struct {
	features []Feature
	columns  []*sketch.Column
}

func newMeasure(features []Feature) *measure {
	m := &measure{}
	for _, f := range features {
		if f.DType.Numeric() {
			m.features, m.columns = append(m.features, f), append(m.columns, sketch.NewColumn(f.Dim()))
		}
	}
	return m
}

// measureWorkers is how many files are measured at a time; their order of merging is that of the list, whatever the number.
const measureWorkers = 4

// files adds all rows of the files.
func (m *measure) files(ctx context.Context, root string, paths []string) error {
	for batch := range slices.Chunk(paths, measureWorkers) {
		parts := make([]*measure, len(batch))
		g, ctx := errgroup.WithContext(ctx)
		for i, path := range batch {
			parts[i] = newMeasure(m.features)
			g.Go(func() error { return parts[i].file(ctx, filepath.Join(root, path)) })
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, p := range parts {
			for i, c := range p.columns {
				m.columns[i].Merge(c)
			}
		}
	}
	return nil
}

// measureRows is how many rows of a column are in memory at a time.
const measureRows = 1 << 17

func (m *measure) file(ctx context.Context, path string) error {
	f, err := pq.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for i, feature := range m.features {
		for lo := 0; lo < f.Rows(); lo += measureRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			data, err := f.Read(feature.Name, lo, min(lo+measureRows, f.Rows()))
			if err != nil {
				return err
			}
			if err := addTo(m.columns[i], data); err != nil {
				return fmt.Errorf("feature %q of %s: %w", feature.Name, path, err)
			}
		}
	}
	return nil
}

func addTo(c *sketch.Column, d *pq.Data) error {
	rows := len(d.Starts) - 1
	if len(d.Null) > 0 {
		return fmt.Errorf("row %d is null", d.Null[0])
	}
	if d.Starts[rows] != rows*c.Dim() {
		return fmt.Errorf("%d values in %d rows, its shape wants %d a row", d.Starts[rows], rows, c.Dim())
	}
	switch v := d.Values.(type) {
	case []float32:
		sketch.Add(c, v)
	case []float64:
		sketch.Add(c, v)
	case []int32:
		sketch.Add(c, v)
	case []int64:
		sketch.Add(c, v)
	case []bool:
		sketch.Add(c, toFloats[float64](v))
	default:
		return fmt.Errorf("values of type %T are no numbers", v)
	}
	return nil
}

func (m *measure) stats() map[string]Stats {
	out := map[string]Stats{}
	for i, f := range m.features {
		if m.columns[i].Rows() > 0 {
			out[f.Name] = sketchStats(m.columns[i])
		}
	}
	return out
}

func sketchStats(c *sketch.Column) Stats {
	s := Stats{Count: c.Rows()}
	for d := range c.Dim() {
		lo, hi, mean, std, q := c.Element(d, quantileLevels[:])
		s.Min, s.Max = append(s.Min, lo), append(s.Max, hi)
		s.Mean, s.Std = append(s.Mean, mean), append(s.Std, std)
		for i, to := range s.quantiles() {
			*to = append(*to, q[i])
		}
	}
	return s
}

func (m *measure) rankError() float64 {
	worst := 0.0
	for _, c := range m.columns {
		worst = max(worst, c.RankError())
	}
	return worst
}

// pictureStats merges the episodes' statistics of a picture feature; false when an episode has none.
func (d *Dataset) pictureStats(name string) (all Stats, ok bool, err error) {
	var parts []Stats
	for i := range d.NumEpisodes() {
		stats, err := d.statsAt(i)
		if err != nil {
			return Stats{}, false, err
		}
		s := stats[name]
		if !s.complete(3) {
			return Stats{}, false, nil
		}
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return Stats{}, false, nil
	}
	return mixPictures(parts), true, nil
}

// mixPictures merges statistics of pictures.
func mixPictures(parts []Stats) Stats {
	all := parts[0].clone()
	for _, s := range parts[1:] {
		all.merge(s)
	}
	mixed := mixQuantiles(parts)
	for i, q := range all.quantiles() {
		*q = *mixed.quantiles()[i]
	}
	return all
}
