package dataset

import (
	"maps"
	"slices"
)

// statsMemory bounds the values that finalStats holds at a time, in numbers (8 bytes each): 256 MiB.
const statsMemory = 32 << 20

// finalStats rewrites stats.json: numbers from all rows, pictures from the mixture of the episodes' statistics.
func (w *Writer) finalStats() error {
	d, err := Open(w.root)
	if err != nil {
		return err
	}
	stats, err := d.exactStats()
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

// exactStats computes the statistics of every numeric feature from all rows, in groups of features that fit the memory
// bound, and the quantiles of pictures from the episodes' statistics.
func (d *Dataset) exactStats() (map[string]Stats, error) {
	out := map[string]Stats{}
	var group []Feature
	size := 0
	flush := func() error {
		part, err := d.groupStats(group)
		maps.Copy(out, part)
		group, size = nil, 0
		return err
	}
	for _, f := range d.info.Features {
		if f.DType.Visual() {
			if s, ok := d.pictureStats(f.Name); ok {
				out[f.Name] = s
			}
			continue
		}
		if !f.DType.Numeric() {
			continue
		}
		if n := f.Dim() * d.info.TotalFrames; size > 0 && size+n > statsMemory {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		group, size = append(group, f), size+f.Dim()*d.info.TotalFrames
	}
	return out, flush()
}

func (d *Dataset) groupStats(group []Feature) (map[string]Stats, error) {
	values := make([][]float64, len(group))
	for _, e := range d.episodes {
		for i, f := range group {
			v, err := ReadColumn[float64](d, f.Name, e.Index)
			if err != nil {
				return nil, err
			}
			values[i] = append(values[i], v...)
		}
	}
	out := map[string]Stats{}
	for i, f := range group {
		if len(values[i]) > 0 {
			out[f.Name] = columnStats(values[i], f.Dim())
		}
	}
	return out, nil
}

// pictureStats merges the episodes' statistics of a picture feature; false when an episode has none.
func (d *Dataset) pictureStats(name string) (Stats, bool) {
	var all Stats
	var parts []Stats
	for _, e := range d.episodes {
		s, ok := e.Stats[name]
		if !ok || s.Count == 0 || slices.Contains([]int{len(s.Mean), len(s.Q01), len(s.Q99), len(s.Min)}, 0) {
			return Stats{}, false
		}
		all = merge(all, s)
		parts = append(parts, s)
	}
	if len(parts) == 0 {
		return Stats{}, false
	}
	mixed := mixQuantiles(parts)
	for i, q := range all.quantiles() {
		*q = *mixed.quantiles()[i]
	}
	return all, true
}
