package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const width, height = 32, 32

// level is the grey of frame r of episode k.
func level(k, r int) byte { return byte(30 + (k*53+r*29)%180) }

// sample writes a dataset of episodes of these lengths; every value names its episode and row.
func sample(t *testing.T, robot string, swap bool, lengths ...int) string {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	root := filepath.Join(t.TempDir(), "set")
	features := []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{3}, Names: []string{"x", "y", "z"}},
		{Name: "observation.pose", DType: dataset.Float64, Shape: []int{7}, Names: poseNames},
		{Name: "observation.image.left", DType: dataset.Video, Shape: []int{height, width, 3}},
		{Name: "observation.image.left.is_fresh", DType: dataset.Bool, Shape: []int{1}},
	}
	if swap {
		slices.Reverse(features)
	}
	w, err := dataset.Create(root, dataset.Options{FPS: 10, RobotType: robot, Features: features})
	if err != nil {
		t.Fatal(err)
	}
	for k, n := range lengths {
		state, pose, fresh := make([]float32, 3*n), make([]float64, 7*n), make([]bool, n)
		clip := filepath.Join(w.Scratch(), fmt.Sprintf("%d.mp4", k))
		enc, err := video.NewEncoder(context.Background(), clip, video.EncodeOptions{FPS: 10, Width: width, Height: height})
		if err != nil {
			t.Fatal(err)
		}
		for r := range n {
			state[3*r], state[3*r+1], state[3*r+2] = float32(k), float32(r), float32(10*k+r)
			half := 0.05 * float64(r) // turns about z while it moves along x
			copy(pose[7*r:], []float64{float64(r), 0, 1, 0, 0, math.Sin(half), math.Cos(half)})
			fresh[r] = r%2 == 0
			if err := enc.WriteRGB(bytes.Repeat([]byte{level(k, r)}, width*height*3)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		_, err = w.AddEpisode(context.Background(), dataset.Episode{Length: n, Tasks: []string{fmt.Sprintf("task %d", k%2)},
			Columns: map[string]any{"observation.state": state, "observation.pose": pose, "observation.image.left.is_fresh": fresh},
			Videos:  map[string]string{"observation.image.left": clip}, Extra: map[string]any{"success": k%2 == 0, "score": float64(k), "n": int64(k)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

func open(t *testing.T, root string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// holds checks a result: the episodes it is made of by their state values, the pictures, and the identity.
func holds(t *testing.T, root string, want []int) {
	t.Helper()
	d := open(t, root)
	stored, err1 := d.Identity()
	computed, err2 := d.VerifyIdentity()
	if err1 != nil || err2 != nil || stored != computed {
		t.Errorf("%s: identity %s, computed %s (%v, %v)", root, stored, computed, err1, err2)
	}
	if d.NumEpisodes() != len(want) {
		t.Fatalf("%s has %d episodes, want %d", root, d.NumEpisodes(), len(want))
	}
	for i, k := range want {
		e, err := d.Episode(i)
		if err != nil {
			t.Fatal(err)
		}
		pose, err := dataset.ReadColumn[float64](d, "observation.pose", i)
		if err != nil || pose[7*(e.Length-1)] != float64(e.Length-1) {
			t.Errorf("pose of episode %d: %v (%v)", i, pose, err)
		}
		camera := d.Features()[slices.IndexFunc(d.Features(), func(f dataset.Feature) bool { return f.DType == dataset.Video })].Name
		path, first, err := d.VideoFrame(i, camera)
		if err != nil {
			t.Fatal(err)
		}
		r := 0
		err = video.Each(path, video.ReaderOptions{}, first, e.Length, func(_ int, rgb []byte) error {
			if d := int(rgb[0]) - int(level(k, r)); d < -4 || d > 4 {
				t.Errorf("episode %d row %d has grey %d, want %d", i, r, rgb[0], level(k, r))
			}
			r++
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// official holds a dataset to the rules of the official loader of its version.
func official(t *testing.T, script, root string) {
	t.Helper()
	python := testpeer.Python(t, "datasets", "pyarrow", "pandas", "av", "numpy")
	cmd := exec.Command(python, filepath.Join("..", "testdata", script), root, "3")
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the official rules are broken: %v\n%s", err, out)
	}
}

func to(t *testing.T, name string) Target { return Target{Path: filepath.Join(t.TempDir(), name)} }

// v3.0 to v2.1 and back: both official loaders' rules hold, and nothing of the content is lost.
func TestConvertBothWays(t *testing.T) {
	src := sample(t, "hand", false, 5, 8, 6)
	before, err := open(t, src).Identity()
	if err != nil {
		t.Fatal(err)
	}
	old, new := to(t, "old"), to(t, "new")
	if _, err := Convert(t.Context(), src, "v2.1", old); err != nil {
		t.Fatal(err)
	}
	holds(t, old.Path, []int{0, 1, 2})
	official(t, "official_v21_rules.py", old.Path)
	if _, err := Convert(t.Context(), old.Path, "v3.0", new); err != nil {
		t.Fatal(err)
	}
	holds(t, new.Path, []int{0, 1, 2})
	official(t, "official_rules.py", new.Path)
	if after, _ := open(t, new.Path).Identity(); after != before {
		t.Errorf("identity %s became %s", before, after)
	}
	a, b := open(t, src).Episodes(), open(t, new.Path).Episodes()
	for i := range a {
		if diff := cmp.Diff(a[i].Extra, b[i].Extra); diff != "" {
			t.Errorf("extra columns of episode %d: %s", i, diff)
		}
	}
	// an edit in v2.1 stays in v2.1
	short := to(t, "short")
	if _, err := Delete(t.Context(), old.Path, []int{0}, short); err != nil {
		t.Fatal(err)
	}
	holds(t, short.Path, []int{1, 2})
	official(t, "official_v21_rules.py", short.Path)
}

// Merge does not depend on the order of columns, keeps each side's tasks by text, and gives episodes without an extra column none.
func TestMerge(t *testing.T) {
	a, b := sample(t, "hand", false, 5, 6), sample(t, "hand", true, 5, 6, 7)
	if _, err := Rename(t.Context(), b, nil, map[string]string{"task 0": "task 9"}, Target{Path: b, InPlace: true}); err != nil {
		t.Fatal(err)
	}
	m := to(t, "merged")
	if _, err := Merge(t.Context(), []string{a, b}, m); err != nil {
		t.Fatal(err)
	}
	holds(t, m.Path, []int{0, 1, 0, 1, 2})
	official(t, "official_rules.py", m.Path)
	d := open(t, m.Path)
	var tasks []string
	for e := range d.All() {
		tasks = append(tasks, e.Tasks...)
	}
	if want := []string{"task 0", "task 1", "task 9", "task 1", "task 9"}; !slices.Equal(tasks, want) {
		t.Errorf("tasks %v, want %v", tasks, want)
	}
	if other := sample(t, "arm", false, 5); true {
		_, err := Merge(t.Context(), []string{a, other}, to(t, "x"))
		if err == nil || !strings.Contains(err.Error(), "robot types") {
			t.Errorf("two kinds of robot: %v", err)
		}
	}
}

func TestSplitFilterAndDelete(t *testing.T) {
	src := sample(t, "hand", false, 5, 6, 7, 8)
	target := to(t, "parts")
	parts, err := Fractions(4, []string{"train", "test"}, []float64{0.75, 0.25})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Split(t.Context(), src, parts, target); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(target.Path, "train"), []int{0, 1, 2})
	holds(t, filepath.Join(target.Path, "test"), []int{3})
	official(t, "official_rules.py", filepath.Join(target.Path, "test"))
	for text, want := range map[string][]int{"success=true": {0, 2}, "length>=7": {2, 3}, "seconds<0.6": {0}, "task~K 1": {1, 3}, "n!=2": {0, 1, 3}, "score<=0": {0}} {
		c, err := ParseCondition(text)
		if err != nil {
			t.Fatal(err)
		}
		some := to(t, "some")
		if _, err := Filter(t.Context(), src, []Condition{c}, some); err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		holds(t, some.Path, want)
	}
	c, _ := ParseCondition("colour=red")
	if _, err := Filter(t.Context(), src, []Condition{c}, to(t, "none")); err == nil || !strings.Contains(err.Error(), "success") {
		t.Errorf("an unknown name: %v", err)
	}
	for name, episodes := range map[string][]int{"unknown": {9}, "twice": {1, 1}, "all": {0, 1, 2, 3}} { // the source survives every mistake
		if _, err := Delete(t.Context(), src, episodes, Target{Path: src, InPlace: true}); err == nil {
			t.Errorf("deleting %s episodes was accepted", name)
		}
	}
	holds(t, src, []int{0, 1, 2, 3})
}

func TestFeatures(t *testing.T) {
	src := sample(t, "hand", false, 5, 6)
	ctx, in := t.Context(), Target{Path: src, InPlace: true}
	f := dataset.Feature{Name: "weight", DType: dataset.Float64, Shape: []int{2}, Names: []string{"a", "b"}}
	rows, err := Constant(f, []string{"0.5", "-1"})
	if err != nil {
		t.Fatal(err)
	}
	steps := []func() (*Result, error){
		func() (*Result, error) { return AddFeature(ctx, src, f, rows, "constant", in) },
		func() (*Result, error) {
			return Rename(ctx, src, map[string]string{"observation.state": "observation.arm", "observation.image.left": "observation.images.left"},
				map[string]string{"task 0": "task 1"}, in)
		},
		func() (*Result, error) { return Remap(ctx, src, "observation.arm", []string{"z", "0"}, in) },
		func() (*Result, error) {
			return RemoveFeatures(ctx, src, []string{"observation.image.left.is_fresh"}, in)
		},
		func() (*Result, error) { return Recompute(ctx, src, in) },
	}
	for i, step := range steps {
		if _, err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		holds(t, src, []int{0, 1})
	}
	official(t, "official_rules.py", src)
	d := open(t, src)
	if diff := cmp.Diff([]string{"task 1"}, d.Tasks()); diff != "" {
		t.Error(diff)
	}
	arm, err := d.Feature("observation.arm")
	if err != nil || !slices.Equal(arm.Names, []string{"z", "x"}) {
		t.Errorf("elements %v (%v)", arm.Names, err)
	}
	v, err := dataset.ReadColumn[float32](d, "observation.arm", 1)
	if err != nil || v[0] != 10 || v[1] != 1 || v[2] != 11 {
		t.Errorf("rows %v (%v)", v, err)
	}
	w, err := dataset.ReadColumn[float64](d, "weight", 1)
	if err != nil || w[10] != 0.5 || w[11] != -1 {
		t.Errorf("weights %v (%v)", w, err)
	}
	if _, err := Remap(ctx, src, "observation.arm", []string{"q"}, in); err == nil || !strings.Contains(err.Error(), "z x") {
		t.Errorf("an unknown element: %v", err)
	}
}

func TestFromCSV(t *testing.T) {
	src := sample(t, "hand", false, 2, 1)
	path := filepath.Join(t.TempDir(), "v.csv")
	f := dataset.Feature{Name: "reward", DType: dataset.Float32, Shape: []int{1}}
	for content, fault := range map[string]string{
		"episode_index,frame_index,reward\n1,0,3\n0,1,2\n0,0,1\n": "",
		"episode_index,frame_index,reward\n1,0,3\n0,1,2\n":        "no row 0 of episode 0",
		"episode_index,frame_index,reward\n0,0,1\n0,0,2\n":        "again",
		"frame,reward\n0,1\n":                                     "columns",
	} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		target := to(t, "added")
		rows, err := FromCSV(f, path)
		if err == nil {
			_, err = AddFeature(t.Context(), src, f, rows, path, target)
		}
		if fault != "" {
			if err == nil || !strings.Contains(err.Error(), fault) {
				t.Errorf("%q: got %v, want %q", content, err, fault)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := dataset.ReadColumn[float32](open(t, target.Path), "reward", 0)
		if err != nil || !slices.Equal(v, []float32{1, 2}) {
			t.Errorf("rows %v (%v)", v, err)
		}
	}
}

// stills writes a v3.0 dataset whose pictures are PNG files in the rows, as recorders without video make.
func stills(t *testing.T) string {
	t.Helper()
	src := sample(t, "hand", false, 4)
	root := filepath.Join(t.TempDir(), "stills")
	var pictures pq.Pictures
	for r := range 4 {
		img := image.NewRGBA(image.Rect(0, 0, width, height))
		for i := range width * height {
			img.Set(i%width, i/width, color.Gray{level(0, r)})
		}
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		pictures.Bytes, pictures.Paths = append(pictures.Bytes, b.String()), append(pictures.Paths, fmt.Sprintf("frame-%06d.png", r))
	}
	if _, err := RemoveFeatures(t.Context(), src, []string{"observation.image.left"}, Target{Path: root}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(root, "meta", "info.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var info map[string]any
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	info["features"].(map[string]any)["observation.image.left"] = map[string]any{"dtype": "image", "shape": []int{3, height, width}, "names": []string{"channels", "height", "width"}}
	text, _ = json.Marshal(info)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(root, "data", "chunk-000", "file-000.parquet")
	f, err := pq.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	var columns []pq.Column
	for _, c := range f.Columns() {
		v, err := f.Read(c.Name, 0, 4)
		if err != nil {
			t.Fatal(err)
		}
		column := pq.Column{Name: c.Name, Values: v.Values}
		if c.Depth > 0 {
			column.Shape, column.Fixed = []int{v.Starts[1]}, true
		}
		columns = append(columns, column)
	}
	f.Close()
	var out bytes.Buffer
	if err := pq.Write(&out, 4, append(columns, pq.Column{Name: "observation.image.left", Values: pictures}), nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestReencode(t *testing.T) {
	src := sample(t, "hand", false, 5, 6)
	again := to(t, "again")
	if _, err := Reencode(t.Context(), src, nil, video.EncodeOptions{Codec: video.H264, CRF: 10, GOP: 4}, again); err != nil {
		t.Fatal(err)
	}
	holds(t, again.Path, []int{0, 1})
	official(t, "official_rules.py", again.Path)
	a, _ := open(t, src).Identity()
	if b, _ := open(t, again.Path).Identity(); a == b {
		t.Error("other pictures have the same identity")
	}
	film := to(t, "film")
	if _, err := Reencode(t.Context(), stills(t), nil, video.EncodeOptions{CRF: 10}, film); err != nil {
		t.Fatal(err)
	}
	holds(t, film.Path, []int{0})
	official(t, "official_rules.py", film.Path)
}

// The change over k steps of a motion that is the same in every step is k times that, for positions, and its power for poses.
func TestRelativeChunks(t *testing.T) {
	d := open(t, sample(t, "hand", false, 6, 9))
	c, err := RelativeChunks(t.Context(), d, "observation.state", 3)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range c.Steps {
		k := float64(i + 1)
		if want := int64(6 - i - 1 + 9 - i - 1); s.Step != i+1 || s.Count != want || s.Mean[0] != 0 || s.Mean[1] != k || s.Std[1] != 0 || s.Q50[2] != k {
			t.Errorf("step %d: %+v", i+1, s)
		}
	}
	if c, err = RelativeChunks(t.Context(), d, "observation.pose", 8); err != nil {
		t.Fatal(err)
	}
	last := c.Steps[7] // only the longer episode is that long: from row 0 to row 8, seen along the axes at row 0
	if c.Reference != "body" || last.Count != 1 || math.Abs(last.Mean[0]-8) > 1e-12 || math.Abs(last.Mean[3]-math.Cos(0.8)) > 1e-12 {
		t.Errorf("%+v", last)
	}
}
