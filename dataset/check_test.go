package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const (
	data1  = "data/chunk-000/file-001.parquet"
	table1 = "meta/episodes/chunk-000/file-001.parquet"
	left1  = "videos/observation.images.left/chunk-000/file-001.mp4"
)

// editTable reads a Parquet file, changes its columns and writes it again.
func editTable(t *testing.T, root, path string, f func(c map[string]*pq.Column), md map[string]string) {
	t.Helper()
	full := filepath.Join(root, path)
	in, err := pq.Open(full)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*pq.Column{}
	var order []string
	for _, info := range in.Columns() {
		d, err := in.Read(info.Name, 0, in.Rows())
		if err != nil {
			t.Fatal(err)
		}
		c := &pq.Column{Name: info.Name, Values: d.Values, Fixed: strings.HasPrefix(path, "data/")}
		if n := d.Starts[1]; info.Depth > 0 {
			c.Shape = append([]int{n}, []int{1, 1}[:info.Depth-1]...)
		}
		byName[info.Name] = c
		order = append(order, info.Name)
	}
	hf, _ := in.Metadata("huggingface")
	rows := in.Rows()
	in.Close()
	f(byName)
	var columns []pq.Column
	for _, name := range order {
		if c := byName[name]; c != nil {
			columns = append(columns, *c)
			delete(byName, name)
		}
	}
	for _, c := range byName {
		columns = append(columns, *c)
	}
	if md == nil {
		md = map[string]string{}
		if hf != "" {
			md["huggingface"] = hf
		}
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

func set[T any](i int, v T) func(c *pq.Column) {
	return func(c *pq.Column) { c.Values.([]T)[i] = v }
}

// edit changes one column.
func edit(path, column string, f func(c *pq.Column)) func(t *testing.T, root string) {
	return func(t *testing.T, root string) {
		editTable(t, root, path, func(c map[string]*pq.Column) { f(c[column]) }, nil)
	}
}

func infoEdit(old, new string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) { editLine(t, root, infoPath, old, new) }
}

// place is what a finding must say besides its code.
type place struct {
	code           string
	severity       Severity
	episode, frame int
	says           string
}

// Each fault, put alone into a good dataset, must be found under its code, at its place and with its numbers.
func TestCheckFindsEachFault(t *testing.T) {
	base := makeDataset(t)
	for name, c := range map[string]struct {
		want  place
		fault func(t *testing.T, root string)
	}{
		"counters run ahead":    {place{"info-totals", Error, -1, -1, "8, the episode table has 3"}, infoEdit(`"total_episodes": 3`, `"total_episodes": 8`)},
		"total rows":            {place{"info-totals-frames", Error, -1, -1, "add up to 39"}, infoEdit(`"total_frames": 39`, `"total_frames": 40`)},
		"float fps":             {place{"fps-float", Warn, -1, -1, "30.0"}, infoEdit(`"fps": 30,`, `"fps": 30.0,`)},
		"fps zero":              {place{"info-value", Error, -1, -1, "fps is 0"}, infoEdit(`"fps": 30,`, `"fps": 0,`)},
		"own template":          {place{"path-template", Warn, -1, -1, "ignore it"}, infoEdit(`"data/chunk-{chunk_index:03d}/file`, `"data/chunk-{chunk_index:03d}/./file`)},
		"broken json":           {place{"info-json", Error, -1, -1, "does not decode"}, infoEdit(`"fps"`, `fps`)},
		"split too long":        {place{"info-splits", Warn, -1, -1, `"0:9"`}, infoEdit(`"0:3"`, `"0:9"`)},
		"old key":               {place{"info-key", Note, -1, -1, "total_chunks"}, infoEdit(`"total_tasks"`, `"total_chunks": 1, "total_tasks"`)},
		"slash in a name":       {place{"feature-name", Error, -1, -1, "a/b"}, infoEdit(`"pedal"`, `"a/b"`)},
		"picture names null":    {place{"picture-names", Error, -1, -1, "left"}, pictureNames("null")},
		"picture names CHW":     {place{"picture-names", Warn, -1, -1, "left"}, pictureNames(`["channels","height","width"]`)},
		"image in a vector":     {place{"feature-image-name", Error, -1, -1, "7 numbers"}, imageVector},
		"no rows of an episode": {place{"episodes-missing", Error, -1, -1, "1 of 3 listed episodes are missing: 1"}, remove(data1)},
		"footer cut off":        {place{"data-file", Error, -1, -1, "footer"}, cutOff(data1)},
		"episode file cut off":  {place{"episodes-file", Error, -1, -1, "footer"}, cutOff(table1)},
		"orphan data":           {place{"data-orphan", Error, -1, -1, "no episode lies in it"}, copyFileIn(data1, "data/chunk-000/file-009.parquet")},
		"stray file":            {place{"stray-file", Warn, -1, -1, "every file"}, copyFileIn(data1, "meta/episodes/chunk-000/file-001.parquet.tmp")},
		"extra column":          {place{"column-extra", Error, -1, -1, `"more"`}, func(t *testing.T, r string) { editTable(t, r, data1, addColumn("more", make([]int64, 7)), nil) }},
		"missing column":        {place{"column-missing", Error, -1, -1, `"pedal"`}, func(t *testing.T, r string) { editTable(t, r, data1, dropColumn("pedal"), nil) }},
		"list of one":           {place{"column-nesting", Error, -1, -1, "1 deep, shape [1] wants 0"}, edit(data1, "capture_ns", func(c *pq.Column) { c.Shape = []int{1} })},
		"wrong width":           {place{"column-length", Error, -1, 0, "2 values in row 0 of the file, shape [3]"}, edit(data1, "pedal", func(c *pq.Column) { c.Shape, c.Values = []int{2}, make([]int32, 14) })},
		"text for numbers":      {place{"column-type", Error, -1, -1, "string, info.json says int64"}, edit(data1, "capture_ns", func(c *pq.Column) { c.Values = make([]string, 7) })},
		"cast width":            {place{"column-cast", Note, -1, -1, "float32 and is cast to float64"}, edit(data1, "action", func(c *pq.Column) { c.Values = make([]float32, 14) })},
		"list metadata":         {place{"data-metadata", Note, -1, -1, `"List"`}, listMetadata},
		"index starts over":     {place{"index", Error, 1, 0, "index is 0, the row is number 12"}, edit(data1, Index, set(0, int64(0)))},
		"frame skipped":         {place{"frame-index", Error, 1, 4, "frame_index is 5, want 4"}, edit(data1, FrameIndex, set(4, int64(5)))},
		"wall clock time":       {place{"timestamp", Error, 1, 3, "off by 0.012000 s"}, edit(data1, Timestamp, set(3, float32(0.112)))},
		"unknown task":          {place{"task-index", Error, 1, 2, "task_index is 7, there are 2 tasks"}, edit(data1, TaskIndex, set(2, int64(7)))},
		"NaN":                   {place{"not-finite", Error, 1, 1, "element 1 (b) is NaN"}, edit(data1, "action", set(3, math.NaN()))},
		"length in the table":   {place{"episode-rows", Error, 1, -1, "7 rows are there, the table says 8"}, edit(table1, "length", set(0, int64(8)))},
		"table order":           {place{"episodes-order", Error, 2, -1, "row 1 is episode 2"}, edit(table1, "episode_index", set(0, int64(2)))},
		"range gap":             {place{"episodes-range", Error, 1, -1, "starts at row 13, the one before ends at 12"}, edit(table1, "dataset_from_index", set(0, int64(13)))},
		"NaN in whole numbers":  {place{"episodes", Error, -1, -1, "NaN in row 0"}, edit(table1, "data/file_index", func(c *pq.Column) { c.Values = []float64{math.NaN()} })},
		"table columns differ":  {place{"episodes-columns", Error, -1, -1, "more"}, func(t *testing.T, r string) { editTable(t, r, table1, addColumn("more", []string{"x"}), nil) }},
		"fence post":            {place{"video-span", Error, 1, -1, "6 frames at 30 Hz, the episode has 7 rows (counted"}, edit(table1, "videos/observation.images.left/to_timestamp", set(0, 6.0/30))},
		"running sum":           {place{"video-from", Error, 1, -1, "0.000200 s away"}, edit(table1, "videos/observation.images.left/from_timestamp", set(0, 0.0002))},
		"long file":             {place{"video-long", Warn, 1, -1, "1030 s"}, edit(table1, "videos/observation.images.left/to_timestamp", set(0, 1030.0))},
		"two in one place":      {place{"video-overlap", Error, 1, -1, "before it ends at 0.4000"}, edit(table1, "videos/observation.images.left/file_index", set(0, int64(0)))},
		"video gone":            {place{"video-missing", Error, -1, -1, "1 of 3 episodes is missing: 1"}, remove(left1)},
		"video short":           {place{"video-frames", Error, 1, 5, "frames 0 to 6, the mp4 has 5"}, otherVideo("-r 30", 5)},
		"video cut off":         {place{"video-file", Error, 1, -1, "cut off"}, cutOff(left1)},
		"other codec":           {place{"video-codec", Error, -1, -1, `"h264", the mp4 holds mpeg4`}, otherVideo("-c:v mpeg4 -g 2", 7)},
		"other rate":            {place{"video-rate", Error, -1, -1, "25.0000 Hz, the rows at 30"}, otherVideo("-r 25", 7)},
		"other size":            {place{"video-size", Error, -1, -1, "64x48 pixels, the mp4 has 32x48"}, otherVideo("-vf scale=32:48", 7)},
		"late start":            {place{"video-times", Error, 1, 0, "frame 0 of the file is at 0.5"}, otherVideo("-output_ts_offset 0.5", 7)},
		"long GOP":              {place{"video-gop", Warn, -1, -1, "up to 7 frames"}, otherVideo("-g 12 -bf 0", 7)},
		"B-frames":              {place{"video-bframes", Warn, -1, -1, "B-frames"}, otherVideo("-g 12 -bf 2", 7)},
		"tasks gone":            {place{"tasks", Error, -1, -1, "missing or empty"}, remove(tasksPath)},
		"tasks without pandas": {place{"tasks-pandas", Error, -1, -1, "row number"}, func(t *testing.T, r string) {
			editTable(t, r, tasksPath, func(map[string]*pq.Column) {}, map[string]string{})
		}},
		"tasks out of order":      {place{"tasks-order", Error, -1, -1, "row 0 holds task_index 1"}, swapTasks},
		"tasks with a gap":        {place{"tasks", Error, -1, -1, "task_index 5"}, edit(tasksPath, "task_index", set(1, int64(5)))},
		"tasks equal":             {place{"task-duplicate", Warn, -1, -1, "tasks 0 and 1"}, edit(tasksPath, "__index_level_0__", set(1, "Task  0"))},
		"no statistics":           {place{"stats-missing", Error, -1, -1, "missing"}, remove(statsPath)},
		"statistics NaN":          {place{"stats-nan", Error, -1, -1, "NaN"}, statsEdit(`"mean": [`, `"mean": [NaN, `)},
		"camera not in stats":     {place{"stats-feature", Error, -1, -1, "observation.images.left"}, statsEdit(`"observation.images.left"`, `"other"`)},
		"no quantiles":            {place{"stats-quantiles", Warn, -1, -1, "q01"}, statsEdit(`"q01"`, `"q02"`)},
		"flat picture statistics": {place{"stats-shape", Error, -1, -1, "[1], which LeRobot's merge refuses"}, flatFresh},
		"stale statistics":        {place{"stats-stale", Warn, -1, -1, "stored"}, edit(data1, "observation.state", set(0, float32(50)))},
		"interrupted save":        {place{"interrupted", Error, -1, -1, "interrupted"}, interrupted},
	} {
		root := filepath.Join(memoryDir(t), "set")
		copyTree(t, base, root)
		c.fault(t, root)
		report, err := Check(context.Background(), root, CheckOptions{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.ContainsFunc(report.Findings, c.want.matches) {
			var b bytes.Buffer
			report.WriteText(&b)
			t.Errorf("%s: no finding %+v in\n%s", name, c.want, b.String())
		}
	}
}

func (p place) matches(f Finding) bool {
	return f.Code == p.code && f.Severity == p.severity && f.Episode == p.episode && f.Frame == p.frame && strings.Contains(f.Message, p.says)
}

func remove(path string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) { os.Remove(filepath.Join(root, path)) }
}

func cutOff(path string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) {
		b, _ := os.ReadFile(filepath.Join(root, path))
		os.WriteFile(filepath.Join(root, path), b[:len(b)-40], 0o644)
	}
}

func copyFileIn(from, to string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) { copyTo(t, filepath.Join(root, from), filepath.Join(root, to)) }
}

func addColumn(name string, values any) func(c map[string]*pq.Column) {
	return func(c map[string]*pq.Column) { c[name] = &pq.Column{Name: name, Values: values} }
}

func dropColumn(name string) func(c map[string]*pq.Column) {
	return func(c map[string]*pq.Column) { delete(c, name) }
}

func statsEdit(old, new string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) { editLine(t, root, statsPath, old, new) }
}

// editJSON changes a JSON file as a tree.
func editJSON(t *testing.T, root, path string, f func(v map[string]any)) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	f(v)
	b, _ = json.Marshal(v)
	if err := os.WriteFile(filepath.Join(root, path), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

func pictureNames(names string) func(t *testing.T, root string) {
	return func(t *testing.T, root string) {
		editJSON(t, root, infoPath, func(v map[string]any) {
			v["features"].(map[string]any)["observation.images.left"].(map[string]any)["names"] = json.RawMessage(names)
		})
	}
}

func imageVector(t *testing.T, root string) {
	editJSON(t, root, infoPath, func(v map[string]any) {
		v["features"].(map[string]any)["observation.image.pose"] = map[string]any{"dtype": "float32", "shape": []int{7}, "names": nil}
	})
}

func listMetadata(t *testing.T, root string) {
	editTable(t, root, data1, func(map[string]*pq.Column) {}, map[string]string{"huggingface": `{"info": {"features": {"action": {"_type": "List"}}}}`})
}

func swapTasks(t *testing.T, root string) {
	editTable(t, root, tasksPath, func(c map[string]*pq.Column) {
		c["task_index"].Values = []int64{1, 0}
		c["__index_level_0__"].Values = []string{"task 1", "task 0"}
	}, nil)
	if got := mustOpen(t, root).Tasks(); !slices.Equal(got, []string{"task 0", "task 1"}) {
		t.Errorf("tasks are read by row, not by number: %v", got)
	}
}

func flatFresh(t *testing.T, root string) {
	editJSON(t, root, statsPath, func(v map[string]any) {
		v["observation.image.left.is_fresh"].(map[string]any)["mean"] = []float64{0.5}
	})
}

func interrupted(t *testing.T, root string) {
	os.MkdirAll(filepath.Join(root, workDir), 0o755)
	os.WriteFile(filepath.Join(root, commitLog), []byte(`{"moves":[]}`), 0o644)
}

// otherVideo replaces the left video of episode 1 by one of other properties.
func otherVideo(args string, frames int) func(t *testing.T, root string) {
	return func(t *testing.T, root string) {
		t.Helper()
		if !strings.Contains(args, "-c:v") {
			args += " -c:v libx264"
		}
		if !strings.Contains(args, "-g ") {
			args += " -g 2 -bf 0"
		}
		all := []string{"-v", "error", "-y", "-f", "lavfi", "-i", "testsrc2=size=64x48:rate=30", "-frames:v", itoa(frames), "-pix_fmt", "yuv420p"}
		ffmpegRun(t, append(append(all, strings.Fields(args)...), filepath.Join(root, left1))...)
	}
}

// A good dataset has no error and no warning but the dimension that never moves.
func TestCheckOfGoodDataset(t *testing.T) {
	r, err := Check(context.Background(), makeDataset(t), CheckOptions{Decode: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Findings {
		if f.Severity != Note && f.Code != "constant" {
			t.Errorf("%+v", f)
		}
	}
	if !r.OK() || r.Episodes != 3 || r.Present != 3 || r.Frames != 39 {
		t.Errorf("report %+v", r)
	}
	c, _ := r.Find("constant")
	if !strings.Contains(c.Message, "2 (z) = 0") {
		t.Errorf("the constant element is not named: %s", c.Message)
	}
}

// Black and frozen pictures and false picture statistics are seen by decoding.
func TestCheckDecodesPictures(t *testing.T) {
	base := makeDataset(t)
	write := func(shade func(i int) byte) *Report {
		root := filepath.Join(memoryDir(t), "set")
		copyTree(t, base, root)
		enc, err := video.NewEncoder(context.Background(), filepath.Join(root, left1), video.EncodeOptions{FPS: 30, Width: camW, Height: camH})
		if err != nil {
			t.Fatal(err)
		}
		for i := range lengths[1] {
			if err := enc.WriteRGB(bytes.Repeat([]byte{shade(i)}, camW*camH*3)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := enc.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Check(context.Background(), root, CheckOptions{Decode: true})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	black := write(func(int) byte { return 0 })
	for _, code := range []string{"pictures-black", "pictures-frozen", "stats-pictures"} {
		if f, ok := black.Find(code); !ok || f.Episode != 1 {
			t.Errorf("black pictures gave no %s at episode 1: %+v", code, f)
		}
	}
	moving := write(func(i int) byte { return shade(2, i) })
	if _, ok := moving.Find("pictures-frozen"); ok {
		t.Error("moving pictures pass for frozen")
	}
}

// The known faults of the real folders, all of them.
func TestCheckOfRealRecordings(t *testing.T) {
	for folder, want := range map[string][]place{
		"unitree_g1_v21": {
			{"version", Note, -1, -1, "v2.1"},
			{"episodes-missing", Error, -1, -1, "98 of 100 listed episodes are missing: 0, 3-99"},
			{"video-missing", Error, -1, -1, "98 of 100 episodes is missing: 0, 3-99"},
			{"feature-names", Note, -1, -1, "list inside a list"},
		},
		"open50_v30_malformed": {
			{"video-folder", Error, -1, -1, "video/image/chunk-000/file-000.mp4, video_path in info.json says videos/image/"},
			{"video-codec", Error, -1, -1, `"h264", the mp4 holds mpeg4 (MPEG-4 part 2, tag mp4v)`},
			{"video-span", Error, 0, -1, "14.200000 s = 426 frames at 30 Hz, the episode has 427 rows"},
			{"video-gop", Warn, -1, -1, "up to 12 frames"},
			{"feature-role", Warn, -1, -1, "ignore state, image"},
			{"episodes-missing", Error, -1, -1, "49 of 50 listed episodes are missing: 1-49"},
			{"video-missing", Error, -1, -1, "49 of 50"},
			{"stats-image-std", Warn, 0, -1, "deviation 0 "},
			{"constant", Warn, -1, -1, `"actions": 16 of 34 elements`},
			{"data-metadata", Note, -1, -1, "huggingface"},
		},
		"record_test_v30": {
			{"video-missing", Error, -1, -1, `"observation.images.front" of 4 of 4`},
			{"video-missing", Error, -1, -1, `"observation.images.top" of 4 of 4`},
			{"stats-image-std", Warn, 0, -1, "deviation 0 "},
			{"data-metadata", Note, -1, -1, `"List"`},
		},
	} {
		r, err := Check(context.Background(), testpeer.Data(t, "real/"+folder), CheckOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range want {
			if !slices.ContainsFunc(r.Findings, p.matches) {
				t.Errorf("%s: no finding %+v", folder, p)
			}
		}
		for _, f := range r.Findings { // nothing else may be called an error
			known := slices.ContainsFunc(want, func(p place) bool { return p.code == f.Code })
			if f.Severity == Error && !known {
				t.Errorf("%s: unexpected %+v", folder, f)
			}
		}
		var text, js bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if err := r.WriteJSON(&js); err != nil {
			t.Fatal(err)
		}
		var back Report
		if err := json.Unmarshal(js.Bytes(), &back); err != nil || len(back.Findings) != len(r.Findings) {
			t.Errorf("%s: JSON gives %d findings, want %d (%v)", folder, len(back.Findings), len(r.Findings), err)
		}
		for _, f := range r.Findings {
			if !strings.Contains(text.String(), f.Message) || f.Fix == "" {
				t.Errorf("%s: %s is not in the text or has no fix", folder, f.Code)
			}
		}
	}
}

func TestCheckOfNoDataset(t *testing.T) {
	if _, err := Check(context.Background(), t.TempDir(), CheckOptions{}); err == nil || !strings.Contains(err.Error(), "meta/info.json") {
		t.Errorf("an empty folder gave %v", err)
	}
}
