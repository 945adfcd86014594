package pq

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/arrow/go/arrow"
	"github.com/apache/arrow/go/arrow/ipc"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Field is the type of a top-level column: what the schemas of Parquet and of Arrow say about it.
type Field struct {
	// Name of the column.
	Name     string
	elements []format.SchemaElement // depth first, the column's own first
	arrow    arrow.Field
}

// leaf is one leaf of a field.
type leaf struct {
	path     []string
	kind     format.Type
	def, rep int // greatest levels
}

// Named is the field under another name.
func (f Field) Named(name string) Field {
	g := Field{name, append([]format.SchemaElement{}, f.elements...), f.arrow}
	g.elements[0].Name = name
	g.arrow.Name = name
	return g
}

// SameLayout reports whether chunks of g can stand in a file whose field is f: equal leaves, levels and annotations, whatever the
// names of the inner groups.
func (f Field) SameLayout(g Field) bool {
	if len(f.elements) != len(g.elements) {
		return false
	}
	for i, a := range f.elements {
		b := g.elements[i]
		if a.Type != b.Type || a.TypeLength != b.TypeLength || a.RepetitionType != b.RepetitionType || a.NumChildren != b.NumChildren ||
			a.ConvertedType != b.ConvertedType || !reflect.DeepEqual(a.LogicalType, b.LogicalType) {
			return false
		}
	}
	return true
}

// leaves lists the leaves depth first.
func (f Field) leaves() []leaf {
	var out []leaf
	at := 0
	var walk func(path []string, def, rep int)
	walk = func(path []string, def, rep int) {
		e := f.elements[at]
		at++
		path = append(append([]string{}, path...), e.Name)
		switch e.RepetitionType.V {
		case format.Optional:
			def++
		case format.Repeated:
			def, rep = def+1, rep+1
		}
		if e.Type.Valid {
			out = append(out, leaf{path, e.Type.V, def, rep})
			return
		}
		for range e.NumChildren.V {
			walk(path, def, rep)
		}
	}
	walk(nil, 0, 0)
	return out
}

// Field is the column's type.
func (c Column) Field() (Field, error) {
	t, element, err := scalarType(c)
	if err != nil {
		return Field{}, err
	}
	f := Field{Name: c.Name}
	group := func(name string, r format.FieldRepetitionType, children int32) format.SchemaElement {
		return format.SchemaElement{Name: name, RepetitionType: thrift.New(r), NumChildren: thrift.New(children)}
	}
	name := c.Name
	for range c.depth() {
		list := group(name, format.Optional, 1)
		list.ConvertedType = thrift.New(deprecated.List)
		list.LogicalType = format.LogicalType{Value: &format.ListType{}}
		f.elements = append(f.elements, list, group("list", format.Repeated, 1))
		name = "element"
	}
	if _, ok := c.Values.(Pictures); ok {
		f.elements = append(f.elements, group(name, format.Optional, 2),
			format.SchemaElement{Name: "bytes", RepetitionType: thrift.New(format.Optional), Type: thrift.New(format.ByteArray)}, text("path"))
	} else {
		element.Name = name
		f.elements = append(f.elements, element)
	}
	for i := c.depth() - 1; i >= 0; i-- {
		if c.Fixed {
			t = arrow.FixedSizeListOf(int32(c.Shape[i]), t)
		} else {
			t = arrow.ListOf(t)
		}
	}
	f.arrow = arrow.Field{Name: c.Name, Type: t, Nullable: true}
	return f, nil
}

func text(name string) format.SchemaElement {
	return format.SchemaElement{Name: name, RepetitionType: thrift.New(format.Optional), Type: thrift.New(format.ByteArray),
		ConvertedType: thrift.New(deprecated.UTF8), LogicalType: format.LogicalType{Value: &format.StringType{}}}
}

// scalarType is the type of one element, by Arrow's and by Parquet's name.
func scalarType(c Column) (arrow.DataType, format.SchemaElement, error) {
	leaf := func(t format.Type) format.SchemaElement {
		return format.SchemaElement{RepetitionType: thrift.New(format.Optional), Type: thrift.New(t)}
	}
	switch c.Values.(type) {
	case []float32:
		return arrow.PrimitiveTypes.Float32, leaf(format.Float), nil
	case []float64:
		return arrow.PrimitiveTypes.Float64, leaf(format.Double), nil
	case []int32:
		return arrow.PrimitiveTypes.Int32, leaf(format.Int32), nil
	case []int64:
		return arrow.PrimitiveTypes.Int64, leaf(format.Int64), nil
	case []bool:
		return arrow.FixedWidthTypes.Boolean, leaf(format.Boolean), nil
	case []string:
		return arrow.BinaryTypes.String, text(""), nil
	case Pictures:
		return arrow.StructOf(arrow.Field{Name: "bytes", Type: arrow.BinaryTypes.Binary, Nullable: true},
			arrow.Field{Name: "path", Type: arrow.BinaryTypes.String, Nullable: true}), format.SchemaElement{}, nil
	}
	return nil, format.SchemaElement{}, fmt.Errorf("column %q: values of type %T can not be stored", c.Name, c.Values)
}

// Field is the type of a column of the file.
func (f *File) Field(name string) (Field, error) {
	elements := f.pf.Metadata().Schema
	for at := 1; at < len(elements); {
		end := subtree(elements, at)
		if elements[at].Name == name {
			out := Field{Name: name, elements: append([]format.SchemaElement{}, elements[at:end]...)}
			return out, f.arrowField(name, &out)
		}
		at = end
	}
	return Field{}, fmt.Errorf("%s has no column %q", f.path, name)
}

// subtree is the place after the last element under element at.
func subtree(elements []format.SchemaElement, at int) int {
	children := elements[at].NumChildren.V
	for at++; children > 0 && at < len(elements); children-- {
		at = subtree(elements, at)
	}
	return at
}

// arrowField fills the Arrow side: from the file's own Arrow schema, else from the Parquet types.
func (f *File) arrowField(name string, out *Field) error {
	f.arrowOnce.Do(func() {
		if s, ok := f.Metadata("ARROW:schema"); ok {
			f.arrow, _ = decodeArrowSchema(s)
		}
	})
	if f.arrow != nil {
		if found, ok := f.arrow.FieldsByName(name); ok {
			out.arrow = found[0]
			return nil
		}
	}
	for _, c := range []Column{{Values: []float32{}}, {Values: []float64{}}, {Values: []int32{}}, {Values: []int64{}}, {Values: []bool{}}, {Values: []string{}}, {Values: Pictures{}}} {
		for _, starts := range [][]int{nil, {0}} {
			c.Name, c.Starts = name, starts
			if g, err := c.Field(); err == nil && g.SameLayout(*out) {
				out.arrow = g.arrow
				return nil
			}
		}
	}
	return fmt.Errorf("column %q of %s has a type that is not known here", name, f.path)
}

// decodeArrowSchema reads the value of the key ARROW:schema.
func decodeArrowSchema(s string) (schema *arrow.Schema, err error) {
	defer func() {
		if p := recover(); p != nil { // the decoder trusts its input
			schema, err = nil, fmt.Errorf("arrow schema: %v", p)
		}
	}()
	message, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	r, err := ipc.NewReader(bytes.NewReader(append(message, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0)))
	if err != nil {
		return nil, err
	}
	defer r.Release()
	return r.Schema(), nil
}

// arrowSchema returns the value of the key ARROW:schema: the encapsulated Arrow IPC schema message in base64.
func arrowSchema(fields []Field, metadata map[string]string) (string, error) {
	list := make([]arrow.Field, len(fields))
	for i, f := range fields {
		list[i] = f.arrow
	}
	md := arrow.MetadataFrom(metadata)
	var buf bytes.Buffer
	w := ipc.NewWriter(&buf, ipc.WithSchema(arrow.NewSchema(list, &md)))
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("encode arrow schema: %w", err)
	}
	message := buf.Bytes()
	if len(message) < 8 {
		return "", errors.New("encode arrow schema: the message is too short")
	}
	message = message[:len(message)-8] // the end-of-stream marker is no part of a stored schema
	return base64.StdEncoding.EncodeToString(message), nil
}
