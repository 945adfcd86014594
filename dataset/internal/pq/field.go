package pq

import (
	"reflect"

	"github.com/parquet-go/parquet-go"
)

// orderedField is a field of orderedGroup. Value is only there to satisfy parquet.Field: rows are written level by level,
// never through reflection.
type orderedField struct {
	parquet.Node
	name  string
	index int
}

func (f orderedField) Name() string { return f.name }

func (f orderedField) Value(base reflect.Value) reflect.Value {
	if base.Kind() == reflect.Struct {
		return base.Field(f.index)
	}
	return base.MapIndex(reflect.ValueOf(f.name))
}
