package pq

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"

	"github.com/apache/arrow/go/arrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// File is an open Parquet file. Safe for concurrent use.
type File struct {
	path      string
	f         *os.File
	pf        *parquet.File
	arrowOnce sync.Once
	arrow     *arrow.Schema
}

// Info describes one top-level column of a file.
type Info struct {
	// Name of the column.
	Name string
	// Type is the Go name of the leaf type: float32, float64, int32, int64, bool, string; "struct" for a group with
	// several leaves and "other" for the rest.
	Type string
	// Depth counts nested lists: 0 for a scalar.
	Depth int
}

// Open opens the Parquet file at path and reads its footer.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	pf, err := openParquet(f, st.Size())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("read parquet footer of %s: %w", path, err)
	}
	return &File{path: path, f: f, pf: pf}, nil
}

// openParquet turns a panic of the decoder on a broken footer into an error.
func openParquet(r io.ReaderAt, size int64) (pf *parquet.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("broken footer: %v", p)
		}
	}()
	return parquet.OpenFile(r, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Rows is the number of rows.
func (f *File) Rows() int { return int(f.pf.NumRows()) }

// RowGroups lists the number of rows of each row group.
func (f *File) RowGroups() []int {
	var n []int
	for _, g := range f.pf.RowGroups() {
		n = append(n, int(g.NumRows()))
	}
	return n
}

// Metadata returns a key-value entry of the footer.
func (f *File) Metadata(key string) (string, bool) { return f.pf.Lookup(key) }

// Columns lists the top-level columns in file order.
func (f *File) Columns() []Info {
	var infos []Info
	for _, c := range f.pf.Root().Columns() {
		leaf, depth := descend(c)
		info := Info{Name: c.Name(), Depth: depth, Type: "struct"}
		if leaf != nil {
			info.Type = typeName(leaf)
		}
		infos = append(infos, info)
	}
	return infos
}

// Has reports whether there is a column of that name.
func (f *File) Has(name string) bool { return f.pf.Root().Column(name) != nil }

// descend walks to the only leaf under c, counting list levels; nil when there are several leaves.
func descend(c *parquet.Column) (leaf *parquet.Column, depth int) {
	for !c.Leaf() {
		if len(c.Columns()) != 1 {
			return nil, depth
		}
		c = c.Columns()[0]
		if c.Repeated() {
			depth++
		}
	}
	return c, depth
}

func typeName(leaf *parquet.Column) string {
	switch leaf.Type().Kind() {
	case parquet.Boolean:
		return "bool"
	case parquet.Int32:
		return "int32"
	case parquet.Int64:
		return "int64"
	case parquet.Float:
		return "float32"
	case parquet.Double:
		return "float64"
	case parquet.ByteArray:
		return "string"
	}
	return "other"
}

// Data is part of a column as read.
type Data struct {
	// Values of the leaves in order, zero where null: []float32, []float64, []int32, []int64, []bool or []string.
	Values any
	// Starts[r] is where row r begins in Values; len is rows+1.
	Starts []int
	// Null lists rows that are null or hold a null, in order.
	Null []int
}

// Read reads rows [from, to) of a column.
func (f *File) Read(name string, from, to int) (d *Data, err error) {
	defer func() {
		if p := recover(); p != nil { // the decoder panics on some broken pages
			d, err = nil, fmt.Errorf("column %q of %s is damaged: %v", name, f.path, p)
		}
	}()
	if from < 0 || to < from || to > f.Rows() {
		return nil, fmt.Errorf("rows %d to %d of %s, which has %d", from, to, f.path, f.Rows())
	}
	c := f.pf.Root().Column(name)
	if c == nil {
		return nil, fmt.Errorf("%s has no column %q", f.path, name)
	}
	leaf, _ := descend(c)
	if leaf == nil || typeName(leaf) == "other" {
		return nil, fmt.Errorf("column %q of %s is no scalar or list", name, f.path)
	}
	a := newAppender(leaf)
	a.want = to - from
	if err := f.scan(leaf, from, to, a); err != nil {
		return nil, fmt.Errorf("read column %q of %s: %w", name, f.path, err)
	}
	if len(a.starts) != to-from {
		return nil, fmt.Errorf("column %q of %s gives %d rows, want %d", name, f.path, len(a.starts), to-from)
	}
	return &Data{Values: a.values(), Starts: append(a.starts, a.n), Null: a.null}, nil
}

// ReadPictures reads rows [from, to) of a column of encoded pictures. A row without bytes is an error.
func (f *File) ReadPictures(name string, from, to int) (p Pictures, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("column %q of %s is damaged: %v", name, f.path, r)
		}
	}()
	c := f.pf.Root().Column(name)
	if c == nil || c.Leaf() || c.Column("bytes") == nil {
		return p, fmt.Errorf("%s has no column %q of pictures", f.path, name)
	}
	if from < 0 || to < from || to > f.Rows() {
		return p, fmt.Errorf("rows %d to %d of %s, which has %d", from, to, f.path, f.Rows())
	}
	read := func(leaf *parquet.Column) (*appender, error) {
		a := newAppender(leaf)
		err := f.scan(leaf, from, to, a)
		if err == nil && len(a.s) != to-from {
			err = fmt.Errorf("%d values for %d rows", len(a.s), to-from)
		}
		return a, err
	}
	a, err := read(c.Column("bytes"))
	if err == nil && len(a.null) > 0 {
		err = fmt.Errorf("row %d has no bytes", from+a.null[0])
	}
	if err != nil {
		return p, fmt.Errorf("read column %q of %s: %w", name, f.path, err)
	}
	p = Pictures{Bytes: a.s, Paths: make([]string, len(a.s))}
	if path := c.Column("path"); path != nil {
		if a, err := read(path); err == nil {
			p.Paths = a.s
		}
	}
	return p, nil
}

// scan feeds the values of rows [from, to) to a.
func (f *File) scan(leaf *parquet.Column, from, to int, a *appender) error {
	first := 0
	for _, g := range f.pf.RowGroups() {
		n := int(g.NumRows())
		lo, hi := max(from-first, 0), min(to-first, n)
		if lo < hi {
			if err := scanChunk(g.ColumnChunks()[leaf.Index()], lo, hi, a); err != nil {
				return err
			}
		}
		first += n
	}
	return nil
}

func scanChunk(chunk parquet.ColumnChunk, lo, hi int, a *appender) error {
	pages := chunk.Pages()
	defer pages.Close()
	if lo > 0 {
		if err := pages.SeekToRow(int64(lo)); err != nil {
			return err
		}
	}
	a.left = hi - lo
	buf := make([]parquet.Value, 512)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		done, err := a.page(page, buf)
		parquet.Release(page)
		if done || err != nil {
			return err
		}
	}
}

// whole appends a page without nulls in one go; ok is false for pages that have to be read value by value.
func (a *appender) whole(page parquet.Page) (done, ok bool) {
	if page.NumNulls() != 0 || a.kind == parquet.Boolean {
		return false, false
	}
	n := int(page.NumValues())
	if rep := page.RepetitionLevels(); rep != nil {
		for i, level := range rep {
			if level != 0 {
				continue
			}
			if a.left == 0 {
				n, done = i, true
				break
			}
			a.left--
			a.starts = append(a.starts, a.n+i)
		}
	} else {
		if n > a.left {
			n, done = a.left, true
		}
		a.left -= n
		for i := range n {
			a.starts = append(a.starts, a.n+i)
		}
	}
	if a.n == 0 { // room for all rows at once, by the first page
		a.grow(min(n*a.want/max(1, len(a.starts)), 1<<24))
	}
	data, dictionary := page.Data(), page.Dictionary()
	if dictionary == nil {
		a.plain(data, n)
	} else {
		a.indexed(data.Int32()[:n], dictionary.Page())
	}
	a.n += n
	return done, true
}

func (a *appender) grow(values int) {
	a.starts = slices.Grow(a.starts, min(a.want+1, 1<<24))
	switch a.kind {
	case parquet.Float:
		a.f32 = slices.Grow(a.f32, values)
	case parquet.Double:
		a.f64 = slices.Grow(a.f64, values)
	case parquet.Int32:
		a.i32 = slices.Grow(a.i32, values)
	case parquet.Int64:
		a.i64 = slices.Grow(a.i64, values)
	}
}

func (a *appender) plain(data encoding.Values, n int) {
	switch a.kind {
	case parquet.Float:
		a.f32 = append(a.f32, data.Float()[:n]...)
	case parquet.Double:
		a.f64 = append(a.f64, data.Double()[:n]...)
	case parquet.Int32:
		a.i32 = append(a.i32, data.Int32()[:n]...)
	case parquet.Int64:
		a.i64 = append(a.i64, data.Int64()[:n]...)
	default:
		b, at := data.ByteArray()
		for i := range n {
			a.s = append(a.s, string(b[at[i]:at[i+1]]))
		}
	}
}

func (a *appender) indexed(index []int32, dictionary parquet.Page) {
	data := dictionary.Data()
	switch a.kind {
	case parquet.Float:
		a.f32 = look(a.f32, data.Float(), index)
	case parquet.Double:
		a.f64 = look(a.f64, data.Double(), index)
	case parquet.Int32:
		a.i32 = look(a.i32, data.Int32(), index)
	case parquet.Int64:
		a.i64 = look(a.i64, data.Int64(), index)
	default: // one string for each entry, shared by the rows
		b, at := data.ByteArray()
		texts := make([]string, max(0, len(at)-1))
		for i := range texts {
			texts[i] = string(b[at[i]:at[i+1]])
		}
		a.s = look(a.s, texts, index)
	}
}

func look[T any](dst, values []T, index []int32) []T {
	dst = slices.Grow(dst, len(index))
	for _, i := range index {
		dst = append(dst, values[i])
	}
	return dst
}

// appender collects leaf values row by row.
type appender struct {
	kind   parquet.Kind
	def    int // definition level of a present value
	n      int
	left   int // rows still wanted from this chunk
	want   int // rows wanted in all
	starts []int
	null   []int
	f32    []float32
	f64    []float64
	i32    []int32
	i64    []int64
	b      []bool
	s      []string
}

func newAppender(leaf *parquet.Column) *appender {
	return &appender{kind: leaf.Type().Kind(), def: leaf.MaxDefinitionLevel()}
}

// page appends the values of one page; done when the wanted rows are complete.
func (a *appender) page(page parquet.Page, buf []parquet.Value) (done bool, err error) {
	if done, ok := a.whole(page); ok {
		return done, nil
	}
	values := page.Values()
	for {
		n, err := values.ReadValues(buf)
		for _, v := range buf[:n] {
			if v.RepetitionLevel() == 0 {
				if a.left == 0 {
					return true, nil
				}
				a.left--
				a.starts = append(a.starts, a.n)
			}
			a.add(v)
		}
		if errors.Is(err, io.EOF) || n == 0 && err == nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

func (a *appender) add(v parquet.Value) {
	if v.IsNull() {
		// A present but empty list adds no element; anything else that stops short is a null.
		if v.DefinitionLevel() == a.def-2 && a.def >= 3 {
			return
		}
		if row := len(a.starts) - 1; len(a.null) == 0 || a.null[len(a.null)-1] != row {
			a.null = append(a.null, row)
		}
	}
	a.n++
	switch a.kind {
	case parquet.Float:
		a.f32 = append(a.f32, v.Float())
	case parquet.Double:
		a.f64 = append(a.f64, v.Double())
	case parquet.Int32:
		a.i32 = append(a.i32, v.Int32())
	case parquet.Int64:
		a.i64 = append(a.i64, v.Int64())
	case parquet.Boolean:
		a.b = append(a.b, v.Boolean())
	default:
		a.s = append(a.s, string(v.ByteArray()))
	}
}

func (a *appender) values() any {
	switch a.kind {
	case parquet.Float:
		return a.f32
	case parquet.Double:
		return a.f64
	case parquet.Int32:
		return a.i32
	case parquet.Int64:
		return a.i64
	case parquet.Boolean:
		return a.b
	}
	return a.s
}
