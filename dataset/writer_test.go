package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	root := makeDataset(t)
	d := mustOpen(t, root)
	if d.Info().TotalEpisodes != 3 || d.Info().TotalFrames != 39 || d.Info().TotalTasks != 2 || d.Info().Splits["train"] != "0:3" {
		t.Errorf("totals %+v", d.Info())
	}
	if diff := cmp.Diff([]string{"task 0", "task 1"}, d.Tasks()); diff != "" {
		t.Error(diff)
	}
	from := 0
	for k, n := range lengths {
		want := testEpisode(t, k, n)
		e, err := d.Episode(k)
		if err != nil {
			t.Fatal(err)
		}
		if e.Length != n || e.FromIndex != from || !d.HasFiles(k) {
			t.Errorf("episode %d: length %d from %d files %t", k, e.Length, e.FromIndex, d.HasFiles(k))
		}
		if diff := cmp.Diff(want.Extra, e.Extra); diff != "" && k > 0 { // an empty list comes back empty
			t.Error(diff)
		}
		for name, v := range want.Columns {
			if diff := cmp.Diff(v, readSame(t, d, name, k, v)); diff != "" {
				t.Errorf("episode %d %s: %s", k, name, diff)
			}
		}
		index, _ := ReadColumn[int64](d, Index, k)
		frame, _ := ReadColumn[int64](d, FrameIndex, k)
		at, _ := ReadColumn[float32](d, Timestamp, k)
		for r := range n {
			if index[r] != int64(from+r) || frame[r] != int64(r) || at[r] != float32(float64(r)/30) {
				t.Fatalf("episode %d row %d: index %d frame %d time %v", k, r, index[r], frame[r], at[r])
			}
		}
		span := e.Videos["observation.images.left"]
		if span.FromTime != 0 || span.ToTime != float64(n)/30 || span.FirstFrame != 0 {
			t.Errorf("span %+v", span)
		}
		from += n
	}
	if left, _ := os.ReadDir(root); len(left) != 3 {
		t.Errorf("the root holds %v, want data, meta and videos only", left)
	}
}

func readSame(t *testing.T, d *Dataset, name string, k int, like any) any {
	t.Helper()
	var got any
	var err error
	switch like.(type) {
	case []float32:
		got, err = ReadColumn[float32](d, name, k)
	case []float64:
		got, err = ReadColumn[float64](d, name, k)
	case []int32:
		got, err = ReadColumn[int32](d, name, k)
	case []int64:
		got, err = ReadColumn[int64](d, name, k)
	case []bool:
		got, err = ReadColumn[bool](d, name, k)
	case []string:
		got, err = ReadColumn[string](d, name, k)
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A writer that is closed and opened again must go on as if it had not stopped, and statistics must be those of all rows.
func TestReopenedWriterContinues(t *testing.T) {
	whole := makeDataset(t)
	root := filepath.Join(t.TempDir(), "set")
	w := mustCreate(t, root)
	for k, n := range lengths {
		if _, err := w.AddEpisode(context.Background(), testEpisode(t, k, n)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		var err error
		if w, err = OpenWriter(root, WriterOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	if diff := cmp.Diff(tree(t, whole), tree(t, root)); diff != "" {
		t.Errorf("files differ: %s", diff[:min(len(diff), 800)])
	}
	a, err1 := mustOpen(t, whole).Identity()
	b, err2 := mustOpen(t, root).Identity()
	if err1 != nil || err2 != nil || a != b || len(a) != 64 {
		t.Errorf("identities %s %s, errors %v %v", a, b, err1, err2)
	}
}

func TestIdentityFollowsContent(t *testing.T) {
	base, _ := mustOpen(t, makeDataset(t)).Identity()
	change := func(name string, f func(ep *Episode)) {
		root := filepath.Join(t.TempDir(), "set")
		w := mustCreate(t, root)
		for k, n := range lengths {
			ep := testEpisode(t, k, n)
			if k == 1 {
				f(&ep)
			}
			ep = withStats(ep)
			if _, err := w.AddEpisode(context.Background(), ep); err != nil {
				t.Fatal(err)
			}
		}
		w.Close()
		got, err := mustOpen(t, root).Identity()
		if err != nil {
			t.Fatal(err)
		}
		if same := got == base; same != (name == "nothing") {
			t.Errorf("after changing %s the identity is the same: %t", name, same)
		}
	}
	change("nothing", func(*Episode) {})
	change("a number", func(ep *Episode) { ep.Columns["action"].([]float64)[3] += 1e-9 })
	change("a task", func(ep *Episode) { ep.Tasks = []string{"other"} })
	change("a flag", func(ep *Episode) { ep.Extra["success"] = true })
	change("a video", func(ep *Episode) { ep.Videos["observation.images.left"] = testVideo(t, lengths[1], 99) })
}

// Each bad episode gives one error that names the fault, and the dataset stays byte for byte as it was.
func TestBadEpisodesChangeNothing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	w := mustCreate(t, root)
	if _, err := w.AddEpisode(context.Background(), testEpisode(t, 0, 9)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, root)
	for name, c := range map[string]struct {
		want string
		f    func(ep *Episode)
	}{
		"no rows":          {"no rows", func(ep *Episode) { ep.Length = 0 }},
		"NaN":              {"row 2, element 1 (y) is NaN", func(ep *Episode) { ep.Columns["observation.state"].([]float32)[7] = float32(math.NaN()) }},
		"infinity":         {"+Inf", func(ep *Episode) { ep.Columns["action"].([]float64)[0] = math.Inf(1) }},
		"short column":     {"26 values, want 9 rows of 3", func(ep *Episode) { ep.Columns["pedal"] = make([]int32, 26) }},
		"wrong type":       {"[]float32, its type is float64", func(ep *Episode) { ep.Columns["action"] = make([]float32, 18) }},
		"missing column":   {`"action": no values`, func(ep *Episode) { delete(ep.Columns, "action") }},
		"unknown column":   {`"acton" is no feature`, func(ep *Episode) { ep.Columns["acton"] = []float64{1} }},
		"missing camera":   {`video "observation.images.right" is missing`, func(ep *Episode) { delete(ep.Videos, "observation.images.right") }},
		"short video":      {"8 frames for 9 rows", func(ep *Episode) { ep.Videos["observation.images.left"] = testVideo(t, 8, 1) }},
		"no task":          {"empty task", func(ep *Episode) { ep.Tasks = []string{" "} }},
		"wrong task count": {"2 task texts for 9 rows", func(ep *Episode) { ep.Tasks = []string{"a", "b"} }},
		"new extra":        {"extra columns", func(ep *Episode) { ep.Extra["more"] = "x" }},
		"extra type":       {"extra columns", func(ep *Episode) { ep.Extra["success"] = "yes" }},
		"extra kind":       {"is a int", func(ep *Episode) { ep.Extra["success"] = 1 }},
		"no video file":    {"no such file", func(ep *Episode) { ep.Videos["observation.images.left"] = "/nowhere.mp4" }},
	} {
		ep := testEpisode(t, 0, 9)
		c.f(&ep)
		if _, err := w.AddEpisode(context.Background(), ep); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v does not say %q", name, err, c.want)
		}
		if diff := cmp.Diff(before, tree(t, root)); diff != "" {
			t.Errorf("%s: the dataset changed", name)
		}
	}
	long := testEpisode(t, 0, 9)
	long.Length = 1024 * 30
	if _, err := w.AddEpisode(context.Background(), long); err == nil || !strings.Contains(err.Error(), "1024 s") {
		t.Errorf("an episode of 1024 s gave %v", err)
	}
	if i, err := w.AddEpisode(context.Background(), testEpisode(t, 1, 7)); err != nil || i != 1 {
		t.Errorf("a good episode after the bad ones: %d, %v", i, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	for want, f := range map[string]Feature{
		`"/"`:                 {Name: "a/b", DType: Float32, Shape: []int{1}},
		"type":                {Name: "a", DType: "float16", Shape: []int{1}},
		"shape":               {Name: "a", DType: Float32, Shape: []int{0}},
		"taken":               {Name: Timestamp, DType: Float32, Shape: []int{1}},
		"2 names":             {Name: "a", DType: Float32, Shape: []int{3}, Names: []string{"x", "y"}},
		"1 or 3 elements":     {Name: "image.pose", DType: Float32, Shape: []int{7}},
		"{height, width, 3}":  {Name: "cam", DType: Video, Shape: []int{3, 480}},
		"{1} for a string":    {Name: "s", DType: String, Shape: []int{2}},
		"can not be a folder": {Name: "..", DType: Video, Shape: []int{4, 4, 3}},
	} {
		root := filepath.Join(t.TempDir(), "set")
		if _, err := Create(root, Options{FPS: 30, Features: []Feature{f}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("feature %+v gave %v, want %q", f, err, want)
		}
		if _, err := os.Stat(root); err == nil {
			t.Errorf("feature %+v left a folder behind", f)
		}
	}
	root := makeDataset(t)
	if _, err := Create(root, testOptions()); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("creating over a dataset gave %v", err)
	}
}

func TestTwoWritersAreKeptApart(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	w := mustCreate(t, root)
	if _, err := OpenWriter(root, WriterOptions{}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second writer got %v", err)
	}
	w.Close()
	w2, err := OpenWriter(root, WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w2.Close()
}

// An empty dataset is a valid one.
func TestEmptyDatasetOpens(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	mustCreate(t, root).Close()
	d := mustOpen(t, root)
	if len(d.Episodes()) != 0 || len(d.Tasks()) != 0 || len(d.Features()) != 13 {
		t.Errorf("%d episodes, %d tasks, %d features", len(d.Episodes()), len(d.Tasks()), len(d.Features()))
	}
}

// Videos in scratch are moved; scratch stays usable from other goroutines while an episode is added.
func TestScratchSurvivesAddEpisode(t *testing.T) {
	root := filepath.Join(t.TempDir(), "set")
	w := mustCreate(t, root)
	ep := testEpisode(t, 0, 9)
	for name, p := range ep.Videos {
		b, _ := os.ReadFile(p)
		mine := filepath.Join(w.Scratch(), name+".mp4")
		if err := os.WriteFile(mine, b, 0o644); err != nil {
			t.Fatal(err)
		}
		ep.Videos[name] = mine
	}
	other := filepath.Join(w.Scratch(), "next.mp4")
	os.WriteFile(other, []byte("being encoded"), 0o644)
	if _, err := w.AddEpisode(context.Background(), ep); err != nil {
		t.Fatal(err)
	}
	left, _ := os.ReadDir(w.Scratch())
	if len(left) != 1 || left[0].Name() != "next.mp4" {
		t.Errorf("scratch holds %v", left)
	}
}

// The disk fails at every operation in turn: each time the call must fail, the dataset must open, hold exactly the
// accepted episodes and accept the next one, whether the process goes on or dies at that point.
func TestFullDiskAtEveryStep(t *testing.T) {
	for mode, stride := range map[string]int{"recovers": 1, "stays broken": 2} {
		for step := 1; ; step += stride {
			if done := failAt(t, step, mode == "stays broken"); done {
				if step < 20 {
					t.Fatalf("only %d operations were seen", step)
				}
				break
			}
		}
	}
}

func failAt(t *testing.T, step int, forGood bool) (done bool) {
	t.Helper()
	root := filepath.Join(memoryDir(t), fmt.Sprintf("set%d", step))
	count, armed := 0, false
	o := testOptions()
	o.fault = func(op, path string) error {
		if !armed {
			return nil
		}
		if count++; count == step || forGood && count > step {
			return fmt.Errorf("%s: %w", op, syscall.ENOSPC)
		}
		return nil
	}
	w, err := Create(root, o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddEpisode(context.Background(), withStats(testEpisode(t, 0, 9))); err != nil {
		t.Fatal(err)
	}
	armed = true
	_, err = w.AddEpisode(context.Background(), withStats(testEpisode(t, 1, 7)))
	armed = false
	done = count < step
	if !done && err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("step %d: error %v hides the cause", step, err)
	}
	accepted := 1
	if err == nil {
		accepted = 2
	}
	undecided := errors.Is(err, errUndecided)
	w.release() // as a crash would, without the statistics of Close
	w, err = OpenWriter(root, WriterOptions{})
	if err != nil {
		t.Fatalf("step %d: the dataset does not open again: %v", step, err)
	}
	if got := w.NumEpisodes(); got != accepted && !undecided {
		t.Fatalf("step %d: %d episodes, %d were accepted", step, got, accepted)
	}
	next := w.NumEpisodes()
	if got, err := w.AddEpisode(context.Background(), withStats(testEpisode(t, next, 5))); err != nil || got != next {
		t.Fatalf("step %d: the next episode: %d, %v", step, got, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, root)
	if _, err := d.Identity(); err != nil { // reads every row and every packet
		t.Fatalf("step %d: %v", step, err)
	}
	if stray := strayFiles(t, root, d); len(stray) > 0 {
		t.Fatalf("step %d: stray files %v", step, stray)
	}
	return done
}

// strayFiles lists files that belong to no episode.
func strayFiles(t *testing.T, root string, d *Dataset) []string {
	t.Helper()
	known := map[string]bool{"meta/info.json": true, "meta/stats.json": true, "meta/tasks.parquet": true}
	for _, e := range d.Episodes() {
		known[e.DataPath] = true
		known[e.meta.path(episodesPath, "")] = true
		for _, v := range e.Videos {
			known[v.Path] = true
		}
	}
	var stray []string
	for p := range tree(t, root) {
		if !known[p] {
			stray = append(stray, p)
		}
	}
	return stray
}
