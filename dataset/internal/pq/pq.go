// Package pq writes and reads the Parquet tables of a dataset in the shape that pyarrow and LeRobot give them.
//
// A column is a scalar, a list nested up to any depth, or a picture. On disk every column is optional (and so is every list
// element), as pyarrow writes them. A list is the three-level group
//
//	optional group <name> (LIST) { repeated group list { optional <type> element; } }
//
// a picture the group { optional binary bytes; optional binary path (UTF8); }, and the Arrow schema in the key ARROW:schema says
// whether a list has a fixed size. Reading goes by position from the column's root to its leaf, so the names of the inner
// groups ("element", "item", "bag") do not matter.
//
// A file is a sequence of row groups, and a row group one column chunk for each leaf. Writer takes each chunk either as values,
// which it encodes, or as a chunk of another file, whose bytes it copies: so a table of which two columns change costs two columns.
//
//	"PAR1" | chunk chunk chunk | chunk chunk chunk | footer | footer length | "PAR1"
//	         row group 0         row group 1
package pq

import "fmt"

// Column is one column to write, of a table or of one row group.
type Column struct {
	// Name of the top-level column.
	Name string
	// Shape of one row: nil for a scalar, {n} for a list of n, {a,b,c} for nested lists. The same for all rows.
	Shape []int
	// Fixed marks a list of fixed size in the Arrow schema.
	Fixed bool
	// Values in row order: []float32, []float64, []int32, []int64, []bool, []string or Pictures.
	Values any
	// Starts makes a list whose length differs from row to row: row r holds Values[Starts[r]:Starts[r+1]]. Shape is nil then.
	Starts []int
	// Null marks scalar rows without a value; nil when there are none. Values holds something in their place.
	Null []bool
}

// Pictures are the values of a column of encoded pictures.
type Pictures struct {
	// Bytes of a PNG or JPEG file each.
	Bytes []string
	// Paths are the names the files had.
	Paths []string
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
	case Pictures:
		if len(v.Bytes) != len(v.Paths) {
			return -1
		}
		return len(v.Bytes)
	}
	return -1
}

// per is the number of elements in one row of a column of one shape.
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
	_, pictures := c.Values.(Pictures)
	switch {
	case n < 0:
		return fmt.Errorf("column %q: values of type %T can not be stored", c.Name, c.Values)
	case c.Starts != nil && (len(c.Starts) != rows+1 || c.Starts[0] != 0 || c.Starts[rows] != n || c.Shape != nil):
		return fmt.Errorf("column %q: %d starts for %d rows of %d values", c.Name, len(c.Starts), rows, n)
	case c.Starts == nil && n != rows*c.per():
		return fmt.Errorf("column %q holds %d values, want %d rows of %d", c.Name, n, rows, c.per())
	case c.Null != nil && (len(c.Null) != rows || c.depth() > 0 || pictures):
		return fmt.Errorf("column %q: only scalars can be null", c.Name)
	case pictures && c.depth() > 0:
		return fmt.Errorf("column %q: lists of pictures can not be stored", c.Name)
	}
	return nil
}

// depth counts the nested lists.
func (c Column) depth() int {
	if c.Starts != nil {
		return 1
	}
	return len(c.Shape)
}
