package faultplant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// Kind is one kind of fault.
type Kind struct {
	// Name such as "pose-jump".
	Name string
	// Group: structure, types, indices, time, video, tasks, statistics or content.
	Group string
	// Doc says what happens, of what size, and where it was seen.
	Doc string

	plant func(s *site) error
}

// Fault is one planted fault.
type Fault struct {
	Kind    string `json:"kind"`
	Episode int    `json:"episode"`
	// Frame is the row at which it begins, Frames the number of rows it lasts; 0 and the episode's length when it is all of it.
	Frame  int `json:"frame"`
	Frames int `json:"frames"`
	// Feature that is wrong, empty when it is none alone.
	Feature string `json:"feature,omitempty"`
	// Note has the numbers.
	Note string `json:"note"`
	// Files that were changed or removed, relative to the dataset, and Columns of the episode's rows.
	Files   []string `json:"files"`
	Columns []string `json:"columns,omitempty"`
}

// Kinds lists all kinds in the order of their groups.
func Kinds() []Kind {
	return slices.Concat(structureKinds, typeKinds, indexKinds, timeKinds, videoKinds, taskKinds, statisticsKinds, handKinds, gripperKinds, pictureKinds)
}

// errNowhere says that an episode has no place for a fault.
var errNowhere = errors.New("the episode has no place for this fault")

// Planter plants faults in copies of one base. Not safe for concurrent use.
type Planter struct {
	root    string
	d       *dataset.Dataset
	metas   map[int]dataset.EpisodeMeta
	tables  map[int]string             // file of meta/episodes by episode
	columns map[string][][]float64     // numbers of the base by feature and episode, read when they are asked for
	cameras map[string][]dataset.Stats // picture statistics of the base, likewise
}

// Open opens the base at root.
func Open(root string) (*Planter, error) {
	p := &Planter{root: root, metas: map[int]dataset.EpisodeMeta{}, columns: map[string][][]float64{}, cameras: map[string][]dataset.Stats{}}
	var err error
	if p.d, err = dataset.Open(root); err != nil {
		return nil, err
	}
	if p.tables, err = tableFiles(root); err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for e := range p.d.All() {
		p.metas[e.Index] = e
		paths := []string{e.DataPath}
		for _, v := range e.Videos {
			paths = append(paths, v.Path)
		}
		for _, rel := range paths {
			if other, twice := seen[rel]; twice {
				return nil, fmt.Errorf("%s of %s holds episodes %d and %d: faults are planted where every episode has its own files", rel, root, other, e.Index)
			}
			seen[rel] = e.Index
		}
	}
	if f, err := pq.Open(filepath.Join(root, p.tables[0])); err == nil {
		hashed := f.Has(hashColumn)
		f.Close()
		if hashed {
			return nil, fmt.Errorf("%s keeps hashes of its rows: plant faults in a copy made by Base", root)
		}
	}
	return p, nil
}

// planting is a copy in which one kind of fault is being planted.
type planting struct {
	*Planter
	ctx context.Context
	dst string
	// values and pictures are what was changed as if recorded, by feature and episode: meta/stats.json follows.
	values   map[string]map[int][]float64
	pictures map[string]map[int]dataset.Stats
}

// Plant makes a copy of the base in the new folder dst and plants faults of a kind in n random episodes, or in as many as have a
// place for it. The same seed gives the same faults.
func (p *Planter) Plant(ctx context.Context, dst, kind string, seed uint64, n int) ([]Fault, error) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == kind })
	if i < 0 {
		names := make([]string, len(all))
		for i, k := range all {
			names[i] = k.Name
		}
		return nil, fmt.Errorf("no kind of fault %q; there are %s", kind, strings.Join(names, ", "))
	}
	if err := link(p.root, dst); err != nil {
		return nil, err
	}
	c := &planting{Planter: p, ctx: ctx, dst: dst, values: map[string]map[int][]float64{}, pictures: map[string]map[int]dataset.Stats{}}
	h := fnv.New64a()
	h.Write([]byte(kind))
	order := rand.New(rand.NewPCG(seed, h.Sum64())).Perm(p.d.NumEpisodes())
	var out []Fault
	for _, episode := range order {
		if len(out) == n {
			break
		}
		if err := ctx.Err(); err != nil {
			return out, err
		}
		f, err := c.plantOne(all[i], episode, rand.New(rand.NewPCG(seed^h.Sum64(), uint64(episode))))
		if errors.Is(err, errNowhere) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("plant %s in episode %d: %w", kind, episode, err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Fault) int { return a.Episode - b.Episode })
	return out, c.totals()
}

// Base makes a copy of the clean dataset at src in the new folder dst, without the hashes of rows that pinch keeps: they would betray
// every later change, and other programs write none. Every episode must have files of its own.
func Base(ctx context.Context, src, dst string) error {
	if err := link(src, dst); err != nil {
		return err
	}
	tables, err := tableFiles(dst)
	if err != nil {
		return err
	}
	for _, rel := range tables {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := rewrite(filepath.Join(dst, rel), 0, nil, nil, []string{hashColumn}); err != nil {
			return err
		}
	}
	return nil
}

// hashColumn holds the hash of an episode's content.
const hashColumn = "content_sha256"

// link makes a copy of a folder whose files are hard links where the file system allows it.
func link(src, dst string) error {
	if _, err := os.Lstat(dst); err == nil {
		return fmt.Errorf("copy %s: %s is there already", src, dst)
	}
	return filepath.WalkDir(src, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("copy %s: %w", src, err)
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		switch {
		case e.IsDir() && e.Name() == ".pinch":
			return fs.SkipDir
		case e.IsDir():
			return os.MkdirAll(to, 0o755)
		case !e.Type().IsRegular():
			return nil
		}
		if os.Link(path, to) == nil {
			return nil
		}
		return copyFile(path, to)
	})
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return replace(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// tableFiles finds the file of meta/episodes of each episode; each must hold one.
func tableFiles(root string) (map[int]string, error) {
	paths, err := filepath.Glob(filepath.Join(root, "meta/episodes/*/*.parquet"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no meta/episodes: faults are planted in datasets of v3.0", root)
	}
	out := map[int]string{}
	for _, path := range paths {
		index, err := tableEpisode(path)
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		out[index] = filepath.ToSlash(rel)
	}
	return out, nil
}

func tableEpisode(path string) (int, error) {
	f, err := pq.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	column, err := f.Read(dataset.EpisodeIndex, 0, f.Rows())
	if err != nil {
		return 0, err
	}
	numbers, _ := column.Values.([]int64)
	if len(numbers) != 1 {
		return 0, fmt.Errorf("%s holds %d episodes: faults are planted where every episode has its own files", path, len(numbers))
	}
	return int(numbers[0]), nil
}

// plantOne plants one fault and says what changed.
func (p *planting) plantOne(k Kind, episode int, rng *rand.Rand) (Fault, error) {
	meta := p.metas[episode]
	s := &site{p: p, ep: meta, n: meta.Length, fps: float64(p.d.Info().FPS), rng: rng, values: map[string]any{},
		fault: Fault{Kind: k.Name, Episode: episode, Frames: meta.Length}}
	if err := k.plant(s); err != nil {
		return Fault{}, err
	}
	if err := s.save(); err != nil {
		return Fault{}, err
	}
	return s.fault, nil
}

// totals computes what meta/stats.json says of the changed features anew.
func (p *planting) totals() error {
	if len(p.values)+len(p.pictures) == 0 {
		return nil
	}
	path := filepath.Join(p.dst, "meta/stats.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := p.readNumbers(); err != nil {
		return err
	}
	all := map[string]json.RawMessage{}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	for _, f := range p.d.Features() {
		stats, err := p.total(f)
		if err != nil {
			return err
		}
		if stats.Count == 0 {
			continue
		}
		one, err := dataset.EncodeStats([]dataset.Feature{f}, map[string]dataset.Stats{f.Name: stats})
		if err != nil {
			return err
		}
		if err := json.Unmarshal(one, &all); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(all, "", "    ")
	if err != nil {
		return err
	}
	return replace(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// total summarises one changed feature over all episodes; zero for one that is as it was.
func (p *planting) total(f dataset.Feature) (dataset.Stats, error) {
	if changed := p.pictures[f.Name]; changed != nil {
		if err := p.readCamera(f); err != nil {
			return dataset.Stats{}, err
		}
		parts := slices.Clone(p.cameras[f.Name])
		for e, s := range changed {
			parts[e] = s
		}
		return dataset.MergePictureStats(parts), nil
	}
	changed := p.values[f.Name]
	if changed == nil {
		return dataset.Stats{}, nil
	}
	var values []float64
	for e, v := range p.columns[f.Name] {
		if w, ok := changed[e]; ok {
			v = w
		}
		values = append(values, v...)
	}
	return dataset.ColumnStats(values, f.Dim()), nil
}

// readNumbers reads the changed features of all episodes, one episode after the other, as each has a file of its own.
func (p *planting) readNumbers() error {
	var names []string
	for name := range p.values {
		if p.columns[name] == nil {
			p.columns[name] = make([][]float64, p.d.NumEpisodes())
			names = append(names, name)
		}
	}
	for e := range p.d.NumEpisodes() {
		for _, name := range names {
			var err error
			if p.columns[name][e], err = dataset.ReadColumn[float64](p.d, name, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Planter) readCamera(f dataset.Feature) error {
	if p.cameras[f.Name] != nil {
		return nil
	}
	all := make([]dataset.Stats, p.d.NumEpisodes())
	for e := range all {
		var err error
		if all[e], err = tableStats(filepath.Join(p.root, p.tables[e]), f.Name); err != nil {
			return err
		}
	}
	p.cameras[f.Name] = all
	return nil
}

// tableStats reads the statistics of one feature in a file of one episode.
func tableStats(path, feature string) (s dataset.Stats, err error) {
	t, err := pq.Open(path)
	if err != nil {
		return s, err
	}
	defer t.Close()
	for part, to := range statParts(&s) {
		c, err := t.Read("stats/"+feature+"/"+part, 0, 1)
		if err != nil {
			return s, err
		}
		*to, _ = c.Values.([]float64)
	}
	c, err := t.Read("stats/"+feature+"/count", 0, 1)
	if err != nil {
		return s, err
	}
	if n, ok := c.Values.([]int64); ok && len(n) == 1 {
		s.Count = n[0]
	}
	return s, nil
}

// replace writes a file under another name and lets it take the place of the one at path. Unlike atomicfile it does not wait for the
// disk: a copy with faults that a power cut spoils is made again.
func replace(path string, fill func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(fill(f), f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// NumEpisodes is the number of episodes of the base.
func (p *Planter) NumEpisodes() int { return p.d.NumEpisodes() }

// Files gives the episode that each file of the base belongs to, by its path relative to the root.
func (p *Planter) Files() map[string]int {
	out := map[string]int{}
	for index, e := range p.metas {
		out[e.DataPath], out[p.tables[index]] = index, index
		for _, v := range e.Videos {
			out[v.Path] = index
		}
	}
	return out
}
