package loader

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/internal/atomicfile"
)

// columnFile is one feature of all episodes of a dataset, row after row, mapped into memory. The file is made once:
//
//	<cache>/<key, 16 hex>/columns/<feature>.col
//
//	byte  0  "PINCHCOL"
//	      8  version (1), element type (below), elements per row, 0: uint32 each
//	     24  rows: uint64
//	     32  zeros up to 64
//	     64  rows * elements values, little-endian, in the order of the episodes
type columnFile struct {
	kind  uint32
	dim   int
	rows  int64
	data  []byte // values
	unmap func() error
}

// Element types of a column file.
const (
	kindFloat32 = 1 + iota
	kindFloat64
	kindInt32
	kindInt64
	kindBool // one byte, 0 or 1
)

const (
	columnMagic   = "PINCHCOL"
	columnVersion = 1
	columnHeader  = 64
)

func kindBytes(kind uint32) int64 {
	switch kind {
	case kindFloat32, kindInt32:
		return 4
	case kindFloat64, kindInt64:
		return 8
	case kindBool:
		return 1
	}
	return 0
}

// openColumn maps a column file and checks that it is whole.
func openColumn(path string) (*columnFile, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	data, unmap, err := mapFile(path, int(st.Size()))
	if err != nil {
		return nil, err
	}
	c := &columnFile{unmap: unmap}
	if len(data) >= columnHeader {
		c.kind, c.dim, c.rows = binary.LittleEndian.Uint32(data[12:]), int(binary.LittleEndian.Uint32(data[16:])), int64(binary.LittleEndian.Uint64(data[24:]))
	}
	if len(data) < columnHeader || string(data[:8]) != columnMagic || binary.LittleEndian.Uint32(data[8:]) != columnVersion || kindBytes(c.kind) == 0 ||
		int64(len(data))-columnHeader != c.rows*int64(c.dim)*kindBytes(c.kind) {
		_ = unmap()
		return nil, fmt.Errorf("column store %s is not whole", path)
	}
	c.data = data[columnHeader:]
	return c, nil
}

// float gives element i of all as a number.
func (c *columnFile) float(i int64) float64 {
	switch c.kind {
	case kindFloat32:
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(c.data[4*i:])))
	case kindFloat64:
		return math.Float64frombits(binary.LittleEndian.Uint64(c.data[8*i:]))
	case kindInt32:
		return float64(int32(binary.LittleEndian.Uint32(c.data[4*i:])))
	case kindInt64:
		return float64(int64(binary.LittleEndian.Uint64(c.data[8*i:])))
	}
	return float64(c.data[i])
}

// row writes one row as float32; a number that is not finite is an error.
func (c *columnFile) row(dst []float32, row int64) error {
	for k := range dst {
		v := float32(c.float(row*int64(c.dim) + int64(k)))
		if v-v != 0 {
			return fmt.Errorf("element %d is %v, not a finite number; `pinch dataset check` lists such rows", k, v)
		}
		dst[k] = v
	}
	return nil
}

// columnBuild makes the missing column files of a dataset in one pass over its episodes.
type columnBuild struct {
	tables   *tables
	folder   string
	episodes []source
	rows     int64
	progress func(done, total int)
}

// ensure makes the files of the features that are not there.
func (b *columnBuild) ensure(ctx context.Context, features []dataset.Feature) error {
	var missing []dataset.Feature
	for _, f := range features {
		c, err := openColumn(columnPath(b.folder, f.Name))
		if err != nil || c.rows != b.rows || c.dim != f.Dim() {
			missing = append(missing, f)
		}
		if err == nil {
			_ = c.unmap()
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if err := os.MkdirAll(b.folder, 0o755); err != nil {
		return fmt.Errorf("make column store: %w", err)
	}
	return b.write(ctx, missing, nil)
}

func columnPath(folder, feature string) string { return filepath.Join(folder, feature+".col") }

// write opens one file after the other and then fills them all, so that each episode is read once. All files get their names
// when all are complete, or none does.
func (b *columnBuild) write(ctx context.Context, features []dataset.Feature, open []*bufio.Writer) error {
	if len(open) < len(features) {
		return atomicfile.Write(atomicfile.OS, columnPath(b.folder, features[len(open)].Name), 0o644, func(w io.Writer) error {
			buf := bufio.NewWriterSize(w, 1<<18)
			if err := b.write(ctx, features, append(slices.Clone(open), buf)); err != nil {
				return err
			}
			return buf.Flush()
		})
	}
	kinds := make([]uint32, len(features))
	for i := range b.episodes {
		if err := ctx.Err(); err != nil {
			return err
		}
		for k, f := range features {
			values, err := b.tables.column(ctx, &b.episodes[i], f)
			if err == nil {
				err = b.add(open[k], values, &kinds[k], f)
			}
			if err != nil {
				return fmt.Errorf("episode %d: %w", b.episodes[i].index, err)
			}
		}
		if b.progress != nil {
			b.progress(i+1, len(b.episodes))
		}
	}
	return nil
}

// add appends the values of one episode, after the header before the first.
func (b *columnBuild) add(w io.Writer, values any, kind *uint32, f dataset.Feature) error {
	k := kindOf(values)
	if k == 0 {
		return fmt.Errorf("feature %q (%s) is no number", f.Name, f.DType)
	}
	if *kind == 0 {
		h := make([]byte, 0, columnHeader)
		h = append(h, columnMagic...)
		for _, v := range []uint32{columnVersion, k, uint32(f.Dim()), 0} {
			h = binary.LittleEndian.AppendUint32(h, v)
		}
		h = binary.LittleEndian.AppendUint64(h, uint64(b.rows))
		if _, err := w.Write(h[:columnHeader]); err != nil {
			return err
		}
		*kind = k
	}
	if k != *kind {
		return fmt.Errorf("column %q has another element type than in earlier files", f.Name)
	}
	return binary.Write(w, binary.LittleEndian, values)
}

func kindOf(values any) uint32 {
	switch values.(type) {
	case []float32:
		return kindFloat32
	case []float64:
		return kindFloat64
	case []int32:
		return kindInt32
	case []int64:
		return kindInt64
	case []bool:
		return kindBool
	}
	return 0
}

// keyOf names the content that a cache belongs to: the dataset's identity where that is cheap to know, else the names, sizes and
// versions of its files. Hashing the content means reading every video once; the answer is kept beside the caches and found
// again by the files' names, sizes and times.
func keyOf(ds *dataset.Dataset, local bool, cache string, lists ...[]fileInfo) (string, error) {
	print := fingerprint(lists...)
	var bytes int64
	for _, list := range lists {
		for _, f := range list {
			bytes += f.size
		}
	}
	if !local || bytes > hashedBytes {
		return print[:16], nil
	}
	memo := filepath.Join(cache, "identities.json")
	known := map[string]string{}
	if data, err := os.ReadFile(memo); err == nil {
		_ = json.Unmarshal(data, &known) // a broken file only costs another hash
	}
	if id := known[print]; len(id) >= 16 {
		return id[:16], nil
	}
	id, err := ds.Identity()
	if err != nil || len(id) < 16 { // an incomplete copy has none
		return print[:16], nil
	}
	if len(known) > 1000 {
		clear(known)
	}
	known[print] = id
	data, err := json.Marshal(known)
	if err == nil {
		err = os.MkdirAll(cache, 0o755)
	}
	if err == nil {
		err = atomicfile.WriteFile(memo, data, 0o644)
	}
	return id[:16], err
}

// hashedBytes bounds the datasets whose content is hashed to name their caches: some seconds of reading.
const hashedBytes = 4 << 30
