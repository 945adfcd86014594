package dataset

import (
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// table is the episode table of a v3.0 dataset, held by column: 1,200,000 episodes of three cameras take about 100 MB. Statistics
// and the columns that the format does not define stay on disk until they are asked for, a group of rows at a time.
type table struct {
	root    string
	info    Info
	cameras []string
	index   []int32 // nil: row i is episode i
	length  []int32
	from    []int64 // dataset_from_index
	data    []fileRef
	videos  []videoColumns // by camera
	tasks   taskLists
	hashed  bool // every file has the column of content hashes
	files   []tableFile

	mu     sync.Mutex
	extras map[int]fileExtras // by file
	blocks []*statsBlock      // the statistics read last, at most statsBlocks of them
}

// fileExtras are the columns of a file that are read when they are asked for.
type fileExtras struct {
	rows    []map[string]any // what the format does not define
	content []string
}

// fileRef is a fileIndex in four bytes.
type fileRef struct{ chunk, file uint16 }

func (r fileRef) index() fileIndex { return fileIndex{int(r.chunk), int(r.file)} }

// videoColumns are the four columns of one camera; empty when the table lacks them.
type videoColumns struct {
	file     []fileRef
	from, to []float64
}

// taskLists holds one list of texts for each episode, each text once.
type taskLists struct {
	texts []string
	start []int32
	id    []int32
}

// tableFile is one file of meta/episodes.
type tableFile struct {
	path        string
	first, rows int
	groups      []int // rows of each row group
	pos         fileRef
}

// readTable reads the columns that place the episodes, several files at a time.
func readTable(root string, info Info) (*table, error) {
	t := &table{root: root, info: info, extras: map[int]fileExtras{}}
	for _, c := range info.cameras() {
		t.cameras = append(t.cameras, c.Name)
	}
	paths := episodeFiles(root)
	if len(paths) == 0 {
		return nil, fmt.Errorf("meta/episodes holds no episodes, info.json counts %d", info.TotalEpisodes)
	}
	parts := make([]*table, len(paths))
	var g errgroup.Group
	g.SetLimit(4)
	for i, path := range paths {
		g.Go(func() (err error) {
			parts[i], err = t.readFile(path)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	total := 0
	for _, p := range parts {
		total += len(p.length)
	}
	t.reserve(total)
	for i, p := range parts {
		t.join(p)
		parts[i] = nil
	}
	if len(t.length) == 0 {
		return nil, fmt.Errorf("meta/episodes holds no episodes, info.json counts %d", info.TotalEpisodes)
	}
	t.dropOrder()
	return t, t.checkPaths()
}

// readFile reads one file into a table of its own.
func (t *table) readFile(path string) (*table, error) {
	f, err := pq.Open(filepath.Join(t.root, path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c := &columns{f: f}
	p := &table{index: narrow(c.ints("episode_index")), length: narrow(c.ints("length")), data: refs(c, "data/")}
	for _, v := range c.ints("dataset_from_index") {
		p.from = append(p.from, int64(v))
	}
	tasks := c.read("tasks")
	p.hashed = f.Has(contentColumn)
	for _, camera := range t.cameras {
		prefix := "videos/" + camera + "/"
		var v videoColumns
		if f.Has(prefix + "chunk_index") {
			v = videoColumns{refs(c, prefix), c.floats(prefix + "from_timestamp"), c.floats(prefix + "to_timestamp")}
		}
		p.videos = append(p.videos, v)
	}
	file := tableFile{path: path, rows: f.Rows(), groups: f.RowGroups()}
	if f.Has("meta/episodes/chunk_index") && f.Has("meta/episodes/file_index") && f.Rows() > 0 {
		file.pos = refs(c, "meta/episodes/")[0]
	}
	p.files = []tableFile{file}
	if c.err != nil {
		return nil, fmt.Errorf("read %s: %w", path, c.err)
	}
	texts, _ := tasks.Values.([]string)
	if len(tasks.Starts) != f.Rows()+1 {
		return nil, fmt.Errorf("read %s: column %q is no list of texts", path, "tasks")
	}
	p.tasks.set(texts, tasks.Starts)
	return p, nil
}

func narrow(v []int) []int32 {
	return mapSlice(v, func(x int) int32 { return int32(min(x, math.MaxInt32)) })
}

func refs(c *columns, prefix string) []fileRef {
	chunk, file := c.ints(prefix+"chunk_index"), c.ints(prefix+"file_index")
	out := make([]fileRef, min(len(chunk), len(file)))
	for i := range out {
		if max(chunk[i], file[i]) > math.MaxUint16 {
			c.err = fmt.Errorf("column %q is %d in row %d: file numbers end at %d", prefix, max(chunk[i], file[i]), i, math.MaxUint16)
			return out
		}
		out[i] = fileRef{uint16(chunk[i]), uint16(file[i])}
	}
	return out
}

func (l *taskLists) set(texts []string, starts []int) {
	known := map[string]int32{}
	for _, s := range starts {
		l.start = append(l.start, int32(s))
	}
	for _, s := range texts {
		l.id = append(l.id, l.number(known, s))
	}
}

func (l *taskLists) number(known map[string]int32, s string) int32 {
	k, ok := known[s]
	if !ok {
		k = int32(len(l.texts))
		known[s], l.texts = k, append(l.texts, s)
	}
	return k
}

func (l *taskLists) at(i int) []string {
	var out []string
	for _, k := range l.id[l.start[i]:l.start[i+1]] {
		out = append(out, l.texts[k])
	}
	return out
}

func (l *taskLists) join(m taskLists) {
	known := map[string]int32{}
	for i, s := range l.texts {
		known[s] = int32(i)
	}
	if len(l.start) == 0 {
		l.start = []int32{0}
	}
	base := int32(len(l.id))
	for _, s := range m.start[1:] {
		l.start = append(l.start, base+s)
	}
	for _, k := range m.id {
		l.id = append(l.id, l.number(known, m.texts[k]))
	}
}

// reserve makes room for n rows.
func (t *table) reserve(n int) {
	t.index, t.length = make([]int32, 0, n), make([]int32, 0, n)
	t.from, t.data = make([]int64, 0, n), make([]fileRef, 0, n)
	t.videos = make([]videoColumns, len(t.cameras))
	for i := range t.videos {
		t.videos[i] = videoColumns{make([]fileRef, 0, n), make([]float64, 0, n), make([]float64, 0, n)}
	}
	t.tasks.start, t.tasks.id = make([]int32, 0, n+1), make([]int32, 0, n)
}

// join appends the rows of another part.
func (t *table) join(p *table) {
	first := len(t.length)
	t.hashed = (t.hashed || first == 0) && p.hashed
	t.index, t.length = append(t.index, p.index...), append(t.length, p.length...)
	t.from, t.data = append(t.from, p.from...), append(t.data, p.data...)
	for i, v := range p.videos {
		if len(t.videos[i].file) != first || len(v.file) != len(p.length) { // one part without the columns: none has them
			t.videos[i] = videoColumns{}
			continue
		}
		w := &t.videos[i]
		w.file, w.from, w.to = append(w.file, v.file...), append(w.from, v.from...), append(w.to, v.to...)
	}
	t.tasks.join(p.tasks)
	f := p.files[0]
	f.first = first
	t.files = append(t.files, f)
}

// dropOrder forgets the numbers when row i is episode i, as it has to be.
func (t *table) dropOrder() {
	for i, k := range t.index {
		if int(k) != i {
			return
		}
	}
	t.index = nil
}

// checkPaths expands each distinct file number once: a template must not lead out of the dataset.
func (t *table) checkPaths() error {
	for i, r := range t.data {
		if i > 0 && r == t.data[i-1] {
			continue
		}
		if p := r.index().path(t.info.DataPath, ""); !inside(p) {
			return fmt.Errorf("episode %d lies outside the dataset at %q", t.number(i), p)
		}
	}
	for c, v := range t.videos {
		for i, r := range v.file {
			if i > 0 && r == v.file[i-1] {
				continue
			}
			if p := r.index().path(t.info.VideoPath, t.cameras[c]); !inside(p) {
				return fmt.Errorf("video of episode %d lies outside the dataset at %q", t.number(i), p)
			}
		}
	}
	return nil
}

func (t *table) number(row int) int {
	if t.index == nil {
		return row
	}
	return int(t.index[row])
}

// row finds the row of an episode, -1 when there is none.
func (t *table) row(episode int) int {
	if t.index == nil {
		if episode < 0 || episode >= len(t.length) {
			return -1
		}
		return episode
	}
	return slices.Index(t.index, int32(episode))
}

// meta assembles one row, without statistics.
func (t *table) meta(row int) (EpisodeMeta, error) {
	e := EpisodeMeta{Index: t.number(row), Length: int(t.length[row]), FromIndex: int(t.from[row]), Tasks: t.tasks.at(row),
		data: t.data[row].index(), Videos: map[string]VideoSpan{}}
	e.DataPath = e.data.path(t.info.DataPath, "")
	for c, v := range t.videos {
		if len(v.file) == 0 {
			continue // the validator reports it; other columns stay readable
		}
		s := VideoSpan{FromTime: v.from[row], ToTime: v.to[row], FirstFrame: int(math.Round(v.from[row] * float64(t.info.FPS))), file: v.file[row].index()}
		s.Path = s.file.path(t.info.VideoPath, t.cameras[c])
		e.Videos[t.cameras[c]] = s
	}
	e.meta = t.files[t.fileOf(row)].pos.index()
	var err error
	e.Extra, e.content, err = t.extra(row)
	return e, err
}

// fileOf is the place in files of the file that holds a row.
func (t *table) fileOf(row int) int {
	return sort.Search(len(t.files), func(i int) bool { return t.files[i].first > row }) - 1
}

// extraFiles bounds the files whose extra columns are kept in memory.
const extraFiles = 16

// extra reads the columns that the format does not define, a file at a time.
func (t *table) extra(row int) (extra map[string]any, content string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.fileOf(row)
	rows, ok := t.extras[k]
	if !ok {
		if rows, err = t.readExtras(t.files[k]); err != nil {
			return nil, "", err
		}
		if len(t.extras) >= extraFiles {
			clear(t.extras)
		}
		t.extras[k] = rows
	}
	at := row - t.files[k].first
	if at < len(rows.content) {
		content = rows.content[at]
	}
	if len(rows.rows) == 0 {
		return map[string]any{}, content, nil
	}
	return rows.rows[at], content, nil
}

func (t *table) readExtras(file tableFile) (fileExtras, error) {
	f, err := pq.Open(filepath.Join(t.root, file.path))
	if err != nil {
		return fileExtras{}, err
	}
	defer f.Close()
	var x fileExtras
	if f.Has(contentColumn) {
		if d, err := f.Read(contentColumn, 0, f.Rows()); err == nil {
			x.content, _ = d.Values.([]string)
		}
	}
	var out []EpisodeMeta
	for _, c := range f.Columns() {
		if isEpisodeColumn(c.Name) || strings.HasPrefix(c.Name, "stats/") || strings.HasPrefix(c.Name, "meta/") {
			continue
		}
		if out == nil {
			out = make([]EpisodeMeta, f.Rows())
			for i := range out {
				out[i].Extra = map[string]any{}
			}
		}
		readExtra(f, c, out)
	}
	x.rows = mapSlice(out, func(e EpisodeMeta) map[string]any { return e.Extra })
	return x, nil
}

// statsBlock is the statistics of some rows of one file.
type statsBlock struct {
	first int
	stats []map[string]Stats
}

// statsRows bounds the rows whose statistics are read at once.
const statsRows = 1024

// statsBlocks bounds the parts that are kept: while episodes have files of their own, each is one.
const statsBlocks = 64

// stats reads the statistics of one row with those of its neighbours.
func (t *table) stats(row int) (map[string]Stats, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, b := range t.blocks {
		if row >= b.first && row < b.first+len(b.stats) {
			return b.stats[row-b.first], nil
		}
	}
	file := t.files[t.fileOf(row)]
	lo, hi := 0, 0
	for _, n := range file.groups {
		if lo = hi; lo+n > row-file.first {
			hi += n
			break
		}
		hi += n
	}
	for hi-lo > statsRows { // halve a large row group around the row
		if mid := lo + (hi-lo+1)/2; row-file.first < mid {
			hi = mid
		} else {
			lo = mid
		}
	}
	f, err := pq.Open(filepath.Join(t.root, file.path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := &statsBlock{first: file.first + lo, stats: make([]map[string]Stats, hi-lo)}
	for i := range b.stats {
		b.stats[i] = map[string]Stats{}
	}
	for _, c := range f.Columns() {
		if strings.HasPrefix(c.Name, "stats/") {
			readStatRows(f, c.Name, lo, hi, b.stats)
		}
	}
	for _, s := range b.stats {
		loadStats(t.info.Features, s)
	}
	t.blocks = append(t.blocks, b)
	for len(t.blocks) > 1 && (len(t.blocks) > statsBlocks || t.rowsHeld() > 2*statsRows) {
		t.blocks = t.blocks[1:]
	}
	return b.stats[row-b.first], nil
}

func (t *table) rowsHeld() int {
	n := 0
	for _, b := range t.blocks {
		n += len(b.stats)
	}
	return n
}

// NumEpisodes is the number of episodes.
func (d *Dataset) NumEpisodes() int {
	if d.table != nil {
		return len(d.table.length)
	}
	return len(d.episodes)
}

// Length is the number of rows of episode i of a dataset whose episodes are numbered from 0 without gaps, in constant time.
func (d *Dataset) Length(i int) int {
	if d.table != nil {
		return int(d.table.length[i])
	}
	return d.episodes[i].Length
}

// Locate finds the episode that holds a row by the row's number over all episodes, and the row's number in it: a binary search
// that allocates nothing. A row beyond the last gives the end of the last episode.
func (d *Dataset) Locate(row int) (episode, frame int) {
	if d.table != nil {
		from := d.table.from
		lo, hi := 0, len(from) // from[lo] <= row < from[hi]
		for hi-lo > 1 {
			if mid := int(uint(lo+hi) >> 1); from[mid] <= int64(row) {
				lo = mid
			} else {
				hi = mid
			}
		}
		return d.table.number(lo), row - int(from[lo])
	}
	i := sort.Search(len(d.episodes), func(i int) bool { return d.episodes[i].FromIndex > row }) - 1
	return d.episodes[i].Index, row - d.episodes[i].FromIndex
}

// All goes through the episodes in the order of the table, without statistics; an episode whose extra columns can not be read
// comes without them. It holds one row at a time, however many there are.
func (d *Dataset) All() iter.Seq[EpisodeMeta] {
	return func(yield func(EpisodeMeta) bool) {
		for i := range d.NumEpisodes() {
			if e, _ := d.at(i); !yield(e) {
				return
			}
		}
	}
}

// At is the episode at place i of the table, in order of index, 0 <= i < NumEpisodes; without gaps its Index is i. An episode
// whose extra columns can not be read comes without them, and the error says why.
func (d *Dataset) At(i int) (EpisodeMeta, error) { return d.at(i) }

// at is row i of the table.
func (d *Dataset) at(i int) (EpisodeMeta, error) {
	if d.table != nil {
		return d.table.meta(i)
	}
	return d.episodes[i], nil
}

// statsAt is EpisodeStats by the place in the table.
func (d *Dataset) statsAt(i int) (map[string]Stats, error) {
	if d.table != nil {
		return d.table.stats(i)
	}
	return d.episodes[i].Stats, nil
}

// EpisodeStats reads the statistics of an episode by feature; a feature whose statistics are absent or broken is not in it.
// Reading them in order costs little, since neighbours are read together.
func (d *Dataset) EpisodeStats(episode int) (map[string]Stats, error) {
	if d.table != nil {
		row := d.table.row(episode)
		if row < 0 {
			return nil, d.noEpisode(episode)
		}
		return d.table.stats(row)
	}
	e, err := d.Episode(episode)
	return e.Stats, err
}
