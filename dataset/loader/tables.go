package loader

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// tables reads the Parquet rows of a dataset's episodes. Safe for concurrent use.
type tables struct {
	files files
	mu    sync.Mutex
	open  []*table // most recently used last
}

// table is one data file and where the rows of each episode stand in it.
type table struct {
	path  string
	once  sync.Once
	file  *pq.File
	spans map[int][2]int
	err   error
}

// openTables bounds the data files kept open.
const openTables = 8

func (t *tables) table(ctx context.Context, path string) (*table, error) {
	t.mu.Lock()
	at := slices.IndexFunc(t.open, func(o *table) bool { return o.path == path })
	o := &table{path: path}
	if at >= 0 {
		o = t.open[at]
		t.open = slices.Delete(t.open, at, at+1)
	} else if len(t.open) == openTables {
		t.open = slices.Delete(t.open, 0, 1)
	}
	t.open = append(t.open, o)
	t.mu.Unlock()
	o.once.Do(func() { o.file, o.spans, o.err = t.read(ctx, path) })
	return o, o.err
}

func (t *tables) read(ctx context.Context, path string) (*pq.File, map[int][2]int, error) {
	b, err := t.files.open(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	if t.files.remote() {
		b = newBlocks(b)
	}
	f, err := pq.OpenReader(b, b.size(), t.files.name(path))
	if err != nil {
		return nil, nil, err
	}
	column, err := f.Read(dataset.EpisodeIndex, 0, f.Rows())
	if err != nil {
		return nil, nil, err
	}
	ids, ok := column.Values.([]int64)
	if !ok || len(ids) != f.Rows() || len(column.Null) > 0 {
		return nil, nil, fmt.Errorf("column %q of %s is no complete list of whole numbers", dataset.EpisodeIndex, t.files.name(path))
	}
	spans := map[int][2]int{}
	for r := 0; r < len(ids); {
		end := r + 1
		for end < len(ids) && ids[end] == ids[r] {
			end++
		}
		if _, twice := spans[int(ids[r])]; twice {
			return nil, nil, fmt.Errorf("rows of episode %d are in two places of %s", ids[r], t.files.name(path))
		}
		spans[int(ids[r])] = [2]int{r, end}
		r = end
	}
	return f, spans, nil
}

// column reads one numeric column of an episode in the type the file has, length*dim values.
func (t *tables) column(ctx context.Context, e *source, f dataset.Feature) (any, error) {
	o, err := t.table(ctx, e.dataPath)
	if err != nil {
		return nil, err
	}
	span, ok := o.spans[e.index]
	if !ok || span[1]-span[0] != e.length {
		return nil, fmt.Errorf("%s has %d rows of it, the metadata says %d", t.files.name(e.dataPath), span[1]-span[0], e.length)
	}
	d, err := o.file.Read(f.Name, span[0], span[1])
	if err != nil {
		return nil, err
	}
	if len(d.Null) > 0 {
		return nil, fmt.Errorf("column %q is null in frame %d", f.Name, d.Null[0])
	}
	for r := range e.length {
		if n := d.Starts[r+1] - d.Starts[r]; n != f.Dim() {
			return nil, fmt.Errorf("column %q has %d values in frame %d, its shape %v wants %d", f.Name, n, r, f.Shape, f.Dim())
		}
	}
	return d.Values, nil
}

// source says where an episode comes from while stores are built.
type source struct {
	index, length int
	dataPath      string
}
