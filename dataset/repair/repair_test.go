package repair

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/check"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const (
	data1  = "data/chunk-000/file-001.parquet"
	data2  = "data/chunk-000/file-002.parquet"
	table1 = "meta/episodes/chunk-000/file-001.parquet"
	cam    = "observation.images.left"
	film1  = "videos/" + cam + "/chunk-000/file-001.mp4"
)

// lengths of the episodes of the set that is broken in each test.
var lengths = []int{12, 9, 20}

func needFFmpeg(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("ffmpeg is not installed: apt-get install ffmpeg")
		}
		t.Skip("ffmpeg is not installed: apt-get install ffmpeg")
	}
}

// film makes a video of n frames of changing grey.
func film(t testing.TB, path string, n int) {
	t.Helper()
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: 30, Width: 64, Height: 48, Preset: "ultrafast"})
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Abort()
	rgb := make([]byte, 64*48*3)
	for i := range n {
		for k := range rgb {
			rgb[k] = byte(40 + (i*37+k/300)%180)
		}
		if err := enc.WriteRGB(rgb); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enc.Close(); err != nil {
		t.Fatal(err)
	}
}

// makeSet writes a sound dataset.
func makeSet(t testing.TB) string {
	t.Helper()
	needFFmpeg(t)
	root := filepath.Join(t.TempDir(), "set")
	w, err := dataset.Create(root, dataset.Options{FPS: 30, RobotType: "hand", Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{3}, Names: []string{"x", "y", "z"}},
		{Name: cam, DType: dataset.Video, Shape: []int{48, 64, 3}},
		{Name: "action", DType: dataset.Float64, Shape: []int{2}, Names: []string{"a", "b"}},
		{Name: "note", DType: dataset.String, Shape: []int{1}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for k, n := range lengths {
		path := filepath.Join(dir, fmt.Sprintf("%d.mp4", k))
		film(t, path, n)
		state, action, note := make([]float32, 3*n), make([]float64, 2*n), make([]string, n)
		for r := range n {
			state[3*r], state[3*r+1], state[3*r+2] = float32(k), float32(r)/10, float32(math.Sin(float64(r)))
			action[2*r], action[2*r+1] = math.Cos(float64(r+k)), -float64(r)
			note[r] = fmt.Sprintf("row %d", r)
		}
		if _, err := w.AddEpisode(context.Background(), dataset.Episode{Length: n, Tasks: []string{fmt.Sprintf("task %d", k%2)},
			Columns: map[string]any{"observation.state": state, "action": action, "note": note}, Videos: map[string]string{cam: path}, Extra: map[string]any{"operator": "ada"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return root
}

// edit changes the columns of a Parquet file.
func edit(t *testing.T, root, path string, f func(c map[string]*pq.Column)) {
	t.Helper()
	full := filepath.Join(root, path)
	in, err := pq.Open(full)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*pq.Column{}
	var order []string
	md := map[string]string{}
	for _, key := range []string{"huggingface", "pandas"} {
		if v, ok := in.Metadata(key); ok {
			md[key] = v
		}
	}
	for _, info := range in.Columns() {
		d, err := in.Read(info.Name, 0, in.Rows())
		if err != nil {
			t.Fatal(err)
		}
		c := &pq.Column{Name: info.Name, Values: d.Values, Fixed: strings.HasPrefix(path, "data/")}
		if info.Depth > 0 {
			c.Shape = append([]int{d.Starts[1]}, []int{1, 1}[:info.Depth-1]...)
		}
		by[info.Name] = c
		order = append(order, info.Name)
	}
	rows := in.Rows()
	in.Close()
	f(by)
	var columns []pq.Column
	for _, name := range order {
		if c := by[name]; c != nil {
			columns = append(columns, *c)
			delete(by, name)
		}
	}
	for _, c := range by {
		columns = append(columns, *c)
	}
	out, err := os.Create(full)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := pq.Write(out, rows, columns, md); err != nil {
		t.Fatal(err)
	}
}

func replaceText(t *testing.T, root, path, old, new string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s does not contain %q (%v)", path, old, err)
	}
	if err := os.WriteFile(filepath.Join(root, path), []byte(strings.Replace(string(b), old, new, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cut keeps all but the last n bytes, as a crash does.
func cut(t *testing.T, root, path string, n int) {
	t.Helper()
	full := filepath.Join(root, path)
	b, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, b[:len(b)-n], 0o644); err != nil {
		t.Fatal(err)
	}
}

// faults that a repair mends, and the rows that are left.
var faults = map[string]struct {
	rows  int
	fault func(t *testing.T, root string)
}{
	"counters": {41, func(t *testing.T, r string) {
		replaceText(t, r, survey.InfoPath, `"total_episodes": 3`, `"total_episodes": 8`)
		replaceText(t, r, survey.InfoPath, `"total_frames": 41`, `"total_frames": 99`)
	}},
	"float fps": {41, func(t *testing.T, r string) { replaceText(t, r, survey.InfoPath, `"fps": 30,`, `"fps": 30.0,`) }},
	"old key": {41, func(t *testing.T, r string) {
		replaceText(t, r, survey.InfoPath, `"fps": 30,`, `"fps": 30, "total_chunks": 1,`)
	}},
	"codec": {41, func(t *testing.T, r string) {
		replaceText(t, r, survey.InfoPath, `"video.codec": "h264"`, `"video.codec": "av1"`)
	}},
	"broken split":  {41, func(t *testing.T, r string) { replaceText(t, r, survey.InfoPath, `"0:3"`, `"0:9"`) }},
	"stats missing": {41, func(t *testing.T, r string) { os.Remove(filepath.Join(r, survey.StatsPath)) }},
	"tasks missing": {41, func(t *testing.T, r string) { os.Remove(filepath.Join(r, survey.TasksPath)) }},
	"index columns": {41, func(t *testing.T, r string) {
		edit(t, r, data1, func(c map[string]*pq.Column) {
			c["index"].Values.([]int64)[0], c["frame_index"].Values.([]int64)[3], c["timestamp"].Values.([]float32)[4] = 7, 9, 1.5
		})
	}},
	"extra column": {41, func(t *testing.T, r string) {
		edit(t, r, data1, func(c map[string]*pq.Column) { c["more"] = &pq.Column{Name: "more", Values: make([]int64, 9)} })
	}},
	"list of one": {41, func(t *testing.T, r string) {
		edit(t, r, data1, func(c map[string]*pq.Column) { c["task_index"].Shape = []int{1} })
	}},
	"end times": {41, func(t *testing.T, r string) {
		edit(t, r, table1, func(c map[string]*pq.Column) { c["videos/"+cam+"/to_timestamp"].Values = []float64{8.0 / 30} })
	}},
	"table length": {41, func(t *testing.T, r string) {
		edit(t, r, table1, func(c map[string]*pq.Column) { c["length"].Values = []int64{8} })
	}},
	"NaN in a table": {41, func(t *testing.T, r string) {
		edit(t, r, table1, func(c map[string]*pq.Column) { c["dataset_from_index"].Values = []float64{math.NaN()} })
	}},
	"table file cut":          {41, func(t *testing.T, r string) { cut(t, r, table1, 40) }},
	"last rows cut":           {21, func(t *testing.T, r string) { cut(t, r, data2, 40) }},
	"rows of an episode gone": {32, func(t *testing.T, r string) { os.Remove(filepath.Join(r, data1)) }},
	"video gone":              {32, func(t *testing.T, r string) { os.Remove(filepath.Join(r, film1)) }},
	"video cut off":           {32, func(t *testing.T, r string) { cut(t, r, film1, 200) }},
	"video short":             {39, func(t *testing.T, r string) { film(t, filepath.Join(r, film1), 7) }},
	"video folder":            {41, func(t *testing.T, r string) { os.Rename(filepath.Join(r, "videos"), filepath.Join(r, "video")) }},
	"stray file":              {41, func(t *testing.T, r string) { os.WriteFile(filepath.Join(r, "data/chunk-000/x.tmp"), nil, 0o644) }},
	"orphan": {41, func(t *testing.T, r string) {
		copyFile(t, filepath.Join(r, film1), filepath.Join(r, "videos/"+cam+"/chunk-000/file-009.mp4"))
	}},
	"names null": {41, func(t *testing.T, r string) {
		b, _ := os.ReadFile(filepath.Join(r, survey.InfoPath))
		var v map[string]any
		json.Unmarshal(b, &v)
		v["features"].(map[string]any)[cam].(map[string]any)["names"] = nil
		b, _ = json.Marshal(v)
		os.WriteFile(filepath.Join(r, survey.InfoPath), b, 0o644)
	}},
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each fault is mended, into a new dataset and in place: a check finds no error and no warning that was not there before the fault,
// the dataset opens, and the rows that are left are those that were there.
func TestRepairMendsEachFault(t *testing.T) {
	base := makeSet(t)
	for name, k := range faults {
		root := filepath.Join(t.TempDir(), "set")
		if err := os.CopyFS(root, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		k.fault(t, root)
		if r, err := check.Run(context.Background(), root, check.Options{}); err != nil || len(r.Findings) == 0 {
			t.Errorf("%s: the check finds nothing (%v)", name, err)
		}
		before := files(t, root)
		to := filepath.Join(t.TempDir(), "new")
		if _, err := Run(context.Background(), root, Options{To: to, MaxTrim: -1}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := files(t, root); !slices.Equal(got, before) {
			t.Errorf("%s: the source changed", name)
		}
		sound(t, name+", new", to, k.rows)
		if _, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1}); err != nil {
			t.Errorf("%s in place: %v", name, err)
			continue
		}
		sound(t, name+", in place", root, k.rows)
		again, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1})
		if err != nil || again.Written+again.Moved+again.Aside > 0 {
			t.Errorf("%s: a second repair did something: %+v %v", name, again, err)
		}
	}
}

// serious findings are errors and warnings.
func serious(r *dataset.Report) []dataset.Finding {
	return slices.DeleteFunc(slices.Clone(r.Findings), func(f dataset.Finding) bool { return f.Severity == dataset.Note })
}

func sound(t *testing.T, name, root string, rows int) {
	t.Helper()
	r, err := check.Run(context.Background(), root, check.Options{})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, f := range serious(r) {
		t.Errorf("%s: %s is left: %s", name, f.Code, f.Message)
	}
	if r.Frames != rows || r.Present != r.Episodes {
		t.Errorf("%s: %d rows, %d of %d episodes present; want %d rows", name, r.Frames, r.Present, r.Episodes, rows)
	}
	d, err := dataset.Open(root)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	for _, e := range d.Episodes() {
		state, err := dataset.ReadColumn[float32](d, "observation.state", e.Index)
		if err != nil || e.Extra["operator"] != "ada" && !strings.Contains(name, "table file") {
			t.Errorf("%s: episode %d: %v, extra %v", name, e.Index, err, e.Extra)
			continue
		}
		for k := range e.Length {
			if state[3*k+1] != float32(k)/10 {
				t.Errorf("%s: episode %d row %d holds other numbers", name, e.Index, k)
				break
			}
		}
	}
}

// files lists names and sizes, without the working folder.
func files(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		st, err := d.Info()
		rel, _ := filepath.Rel(root, p)
		out = append(out, fmt.Sprintf("%s %d", rel, st.Size()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A dry run and a sound dataset change nothing; what can not be mended is an error that says why.
func TestRepairLeavesSoundSetsAlone(t *testing.T) {
	root := makeSet(t)
	before := files(t, root)
	r, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1})
	if err != nil || len(r.Done) > 0 || r.Written+r.Moved+r.Aside > 0 || !slices.Equal(files(t, root), before) {
		t.Errorf("a sound set: %+v %v", r, err)
	}
	replaceText(t, root, survey.InfoPath, `"total_episodes": 3`, `"total_episodes": 8`)
	before = files(t, root)
	r, err = Run(context.Background(), root, Options{InPlace: true, DryRun: true, MaxTrim: -1})
	if err != nil || r.Written == 0 || !slices.Equal(files(t, root), before) {
		t.Errorf("a dry run: %+v %v", r, err)
	}
	if err := os.WriteFile(filepath.Join(root, survey.InfoPath), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(context.Background(), root, Options{InPlace: true}); err == nil || !strings.Contains(err.Error(), "does not decode") {
		t.Errorf("a broken info.json: %v", err)
	}
}

// A repair that is stopped at any of its moves is finished by the next one, with the same result.
func TestInterruptedRepairGoesOn(t *testing.T) {
	base := makeSet(t)
	os.Remove(filepath.Join(base, data1)) // every file after it has to be numbered anew
	want := filepath.Join(t.TempDir(), "want")
	if _, err := Run(context.Background(), base, Options{To: want, MaxTrim: -1}); err != nil {
		t.Fatal(err)
	}
	for stop := 0; ; stop++ {
		root := filepath.Join(t.TempDir(), "set")
		if err := os.CopyFS(root, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
		moves := 0
		beforeMove = func() error {
			if moves++; moves > stop {
				return context.Canceled
			}
			return nil
		}
		_, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1})
		beforeMove = nil
		if err == nil {
			if stop < 4 {
				t.Errorf("only %d moves", stop)
			}
			return
		}
		if r, err := check.Run(context.Background(), root, check.Options{}); err == nil {
			if _, ok := r.Find("repair-interrupted"); !ok {
				t.Errorf("stopped at move %d: the check does not say so", stop)
			}
		}
		if _, err := Run(context.Background(), root, Options{InPlace: true, MaxTrim: -1}); err != nil {
			t.Fatalf("stopped at move %d: %v", stop, err)
		}
		os.RemoveAll(filepath.Join(root, ".pinch"))
		if got := files(t, root); !slices.Equal(got, files(t, want)) {
			t.Errorf("stopped at move %d: %v, want %v", stop, got, files(t, want))
		}
	}
}

// What a run into a new folder finished before it was stopped is used again.
func TestInterruptedCopyGoesOn(t *testing.T) {
	root := makeSet(t)
	replaceText(t, root, survey.InfoPath, `"total_episodes": 3`, `"total_episodes": 8`)
	to := filepath.Join(t.TempDir(), "new")
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Run(ctx, root, Options{To: to, MaxTrim: -1, Progress: func(stage string, done, total int) {
		if stage == "files" && done == 3 {
			cancel()
		}
	}})
	if err == nil {
		t.Fatal("a cancelled repair succeeded")
	}
	if _, err := os.Stat(to); err == nil {
		t.Fatal("a cancelled repair shows a result")
	}
	left := len(files(t, to+".partial"))
	if left < 3 {
		t.Errorf("%d files are left to go on with", left)
	}
	if _, err := Run(context.Background(), root, Options{To: to, MaxTrim: -1}); err != nil {
		t.Fatal(err)
	}
	sound(t, "resumed", to, 41)
	if _, err := os.Stat(to + ".partial"); err == nil {
		t.Error("the partial folder is left")
	}
}

// The real recordings load by the official libraries' rules after a repair.
func TestRepairOfRealRecordings(t *testing.T) {
	for folder, want := range map[string]struct{ episodes, rows int }{"unitree_g1_v21": {2, 736}, "open50_v30_malformed": {1, 427}} {
		to := filepath.Join(t.TempDir(), "new")
		r, err := Run(context.Background(), testpeer.Data(t, "real/"+folder), Options{To: to, MaxTrim: -1})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Episodes) != want.episodes || r.Frames != want.rows {
			t.Errorf("%s: %d episodes, %d rows", folder, len(r.Episodes), r.Frames)
		}
		report, err := check.Run(context.Background(), to, check.Options{Decode: true})
		if err != nil || !report.OK() {
			t.Errorf("%s: errors are left: %+v %v", folder, report, err)
		}
		python := testpeer.Python(t, "datasets", "pyarrow", "av")
		cmd := exec.Command(python, "testdata/load.py", to)
		cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "HF_HUB_OFFLINE=1", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), fmt.Sprintf("rows %d frames %d", want.rows, want.rows)) {
			t.Errorf("%s does not load: %v %s", folder, err, out)
		}
	}
}
