package dataset

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // pictures of image features
	_ "image/png"
	"io"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// rows makes one data file: a row group for each episode.
func (r *rebuild) rows(ctx context.Context, f run, tmp string) error {
	first := r.p.Episodes[f.lo]
	if f.whole {
		e, err := first.From.Episode(first.Index)
		if err != nil {
			return err
		}
		return r.take(first.From, e.DataPath, tmp)
	}
	fields, err := r.fields(first)
	if err != nil {
		return err
	}
	hf, err := huggingface(r.columns())
	if err != nil {
		return err
	}
	return r.d.write(tmp, func(w io.Writer) error {
		b := bufio.NewWriterSize(w, 1<<20)
		out, err := pq.NewWriter(b, fields, map[string]string{"huggingface": hf})
		if err != nil {
			return err
		}
		for i := f.lo; i < f.hi; i++ {
			if err := ctx.Err(); err != nil {
				return err
			}
			parts, err := r.parts(i, fields)
			if err == nil {
				err = out.WriteGroup(r.l.lengths[i], parts)
			}
			if err != nil {
				return fmt.Errorf("episode %d of %s: %w", r.p.Episodes[i].Index, r.p.Episodes[i].From.root, err)
			}
		}
		return errors.Join(out.Close(), b.Flush())
	})
}

// columns are the features with a column in the data files.
func (r *rebuild) columns() []Feature {
	return slices.DeleteFunc(slices.Clone(r.info.Features), func(f Feature) bool { return f.DType == Video })
}

// planned finds the plan of a feature; the default columns have none.
func (p Plan) planned(name string) (PlanFeature, bool) {
	i := slices.IndexFunc(p.Features, func(f PlanFeature) bool { return f.Name == name })
	if i < 0 {
		return PlanFeature{}, false
	}
	return p.Features[i], true
}

// fields are the columns' types: LeRobot's for the types that are written here, the source's for others.
func (r *rebuild) fields(first PlanEpisode) ([]pq.Field, error) {
	var out []pq.Field
	for _, f := range r.columns() {
		field, err := canonicalField(f)
		if err != nil {
			p, ok := r.p.planned(f.Name)
			if !ok || p.From == "" {
				return nil, err
			}
			_, file, _, err := first.From.rowsOf(first.Index)
			if err != nil {
				return nil, err
			}
			if field, err = file.Field(p.From); err != nil {
				return nil, err
			}
			field = field.Named(f.Name)
		}
		out = append(out, field)
	}
	return out, nil
}

// canonicalField is the type of a feature's column as LeRobot writes it.
func canonicalField(f Feature) (pq.Field, error) {
	var none any
	switch f.DType {
	case Float32:
		none = []float32{}
	case Float64:
		none = []float64{}
	case Int32:
		none = []int32{}
	case Int64:
		none = []int64{}
	case Bool:
		none = []bool{}
	case String:
		none = []string{}
	case Image:
		return pq.Column{Name: f.Name, Values: pq.Pictures{}}.Field()
	default:
		return pq.Field{}, fmt.Errorf("type %q can not be written", f.DType)
	}
	if len(f.Shape) != 1 {
		return pq.Field{}, fmt.Errorf("shape %v can not be written", f.Shape)
	}
	return columnOf(f, none).Field()
}

// columnOf is a column with the shape of a feature.
func columnOf(f Feature, values any) pq.Column {
	c := pq.Column{Name: f.Name, Values: values}
	if _, pictures := values.(pq.Pictures); !pictures && f.Dim() > 1 {
		c.Shape, c.Fixed = []int{f.Dim()}, true
	}
	return c
}

// parts are the columns of one episode: copied where they can be, else encoded.
func (r *rebuild) parts(i int, fields []pq.Field) ([]pq.Part, error) {
	pe := r.p.Episodes[i]
	_, file, span, err := pe.From.rowsOf(pe.Index)
	if err != nil {
		return nil, err
	}
	group := file.groupAt(span)
	var parts []pq.Part
	for k, f := range r.columns() {
		plan, ok := r.p.planned(f.Name)
		if ok && plan.Values == nil && plan.Elements == nil && group >= 0 {
			if r.sameLayout(file.File, plan.From, fields[k]) {
				parts = append(parts, pq.Part{From: file.File, Group: group, Name: plan.From})
				continue
			}
		}
		values, err := r.values(i, f, plan)
		if err != nil {
			return nil, err
		}
		parts = append(parts, pq.Part{Column: columnOf(f, values)})
	}
	return parts, nil
}

// sameLayout reports whether chunks of a column can be copied; asked once for each file.
func (r *rebuild) sameLayout(f *pq.File, name string, want pq.Field) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := columnKey{f, name}
	same, ok := r.same[key]
	if !ok {
		have, err := f.Field(name)
		same = err == nil && want.SameLayout(have)
		r.same[key] = same
	}
	return same
}

// values makes the rows of one column of one episode.
func (r *rebuild) values(i int, f Feature, plan PlanFeature) (any, error) {
	pe, n := r.p.Episodes[i], r.l.lengths[i]
	switch f.Name {
	case Timestamp:
		return ramp(n, func(k int) float32 { return float32(float64(k) / float64(r.p.FPS)) }), nil
	case FrameIndex:
		return ramp(n, func(k int) int64 { return int64(k) }), nil
	case EpisodeIndex:
		return ramp(n, func(int) int64 { return int64(i) }), nil
	case Index:
		return ramp(n, func(k int) int64 { return int64(r.l.from[i] + k) }), nil
	case TaskIndex:
		return r.taskNumbers(pe)
	}
	if plan.Values != nil {
		v, err := plan.Values(pe.From, pe.Index)
		if err == nil {
			err = checkColumn(f, v, n)
		}
		if err != nil {
			return nil, fmt.Errorf("feature %q: %w", f.Name, err)
		}
		return v, nil
	}
	source, err := pe.From.Feature(plan.From)
	if err != nil {
		return nil, err
	}
	v, err := pe.From.typedValues(source, pe.Index)
	if err != nil || plan.Elements == nil {
		return v, err
	}
	return pick(v, source.Dim(), plan.Elements), nil
}

func ramp[T any](n int, f func(int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = f(i)
	}
	return out
}

// pick takes some elements of each row.
func pick(values any, dim int, elements []int) any {
	switch v := values.(type) {
	case []float32:
		return pickOf(v, dim, elements)
	case []float64:
		return pickOf(v, dim, elements)
	case []int32:
		return pickOf(v, dim, elements)
	case []int64:
		return pickOf(v, dim, elements)
	case []bool:
		return pickOf(v, dim, elements)
	}
	return values
}

func pickOf[T any](v []T, dim int, elements []int) []T {
	out := make([]T, 0, len(v)/dim*len(elements))
	for at := 0; at < len(v); at += dim {
		for _, e := range elements {
			out = append(out, v[at+e])
		}
	}
	return out
}

// taskNumbers are the rows' tasks by their new numbers.
func (r *rebuild) taskNumbers(pe PlanEpisode) ([]int64, error) {
	texts, err := pe.From.RowTasks(pe.Index)
	if err != nil {
		return nil, err
	}
	number := map[string]int64{}
	for i, t := range r.tasks {
		number[t] = int64(i)
	}
	out := make([]int64, len(texts))
	for i, t := range texts {
		k, ok := number[r.p.task(t)]
		if !ok {
			return nil, fmt.Errorf("row %d has the task %q, which its episode does not list: run pinch dataset repair", i, t)
		}
		out[i] = k
	}
	return out, nil
}

// groupAt is the row group that holds exactly these rows, -1 when there is none.
func (f *dataFile) groupAt(span [2]int) int {
	f.groupOnce.Do(func() {
		f.groups = map[[2]int]int{}
		at := 0
		for g, n := range f.RowGroups() {
			f.groups[[2]int{at, at + n}] = g
			at += n
		}
	})
	if g, ok := f.groups[span]; ok {
		return g
	}
	return -1
}

// encode writes the pictures of one episode as a video of their own.
func (r *rebuild) encode(ctx context.Context, c *camera, i int, out string) error {
	o := *c.f.Encode
	o.FPS, o.Height, o.Width = r.p.FPS, c.f.Shape[0], c.f.Shape[1]
	enc, err := video.NewEncoder(ctx, out, o)
	if err != nil {
		return err
	}
	defer enc.Abort()
	pe := r.p.Episodes[i]
	s, err := c.f.source(pe)
	if err != nil {
		return err
	}
	if s.key.d != nil {
		err = video.Each(filepath.Join(s.key.d.root, s.key.path), video.ReaderOptions{}, s.first, r.l.lengths[i],
			func(_ int, rgb []byte) error { return enc.WriteRGB(rgb) })
	} else {
		err = encodeStills(enc, pe, c.f, r.l.lengths[i])
	}
	if err != nil {
		return err
	}
	_, err = enc.Close()
	return err
}

// encodeStills feeds the pictures of an image feature to an encoder.
func encodeStills(enc *video.Encoder, pe PlanEpisode, f PlanFeature, n int) error {
	source, err := pe.From.Feature(f.From)
	if err != nil {
		return err
	}
	p, err := pe.From.readPictures(source, pe.Index)
	if err != nil {
		return err
	}
	rgb := make([]byte, f.Shape[0]*f.Shape[1]*3)
	for k := range n {
		img, _, err := image.Decode(bytes.NewReader([]byte(p.Bytes[k])))
		if err != nil {
			return fmt.Errorf("row %d: decode picture: %w", k, err)
		}
		if b := img.Bounds(); b.Dx() != f.Shape[1] || b.Dy() != f.Shape[0] {
			return fmt.Errorf("row %d: picture of %dx%d, the feature says %dx%d", k, b.Dx(), b.Dy(), f.Shape[1], f.Shape[0])
		}
		toRGB(img, rgb)
		if err := enc.WriteRGB(rgb); err != nil {
			return err
		}
	}
	return nil
}

func toRGB(img image.Image, rgb []byte) {
	b := img.Bounds()
	at := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			red, green, blue, _ := img.At(x, y).RGBA()
			rgb[at], rgb[at+1], rgb[at+2] = byte(red>>8), byte(green>>8), byte(blue>>8)
			at += 3
		}
	}
}
