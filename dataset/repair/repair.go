package repair

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/internal/folderlock"
)

// Options choose what Run does.
type Options struct {
	// To is the folder of the repaired dataset, which must not exist; empty with InPlace.
	To string
	// InPlace replaces the dataset itself.
	InPlace bool
	// MaxTrim is the greatest number of rows that are cut from an episode whose video ends early; an episode that lacks more is left
	// out. Negative means one second; 0 cuts none.
	MaxTrim int
	// DryRun only says what would be done.
	DryRun bool
	// Progress is called after each finished file; may be nil.
	Progress func(stage string, done, total int)
}

// Result says what Run did.
type Result struct {
	// Done lists the repairs, Left what could not be repaired, one line each.
	Done, Left []string
	// Episodes kept, by their old numbers, and rows.
	Episodes []int
	Frames   int
	// Written, Moved, Aside and Kept count files.
	Written, Moved, Aside, Kept int
}

// mender holds the dataset that is repaired and what it shall become.
type mender struct {
	ctx      context.Context
	o        Options
	set      *survey.Set
	root     string
	result   *Result
	features []dataset.Feature // as they shall be
	dropped  map[string]bool   // features that no file holds
	files    []*dataFile
	episodes []*episode // kept, in their new order
	tasks    []string
	taskOf   map[int]int              // old task number to new
	texts    map[int]string           // of the task table
	stats    map[string]dataset.Stats // of all rows
	changes  []change
	info     []byte // the new info.json

	open     *pq.File // the data file that was read last
	openPath string
}

// Run repairs the dataset at root. On an error, or when ctx ends, the dataset is as it was (in place, a repair that had begun to move
// files is finished by the next Run).
func Run(ctx context.Context, root string, o Options) (*Result, error) {
	if o.InPlace == (o.To != "") {
		return nil, errors.New("repair: give either a new folder or in place")
	}
	m := &mender{ctx: ctx, o: o, root: root, result: &Result{}, dropped: map[string]bool{}, taskOf: map[int]int{}}
	if o.InPlace && !o.DryRun {
		if _, err := os.Stat(filepath.Join(root, "meta")); err != nil {
			return nil, fmt.Errorf("repair %s: it has no folder meta/ (is this the folder that holds meta/, data/ and videos/?): %w", root, fs.ErrNotExist)
		}
		unlock, err := lock(root)
		if err != nil {
			return nil, fmt.Errorf("repair in place: %w", err)
		}
		defer unlock()
		finished, err := finish(root)
		if err != nil {
			return nil, fmt.Errorf("repair %s: finish the interrupted repair: %w", root, err)
		}
		if finished {
			m.did("finished a repair that was interrupted")
		}
	} else if o.To != "" {
		if _, err := os.Stat(o.To); err == nil {
			return nil, fmt.Errorf("repair to %s: it exists; choose a new folder", o.To)
		}
		if left, _ := filepath.Glob(filepath.Join(root, ".pinch", "*commit.json")); len(left) > 0 {
			return nil, fmt.Errorf("repair %s: a save was interrupted; open the dataset for writing once, or repair it in place", root)
		}
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(survey.InfoPath))); err != nil {
		return nil, fmt.Errorf("repair %s: it has no %s (is this the folder that holds meta/, data/ and videos/?): %w", root, survey.InfoPath, fs.ErrNotExist)
	}
	if err := m.plan(); err != nil {
		return nil, fmt.Errorf("repair %s: %w", root, err)
	}
	if err := m.apply(); err != nil {
		return nil, fmt.Errorf("repair %s: %w", root, err)
	}
	return m.result, nil
}

// lock keeps writers out. A folder that can not be written to is refused here, before anything is read.
func lock(root string) (func(), error) {
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(commitLog))); err == nil {
		held, err := folderlock.Take(root) // the dataset's own lock refuses while a repair is unfinished
		if err != nil {
			return nil, err
		}
		return held.Release, nil
	}
	return dataset.Lock(root)
}

// plan finds out what has to change.
func (m *mender) plan() (err error) {
	if m.set, err = survey.Read(m.root, survey.Options{}); err != nil {
		return err
	}
	i := m.set.Info
	switch {
	case i.Err != nil:
		return fmt.Errorf("%s does not decode, and what it said of the features can not be guessed: %w", survey.InfoPath, i.Err)
	case i.Major != 2 && i.Major != 3:
		return fmt.Errorf("format %q is neither v3.x nor v2.1", i.Version)
	case i.FPS == 0 || i.FPS != float64(int(i.FPS)):
		return fmt.Errorf("fps is %s: write the rate of the rows, a positive whole number, into %s", i.FPSText, survey.InfoPath)
	case len(i.Features) == 0:
		return fmt.Errorf("%s has no features", survey.InfoPath)
	}
	m.texts = m.set.Tasks.ByIndex()
	for _, step := range []func() error{m.planFeatures, m.scanData, m.chooseEpisodes, m.placeVideos, m.numberEpisodes, m.planTasks,
		m.planData, m.planStats, m.planTables, m.planInfo, m.planLeftovers} {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	for _, e := range m.episodes {
		m.result.Episodes = append(m.result.Episodes, e.old)
		m.result.Frames += e.rows
	}
	return nil
}

func (m *mender) fps() int { return int(m.set.Info.FPS) }
func (m *mender) v3() bool { return m.set.Info.Major == 3 }

func (m *mender) did(format string, a ...any) { m.result.Done = add(m.result.Done, format, a...) }

func (m *mender) left(format string, a ...any) { m.result.Left = add(m.result.Left, format, a...) }

func add(list []string, format string, a ...any) []string {
	if line := fmt.Sprintf(format, a...); !slices.Contains(list, line) {
		list = append(list, line)
	}
	return list
}

func (m *mender) progress(stage string, done, total int) {
	if m.o.Progress != nil {
		m.o.Progress(stage, done, total)
	}
}

// cameras are the video features.
func (m *mender) cameras() []dataset.Feature {
	return slices.DeleteFunc(slices.Clone(m.features), func(f dataset.Feature) bool { return f.DType != dataset.Video })
}

// stored are the features that are columns.
func (m *mender) stored() []dataset.Feature {
	return slices.DeleteFunc(slices.Clone(m.features), func(f dataset.Feature) bool { return f.DType == dataset.Video })
}
