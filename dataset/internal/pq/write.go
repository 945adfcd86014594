package pq

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// maxGroups is how many row groups a file can number.
const maxGroups = 1<<15 - 1

// Writer writes a Parquet file row group by row group: data pages of version 1, snappy, dictionaries where they pay. Not safe for
// concurrent use.
type Writer struct {
	w      io.Writer
	at     int64
	fields []Field
	leaves [][]leaf
	meta   format.FileMetaData
	err    error
}

// NewWriter begins a file with these columns and key-value metadata; ARROW:schema is added.
func NewWriter(w io.Writer, fields []Field, metadata map[string]string) (*Writer, error) {
	arrow, err := arrowSchema(fields, metadata)
	if err != nil {
		return nil, err
	}
	out := &Writer{w: w, fields: fields}
	out.meta = format.FileMetaData{Version: 2, CreatedBy: "pinch version 1 (build dataset)",
		Schema: []format.SchemaElement{{Name: "schema", NumChildren: thrift.New(int32(len(fields)))}}}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		out.meta.KeyValueMetadata = append(out.meta.KeyValueMetadata, format.KeyValue{Key: key, Value: metadata[key]})
	}
	out.meta.KeyValueMetadata = append(out.meta.KeyValueMetadata, format.KeyValue{Key: "ARROW:schema", Value: arrow})
	seen := map[string]bool{}
	for _, f := range fields {
		if seen[f.Name] {
			return nil, fmt.Errorf("column %q is there twice", f.Name)
		}
		seen[f.Name] = true
		out.meta.Schema = append(out.meta.Schema, f.elements...)
		out.leaves = append(out.leaves, f.leaves())
		for range f.leaves() {
			out.meta.ColumnOrders = append(out.meta.ColumnOrders, format.ColumnOrder{Value: &format.TypeDefinedOrder{}})
		}
	}
	out.write([]byte("PAR1"))
	return out, out.err
}

// Part is one column of a row group: values to encode or, when From is set, the chunk of a column of another file to copy.
type Part struct {
	Column Column
	// From and Group choose the row group, Name the column that is copied. Its layout must be that of the field.
	From  *File
	Group int
	Name  string
}

// WriteGroup appends a row group of rows rows, with one part for each field in the fields' order.
func (w *Writer) WriteGroup(rows int, parts []Part) error {
	if len(parts) != len(w.fields) {
		return fmt.Errorf("%d columns for %d fields", len(parts), len(w.fields))
	}
	if rows < 1 {
		return errors.New("a row group needs at least one row")
	}
	if len(w.meta.RowGroups) == maxGroups {
		return fmt.Errorf("the file has %d row groups already", maxGroups)
	}
	g := format.RowGroup{NumRows: int64(rows), FileOffset: w.at, Ordinal: int16(len(w.meta.RowGroups))}
	for i, p := range parts {
		chunks, err := w.chunks(rows, i, p)
		if err != nil {
			return err
		}
		for k, c := range chunks {
			g.Columns = append(g.Columns, w.place(c, w.leaves[i][k]))
			g.TotalByteSize += c.meta.TotalUncompressedSize
			g.TotalCompressedSize += c.meta.TotalCompressedSize
		}
	}
	w.meta.RowGroups = append(w.meta.RowGroups, g)
	w.meta.NumRows += int64(rows)
	return w.err
}

// chunks encodes or fetches the chunks of one part.
func (w *Writer) chunks(rows, i int, p Part) ([]chunk, error) {
	var chunks []chunk
	var err error
	if p.From != nil {
		chunks, err = p.From.copyChunks(p.Group, p.Name, rows)
	} else if err = p.Column.check(rows); err == nil {
		chunks, err = p.Column.encode(rows)
	}
	if err != nil {
		return nil, err
	}
	if len(chunks) != len(w.leaves[i]) {
		return nil, fmt.Errorf("column %q: %d leaves, the table has %d", w.fields[i].Name, len(chunks), len(w.leaves[i]))
	}
	for k, c := range chunks {
		if c.meta.Type != w.leaves[i][k].kind {
			return nil, fmt.Errorf("column %q holds %v, the table wants %v", w.fields[i].Name, c.meta.Type, w.leaves[i][k].kind)
		}
	}
	return chunks, nil
}

// place writes a chunk and gives its entry in the footer.
func (w *Writer) place(c chunk, l leaf) format.ColumnChunk {
	m := c.meta
	m.PathInSchema = l.path
	m.DataPageOffset += w.at
	if slices.Contains(m.Encoding, format.RLEDictionary) || slices.Contains(m.Encoding, format.PlainDictionary) {
		if c.meta.DataPageOffset > 0 { // a dictionary page stands before the data
			m.DictionaryPageOffset = w.at
		}
	}
	start := w.at
	w.write(c.pages)
	return format.ColumnChunk{FileOffset: start, MetaData: m}
}

func (w *Writer) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	w.at += int64(n)
	w.err = err
}

// Size is the number of bytes written so far.
func (w *Writer) Size() int64 { return w.at }

// Close writes the footer.
func (w *Writer) Close() error {
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), &w.meta)
	if err != nil {
		return fmt.Errorf("encode parquet footer: %w", err)
	}
	w.write(footer)
	w.write(append(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), "PAR1"...))
	return w.err
}

// copyChunks reads the chunks of a column of one row group as they are.
func (f *File) copyChunks(group int, name string, rows int) ([]chunk, error) {
	groups := f.pf.Metadata().RowGroups
	if group < 0 || group >= len(groups) || groups[group].NumRows != int64(rows) {
		return nil, fmt.Errorf("%s has no row group %d of %d rows", f.path, group, rows)
	}
	first, n, err := f.leafRange(name)
	if err != nil {
		return nil, err
	}
	var out []chunk
	for _, c := range groups[group].Columns[first : first+n] {
		m := c.MetaData
		from := m.DataPageOffset
		if m.DictionaryPageOffset > 0 && m.DictionaryPageOffset < from {
			from = m.DictionaryPageOffset
		}
		if m.TotalCompressedSize < 0 || from < 0 || from > f.pf.Size()-m.TotalCompressedSize {
			return nil, fmt.Errorf("column %q of %s lies beyond the end of the file", name, f.path)
		}
		pages := make([]byte, m.TotalCompressedSize)
		if _, err := f.pf.ReadAt(pages, from); err != nil {
			return nil, fmt.Errorf("read column %q of %s: %w", name, f.path, err)
		}
		m.DataPageOffset -= from
		m.DictionaryPageOffset, m.IndexPageOffset, m.BloomFilterOffset, m.BloomFilterLength = 0, 0, 0, 0
		out = append(out, chunk{pages, m})
	}
	return out, nil
}

// leafRange gives the first leaf of a top-level column and how many it has.
func (f *File) leafRange(name string) (first, n int, err error) {
	elements := f.pf.Metadata().Schema
	for at := 1; at < len(elements); {
		end := subtree(elements, at)
		n = 0
		for _, e := range elements[at:end] {
			if e.Type.Valid {
				n++
			}
		}
		if elements[at].Name == name {
			return first, n, nil
		}
		first += n
		at = end
	}
	return 0, 0, fmt.Errorf("%s has no column %q", f.path, name)
}

// Write writes one table as a Parquet file of one row group. Every column must hold exactly rows rows, at least one.
func Write(w io.Writer, rows int, columns []Column, metadata map[string]string) error {
	if rows < 1 {
		return errors.New("a table needs at least one row")
	}
	fields := make([]Field, len(columns))
	parts := make([]Part, len(columns))
	for i, c := range columns {
		if err := c.check(rows); err != nil {
			return err
		}
		var err error
		if fields[i], err = c.Field(); err != nil {
			return err
		}
		parts[i] = Part{Column: c}
	}
	out, err := NewWriter(w, fields, metadata)
	if err != nil {
		return err
	}
	if err := out.WriteGroup(rows, parts); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	return out.Close()
}
