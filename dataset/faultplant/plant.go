package faultplant

import (
	"context"
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
	"github.com/pinch-robotics/pinch/internal/atomicfile"
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

// planting is a copy in which one kind of fault is being planted.
type planting struct {
	ctx    context.Context
	root   string
	d      *dataset.Dataset
	tables map[int]string // file of meta/episodes by episode
	restat bool           // rows were changed consistently: meta/stats.json has to follow
}

// Plant makes a copy of the base at src in the new folder dst and plants faults of a kind in n random episodes, or in as many as have
// a place for it. The same seed gives the same faults.
func Plant(ctx context.Context, src, dst, kind string, seed uint64, n int) ([]Fault, error) {
	all := Kinds()
	i := slices.IndexFunc(all, func(k Kind) bool { return k.Name == kind })
	if i < 0 {
		names := make([]string, len(all))
		for i, k := range all {
			names[i] = k.Name
		}
		return nil, fmt.Errorf("no kind of fault %q; there are %s", kind, strings.Join(names, ", "))
	}
	p, err := openCopy(ctx, src, dst)
	if err != nil {
		return nil, err
	}
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
		f, err := p.plantOne(all[i], episode, rand.New(rand.NewPCG(seed^h.Sum64(), uint64(episode))))
		if errors.Is(err, errNowhere) {
			continue
		}
		if err != nil {
			return out, fmt.Errorf("plant %s in episode %d: %w", kind, episode, err)
		}
		out = append(out, f)
	}
	slices.SortFunc(out, func(a, b Fault) int { return a.Episode - b.Episode })
	if p.restat {
		return out, p.totals()
	}
	return out, nil
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

func openCopy(ctx context.Context, src, dst string) (*planting, error) {
	if err := link(src, dst); err != nil {
		return nil, err
	}
	p := &planting{ctx: ctx, root: dst}
	var err error
	if p.d, err = dataset.Open(dst); err != nil {
		return nil, err
	}
	if p.tables, err = tableFiles(dst); err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for e := range p.d.All() {
		paths := []string{e.DataPath}
		for _, v := range e.Videos {
			paths = append(paths, v.Path)
		}
		for _, rel := range paths {
			if other, twice := seen[rel]; twice {
				return nil, fmt.Errorf("%s holds episodes %d and %d of %s: faults are planted where every episode has its own files", rel, other, e.Index, src)
			}
			seen[rel] = e.Index
		}
	}
	if f, err := pq.Open(filepath.Join(dst, p.tables[0])); err == nil {
		hashed := f.Has(hashColumn)
		f.Close()
		if hashed {
			return nil, fmt.Errorf("%s keeps hashes of its rows: plant faults in a copy made by Base", src)
		}
	}
	return p, nil
}

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
	return atomicfile.Write(atomicfile.OS, to, 0o644, func(w io.Writer) error {
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
	meta, err := p.d.Episode(episode)
	if err != nil {
		return Fault{}, err
	}
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

// totals computes meta/stats.json anew from the changed rows.
func (p *planting) totals() error {
	d, err := dataset.Open(p.root)
	if err != nil {
		return err
	}
	stats, _, err := d.AllStats(p.ctx)
	if err != nil {
		return err
	}
	b, err := dataset.EncodeStats(d.Features(), stats)
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(p.root, "meta/stats.json"), b, 0o644)
}
