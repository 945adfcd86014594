package pq

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// Write writes one table as a Parquet file of one row group: data page version 1, snappy, dictionary encoding, the key
// ARROW:schema and the given keys. Every column must hold exactly rows rows, at least one.
func Write(w io.Writer, rows int, columns []Column, metadata map[string]string) error {
	if rows < 1 {
		return fmt.Errorf("a table needs at least one row")
	}
	group := orderedGroup{Group: parquet.Group{}}
	for i, c := range columns {
		if err := c.check(rows); err != nil {
			return err
		}
		n := node(c)
		if _, twice := group.Group[c.Name]; twice {
			return fmt.Errorf("column %q is there twice", c.Name)
		}
		group.Group[c.Name] = n
		group.fields = append(group.fields, orderedField{Node: n, name: c.Name, index: i})
	}
	schema, err := arrowSchema(columns, metadata)
	if err != nil {
		return err
	}
	options := []parquet.WriterOption{
		parquet.NewSchema("schema", group),
		parquet.Compression(&parquet.Snappy),
		parquet.DataPageVersion(1),
		parquet.KeyValueMetadata("ARROW:schema", schema),
		parquet.CreatedBy("pinch", "1", "dataset"),
	}
	for k, v := range metadata {
		options = append(options, parquet.KeyValueMetadata(k, v))
	}
	out := parquet.NewWriter(w, options...)
	if err := writeRows(out, rows, columns); err != nil {
		return err
	}
	return out.Close()
}

func writeRows(out *parquet.Writer, rows int, columns []Column) error {
	width := 0
	for _, c := range columns {
		width += max(1, c.per())
	}
	const batch = 64
	buf := make([]parquet.Row, 0, batch)
	for r := 0; r < rows; r++ {
		row := make(parquet.Row, 0, width)
		for i, c := range columns {
			row = appendColumn(row, c, r, i)
		}
		if buf = append(buf, row); len(buf) == batch || r == rows-1 {
			if _, err := out.WriteRows(buf); err != nil {
				return fmt.Errorf("write rows: %w", err)
			}
			buf = buf[:0]
		}
	}
	return nil
}

// appendColumn appends the leaf values of row r of column c, which is the index-th leaf. A list nested d deep has
// definition level 2d+1 (each level an optional group and a repeated group, then the optional element) and a value that
// starts a new list of level k has repetition level k.
func appendColumn(row parquet.Row, c Column, r, index int) parquet.Row {
	per, depth := c.per(), len(c.Shape)
	if per == 0 {
		return append(row, parquet.NullValue().Level(0, 1, index)) // an empty, present list
	}
	for k := 0; k < per; k++ {
		row = append(row, value(c.Values, r*per+k).Level(repetition(c.Shape, k), 2*depth+1, index))
	}
	return row
}

// repetition is the repetition level of element k of a row: 0 at its start, else the depth of the innermost list that
// continues.
func repetition(shape []int, k int) int {
	if k == 0 {
		return 0
	}
	level := len(shape)
	for inner := 1; level > 1; level-- {
		inner *= shape[level-1]
		if k%inner != 0 {
			break
		}
	}
	return level
}

func value(values any, i int) parquet.Value {
	switch v := values.(type) {
	case []float32:
		return parquet.FloatValue(v[i])
	case []float64:
		return parquet.DoubleValue(v[i])
	case []int32:
		return parquet.Int32Value(v[i])
	case []int64:
		return parquet.Int64Value(v[i])
	case []bool:
		return parquet.BooleanValue(v[i])
	case []string:
		return parquet.ByteArrayValue([]byte(v[i]))
	}
	return parquet.NullValue() // unreachable: Column.check rejects other types
}

func node(c Column) parquet.Node {
	var n parquet.Node
	switch c.Values.(type) {
	case []float32:
		n = parquet.Leaf(parquet.FloatType)
	case []float64:
		n = parquet.Leaf(parquet.DoubleType)
	case []int32:
		n = parquet.Leaf(parquet.Int32Type)
	case []int64:
		n = parquet.Leaf(parquet.Int64Type)
	case []string:
		n = parquet.String()
	default:
		n = parquet.Leaf(parquet.BooleanType)
	}
	if _, isBool := c.Values.([]bool); !isBool { // a dictionary of booleans saves nothing
		n = parquet.Encoded(n, &parquet.RLEDictionary)
	}
	n = parquet.Optional(n)
	for range c.Shape {
		n = parquet.Optional(parquet.List(n))
	}
	return n
}

// orderedGroup is a parquet.Group that keeps the order of its fields (a Group sorts them by name).
type orderedGroup struct {
	parquet.Group
	fields []parquet.Field
}

func (g orderedGroup) Fields() []parquet.Field { return g.fields }
