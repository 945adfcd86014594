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

// episodeColumns is the one-row table of the episode, in LeRobot's order.
func (b *built) episodeColumns() []pq.Column {
	e := b.meta
	var out []pq.Column
	whole := func(name string, v int) { out = append(out, pq.Column{Name: name, Values: []int64{int64(v)}}) }
	list := func(name string, v []string) {
		out = append(out, pq.Column{Name: name, Shape: []int{len(v)}, Values: v})
	}
	real := func(name string, v float64) { out = append(out, pq.Column{Name: name, Values: []float64{v}}) }
	whole("episode_index", e.Index)
	list("tasks", e.Tasks)
	whole("length", e.Length)
	whole("data/chunk_index", e.data.chunk)
	whole("data/file_index", e.data.file)
	whole("dataset_from_index", e.FromIndex)
	whole("dataset_to_index", e.FromIndex+e.Length)
	for _, f := range b.info.cameras() {
		v, prefix := e.Videos[f.Name], "videos/"+f.Name+"/"
		whole(prefix+"chunk_index", v.file.chunk)
		whole(prefix+"file_index", v.file.file)
		real(prefix+"from_timestamp", v.FromTime)
		real(prefix+"to_timestamp", v.ToTime)
	}
	for _, f := range b.info.Features {
		if s, ok := e.Stats[f.Name]; ok {
			out = append(out, statColumns(f, s)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(e.Extra)) {
		switch v := e.Extra[name].(type) {
		case string:
			out = append(out, pq.Column{Name: name, Values: []string{v}})
		case bool:
			out = append(out, pq.Column{Name: name, Values: []bool{v}})
		case int64:
			out = append(out, pq.Column{Name: name, Values: []int64{v}})
		case float64:
			real(name, v)
		case []string:
			list(name, v)
		}
	}
	whole("meta/episodes/chunk_index", e.meta.chunk)
	whole("meta/episodes/file_index", e.meta.file)
	return out
}

func statColumns(f Feature, s Stats) []pq.Column {
	var out []pq.Column
	for _, part := range statNames {
		c := pq.Column{Name: "stats/" + f.Name + "/" + part, Shape: []int{1}, Values: []int64{s.Count}}
		if part != "count" {
			v := *s.part(part)
			c.Shape, c.Values = statShape(f, len(v)), v
		}
		out = append(out, c)
	}
	return out
}
