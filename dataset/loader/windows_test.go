package loader

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
)

// windows opens a loader over flat datasets with windows of all kinds.
func windows(t *testing.T, m Mixture, change func(*Config)) *Loader {
	t.Helper()
	cfg := Config{Batch: 4, Seed: 5, CacheDir: t.TempDir(), Workers: 2,
		Columns: []Columns{{"x", []int{-1, 0, 3}}, {"n", nil}},
		Images:  []Images{{"cam", geometry, []int{-2, 0}}}}
	if change != nil {
		change(&cfg)
	}
	l, err := New(context.Background(), m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// checkBatch compares every number and picture of a batch with what flat wrote.
func checkBatch(t *testing.T, b *Batch, lengths []int) {
	t.Helper()
	x, n, cam := &b.Columns[0], &b.Columns[1], &b.Images[0]
	for i, s := range b.Samples {
		e, f, length := s.Episode, s.Frame, lengths[s.Episode]
		if b.Tasks[i] != fmt.Sprintf("task %d", e) || n.Values[i] != float32(f) || n.Pad[i] {
			t.Fatalf("sample %+v has task %q and number %v", s, b.Tasks[i], n.Values[i])
		}
		for k, o := range []int{-1, 0, 3} {
			want := min(max(f+o, 0), length-1)
			at := i*3 + k
			if x.Values[2*at] != float32(e) || x.Values[2*at+1] != float32(want) || x.Pad[at] != (want != f+o) {
				t.Fatalf("sample %+v, offset %d: numbers %v, pad %v", s, o, x.Values[2*at:2*at+2], x.Pad[at])
			}
		}
		for k, o := range []int{-2, 0} {
			want := min(max(f+o, 0), length-1)
			at := i*2 + k
			if cam.Pad[at] != (want != f+o) {
				t.Fatalf("sample %+v, offset %d: pad of pictures %v", s, o, cam.Pad[at])
			}
			for _, v := range cam.Pix[at*192 : (at+1)*192] {
				if math.Abs(float64(v)-float64(grey(e, want))) > 3 {
					t.Fatalf("sample %+v, offset %d shows grey %d, want %d", s, o, v, grey(e, want))
				}
			}
		}
	}
}

func TestWindowsHoldTheirFramesAndPads(t *testing.T) {
	lengths := []int{6, 9, 4}
	l := windows(t, Single(flat(t, lengths...).Root()), nil)
	if l.Windows() != 19 || l.Episodes() != 3 {
		t.Fatalf("%d windows of %d episodes", l.Windows(), l.Episodes())
	}
	seen := map[[2]int]int{}
	for step := range steps(19) {
		b, err := l.Batch(context.Background(), step)
		if err != nil {
			t.Fatal(err)
		}
		checkBatch(t, b, lengths)
		for i, s := range b.Samples {
			if got := l.Sample(uint64(step*4 + i)); got != s {
				t.Fatalf("sample %d is %+v in the batch and %+v by number", step*4+i, s, got)
			}
			seen[[2]int{s.Episode, s.Frame}]++
		}
		b.Release()
	}
	for w, times := range seen {
		if times != 4 && video.RandomAccess {
			t.Errorf("window %v came %d times in four epochs", w, times)
		}
	}
}

// steps is how many batches a test makes: each picture is a process where libav is not linked.
func steps(n int) int {
	if video.RandomAccess {
		return n
	}
	return 2
}

// clone keeps a batch beyond its release.
func clone(b *Batch) Batch {
	out := Batch{Step: b.Step, Samples: slices.Clone(b.Samples), Tasks: slices.Clone(b.Tasks)}
	for _, im := range b.Images {
		im.Pix, im.Pad = bytes.Clone(im.Pix), slices.Clone(im.Pad)
		out.Images = append(out.Images, im)
	}
	for _, c := range b.Columns {
		c.Values, c.Pad = slices.Clone(c.Values), slices.Clone(c.Pad)
		out.Columns = append(out.Columns, c)
	}
	return out
}

func stream(t *testing.T, l *Loader, first, end int) []Batch {
	t.Helper()
	s := l.Start(context.Background(), first, end)
	defer s.Close()
	var out []Batch
	for {
		b, ok, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, clone(b))
		b.Release()
	}
}

// Workers, where a run starts, ranks, the frame cache and augmentation with the same seed: none changes a byte.
func TestBatchesDependOnSeedAndStepAlone(t *testing.T) {
	root := flat(t, 6, 9, 4).Root()
	augment := func(c *Config) { c.Augment = Augment{Brightness: 0.3, Contrast: 0.2, Shift: 1} }
	want := stream(t, windows(t, Single(root), augment), 0, steps(12))
	check := func(what string, got []Batch, want []Batch) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: other batches", what)
		}
	}
	check("five workers", stream(t, windows(t, Single(root), func(c *Config) { augment(c); c.Workers, c.Ahead = 5, 7 }), 0, steps(12)), want)
	check("resumed at 1", stream(t, windows(t, Single(root), augment), 1, steps(12)), want[1:])
	cached := windows(t, Single(root), func(c *Config) { augment(c); c.FrameCache = 1 << 30 })
	if err := cached.WaitCache(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	check("from the frame cache", stream(t, cached, 0, steps(12)), want)
	if s := cached.Stats(); s.Decoded != 0 || s.Cached == 0 {
		t.Errorf("with a full cache: %+v", s)
	}
	for rank := range 2 {
		half := stream(t, windows(t, Single(root), func(c *Config) { augment(c); c.Batch, c.Rank, c.World = 2, rank, 2 }), 0, steps(12))
		for i, b := range half {
			size := len(b.Images[0].Pix)
			if !slices.Equal(b.Samples, want[i].Samples[rank*2:rank*2+2]) || !bytes.Equal(b.Images[0].Pix, want[i].Images[0].Pix[rank*size:(rank+1)*size]) {
				t.Errorf("rank %d of 2, step %d: not its half of the batch", rank, i)
			}
		}
	}
	other := stream(t, windows(t, Single(root), func(c *Config) { augment(c); c.Seed = 6 }), 0, steps(12))
	if reflect.DeepEqual(other, want) {
		t.Error("another seed gave the same batches")
	}
	still := stream(t, windows(t, Single(root), nil), 0, steps(12))
	if bytes.Equal(still[0].Images[0].Pix, want[0].Images[0].Pix) {
		t.Error("augmentation changed nothing")
	}
	if !reflect.DeepEqual(still[0].Columns, want[0].Columns) || !slices.Equal(still[0].Samples, want[0].Samples) {
		t.Error("augmentation changed the order or the numbers")
	}
}

func TestDropLeavesOutEnds(t *testing.T) {
	l := windows(t, Single(flat(t, 6, 9, 2).Root()), func(c *Config) { c.DropFirst, c.DropLast = 2, 1 })
	if l.Windows() != 3+6 {
		t.Fatalf("%d windows", l.Windows())
	}
	for n := range uint64(9) {
		if s := l.Sample(n); s.Frame < 2 || s.Frame >= map[int]int{0: 5, 1: 8}[s.Episode] {
			t.Errorf("window %+v", s)
		}
	}
}

func TestMixtureOfSetsWithWeightsFiltersAndPatterns(t *testing.T) {
	dir := t.TempDir()
	for name, lengths := range map[string][]int{"a1": {6, 9}, "a2": {8}, "b": {5, 30}} {
		if err := os.Rename(flat(t, lengths...).Root(), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "mixture.yaml")
	text := "version: 1\nsets:\n- path: a*\n  weight: 3\n- path: b\n  filter: [{field: length, max: 10}]\nfilter: [{field: task, matches: task 0}]\nsize_power: 0\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	m, err := ReadMixture(file)
	if err != nil {
		t.Fatal(err)
	}
	l := windows(t, m, nil)
	if l.Windows() != 6+8+5 || l.Share(0)+l.Share(1)+l.Share(2) != 19 || l.Share(0) != 8 || l.Share(2) != 3 { // 19 * 3/7, 19 * 1/7
		t.Errorf("%d windows, shares %d %d %d", l.Windows(), l.Share(0), l.Share(1), l.Share(2))
	}
	for step := range 4 {
		b, err := l.Batch(context.Background(), step)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range b.Samples {
			if s.Episode != 0 || b.Tasks[i] != "task 0" {
				t.Errorf("window %+v, task %q", s, b.Tasks[i])
			}
		}
	}
	for want, text := range map[string]string{
		"version: 2":      "version: 2\nsets: [{path: b}]\n",
		"none is named":   "version: 1\n",
		"matches no data": "version: 1\nsets: [{path: c*}]\n",
		"weight":          "version: 1\nsets: [{path: b, weight: -1}]\n",
		"says nothing":    "version: 1\nsets: [{path: b, filter: [{field: length}]}]\n",
		"split.share":     "version: 1\nsets: [{path: b}]\nsplit: {share: 1}\n",
		"size_power":      "version: 1\nsets: [{path: b}]\nsize_power: .nan\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadMixture(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestFilterConditions(t *testing.T) {
	two, five := 2.0, 5.0
	episodes := []dataset.EpisodeMeta{
		{Index: 0, Length: 4, Tasks: []string{"pick", "place"}, Extra: map[string]any{"success": true, "label": "left", "n": int64(3)}},
		{Index: 1, Length: 6, Tasks: []string{"fold"}, Extra: map[string]any{"success": false, "label": "right", "n": int64(9)}},
		{Index: 2, Length: 1, Tasks: []string{"pick"}, Extra: map[string]any{"label": "left"}},
	}
	for _, c := range []struct {
		f    Filter
		want []int
	}{
		{nil, []int{0, 1, 2}},
		{Filter{{Field: "success", In: []any{true}}}, []int{0}},
		{Filter{{Field: "success", In: []any{true}, Not: true}}, []int{1, 2}},
		{Filter{{Field: "label", In: []any{"left", "top"}}}, []int{0, 2}},
		{Filter{{Field: "length", Min: &two, Max: &five}}, []int{0}},
		{Filter{{Field: "n", In: []any{uint64(9)}}}, []int{1}},
		{Filter{{Field: "n", Max: &five}}, []int{0}},
		{Filter{{Field: "task", Matches: "^p"}}, []int{0, 2}},
		{Filter{{Field: "task", In: []any{"place"}}}, []int{0}},
		{Filter{{Field: "index", In: []any{uint64(1), uint64(2)}}, {Field: "label", Matches: "ft"}}, []int{2}},
	} {
		got, err := choose(episodes, c.f)
		if err != nil {
			t.Fatal(err)
		}
		var index []int
		for _, e := range got {
			index = append(index, e.Index)
		}
		if !slices.Equal(index, c.want) {
			t.Errorf("%+v chose %v, want %v", c.f, index, c.want)
		}
	}
	for want, f := range map[string]Filter{"sucess": {{Field: "sucess", In: []any{true}}}, "number": {{Field: "label", Min: &two}}} {
		if _, err := choose(episodes, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// Growing data, renumbered episodes and another order of sets leave each episode on its side.
func TestSplitStaysAsDataGrows(t *testing.T) {
	sides := func(m Mixture) map[string]Part {
		m.Split = Holdout{Share: 0.4, Seed: 3}
		out := map[string]Part{}
		for _, part := range []Part{Train, Val} {
			l := windows(t, m, func(c *Config) { c.Part, c.Images = part, nil })
			for n := range uint64(l.Windows()) {
				s := l.Sample(n)
				b, err := l.Batch(context.Background(), int(n/4))
				if err != nil {
					t.Fatal(err)
				}
				i := n % 4
				id := fmt.Sprint(b.Columns[0].Values[i*6], b.Tasks[i], s.Set)
				if old, ok := out[id]; ok && old != part {
					t.Errorf("episode %s is in both parts", id)
				}
				out[id] = part
				b.Release()
			}
		}
		return out
	}
	small, large := sides(Single(flat(t, 2, 3, 4, 5).Root())), sides(Single(flat(t, 2, 3, 4, 5, 6, 7, 8, 9).Root()))
	if len(large) != 8 {
		t.Fatalf("%d of 8 episodes are in a part: %v", len(large), large)
	}
	for id, part := range small {
		if large[id] != part {
			t.Errorf("episode %s moved from %s to %s", id, part, large[id])
		}
	}
	h := Holdout{Share: 0.1, Seed: 1}
	held := 0
	for i := range 10_000 {
		id := fmt.Sprintf("recording-%d:1", i)
		if h.Holds(id) {
			held++
			if wider := (Holdout{Share: 0.2, Seed: 1}); !wider.Holds(id) {
				t.Fatal("a larger share let an episode go")
			}
		}
	}
	if held < 900 || held > 1100 { // binomial: deviation 30
		t.Errorf("%d of 10000 held out, want about 1000", held)
	}
}

func TestErrorsNameEpisodeAndFrame(t *testing.T) {
	ds := flat(t, 6, 9)
	for want, change := range map[string]func(*Config){
		`no feature "y"`:    func(c *Config) { c.Columns = []Columns{{"y", nil}} },
		"is no number":      func(c *Config) { c.Columns = []Columns{{"cam", nil}} },
		"has no video":      func(c *Config) { c.Images = []Images{{"x", geometry, nil}} },
		"batch of 0":        func(c *Config) { c.Batch = 0 },
		"rank 2 of 2":       func(c *Config) { c.Rank, c.World = 2, 2 },
		"geometry size 0":   func(c *Config) { c.Images = []Images{{"cam", imaging.Geometry{Mode: imaging.Squash, Height: 3}, nil}} },
		"not plausible":     func(c *Config) { c.Columns = []Columns{{"x", []int{1 << 40}}} },
		"no feature is":     func(c *Config) { c.Columns, c.Images = nil, nil },
		`part "test"`:       func(c *Config) { c.Part = "test" },
		"want 0 or more":    func(c *Config) { c.DropFirst = -1 },
		"no window to draw": func(c *Config) { c.DropFirst = 100 },
	} {
		cfg := Config{Batch: 4, CacheDir: t.TempDir(), Columns: []Columns{{"x", nil}}}
		change(&cfg)
		if l, err := New(context.Background(), Single(ds.Root()), cfg); err == nil || !strings.Contains(err.Error(), want) {
			if err == nil {
				_ = l.Close()
			}
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	l := windows(t, Single(ds.Root()), nil)
	video := filepath.Join(ds.Root(), "videos", "cam", "chunk-000", "file-001.mp4")
	data, err := os.ReadFile(video)
	if err != nil {
		t.Fatal(err)
	}
	if at := bytes.Index(data, []byte("mdat")); at > 0 {
		clear(data[at+4:])
	}
	if err := os.WriteFile(video, data, 0o644); err != nil {
		t.Fatal(err)
	}
	failed := false
	for step := range 4 {
		_, err := l.Batch(context.Background(), step)
		if err == nil {
			continue
		}
		failed = true
		for _, part := range []string{ds.Root(), "episode 1, frame ", `camera "cam"`, "file-001.mp4"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("error %q does not say %s", err, part)
			}
		}
	}
	if !failed {
		t.Error("a video of zeros was decoded")
	}
}

func TestNumbersThatAreNotFiniteAreAnError(t *testing.T) {
	root := filepath.Join(t.TempDir(), "nan")
	w, err := dataset.Create(root, dataset.Options{FPS: 10, Features: []dataset.Feature{{Name: "x", DType: dataset.Float64, Shape: []int{1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddEpisode(context.Background(), dataset.Episode{Length: 3, Tasks: []string{"t"}, Columns: map[string]any{"x": []float64{1, 1e100, 3}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := New(context.Background(), Single(root), Config{Batch: 3, Columns: []Columns{{"x", nil}}, CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	// The writer refuses what is not finite; this number is only beyond float32.
	if _, err := l.Batch(context.Background(), 0); err == nil || !strings.Contains(err.Error(), `episode 0, frame 1: feature "x" at frame 1`) {
		t.Errorf("a number beyond float32 in frame 1: %v", err)
	}
}

func TestCloseOfLoaderLeavesNoGoroutine(t *testing.T) {
	root := flat(t, 6, 9).Root()
	before := runtime.NumGoroutine()
	l, err := New(context.Background(), Single(root), Config{Batch: 4, CacheDir: t.TempDir(), FrameCache: 1 << 30,
		Columns: []Columns{{"x", nil}}, Images: []Images{{"cam", geometry, nil}}})
	if err != nil {
		t.Fatal(err)
	}
	s := l.Start(context.Background(), 0, 1000)
	if _, _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i := 0; runtime.NumGoroutine() > before && i < 1_000_000; i++ {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines before, %d after", before, n)
	}
}
