package edit

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// find gives the plan of a source's feature; the error lists the names there are.
func find(d *dataset.Dataset, p *dataset.Plan, name string) (*dataset.PlanFeature, error) {
	if _, err := d.Feature(name); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(p.Features, func(f dataset.PlanFeature) bool { return f.From == name })
	if i < 0 {
		return nil, fmt.Errorf("feature %q belongs to every dataset and can not be changed", name)
	}
	return &p.Features[i], nil
}

// Rename gives features and tasks new names, from old to new. Tasks that get equal texts become one.
func Rename(ctx context.Context, src string, features, tasks map[string]string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		for _, old := range slices.Sorted(maps.Keys(features)) {
			f, err := find(d, p, old)
			if err != nil {
				return err
			}
			f.Name = features[old]
		}
		for old, text := range tasks {
			if !slices.Contains(d.Tasks(), old) {
				return fmt.Errorf("there is no task %q; the tasks are %q", old, d.Tasks())
			}
			if text == "" {
				return fmt.Errorf("task %q: the new text is empty", old)
			}
		}
		if len(tasks) > 0 {
			p.Task = func(text string) string {
				if new, ok := tasks[text]; ok {
					return new
				}
				return text
			}
			p.Note = fmt.Sprint(tasks)
		}
		if len(features)+len(tasks) == 0 {
			return errors.New("nothing is named to be renamed")
		}
		return nil
	})
}

// Remap picks elements of a vector feature, by name or number, in this order.
func Remap(ctx context.Context, src, feature string, elements []string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		f, err := find(d, p, feature)
		if err != nil {
			return err
		}
		if f.DType.Visual() || len(f.Shape) != 1 {
			return fmt.Errorf("feature %q is no vector", feature)
		}
		names := f.Names
		f.Elements, f.Names = []int{}, nil
		for _, e := range elements {
			k := slices.Index(names, e)
			if k < 0 {
				if k, err = strconv.Atoi(e); err != nil || k < 0 || k >= f.Dim() {
					return fmt.Errorf("feature %q has no element %q; it has %v", feature, e, names)
				}
			}
			f.Elements = append(f.Elements, k)
			if k < len(names) {
				f.Names = append(f.Names, names[k])
			}
		}
		f.Shape = []int{len(f.Elements)}
		return nil
	})
}

// RemoveFeatures drops features with their columns, videos and statistics.
func RemoveFeatures(ctx context.Context, src string, names []string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		for _, name := range names {
			if _, err := find(d, p, name); err != nil {
				return err
			}
		}
		p.Features = slices.DeleteFunc(p.Features, func(f dataset.PlanFeature) bool { return slices.Contains(names, f.From) })
		return nil
	})
}

// Rows gives the values of a new feature: one row for each row of an episode.
type Rows func(d *dataset.Dataset, episode int) (any, error)

// AddFeature adds a feature behind the others; note says where its values come from, so that an interrupted run knows its own.
func AddFeature(ctx context.Context, src string, f dataset.Feature, rows Rows, note string, t Target) (*Result, error) {
	return apply(ctx, src, t, func(_ *dataset.Dataset, p *dataset.Plan) error {
		p.Features = append(p.Features, dataset.PlanFeature{Feature: f, Values: rows})
		p.Note = note
		return nil
	})
}

// Constant is the same row everywhere.
func Constant(f dataset.Feature, texts []string) (Rows, error) {
	if len(texts) != f.Dim() {
		return nil, fmt.Errorf("%d values for shape %v", len(texts), f.Shape)
	}
	if _, err := parse(f.DType, texts); err != nil {
		return nil, err
	}
	return func(d *dataset.Dataset, episode int) (any, error) {
		e, err := d.Episode(episode)
		if err != nil {
			return nil, err
		}
		var all []string
		for range e.Length {
			all = append(all, texts...)
		}
		return parse(f.DType, all)
	}, nil
}

// FromCSV reads rows from a table with the columns episode_index, frame_index and one for each element of the feature, in order. Every
// row of every episode must be there once.
func FromCSV(f dataset.Feature, path string) (Rows, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	r := csv.NewReader(file)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(head) != 2+f.Dim() || head[0] != dataset.EpisodeIndex || head[1] != dataset.FrameIndex {
		return nil, fmt.Errorf("read %s: the columns are %v, want episode_index, frame_index and %d values", path, head, f.Dim())
	}
	values := map[int]map[int][]string{}
	for {
		line, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		at, _ := r.FieldPos(0)
		episode, err1 := strconv.Atoi(line[0])
		frame, err2 := strconv.Atoi(line[1])
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("read %s: line %d: %w", path, at, err)
		}
		if values[episode] == nil {
			values[episode] = map[int][]string{}
		}
		if _, twice := values[episode][frame]; twice {
			return nil, fmt.Errorf("read %s: line %d gives row %d of episode %d again", path, at, frame, episode)
		}
		values[episode][frame] = line[2:]
	}
	return func(d *dataset.Dataset, episode int) (any, error) {
		e, err := d.Episode(episode)
		if err != nil {
			return nil, err
		}
		var all []string
		for k := range e.Length {
			row, ok := values[episode][k]
			if !ok {
				return nil, fmt.Errorf("%s has no row %d of episode %d", path, k, episode)
			}
			all = append(all, row...)
		}
		return parse(f.DType, all)
	}, nil
}

// parse reads values of one type.
func parse(t dataset.DType, texts []string) (any, error) {
	switch t {
	case dataset.Float32:
		return each(texts, func(s string) (float32, error) { v, err := strconv.ParseFloat(s, 32); return float32(v), err })
	case dataset.Float64:
		return each(texts, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
	case dataset.Int32:
		return each(texts, func(s string) (int32, error) { v, err := strconv.ParseInt(s, 10, 32); return int32(v), err })
	case dataset.Int64:
		return each(texts, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
	case dataset.Bool:
		return each(texts, strconv.ParseBool)
	case dataset.String:
		return texts, nil
	}
	return nil, fmt.Errorf("type %q can not be added", t)
}

func each[T any](texts []string, f func(string) (T, error)) ([]T, error) {
	out := make([]T, len(texts))
	for i, s := range texts {
		v, err := f(s)
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// Reencode encodes the pictures of cameras anew (nil: of all). An image feature becomes a video.
func Reencode(ctx context.Context, src string, cameras []string, o video.EncodeOptions, t Target) (*Result, error) {
	return apply(ctx, src, t, func(d *dataset.Dataset, p *dataset.Plan) error {
		if err := o.Check(); err != nil {
			return err
		}
		if cameras == nil {
			for _, f := range d.Features() {
				if f.DType.Visual() {
					cameras = append(cameras, f.Name)
				}
			}
		}
		if len(cameras) == 0 {
			return errors.New("the dataset has no pictures")
		}
		for _, name := range cameras {
			f, err := find(d, p, name)
			if err != nil {
				return err
			}
			if !f.DType.Visual() {
				return fmt.Errorf("feature %q is no camera", name)
			}
			if f.DType == dataset.Image {
				if err := heightFirst(f); err != nil {
					return err
				}
			}
			f.DType, f.Info = dataset.Video, nil
			e := o
			f.Encode = &e
		}
		return nil
	})
}

// heightFirst brings the shape of an image feature into the order height, width, channels.
func heightFirst(f *dataset.PlanFeature) error {
	if len(f.Shape) != 3 {
		return fmt.Errorf("feature %q has shape %v, want three numbers", f.Name, f.Shape)
	}
	last := f.Shape[2] == 3 || len(f.Names) == 3 && (f.Names[2] == "channels" || f.Names[2] == "channel")
	if !last && f.Shape[0] == 3 {
		f.Shape = []int{f.Shape[1], f.Shape[2], 3}
	}
	return nil
}
