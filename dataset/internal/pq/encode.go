package pq

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/klauspost/compress/s2"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// pageBytes is how many bytes of values a page holds before the next one begins: pyarrow's size.
const pageBytes = 1 << 20

// chunk is one encoded column chunk: its pages, and what the footer says of them with offsets from the first byte of the pages.
type chunk struct {
	pages []byte
	meta  format.ColumnMetaData
}

// encode makes the chunks of rows [0, rows) of the column, one for each leaf.
func (c Column) encode(rows int) ([]chunk, error) {
	if p, ok := c.Values.(Pictures); ok {
		bytes, paths := Column{Values: p.Bytes}, Column{Values: p.Paths}
		a, err := bytes.encodeLeaf(rows, 1)
		if err != nil {
			return nil, err
		}
		b, err := paths.encodeLeaf(rows, 1)
		return []chunk{a, b}, err
	}
	k, err := c.encodeLeaf(rows, 0)
	return []chunk{k}, err
}

// encodeLeaf encodes one leaf that lies under above optional groups besides its own lists.
func (c Column) encodeLeaf(rows, above int) (chunk, error) {
	v, err := newLeafValues(c.Values)
	if err != nil {
		return chunk{}, fmt.Errorf("column %q: %w", c.Name, err)
	}
	e := chunkEncoder{c: c, v: v, maxDef: above + 2*c.depth() + 1}
	e.k.meta = format.ColumnMetaData{Type: v.kind, Codec: format.Snappy, Statistics: c.statistics()}
	e.k.meta.Encoding = []format.Encoding{format.Plain, format.RLE}
	if v.dictionary() {
		e.k.meta.Encoding = []format.Encoding{format.Plain, format.RLE, format.RLEDictionary}
		e.dictionaryPage()
	}
	perPage := max(1, pageBytes/max(1, v.width*c.rowLength(rows)))
	for lo := 0; lo < rows; lo += perPage {
		e.dataPage(lo, min(lo+perPage, rows))
	}
	e.k.meta.TotalCompressedSize = int64(len(e.k.pages))
	return e.k, e.err
}

// rowLength is the usual number of elements in a row.
func (c Column) rowLength(rows int) int {
	if c.Starts != nil {
		return c.Starts[rows]/max(rows, 1) + 1
	}
	return c.per()
}

// statistics of scalars, by which readers skip row groups; lists have none.
func (c Column) statistics() format.Statistics {
	if c.depth() > 0 || c.Null != nil {
		return format.Statistics{}
	}
	switch v := c.Values.(type) {
	case []int64:
		lo, hi := bounds(v)
		return format.Statistics{MinValue: binary.LittleEndian.AppendUint64(nil, uint64(lo)), MaxValue: binary.LittleEndian.AppendUint64(nil, uint64(hi))}
	case []int32:
		lo, hi := bounds(v)
		return format.Statistics{MinValue: binary.LittleEndian.AppendUint32(nil, uint32(lo)), MaxValue: binary.LittleEndian.AppendUint32(nil, uint32(hi))}
	}
	return format.Statistics{}
}

func bounds[T int32 | int64](v []T) (lo, hi T) {
	lo, hi = v[0], v[0]
	for _, x := range v {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

// chunkEncoder appends the pages of one leaf.
type chunkEncoder struct {
	c      Column
	v      *leafValues
	maxDef int
	k      chunk
	raw    []byte // one page before compression, reused
	err    error
}

func (e *chunkEncoder) dictionaryPage() {
	e.raw = e.v.plainDictionary(e.raw[:0])
	e.page(format.PageHeader{Type: format.DictionaryPage,
		DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: int32(len(e.v.distinct)), Encoding: format.Plain})})
	e.k.meta.DataPageOffset = int64(len(e.k.pages))
	e.k.meta.DictionaryPageOffset = 0 // the first byte of the chunk; Writer knows by the encodings that there is one
}

// dataPage appends rows [lo, hi).
func (e *chunkEncoder) dataPage(lo, hi int) {
	from, to := lo, hi // of the values
	slots := hi - lo   // values and the empty lists between them
	e.raw = e.raw[:0]
	switch {
	case e.c.Starts != nil:
		from, to = e.c.Starts[lo], e.c.Starts[hi]
		var rep, def []byte
		for r := lo; r < hi; r++ {
			n := e.c.Starts[r+1] - e.c.Starts[r]
			if n == 0 {
				rep, def = append(rep, 0), append(def, byte(e.maxDef-2))
			}
			for k := range n {
				rep, def = append(rep, byte(min(k, 1))), append(def, byte(e.maxDef))
			}
		}
		slots = len(rep)
		e.raw = appendLevels(e.raw, rep, 1)
		e.raw = appendLevels(e.raw, def, e.maxDef)
	case e.c.depth() > 0 && e.c.per() == 0:
		e.raw = appendSame(e.raw, slots, 0, e.c.depth())
		e.raw = appendSame(e.raw, slots, 1, e.maxDef)
		from, to = 0, 0
	case e.c.depth() > 0:
		per := e.c.per()
		from, to, slots = lo*per, hi*per, slots*per
		rep := make([]byte, slots)
		for k := range per {
			if level := byte(repetition(e.c.Shape, k)); level != 0 {
				for at := k; at < slots; at += per {
					rep[at] = level
				}
			}
		}
		e.raw = appendLevels(e.raw, rep, e.c.depth())
		e.raw = appendSame(e.raw, slots, e.maxDef, e.maxDef)
	case e.c.Null != nil:
		def := make([]byte, hi-lo)
		for i := range def {
			if !e.c.Null[lo+i] {
				def[i] = byte(e.maxDef)
			}
		}
		e.raw = appendLevels(e.raw, def, e.maxDef)
	default:
		e.raw = appendSame(e.raw, slots, e.maxDef, e.maxDef)
	}
	encoding := format.Plain
	if e.v.distinct != nil {
		encoding = format.RLEDictionary
	}
	e.raw = e.v.append(e.raw, from, to, e.nulls(from))
	e.page(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: int32(slots), Encoding: encoding,
		DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})})
	e.k.meta.NumValues += int64(slots)
}

// nulls are the marks from a row on.
func (e *chunkEncoder) nulls(from int) []bool {
	if e.c.Null == nil {
		return nil
	}
	return e.c.Null[from:]
}

// page compresses e.raw and appends it behind its header.
func (e *chunkEncoder) page(h format.PageHeader) {
	packed := s2.EncodeSnappy(nil, e.raw)
	h.UncompressedPageSize, h.CompressedPageSize = int32(len(e.raw)), int32(len(packed))
	head, err := thrift.Marshal(new(thrift.CompactProtocol), &h)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("column %q: encode page header: %w", e.c.Name, err)
	}
	e.k.pages = append(append(e.k.pages, head...), packed...)
	e.k.meta.TotalUncompressedSize += int64(len(head) + len(e.raw))
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

// appendLevels appends levels behind their length, as data pages of version 1 hold them: one run when all are equal, else packed bits.
func appendLevels(dst, levels []byte, greatest int) []byte {
	for _, l := range levels {
		if l != levels[0] {
			at := len(dst)
			dst = append(dst, 0, 0, 0, 0)
			dst = appendPacked(dst, len(levels), bits.Len(uint(greatest)), func(i int) uint32 { return uint32(levels[i]) })
			binary.LittleEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
			return dst
		}
	}
	return appendSame(dst, len(levels), int(levels[0]), greatest)
}

// appendSame appends one run of n equal levels behind its length.
func appendSame(dst []byte, n, level, greatest int) []byte {
	run := append(binary.AppendUvarint(nil, uint64(n)<<1), byte(level))
	if greatest == 0 {
		return dst
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(run)))
	return append(dst, run...)
}

// appendPacked appends one bit-packed run of the hybrid encoding: groups of eight, least significant bits first.
func appendPacked(dst []byte, n, width int, at func(int) uint32) []byte {
	groups := (n + 7) / 8
	dst = binary.AppendUvarint(dst, uint64(groups)<<1|1)
	var acc uint64
	have := 0
	for i := range groups * 8 {
		if i < n {
			acc |= uint64(at(i)) << have
		}
		for have += width; have >= 8; have -= 8 {
			dst = append(dst, byte(acc))
			acc >>= 8
		}
	}
	return dst
}

// leafValues are the values of one leaf and, once dictionary has found that it pays, their dictionary.
type leafValues struct {
	kind     format.Type
	width    int // bytes of a plain value, for strings an estimate
	n        int
	word     func(i int) uint64 // bits of value i; nil for strings
	texts    []string
	bools    []bool
	distinct []uint64 // the dictionary: bits of numbers, places in texts
	index    []uint32
}

func newLeafValues(values any) (*leafValues, error) {
	switch v := values.(type) {
	case []float32:
		return &leafValues{kind: format.Float, width: 4, n: len(v), word: func(i int) uint64 { return uint64(math.Float32bits(v[i])) }}, nil
	case []float64:
		return &leafValues{kind: format.Double, width: 8, n: len(v), word: func(i int) uint64 { return math.Float64bits(v[i]) }}, nil
	case []int32:
		return &leafValues{kind: format.Int32, width: 4, n: len(v), word: func(i int) uint64 { return uint64(uint32(v[i])) }}, nil
	case []int64:
		return &leafValues{kind: format.Int64, width: 8, n: len(v), word: func(i int) uint64 { return uint64(v[i]) }}, nil
	case []bool:
		return &leafValues{kind: format.Boolean, width: 1, n: len(v), bools: v}, nil
	case []string:
		size := 0
		for _, s := range v {
			size += len(s) + 4
		}
		return &leafValues{kind: format.ByteArray, width: size/max(1, len(v)) + 1, n: len(v), texts: v}, nil
	}
	return nil, fmt.Errorf("values of type %T can not be stored", values)
}

// dictionary builds the dictionary when at most a quarter of the values are distinct.
func (v *leafValues) dictionary() bool {
	limit := v.n / 4
	if v.n < 8 || limit < 1 || v.bools != nil {
		return false
	}
	index := make([]uint32, v.n)
	if v.texts != nil {
		known := map[string]uint32{}
		for i, s := range v.texts {
			k, ok := known[s]
			if !ok {
				if len(v.distinct) == limit {
					v.distinct = nil
					return false
				}
				k = uint32(len(v.distinct))
				known[s], v.distinct = k, append(v.distinct, uint64(i))
			}
			index[i] = k
		}
		v.index = index
		return true
	}
	size := uint64(1) << bits.Len(uint(2*limit)) // at most half full
	table := make([]uint32, size)                // place in distinct, plus one
	for i := range index {
		w := v.word(i)
		for h := w * 0x9e3779b97f4a7c15 >> 20; ; h++ {
			slot := &table[h&(size-1)]
			if *slot == 0 {
				if len(v.distinct) == limit {
					v.distinct = nil
					return false
				}
				v.distinct = append(v.distinct, w)
				*slot = uint32(len(v.distinct))
			}
			if v.distinct[*slot-1] == w {
				index[i] = *slot - 1
				break
			}
		}
	}
	v.index = index
	return true
}

func (v *leafValues) plainDictionary(dst []byte) []byte {
	for _, d := range v.distinct {
		if v.texts != nil {
			dst = appendText(dst, v.texts[d])
		} else {
			dst = v.appendWord(dst, d)
		}
	}
	return dst
}

func appendText(dst []byte, s string) []byte {
	return append(binary.LittleEndian.AppendUint32(dst, uint32(len(s))), s...)
}

func (v *leafValues) appendWord(dst []byte, w uint64) []byte {
	if v.width == 4 {
		return binary.LittleEndian.AppendUint32(dst, uint32(w))
	}
	return binary.LittleEndian.AppendUint64(dst, w)
}

// append appends values [from, to), leaving out those that null marks.
func (v *leafValues) append(dst []byte, from, to int, null []bool) []byte {
	keep := func(i int) bool { return null == nil || !null[i-from] }
	if null != nil { // rare: only extra columns of a merge
		var picked []int
		for i := from; i < to; i++ {
			if keep(i) {
				picked = append(picked, i)
			}
		}
		return v.appendPicked(dst, len(picked), func(i int) int { return picked[i] })
	}
	return v.appendPicked(dst, to-from, func(i int) int { return from + i })
}

func (v *leafValues) appendPicked(dst []byte, n int, at func(int) int) []byte {
	switch {
	case v.distinct != nil:
		width := max(1, bits.Len(uint(len(v.distinct)-1)))
		dst = append(dst, byte(width))
		if len(v.distinct) == 1 && n > 0 {
			return append(binary.AppendUvarint(dst, uint64(n)<<1), 0)
		}
		return appendPacked(dst, n, width, func(i int) uint32 { return v.index[at(i)] })
	case v.bools != nil:
		start := len(dst)
		dst = append(dst, make([]byte, (n+7)/8)...)
		for i := range n {
			if v.bools[at(i)] {
				dst[start+i/8] |= 1 << (i % 8)
			}
		}
		return dst
	case v.texts != nil:
		for i := range n {
			dst = appendText(dst, v.texts[at(i)])
		}
		return dst
	}
	for i := range n {
		dst = v.appendWord(dst, v.word(at(i)))
	}
	return dst
}
