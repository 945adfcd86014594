package faultplant

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// site is an episode in which a fault is being planted. Changes of its rows and of its row of the table are gathered and written by save.
type site struct {
	p   *planting
	ep  dataset.EpisodeMeta
	n   int // rows
	fps float64
	rng *rand.Rand

	values     map[string]any // columns of rows as read or changed
	set        []pq.Column    // changed columns of rows
	addColumns []pq.Column    // new columns of rows
	drop       []string
	rows       int         // new number of rows, 0 when it stays
	table      []pq.Column // changed columns of the table
	add        []pq.Column // new columns of the table

	// recorded says that the changed rows are as if recorded: statistics follow them.
	recorded bool
	fault    Fault
}

// seconds is a number of rows, at least one.
func (s *site) seconds(t float64) int { return max(1, int(math.Round(t*s.fps))) }

// between draws a number evenly, logBetween evenly in its logarithm.
func (s *site) between(lo, hi float64) float64    { return lo + (hi-lo)*s.rng.Float64() }
func (s *site) logBetween(lo, hi float64) float64 { return lo * math.Pow(hi/lo, s.rng.Float64()) }

// side draws a hand.
func (s *site) side() string { return [2]string{"left", "right"}[s.rng.IntN(2)] }

// at places the fault.
func (s *site) at(frame, frames int, feature, note string, args ...any) {
	s.fault.Frame, s.fault.Frames, s.fault.Feature, s.fault.Note = frame, frames, feature, fmt.Sprintf(note, args...)
}

// window draws the start of a stretch of w rows of which score says at least least. Both ends of the episode are left alone.
func (s *site) window(w int, least float64, score func(from int) float64) (int, error) {
	margin := max(1, min(5, s.n/10))
	var good []int
	for from := margin; from+w <= s.n-margin; from++ {
		if score(from) >= least {
			good = append(good, from)
		}
	}
	if len(good) == 0 {
		return 0, errNowhere
	}
	return good[s.rng.IntN(len(good))], nil
}

// feature finds a feature; an episode of a dataset without it has no place for the fault.
func (s *site) feature(name string) (dataset.Feature, error) {
	f, err := s.p.d.Feature(name)
	if err != nil {
		return f, errNowhere
	}
	return f, nil
}

// pick draws one of the features that ok allows.
func (s *site) pick(ok func(dataset.Feature) bool) (dataset.Feature, error) {
	var good []dataset.Feature
	for _, f := range s.p.d.Features() {
		if ok(f) {
			good = append(good, f)
		}
	}
	if len(good) == 0 {
		return dataset.Feature{}, errNowhere
	}
	return good[s.rng.IntN(len(good))], nil
}

// column reads a column of the rows, or what was set before.
func column[T dataset.Element](s *site, name string) ([]T, error) {
	if v, ok := s.values[name].([]T); ok {
		return v, nil
	}
	if _, err := s.feature(name); err != nil {
		return nil, err
	}
	return dataset.ReadColumn[T](s.p.d, name, s.ep.Index)
}

// has tells whether the dataset has a feature.
func (s *site) has(name string) bool {
	_, err := s.p.d.Feature(name)
	return err == nil
}

// setColumn changes a column of the rows; the values must be of the feature's type.
func (s *site) setColumn(name string, values any) error {
	f, err := s.feature(name)
	if err != nil {
		return err
	}
	if v, ok := values.([]float64); ok && f.DType == dataset.Float32 {
		narrow := make([]float32, len(v))
		for i, x := range v {
			narrow[i] = float32(x)
		}
		values = narrow
	}
	s.values[name] = values
	c := pq.Column{Name: name, Values: values}
	if f.Dim() > 1 {
		c.Shape, c.Fixed = []int{f.Dim()}, true
	}
	s.putColumn(c)
	return nil
}

// putColumn changes a column of the rows whatever the feature says.
func (s *site) putColumn(c pq.Column) {
	s.set = slices.DeleteFunc(s.set, func(o pq.Column) bool { return o.Name == c.Name })
	s.set = append(s.set, c)
	if !slices.Contains(s.fault.Columns, c.Name) {
		s.fault.Columns = append(s.fault.Columns, c.Name)
	}
}

func (s *site) path(rel string) string { return filepath.Join(s.p.dst, rel) }

// changed notes a file that differs from the source's.
func (s *site) changed(rel string) {
	if !slices.Contains(s.fault.Files, rel) {
		s.fault.Files = append(s.fault.Files, rel)
	}
}

// write replaces a file.
func (s *site) write(rel string, fill func(io.Writer) error) error {
	s.changed(rel)
	return replace(s.path(rel), fill)
}

// remove takes a file away.
func (s *site) remove(rel string) error {
	s.changed(rel)
	return os.Remove(s.path(rel))
}

// edit changes the bytes of a file.
func (s *site) edit(rel string, f func([]byte) []byte) error {
	b, err := os.ReadFile(s.path(rel))
	if err != nil {
		return err
	}
	return s.write(rel, func(w io.Writer) error {
		_, err := w.Write(f(b))
		return err
	})
}

// save writes the changed tables.
func (s *site) save() error {
	if s.recorded {
		for _, c := range s.set {
			s.follow(c)
		}
	}
	if len(s.set)+len(s.drop)+len(s.addColumns) > 0 {
		s.changed(s.ep.DataPath)
		if err := rewrite(s.path(s.ep.DataPath), s.rows, s.set, s.addColumns, s.drop); err != nil {
			return err
		}
	}
	if len(s.table)+len(s.add) > 0 {
		rel := s.p.tables[s.ep.Index]
		s.changed(rel)
		return rewrite(s.path(rel), 0, s.table, s.add, nil)
	}
	return nil
}

// follow computes the statistics of a changed column in the table.
func (s *site) follow(c pq.Column) {
	f, err := s.p.d.Feature(c.Name)
	if err != nil || !f.DType.Numeric() {
		return
	}
	var values []float64
	switch v := c.Values.(type) {
	case []float64:
		values = v
	case []float32:
		values = convert(v)
	case []int64:
		values = convert(v)
	case []int32:
		values = convert(v)
	case []bool:
		for _, x := range v {
			values = append(values, map[bool]float64{true: 1}[x])
		}
	}
	for _, x := range values {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return
		}
	}
	if s.p.values[f.Name] == nil {
		s.p.values[f.Name] = map[int][]float64{}
	}
	s.p.values[f.Name][s.ep.Index] = values
	s.setStats(f, dataset.ColumnStats(values, f.Dim()))
}

func convert[T float32 | int64 | int32](v []T) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x)
	}
	return out
}

// setStats changes the statistics of a feature in the table.
func (s *site) setStats(f dataset.Feature, x dataset.Stats) {
	shape := func(n int) []int {
		if f.DType.Visual() {
			return []int{n, 1, 1}
		}
		return []int{n}
	}
	for part, v := range statParts(&x) {
		if *v != nil {
			s.table = append(s.table, pq.Column{Name: "stats/" + f.Name + "/" + part, Shape: shape(len(*v)), Values: *v})
		}
	}
	s.table = append(s.table, pq.Column{Name: "stats/" + f.Name + "/count", Shape: []int{1}, Values: []int64{x.Count}})
}

// setTable changes a number of the episode's row of the table.
func (s *site) setTable(name string, value any) {
	switch v := value.(type) {
	case int:
		s.table = append(s.table, pq.Column{Name: name, Values: []int64{int64(v)}})
	case float64:
		s.table = append(s.table, pq.Column{Name: name, Values: []float64{v}})
	case []string:
		s.table = append(s.table, pq.Column{Name: name, Starts: []int{0, len(v)}, Values: v})
	}
}

// statParts are the vectors of statistics by the names that they have in the table.
func statParts(x *dataset.Stats) map[string]*[]float64 {
	return map[string]*[]float64{"min": &x.Min, "max": &x.Max, "mean": &x.Mean, "std": &x.Std,
		"q01": &x.Q01, "q10": &x.Q10, "q50": &x.Q50, "q90": &x.Q90, "q99": &x.Q99}
}

// rewrite changes columns of a Parquet file of one row group: those in set that are there, those in add on top; those in drop go. Other
// columns keep their bytes. rows is the new number of rows when all columns are set, else 0.
func rewrite(path string, rows int, set, add []pq.Column, drop []string) error {
	f, err := pq.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	groups := f.RowGroups()
	if len(groups) != 1 {
		return fmt.Errorf("%s has %d row groups, want 1", path, len(groups))
	}
	if rows == 0 {
		rows = groups[0]
	}
	var fields []pq.Field
	var parts []pq.Part
	put := func(c pq.Column) error {
		field, err := c.Field()
		fields, parts = append(fields, field), append(parts, pq.Part{Column: c})
		return err
	}
	for _, info := range f.Columns() {
		if slices.Contains(drop, info.Name) {
			continue
		}
		if i := slices.IndexFunc(set, func(c pq.Column) bool { return c.Name == info.Name }); i >= 0 {
			if err := put(set[i]); err != nil {
				return err
			}
			continue
		}
		field, err := f.Field(info.Name)
		if err != nil {
			return err
		}
		fields, parts = append(fields, field), append(parts, pq.Part{From: f, Name: info.Name})
	}
	for _, c := range add {
		if err := put(c); err != nil {
			return err
		}
	}
	metadata := map[string]string{}
	for _, key := range []string{"huggingface", "pandas"} {
		if v, ok := f.Metadata(key); ok {
			metadata[key] = v
		}
	}
	return replace(path, func(w io.Writer) error {
		out, err := pq.NewWriter(w, fields, metadata)
		if err != nil {
			return err
		}
		if err := out.WriteGroup(rows, parts); err != nil {
			return fmt.Errorf("rewrite %s: %w", path, err)
		}
		return out.Close()
	})
}
