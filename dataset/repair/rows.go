package repair

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// dataFile is a file under data/ that can be opened.
type dataFile struct {
	path    string
	rows    int
	columns map[string]pq.Info
	extra   []string // columns that are no features
	wrong   []string // features whose column has to be stored in another way
	epi     []float64
	frame   []float64
	index   []float64
	task    []float64
	time    []float64
	segs    []segment
}

// segment is rows of one episode that stand together.
type segment struct {
	file    *dataFile
	episode int
	lo, hi  int
}

// planFeatures corrects what info.json says of features, as far as the rest of the dataset does not have to be asked.
func (m *mender) planFeatures() error {
	for _, f := range m.set.Info.Features {
		if f.Err != nil {
			m.left("feature %q: %v; correct it by hand", f.Name, f.Err)
			continue
		}
		d := f.Feature
		switch {
		case d.DType.Visual() && len(d.Shape) == 3 && (f.NamesKind == "null" || f.NamesKind == "absent" || len(d.Names) != 3):
			d.Names = []string{"height", "width", "channels"}
			if d.Shape[0] <= 4 && d.Shape[2] > 4 {
				d.Shape = []int{d.Shape[1], d.Shape[2], d.Shape[0]}
			}
			m.did("picture feature %q: names and shape set to height, width, channels %v", f.Name, d.Shape)
		case d.DType.Visual() && len(d.Shape) == 3 && d.Names[2] != "channel" && d.Names[2] != "channels":
			i, j, k := slices.IndexFunc(d.Names, is("height")), slices.IndexFunc(d.Names, is("width")), slices.IndexFunc(d.Names, is("channel"))
			if i >= 0 && j >= 0 && k >= 0 {
				d.Shape, d.Names = []int{d.Shape[i], d.Shape[j], d.Shape[k]}, []string{"height", "width", "channels"}
				m.did("picture feature %q: order set to height, width, channels %v", f.Name, d.Shape)
			}
		case f.NamesKind == "nested":
			m.did("feature %q: names written as one flat list", f.Name)
		}
		m.features = append(m.features, d)
	}
	for _, want := range dataset.DefaultFeatures() {
		if i := slices.IndexFunc(m.features, func(f dataset.Feature) bool { return f.Name == want.Name }); i < 0 {
			m.features = append(m.features, want)
			m.did("feature %q added", want.Name)
		} else if m.features[i].DType != want.DType || !slices.Equal(m.features[i].Shape, want.Shape) {
			m.features[i].DType, m.features[i].Shape = want.DType, want.Shape
			m.did("feature %q: stored as %s", want.Name, want.DType)
		}
	}
	return nil
}

func is(prefix string) func(string) bool {
	return func(s string) bool { return strings.HasPrefix(s, prefix) }
}

// scanData opens every data file and finds the segments of episodes.
func (m *mender) scanData() error {
	for i, path := range m.set.DataFiles {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		f, err := m.scanFile(path)
		m.progress("rows", i+1, len(m.set.DataFiles))
		if err != nil {
			m.did("%s put aside with its episodes: %v", path, err)
			m.aside(path)
			continue
		}
		m.files = append(m.files, f)
	}
	m.dropUnstored()
	return nil
}

func (m *mender) scanFile(path string) (*dataFile, error) {
	p, err := pq.Open(m.set.Abs(path))
	if err != nil {
		return nil, err
	}
	defer p.Close()
	f := &dataFile{path: path, rows: p.Rows(), columns: map[string]pq.Info{}}
	for _, c := range p.Columns() {
		f.columns[c.Name] = c
		if i := slices.IndexFunc(m.features, named(c.Name)); i < 0 || m.features[i].DType == dataset.Video {
			f.extra = append(f.extra, c.Name)
		}
	}
	f.epi, f.frame = f.number(p, dataset.EpisodeIndex), f.number(p, dataset.FrameIndex)
	f.index, f.task, f.time = f.number(p, dataset.Index), f.number(p, dataset.TaskIndex), f.number(p, dataset.Timestamp)
	if f.epi == nil {
		if err := m.guessEpisodes(f); err != nil {
			return nil, err
		}
		m.did("%s: column episode_index made anew from the episode table", path)
	}
	for lo := 0; lo < len(f.epi); {
		hi := lo + 1
		for hi < len(f.epi) && f.epi[hi] == f.epi[lo] {
			hi++
		}
		f.segs = append(f.segs, segment{f, int(f.epi[lo]), lo, hi})
		lo = hi
	}
	for _, d := range m.stored() {
		if c, ok := f.columns[d.Name]; ok && misstored(c, d) {
			f.wrong = append(f.wrong, d.Name)
		}
	}
	return f, nil
}

func named(name string) func(dataset.Feature) bool {
	return func(f dataset.Feature) bool { return f.Name == name }
}

// number reads a column of one number per row; nil when there is none.
func (f *dataFile) number(p *pq.File, name string) []float64 {
	if _, ok := f.columns[name]; !ok {
		return nil
	}
	d, err := p.Read(name, 0, f.rows)
	if err != nil || len(d.Null) > 0 {
		return nil
	}
	v, ok := survey.Floats(d.Values)
	if !ok || len(v) != f.rows {
		return nil
	}
	return v
}

// guessEpisodes fills the episode of each row from the table, when its lengths add up to the file's rows.
func (m *mender) guessEpisodes(f *dataFile) error {
	for _, e := range m.set.Episodes {
		if e.DataPath == f.path && e.Index >= 0 {
			for range max(0, e.Length) {
				f.epi = append(f.epi, float64(e.Index))
			}
		}
	}
	if len(f.epi) != f.rows {
		return fmt.Errorf("its column episode_index can not be read, and the episode table gives %d rows where there are %d", len(f.epi), f.rows)
	}
	return nil
}

// misstored tells columns that the loader does not cast: a list of one for a scalar, another nesting, a type of another kind.
func misstored(c pq.Info, f dataset.Feature) bool {
	depth := len(f.Shape)
	if f.Dim() == 1 && depth == 1 {
		depth = 0
	}
	return f.DType.Numeric() && c.Depth != depth
}

// dropUnstored takes features out of info.json that no data file holds.
func (m *mender) dropUnstored() {
	for _, d := range m.stored() {
		if isDefault(d.Name) || len(m.files) == 0 {
			continue
		}
		if !slices.ContainsFunc(m.files, func(f *dataFile) bool { _, ok := f.columns[d.Name]; return ok }) {
			m.dropped[d.Name] = true
			m.did("feature %q taken out of info.json: no data file has the column", d.Name)
		}
	}
	m.features = slices.DeleteFunc(m.features, func(f dataset.Feature) bool { return m.dropped[f.Name] })
}

func isDefault(name string) bool {
	return slices.ContainsFunc(dataset.DefaultFeatures(), named(name))
}

// rowsOf reads the rows of some segments of a feature, in the feature's type.
func rowsOf(p *pq.File, f dataset.Feature, segs []segment) (any, error) {
	var all any
	for _, s := range segs {
		if f.DType == dataset.Image {
			pictures, err := p.ReadPictures(f.Name, s.lo, s.hi)
			if err != nil {
				return nil, err
			}
			if have, ok := all.(pq.Pictures); ok {
				pictures = pq.Pictures{Bytes: append(have.Bytes, pictures.Bytes...), Paths: append(have.Paths, pictures.Paths...)}
			}
			all = pictures
			continue
		}
		d, err := p.Read(f.Name, s.lo, s.hi)
		if err != nil {
			return nil, err
		}
		if len(d.Null) > 0 {
			return nil, fmt.Errorf("column %q is null in row %d of %s", f.Name, s.lo+d.Null[0], s.file.path)
		}
		for r := range s.hi - s.lo {
			if n := d.Starts[r+1] - d.Starts[r]; n != f.Dim() {
				return nil, fmt.Errorf("column %q has %d values in row %d of %s, its shape wants %d", f.Name, n, s.lo+r, s.file.path, f.Dim())
			}
		}
		if all, err = join(all, d.Values, f); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// join converts values to the type of the feature and appends them.
func join(all, values any, f dataset.Feature) (any, error) {
	if f.DType == dataset.String {
		v, ok := values.([]string)
		if !ok {
			return nil, fmt.Errorf("column %q holds %T, info.json says string", f.Name, values)
		}
		have, _ := all.([]string)
		return append(have, v...), nil
	}
	switch f.DType {
	case dataset.Float32:
		return grow[float32](all, values, f)
	case dataset.Float64:
		return grow[float64](all, values, f)
	case dataset.Int32:
		return grow[int32](all, values, f)
	case dataset.Int64:
		return grow[int64](all, values, f)
	case dataset.Bool:
		have, _ := all.([]bool)
		v, ok := values.([]bool)
		if !ok {
			return nil, fmt.Errorf("column %q holds %T, info.json says bool", f.Name, values)
		}
		return append(have, v...), nil
	}
	return nil, fmt.Errorf("column %q is %s, which is not written here", f.Name, f.DType)
}

func grow[T float32 | float64 | int32 | int64](all, values any, f dataset.Feature) (any, error) {
	have, _ := all.([]T)
	if v, ok := values.([]T); ok {
		return append(have, v...), nil
	}
	switch v := values.(type) {
	case []float32:
		return convert(have, v, f)
	case []float64:
		return convert(have, v, f)
	case []int32:
		return convert(have, v, f)
	case []int64:
		return convert(have, v, f)
	}
	return nil, fmt.Errorf("column %q holds %T, info.json says %s", f.Name, values, f.DType)
}

func convert[T, S float32 | float64 | int32 | int64](have []T, v []S, f dataset.Feature) (any, error) {
	for i, x := range v {
		y := T(x)
		if f.DType != dataset.Float32 && f.DType != dataset.Float64 && float64(y) != float64(x) || math.IsInf(float64(y), 0) != math.IsInf(float64(x), 0) {
			return nil, fmt.Errorf("column %q holds %v in value %d, which is no %s", f.Name, x, i, f.DType)
		}
		have = append(have, y)
	}
	return have, nil
}
