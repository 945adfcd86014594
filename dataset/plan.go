package dataset

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// Plan describes a dataset made of episodes of others: every edit is one (see package edit). Rows that do not change are copied as
// encoded row groups and pictures as encoded packets; index columns and row times are made anew.
type Plan struct {
	// FPS and RobotType of the result; every source must have this rate.
	FPS       int
	RobotType string
	// Features of the result without the five default ones, in the order of info.json.
	Features []PlanFeature
	// Episodes in their new order.
	Episodes []PlanEpisode
	// Task gives the new text of a task; nil keeps it. Texts that become equal become one task.
	Task func(string) string
	// Note tells plans apart whose functions differ: a run that was interrupted goes on only with a plan of equal note.
	Note string
	// Version is the format of the result: "" or "v3.0", or "v2.1", which has files for each episode.
	Version string
	// Recompute makes all statistics and content hashes anew from rows and pictures; else those of what does not change are taken over.
	Recompute bool
	// Pack fills files up to the sizes of LeRobot's roll-over; else episodes that shared a file share one afterwards, and files in
	// which nothing changes are taken over whole.
	Pack bool
}

// PlanFeature is a feature of the result and where its values come from.
type PlanFeature struct {
	Feature
	// From is the source's feature; empty when Values gives the values.
	From string
	// Elements picks elements of a vector, in this order; nil takes all.
	Elements []int
	// Values makes the rows of an episode: as Episode.Columns wants them.
	Values func(d *Dataset, episode int) (any, error)
	// Encode encodes pictures anew, or for the first time when From is an image feature; FPS and size are filled in.
	Encode *video.EncodeOptions
}

// PlanEpisode is an episode of a source.
type PlanEpisode struct {
	From  *Dataset
	Index int
	// Extra replaces the extra columns of the episode; nil keeps them.
	Extra map[string]any
}

// RebuildOptions are settings of Rebuild that do not change the result.
type RebuildOptions struct {
	// InPlace replaces the dataset at the target, which must be a source of the plan; else the target must be new.
	InPlace bool
	// Progress is called after each finished file; may be nil.
	Progress func(what string, done, total int)
	// Logger gets what recovery did; nil is silent.
	Logger *slog.Logger

	fault func(op, path string) error // tests only
	trace func(op, path, to string)
}

// RebuildResult says what Rebuild did.
type RebuildResult struct {
	Episodes, Frames int
	// Changes lists what could not be copied as it was, one line each.
	Changes []string
	// Copied and Made count the files that were taken over whole and those that were written.
	Copied, Made int
	// RankError bounds the error of the quantiles in stats.json, as a share of the rows (0: exact).
	RankError float64
}

// Keep is the plan that changes nothing of d: the start of most edits.
func Keep(d *Dataset) Plan {
	p := Plan{FPS: d.info.FPS, RobotType: d.info.RobotType}
	for _, f := range d.info.Features {
		if !isDefault(f.Name) {
			p.Features = append(p.Features, PlanFeature{Feature: f, From: f.Name})
		}
	}
	for i := range d.NumEpisodes() {
		k := i
		if d.table == nil {
			k = d.episodes[i].Index
		} else {
			k = d.table.number(i)
		}
		p.Episodes = append(p.Episodes, PlanEpisode{From: d, Index: k})
	}
	return p
}

// changed reports whether the feature is more than a copy under the same name.
func (f PlanFeature) changed() bool {
	return f.From != f.Name || f.Elements != nil || f.Values != nil || f.Encode != nil
}

// v21 reports whether the result has files for each episode.
func (p Plan) v21() bool { return p.Version == v21Version }

// check refuses plans that no dataset can follow.
func (p Plan) check() error {
	if len(p.Episodes) == 0 {
		return errors.New("no episodes are left")
	}
	if p.Version != "" && p.Version != Version && p.Version != v21Version {
		return fmt.Errorf("version %q can not be written; choose %s or %s", p.Version, Version, v21Version)
	}
	if p.FPS <= 0 {
		return fmt.Errorf("fps is %d, want a positive whole number", p.FPS)
	}
	seen := map[string]bool{}
	for _, f := range p.Features {
		if err := f.check(); err != nil {
			return fmt.Errorf("feature %q: %w", f.Name, err)
		}
		if seen[f.Name] || isDefault(f.Name) {
			return fmt.Errorf("feature %q: the name is taken", f.Name)
		}
		seen[f.Name] = true
	}
	checked := map[*Dataset]bool{}
	for _, e := range p.Episodes {
		if checked[e.From] {
			continue
		}
		checked[e.From] = true
		if e.From.info.FPS != p.FPS {
			return fmt.Errorf("%s has %d rows per second, not %d", e.From.root, e.From.info.FPS, p.FPS)
		}
		for _, f := range p.Features {
			if err := f.checkSource(e.From); err != nil {
				return fmt.Errorf("feature %q of %s: %w", f.Name, e.From.root, err)
			}
		}
	}
	return nil
}

func (f PlanFeature) check() error {
	if (f.From == "") == (f.Values == nil) {
		return errors.New("its values have to come from a feature or be given")
	}
	written := slices.Contains([]DType{Float32, Float64, Int32, Int64, Bool, String, Video}, f.DType) && len(f.Shape) == 1 || f.DType == Video
	if written {
		return checkFeature(f.Feature)
	}
	switch {
	case f.Name == "" || strings.Contains(f.Name, "/"):
		return errors.New("a name must not be empty or contain \"/\"")
	case f.From == "" || f.Elements != nil:
		return fmt.Errorf("type %q of shape %v can be copied, not made", f.DType, f.Shape)
	}
	return nil
}

// checkSource compares the feature with the source's.
func (f PlanFeature) checkSource(d *Dataset) error {
	if f.From == "" {
		return nil
	}
	s, err := d.Feature(f.From)
	if err != nil {
		return err
	}
	switch {
	case f.Encode != nil && !s.DType.Visual():
		return fmt.Errorf("it is %s, not a picture", s.DType)
	case f.Encode == nil && s.DType != f.DType:
		return fmt.Errorf("it is %s, the result wants %s", s.DType, f.DType)
	case f.Elements != nil:
		for _, k := range f.Elements {
			if k < 0 || k >= s.Dim() {
				return fmt.Errorf("it has no element %d of %d", k, s.Dim())
			}
		}
		if len(f.Elements) != f.Dim() {
			return fmt.Errorf("%d elements are picked for shape %v", len(f.Elements), f.Shape)
		}
	case f.Encode == nil && !slices.Equal(s.Shape, f.Shape):
		return fmt.Errorf("its shape is %v, the result wants %v", s.Shape, f.Shape)
	}
	return nil
}

// run is a range [lo, hi) of the plan's episodes whose rows, or whose pictures of one camera, share a file.
type run struct {
	lo, hi int
	file   fileIndex
	// whole: the source's file as it is.
	whole bool
}

// camera is where the pictures of one video feature go.
type camera struct {
	f     PlanFeature
	files []run
	run   []int // of each episode
	first []int // first frame of each episode in its file
}

// layout places every episode of a plan.
type layout struct {
	lengths []int
	from    []int // global number of the first row
	data    []run
	dataRun []int
	cameras []*camera
}

// usage counts what the sources hold in each file.
type usage struct {
	episodes, rows int
}

type fileKey struct {
	d    *Dataset
	path string
}

// place works out the layout from the metadata of the sources.
func (p Plan) place(note func(string, ...any)) (*layout, error) {
	l := &layout{}
	at := 0
	for _, pe := range p.Episodes {
		e, err := pe.From.Episode(pe.Index)
		if err != nil {
			return nil, err
		}
		if e.Length < 1 {
			return nil, fmt.Errorf("episode %d of %s has %d rows", pe.Index, pe.From.root, e.Length)
		}
		l.lengths, l.from = append(l.lengths, e.Length), append(l.from, at)
		at += e.Length
	}
	if err := p.placeRows(l); err != nil {
		return nil, err
	}
	for _, f := range p.Features {
		if f.DType == Video {
			c := &camera{f: f}
			if err := p.placePictures(l, c, note); err != nil {
				return nil, fmt.Errorf("video %q: %w", f.Name, err)
			}
			l.cameras = append(l.cameras, c)
		}
	}
	return l, nil
}

// packer numbers the files as episodes are laid into them.
type packer struct {
	runs    []run
	members []int
	next    fileIndex
}

func (k *packer) add(i int, fresh bool) error {
	if fresh || len(k.runs) == 0 {
		if k.next.chunk > maxFileIndex {
			return fmt.Errorf("the result needs more than %d files: compact it", (maxFileIndex+1)*defaultChunksSize)
		}
		k.runs = append(k.runs, run{lo: i, hi: i, file: k.next})
		k.next = k.next.next(defaultChunksSize)
	}
	k.runs[len(k.runs)-1].hi = i + 1
	k.members = append(k.members, len(k.runs)-1)
	return nil
}

// maxGroupsPerFile keeps the footers of data files small enough to be read in one go.
const maxGroupsPerFile = 20000

func (p Plan) placeRows(l *layout) error {
	used := map[fileKey]*usage{}
	counted := map[*Dataset]bool{}
	keys := make([]fileKey, len(p.Episodes))
	for i, pe := range p.Episodes {
		e, err := pe.From.Episode(pe.Index)
		if err != nil {
			return err
		}
		keys[i] = fileKey{pe.From, e.DataPath}
		if !counted[pe.From] {
			counted[pe.From] = true
			countRows(used, pe.From)
		}
	}
	var k packer
	size := 0.0
	for i := range p.Episodes {
		bytes := 0.0
		if p.v21() {
			if err := k.add(i, true); err != nil {
				return err
			}
			continue
		}
		fresh := i > 0 && keys[i] != keys[i-1]
		if p.Pack {
			whole, err := fileSize(keys[i].d.root, keys[i].path)
			if err != nil {
				return err
			}
			bytes = float64(whole) * float64(l.lengths[i]) / float64(max(1, used[keys[i]].rows))
			fresh = size+bytes > defaultDataFileMB<<20
		}
		if len(k.runs) > 0 && i-k.runs[len(k.runs)-1].lo >= maxGroupsPerFile {
			fresh = true
		}
		if err := k.add(i, fresh); err != nil {
			return err
		}
		if k.runs[len(k.runs)-1].lo == i {
			size = 0
		}
		size += bytes
	}
	l.data, l.dataRun = k.runs, k.members
	same := map[*Dataset]bool{}
	for d := range counted {
		same[d] = p.Task == nil && !p.v21() && d.info.major() == 3 && p.sameColumns(d) && p.sameTasks(d)
	}
	for r := range l.data {
		lo, hi := l.data[r].lo, l.data[r].hi
		l.data[r].whole = same[keys[lo].d] && used[keys[lo]].episodes == hi-lo && p.sameNumbers(l, l.data[r], keys)
	}
	return nil
}

// countRows counts the episodes and rows in each data file of a source.
func countRows(used map[fileKey]*usage, d *Dataset) {
	for i := range d.NumEpisodes() {
		key := fileKey{d, d.dataPath(i)}
		if used[key] == nil {
			used[key] = &usage{}
		}
		used[key].episodes++
		used[key].rows += d.Length(i)
	}
}

// sameNumbers reports whether the episodes of a run lie in one file of a source and keep their numbers and those of their rows.
func (p Plan) sameNumbers(l *layout, r run, keys []fileKey) bool {
	for i := r.lo; i < r.hi; i++ {
		if keys[i] != keys[r.lo] || p.Episodes[i].Index != i {
			return false
		}
	}
	e, err := keys[r.lo].d.Episode(r.lo)
	return err == nil && e.FromIndex == l.from[r.lo]
}

// sameColumns reports whether the columns of the result are those of a source.
func (p Plan) sameColumns(d *Dataset) bool {
	var have []string
	for _, f := range d.info.Features {
		if !isDefault(f.Name) && f.DType != Video {
			have = append(have, f.Name)
		}
	}
	var want []string
	for _, f := range p.Features {
		if f.DType == Video {
			continue
		}
		if f.changed() {
			return false
		}
		want = append(want, f.Name)
	}
	return slices.Equal(have, want)
}

// sameTasks reports whether the tasks of the result have the numbers they have in d.
func (p Plan) sameTasks(d *Dataset) bool {
	tasks, err := p.tasks()
	return err == nil && len(tasks) <= len(d.tasks) && slices.Equal(tasks, d.tasks[:len(tasks)])
}

// tasks are the tasks of the result: those that its episodes use, source after source, in the order of each source's own table.
func (p Plan) tasks() ([]string, error) {
	used := map[*Dataset]map[string]bool{}
	var sources []*Dataset
	for _, pe := range p.Episodes {
		if used[pe.From] == nil {
			used[pe.From] = map[string]bool{}
			sources = append(sources, pe.From)
		}
		e, err := pe.From.Episode(pe.Index)
		if err != nil {
			return nil, err
		}
		texts := e.Tasks
		if len(texts) == 0 { // a table that lists none: the rows know
			if texts, err = pe.From.RowTasks(pe.Index); err != nil {
				return nil, err
			}
		}
		for _, t := range texts {
			used[pe.From][t] = true
		}
	}
	var out []string
	seen := map[string]bool{}
	for _, d := range sources {
		for _, t := range d.tasks {
			if text := p.task(t); used[d][t] && !seen[text] {
				seen[text] = true
				out = append(out, text)
			}
		}
	}
	return out, nil
}

func (p Plan) task(text string) string {
	if p.Task == nil {
		return text
	}
	return p.Task(text)
}
