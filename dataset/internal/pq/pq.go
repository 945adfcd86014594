// Package pq writes and reads the Parquet tables of a dataset in the shape that pyarrow and LeRobot give them.
//
// A column is a scalar or a list nested up to any depth. On disk every column is optional (and so is every list element),
// as pyarrow writes them; nulls are never written. A list is the three-level group
//
//	optional group <name> (LIST) { repeated group list { optional <type> element; } }
//
// and the Arrow schema in the key ARROW:schema says whether it has a fixed size. Reading goes by position from the column's
// root to its leaf, so the names of the inner groups ("element", "item", "bag") do not matter.
package pq

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/apache/arrow/go/arrow"
	"github.com/apache/arrow/go/arrow/ipc"
)

// Column is one column to write, of a table or of one row group.
type Column struct {
	// Name of the top-level column.
	Name string
	// Shape of one row: nil for a scalar, {n} for a list of n, {a,b,c} for nested lists. The same for all rows.
	Shape []int
	// Fixed marks a list of fixed size in the Arrow schema.
	Fixed bool
	// Values in row order: []float32, []float64, []int32, []int64, []bool or []string.
	Values any
}

// count returns the number of elements of a supported slice type, or -1.
func count(values any) int {
	switch v := values.(type) {
	case []float32:
		return len(v)
	case []float64:
		return len(v)
	case []int32:
		return len(v)
	case []int64:
		return len(v)
	case []bool:
		return len(v)
	case []string:
		return len(v)
	}
	return -1
}

// per is the number of elements in one row.
func (c Column) per() int {
	n := 1
	for _, s := range c.Shape {
		n *= s
	}
	return n
}

// check says whether the column holds exactly rows rows.
func (c Column) check(rows int) error {
	n := count(c.Values)
	if n < 0 {
		return fmt.Errorf("column %q: values of type %T can not be stored", c.Name, c.Values)
	}
	if n != rows*c.per() {
		return fmt.Errorf("column %q holds %d values, want %d rows of %d", c.Name, n, rows, c.per())
	}
	return nil
}

// arrowSchema returns the value of the key ARROW:schema: the encapsulated Arrow IPC schema message in base64.
func arrowSchema(columns []Column, metadata map[string]string) (string, error) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		t, err := arrowType(c)
		if err != nil {
			return "", err
		}
		fields[i] = arrow.Field{Name: c.Name, Type: t, Nullable: true}
	}
	md := arrow.MetadataFrom(metadata)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(arrow.NewSchema(fields, &md)))
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("encode arrow schema: %w", err)
	}
	message := buf.Bytes()
	message = message[:len(message)-8] // the end-of-stream marker is no part of a stored schema
	return base64.StdEncoding.EncodeToString(message), nil
}

func arrowType(c Column) (arrow.DataType, error) {
	var t arrow.DataType
	switch c.Values.(type) {
	case []float32:
		t = arrow.PrimitiveTypes.Float32
	case []float64:
		t = arrow.PrimitiveTypes.Float64
	case []int32:
		t = arrow.PrimitiveTypes.Int32
	case []int64:
		t = arrow.PrimitiveTypes.Int64
	case []bool:
		t = arrow.FixedWidthTypes.Boolean
	case []string:
		t = arrow.BinaryTypes.String
	default:
		return nil, fmt.Errorf("column %q: values of type %T can not be stored", c.Name, c.Values)
	}
	for i := len(c.Shape) - 1; i >= 0; i-- {
		if c.Fixed {
			t = arrow.FixedSizeListOf(int32(c.Shape[i]), t)
		} else {
			t = arrow.ListOf(t)
		}
	}
	return t, nil
}
