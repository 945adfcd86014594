package dataset

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// tasksPandas tells pandas that the unnamed text column is the frame's index; without it every task becomes a number.
const tasksPandas = `{"index_columns": ["__index_level_0__"], "column_indexes": [{"name": null, "field_name": null, ` +
	`"pandas_type": "unicode", "numpy_type": "object", "metadata": {"encoding": "UTF-8"}}], "columns": [{"name": "task_index", ` +
	`"field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64", "metadata": null}, {"name": null, "field_name": ` +
	`"__index_level_0__", "pandas_type": "unicode", "numpy_type": "object", "metadata": null}], "attributes": {}, ` +
	`"creator": {"library": "pinch", "version": "1"}, "pandas_version": "2.0.0"}`

// taskColumns is the table of tasks: row i is task i, the text under the name that all readers know.
func taskColumns(tasks []string) []pq.Column {
	index := make([]int64, len(tasks))
	for i := range index {
		index[i] = int64(i)
	}
	return []pq.Column{{Name: "task_index", Values: index}, {Name: "__index_level_0__", Values: tasks}}
}

// extraColumn is a column of meta/episodes that the format does not define.
type extraColumn struct{ name, kind string }

func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case bool:
		return "bool"
	case int64:
		return "int64"
	case float64:
		return "float64"
	case []string:
		return "[]string"
	}
	return ""
}

func extraColumns(extra map[string]any) []extraColumn {
	var out []extraColumn
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		out = append(out, extraColumn{name, kindOf(extra[name])})
	}
	return out
}

// setExtra checks the extra columns: all episode files must have the same set and types, or the official loader fails.
func (b *built) setExtra(extra map[string]any, fixed bool) error {
	columns := extraColumns(extra)
	for _, c := range columns {
		if c.kind == "" {
			return fmt.Errorf("extra column %q is a %T; choose string, bool, int64, float64 or []string", c.name, extra[c.name])
		}
		if isEpisodeColumn(c.name) || strings.HasPrefix(c.name, "stats/") || strings.HasPrefix(c.name, "meta/") || strings.HasPrefix(c.name, "data/") {
			return fmt.Errorf("extra column %q: the name belongs to the format", c.name)
		}
	}
	if fixed && !slices.Equal(columns, b.extra) {
		return fmt.Errorf("extra columns are %v, those of earlier episodes are %v", columns, b.extra)
	}
	b.extra = columns
	return nil
}

// episodesTable is the table of some episodes, in LeRobot's order. Their Stats must be complete.
func episodesTable(features []Feature, rows []EpisodeMeta, extra []extraColumn, content bool) []pq.Column {
	var out []pq.Column
	whole := func(name string, v func(EpisodeMeta) int) {
		out = append(out, pq.Column{Name: name, Values: mapSlice(rows, func(e EpisodeMeta) int64 { return int64(v(e)) })})
	}
	whole("episode_index", func(e EpisodeMeta) int { return e.Index })
	out = append(out, textLists("tasks", rows, func(e EpisodeMeta) []string { return e.Tasks }))
	whole("length", func(e EpisodeMeta) int { return e.Length })
	whole("data/chunk_index", func(e EpisodeMeta) int { return e.data.chunk })
	whole("data/file_index", func(e EpisodeMeta) int { return e.data.file })
	whole("dataset_from_index", func(e EpisodeMeta) int { return e.FromIndex })
	whole("dataset_to_index", func(e EpisodeMeta) int { return e.FromIndex + e.Length })
	for _, f := range features {
		if f.DType != Video {
			continue
		}
		prefix := "videos/" + f.Name + "/"
		whole(prefix+"chunk_index", func(e EpisodeMeta) int { return e.Videos[f.Name].file.chunk })
		whole(prefix+"file_index", func(e EpisodeMeta) int { return e.Videos[f.Name].file.file })
		out = append(out,
			pq.Column{Name: prefix + "from_timestamp", Values: mapSlice(rows, func(e EpisodeMeta) float64 { return e.Videos[f.Name].FromTime })},
			pq.Column{Name: prefix + "to_timestamp", Values: mapSlice(rows, func(e EpisodeMeta) float64 { return e.Videos[f.Name].ToTime })})
	}
	for _, f := range features {
		if (f.DType.Numeric() || f.DType.Visual()) && !f.withoutEpisodeStats() {
			out = append(out, statColumns(f, rows)...)
		}
	}
	for _, c := range extra {
		out = append(out, extraValues(c, rows))
	}
	if content {
		out = append(out, pq.Column{Name: contentColumn, Values: mapSlice(rows, func(e EpisodeMeta) string { return e.content })})
	}
	whole("meta/episodes/chunk_index", func(e EpisodeMeta) int { return e.meta.chunk })
	whole("meta/episodes/file_index", func(e EpisodeMeta) int { return e.meta.file })
	return out
}

func textLists(name string, rows []EpisodeMeta, of func(EpisodeMeta) []string) pq.Column {
	c := pq.Column{Name: name, Starts: []int{0}}
	texts := []string{}
	for _, e := range rows {
		texts = append(texts, of(e)...)
		c.Starts = append(c.Starts, len(texts))
	}
	c.Values = texts
	return c
}

// extraValues is a column that the format does not define; episodes without it get null.
func extraValues(c extraColumn, rows []EpisodeMeta) pq.Column {
	switch c.kind {
	case "string":
		return extraColumnOf[string](c.name, rows)
	case "bool":
		return extraColumnOf[bool](c.name, rows)
	case "int64":
		return extraColumnOf[int64](c.name, rows)
	case "float64":
		return extraColumnOf[float64](c.name, rows)
	}
	return textLists(c.name, rows, func(e EpisodeMeta) []string { v, _ := e.Extra[c.name].([]string); return v })
}

func extraColumnOf[T any](name string, rows []EpisodeMeta) pq.Column {
	values, null := make([]T, len(rows)), make([]bool, len(rows))
	some := false
	for i, e := range rows {
		v, ok := e.Extra[name].(T)
		values[i], null[i] = v, !ok
		some = some || !ok
	}
	if !some {
		null = nil
	}
	return pq.Column{Name: name, Values: values, Null: null}
}

func statColumns(f Feature, rows []EpisodeMeta) []pq.Column {
	dim := f.Dim()
	if f.DType.Visual() || f.likePicture() {
		dim = 3
	}
	var out []pq.Column
	for _, part := range statNames {
		name := "stats/" + f.Name + "/" + part
		if part == "count" {
			counts := mapSlice(rows, func(e EpisodeMeta) int64 { return e.Stats[f.Name].Count })
			out = append(out, pq.Column{Name: name, Shape: []int{1}, Values: counts})
			continue
		}
		values := make([]float64, 0, dim*len(rows))
		for _, e := range rows {
			s := f.stored(e.Stats[f.Name])
			values = append(values, *s.part(part)...)
		}
		out = append(out, pq.Column{Name: name, Shape: statShape(f, dim), Values: values})
	}
	return out
}
