package check

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
)

// Options choose the depth of a check.
type Options struct {
	// Decode also decodes the videos: frames that do not decode, black, frozen and repeated pictures, pictures of another camera,
	// pictures that lag behind the rows, and stored picture statistics that differ from the pictures.
	Decode bool
	// Workers is the number of files read at a time; 0 means one per processor. The report does not depend on it.
	Workers int
	// Progress is called after each file of a stage; may be nil. Calls do not overlap.
	Progress func(stage string, done, total int)
}

// checker walks a dataset and collects findings. Each step needs what earlier steps could read, and goes as far as that, so that one
// fault is one finding and not a chain of them.
type checker struct {
	sink
	ctx      context.Context
	o        Options
	set      *survey.Set
	report   *dataset.Report
	fps      float64
	tasks    map[int]string
	listed   map[int]*survey.Episode // episodes of the table by index; the first of two rows counts
	rows     map[int]int             // rows found of each episode
	episodes []*episode              // what the rows tell, in order of index
	byIndex  map[int]*episode
	lacking  bool // a data file of a listed episode is missing
	full     bool // every listed episode's rows are present and whole
	videos   []*use
	stats    map[string]dataset.Stats // of meta/stats.json, as far as they have the right shape

	lawsOnce sync.Once
	laws     []relation // candidates

	channelTotal int
	pooledRuns   float64
}

// Run looks for everything that makes the official loader fail or training wrong. An error is returned only when root can not be
// read at all or ctx ends; faults of the dataset are findings.
func Run(ctx context.Context, root string, o Options) (*dataset.Report, error) {
	set, err := survey.Read(root, survey.Options{SkipQuantiles: true})
	if os.IsNotExist(err) {
		return nil, fmt.Errorf("check %s: it has no %s (is this the folder that holds meta/, data/ and videos/?): %w", root, survey.InfoPath, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("check %s: %w", root, err)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	c := &checker{ctx: ctx, o: o, set: set, report: &dataset.Report{Root: root}, rows: map[int]int{}, byIndex: map[int]*episode{},
		listed: map[int]*survey.Episode{}, fps: set.Info.FPS, tasks: set.Tasks.ByIndex()}
	c.run()
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("check %s: %w", root, err)
	}
	c.report.Findings = c.findings()
	c.report.Sort()
	return c.report, nil
}

func (c *checker) run() {
	for i := range c.set.Episodes {
		if e := &c.set.Episodes[i]; e.Index >= 0 && c.listed[e.Index] == nil {
			c.listed[e.Index] = e
		}
	}
	if !c.checkInfo() {
		return
	}
	c.checkFeatures()
	c.checkLeftovers()
	c.checkTasks()
	c.checkEpisodes()
	c.checkData()
	c.checkPresence()
	c.checkStats()
	c.probeVideos()
	c.checkVideos()
	c.checkContent()
	if c.o.Decode {
		c.checkPictures()
	}
	c.countPresent()
}

func (c *checker) did(what string) { c.report.Checked = append(c.report.Checked, what) }

func (c *checker) skipped(format string, a ...any) {
	c.report.Skipped = append(c.report.Skipped, fmt.Sprintf(format, a...))
}

func (c *checker) progress(stage string, done, total int) {
	if c.o.Progress != nil {
		c.o.Progress(stage, done, total)
	}
}

// v3 tells the format version.
func (c *checker) v3() bool { return c.set.Info.Major == 3 }

// checkLeftovers looks for what a crash or a tool left behind.
func (c *checker) checkLeftovers() {
	const work = ".pinch"
	switch {
	case c.set.Exists(work+"/commit.json") || c.set.Exists(work+"/abort.json"):
		c.say("interrupted", in(work), nil, "a save was interrupted; files of it may lie among the others")
	case c.set.Exists(work + "/repair/commit.json"):
		c.say("repair-interrupted", in(work), nil, "a repair was interrupted while it moved files into place")
	case c.set.Exists(work+"/stage") || c.set.Exists(work+"/scratch") || c.set.Exists(work+"/lock"):
		c.say("working-folder", in(work), nil, "a writer is open or was killed")
	}
	if left, _ := filepath.Glob(filepath.Join(c.set.Root, "images", "*", "*")); len(left) > 0 {
		c.say("staging", in("images"), nums{"folders": float64(len(left))}, "%d picture folders of a recording are left over", len(left))
	}
	for _, folder := range []string{"data", "meta/episodes"} {
		found, _ := filepath.Glob(filepath.Join(c.set.Root, folder, "*", "*"))
		for _, p := range found {
			if !strings.HasSuffix(p, ".parquet") {
				rel, _ := filepath.Rel(c.set.Root, p)
				c.say("stray-file", in(filepath.ToSlash(rel)), nil, "some readers open every file in this folder")
			}
		}
	}
}

// countPresent fills the totals of the report.
func (c *checker) countPresent() {
	c.report.Episodes = len(c.set.Episodes)
	for _, e := range c.set.Episodes {
		c.report.Frames += c.rows[e.Index]
		whole := c.rows[e.Index] > 0
		for _, cam := range c.set.Cameras() {
			whole = whole && c.set.Exists(e.Videos[cam.Name].Path)
		}
		if whole {
			c.report.Present++
		}
	}
}

// camera names of the dataset.
func (c *checker) cameras() []string {
	var out []string
	for _, f := range c.set.Cameras() {
		out = append(out, f.Name)
	}
	return out
}

// element is the name of an element with its number.
func element(f dataset.Feature, d int) string {
	if d < len(f.Names) {
		return fmt.Sprintf("%d (%s)", d, f.Names[d])
	}
	return fmt.Sprint(d)
}

// few prints at most n of the texts.
func few(texts []string, n int) string {
	if len(texts) > n {
		texts = append(slices.Clone(texts[:n-1]), fmt.Sprintf("and %d more", len(texts)-n+1))
	}
	return strings.Join(texts, ", ")
}
