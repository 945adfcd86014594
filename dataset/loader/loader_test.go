package loader

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// grey is the level of the flat picture of row t of episode e.
func grey(e, t int) byte { return byte(40 + 50*e + 7*t) }

// flat gives a dataset whose pictures are flat greys that name their row. Each is encoded once and copied.
func flat(t *testing.T, lengths ...int) *dataset.Dataset {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	name := strings.Trim(strings.ReplaceAll(fmt.Sprint(lengths), " ", "-"), "[]")
	if flats[name] == "" {
		writeFlat(t, filepath.Join(flatDir, name), lengths...)
		flats[name] = filepath.Join(flatDir, name)
	}
	root := filepath.Join(t.TempDir(), "flat")
	if err := os.CopyFS(root, os.DirFS(flats[name])); err != nil {
		t.Fatal(err)
	}
	ds, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

var (
	flatDir string
	flats   = map[string]string{}
)

func TestMain(m *testing.M) {
	var err error
	if flatDir, err = os.MkdirTemp("", "flat"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(flatDir)
	os.Exit(code)
}

func writeFlat(t *testing.T, root string, lengths ...int) {
	t.Helper()
	w, err := dataset.Create(root, dataset.Options{FPS: 10, Features: []dataset.Feature{
		{Name: "x", DType: dataset.Float64, Shape: []int{2}},
		{Name: "n", DType: dataset.Int64, Shape: []int{1}},
		{Name: "cam", DType: dataset.Video, Shape: []int{32, 48, 3}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for e, length := range lengths {
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.mp4", e))
		enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: 10, Width: 48, Height: 32, CRF: 10})
		if err != nil {
			t.Fatal(err)
		}
		var x []float64
		var n []int64
		for r := range length {
			if err := enc.WriteRGB(bytes.Repeat([]byte{grey(e, r)}, 48*32*3)); err != nil {
				t.Fatal(err)
			}
			x = append(x, float64(e), float64(r))
			n = append(n, int64(r))
		}
		if _, err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.AddEpisode(context.Background(), dataset.Episode{Length: length, Tasks: []string{fmt.Sprintf("task %d", e)},
			Columns: map[string]any{"x": x, "n": n}, Videos: map[string]string{"cam": path}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

var geometry = imaging.Geometry{Mode: imaging.Squash, Width: 8, Height: 8}

func open(t *testing.T, ds *dataset.Dataset, o Options) *Data {
	t.Helper()
	if o.Cameras == nil {
		o.Cameras = []Camera{{"cam", geometry}}
	}
	o.Columns = []string{"x"}
	d, err := Open(context.Background(), ds, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestEveryRowHasItsOwnPictureNumbersAndTask(t *testing.T) {
	ds := flat(t, 6, 9, 4)
	for name, o := range map[string]Options{"memory": {}, "cache": {CacheDir: t.TempDir()}, "some": {Episodes: []int{2, 1}}} {
		d := open(t, ds, o)
		seen := 0
		for row := range d.Len() {
			e, at := d.Locate(row)
			if e.Columns["x"][2*at] != float64(e.Index) || e.Columns["x"][2*at+1] != float64(at) || d.Task(row) != fmt.Sprintf("task %d", e.Index) {
				t.Fatalf("%s: row %d (episode %d, %d) has numbers %v and task %q", name, row, e.Index, at, e.Columns["x"][2*at:2*at+2], d.Task(row))
			}
			for _, v := range d.Image(0, row) {
				if math.Abs(float64(v)-float64(grey(e.Index, at))) > 3 {
					t.Fatalf("%s: row %d (episode %d, %d) shows grey %d, want %d", name, row, e.Index, at, v, grey(e.Index, at))
				}
			}
			seen++
		}
		if want := map[string]int{"memory": 19, "cache": 19, "some": 13}[name]; seen != want {
			t.Errorf("%s: %d rows, want %d", name, seen, want)
		}
	}
}

func TestTheCacheIsUsedOnceMadeAndNeverForOtherPictures(t *testing.T) {
	ds := flat(t, 5, 5)
	dir := t.TempDir()
	first := open(t, ds, Options{CacheDir: dir})
	if s := first.Decoding(); s.Decoded != 10 || s.Cached != 0 {
		t.Fatalf("first: %+v", s)
	}
	second := open(t, ds, Options{CacheDir: dir})
	if s := second.Decoding(); s.Decoded != 0 || s.Cached != 10 {
		t.Fatalf("second: %+v", s)
	}
	for row := range 10 {
		if !bytes.Equal(first.Image(0, row), second.Image(0, row)) {
			t.Fatalf("row %d differs", row)
		}
	}
	other := open(t, ds, Options{CacheDir: dir, Cameras: []Camera{{"cam", imaging.Geometry{Mode: imaging.CentreCrop, Width: 8, Height: 8}}}})
	if s := other.Decoding(); s.Decoded != 10 {
		t.Errorf("another geometry took the cached frames: %+v", s)
	}
	// A cut file is made anew.
	files, _ := filepath.Glob(filepath.Join(dir, "*", "cam-"+geometry.Hash(), "episode-000001.rgb"))
	if len(files) != 1 {
		t.Fatalf("cache files %v", files)
	}
	_ = first.Close()
	_ = second.Close()
	if err := os.Truncate(files[0], 10); err != nil {
		t.Fatal(err)
	}
	again := open(t, ds, Options{CacheDir: dir})
	if s := again.Decoding(); s.Decoded != 5 || s.Cached != 5 {
		t.Errorf("after a cut file: %+v", s)
	}
}

func TestMissingThingsAreNamed(t *testing.T) {
	ds := flat(t, 5, 5)
	for want, o := range map[string]Options{
		"no feature \"y\"": {Columns: []string{"y"}},
		"camera \"top\"":   {Cameras: []Camera{{"top", geometry}}},
		"7":                {Episodes: []int{7}},
	} {
		if _, err := Open(context.Background(), ds, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %s", err, want)
		}
	}
	if err := os.Remove(filepath.Join(ds.Root(), "videos", "cam", "chunk-000", "file-001.mp4")); err != nil {
		t.Fatal(err)
	}
	d := open(t, ds, Options{}) // an incomplete copy is read as far as it goes
	if d.Len() != 5 {
		t.Errorf("%d rows without the video of one of two episodes", d.Len())
	}
	if _, err := Open(context.Background(), ds, Options{Cameras: []Camera{{"cam", geometry}}, Episodes: []int{0, 1}}); err == nil || !strings.Contains(err.Error(), "episode 1") {
		t.Errorf("an asked-for episode without its video: %v", err)
	}
}

func TestOrderVisitsEachRowOncePerEpoch(t *testing.T) {
	rows := []int{3, 5, 8, 13, 21, 34, 55}
	o := NewOrder(rows, 4)
	var first, second []int
	for n := range 14 {
		if n < 7 {
			first = append(first, o.At(n))
		} else {
			second = append(second, o.At(n))
		}
	}
	if slices.Equal(first, second) {
		t.Error("two epochs in one order")
	}
	// A fresh Order, asked out of order, gives the same rows: the place is the whole state.
	again := NewOrder(rows, 4)
	for _, n := range []int{12, 3, 9, 0} {
		if got := again.At(n); got != append(slices.Clone(first), second...)[n] {
			t.Errorf("sample %d is row %d", n, got)
		}
	}
	if other := NewOrder(rows, 5); slices.Equal([]int{other.At(0), other.At(1), other.At(2), other.At(3)}, first[:4]) {
		t.Error("another seed gave the same order")
	}
	for _, epoch := range [][]int{first, second} {
		slices.Sort(epoch)
		if !slices.Equal(epoch, rows) {
			t.Errorf("an epoch visits %v", epoch)
		}
	}
}

func TestSplitKeepsEpisodesWhole(t *testing.T) {
	all := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	train, val, err := Split(all, 0.2, 1)
	if err != nil || len(val) != 2 || len(train) != 8 {
		t.Fatalf("%v and %v, %v", train, val, err)
	}
	both := append(slices.Clone(train), val...)
	slices.Sort(both)
	if !slices.Equal(both, all) {
		t.Errorf("parts %v and %v are not the whole", train, val)
	}
	shuffled := []int{9, 3, 1, 0, 2, 8, 7, 4, 6, 5}
	if _, v, _ := Split(shuffled, 0.2, 1); !slices.Equal(v, val) {
		t.Error("the split depends on the order of the episodes")
	}
	if _, v, _ := Split([]int{1, 2, 3}, 0.01, 1); len(v) != 1 {
		t.Errorf("a small share of few episodes holds out %v", v)
	}
	if tr, v, _ := Split([]int{1}, 0.5, 1); len(tr) != 1 || len(v) != 0 {
		t.Errorf("one episode was split into %v and %v", tr, v)
	}
	if _, _, err := Split(all, 1, 1); err == nil {
		t.Error("everything held out")
	}
}

func TestAugmentLeavesNothingOutOfRangeAndIsSeeded(t *testing.T) {
	src := imaging.NewRGB(8, 8)
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range src.Pix {
		src.Pix[i] = byte(rng.Uint32())
	}
	plain := make([]byte, len(src.Pix))
	Augment{}.Apply(plain, src, rand.New(rand.NewPCG(2, 2)))
	if !bytes.Equal(plain, src.Pix) {
		t.Error("no augmentation changed the picture")
	}
	a := Augment{Brightness: 0.3, Contrast: 0.4, Saturation: 0.5, Shift: 2}
	one, two, three := make([]byte, len(src.Pix)), make([]byte, len(src.Pix)), make([]byte, len(src.Pix))
	a.Apply(one, src, rand.New(rand.NewPCG(2, 2)))
	a.Apply(two, src, rand.New(rand.NewPCG(2, 2)))
	a.Apply(three, src, rand.New(rand.NewPCG(2, 3)))
	if !bytes.Equal(one, two) || bytes.Equal(one, three) {
		t.Error("augmentation is not a function of the random source")
	}
}

func TestShiftMovesThePictureAndRepeatsTheEdge(t *testing.T) {
	src := imaging.RGB{Width: 3, Height: 1, Pix: []byte{1, 1, 1, 2, 2, 2, 3, 3, 3}}
	dst := make([]byte, 9)
	shift(dst, src, 1, 0)
	if !bytes.Equal(dst, []byte{1, 1, 1, 1, 1, 1, 2, 2, 2}) {
		t.Errorf("moved right by one: %v", dst)
	}
	shift(dst, src, -2, 5)
	if !bytes.Equal(dst, []byte{3, 3, 3, 3, 3, 3, 3, 3, 3}) {
		t.Errorf("moved left by two: %v", dst)
	}
}

func TestColourFollowsItsFormula(t *testing.T) {
	pix := []byte{100, 150, 200, 50, 60, 70}
	want := func(v, mean, grey, b, c, s float64) byte { // one channel by hand
		x := mean + c*(b*v-mean)
		return level(grey + s*(x-grey))
	}
	b, c, s := 1.2, 0.8, 0.5
	mean := b * (luma(100, 150, 200) + luma(50, 60, 70)) / 2
	grey0 := luma(mean+c*(b*100-mean), mean+c*(b*150-mean), mean+c*(b*200-mean))
	got := slices.Clone(pix)
	colour(got, b, c, s)
	for i, v := range []float64{100, 150, 200} {
		if got[i] != want(v, mean, grey0, b, c, s) {
			t.Errorf("channel %d is %d, want %d", i, got[i], want(v, mean, grey0, b, c, s))
		}
	}
	flat := []byte{90, 90, 90, 90, 90, 90}
	colour(flat, 1, 3, 9)
	if !bytes.Equal(flat, []byte{90, 90, 90, 90, 90, 90}) {
		t.Errorf("contrast and saturation changed a flat grey: %v", flat)
	}
}
