package check

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

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/internal/pq"
	"github.com/pinch-robotics/pinch/dataset/internal/survey"
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
	return func(t *testing.T, root string) { editLine(t, root, survey.InfoPath, old, new) }
}

// spot is what a finding must say besides its code.
type spot struct {
	code           string
	severity       dataset.Severity
	episode, frame int
	says           string
}

// Each fault, put alone into a good dataset, must be found under its code, at its place and with its numbers.
func TestCheckFindsEachFault(t *testing.T) {
	base := makeDataset(t)
	for name, c := range map[string]struct {
		want  spot
		fault func(t *testing.T, root string)
	}{
		"counters run ahead":    {spot{"info-totals", dataset.Error, -1, -1, "8, the episode table has 3"}, infoEdit(`"total_episodes": 3`, `"total_episodes": 8`)},
		"total rows":            {spot{"info-totals-frames", dataset.Error, -1, -1, "add up to 39"}, infoEdit(`"total_frames": 39`, `"total_frames": 40`)},
		"float fps":             {spot{"fps-float", dataset.Warn, -1, -1, "30.0"}, infoEdit(`"fps": 30,`, `"fps": 30.0,`)},
		"fps zero":              {spot{"fps-value", dataset.Error, -1, -1, "fps is \"0\""}, infoEdit(`"fps": 30,`, `"fps": 0,`)},
		"own template":          {spot{"path-template", dataset.Warn, -1, -1, "ignore it"}, infoEdit(`"data/chunk-{chunk_index:03d}/file`, `"data/chunk-{chunk_index:03d}/./file`)},
		"broken json":           {spot{"info-json", dataset.Error, -1, -1, "does not decode"}, infoEdit(`"fps"`, `fps`)},
		"split too long":        {spot{"info-splits", dataset.Warn, -1, -1, `"0:9"`}, infoEdit(`"0:3"`, `"0:9"`)},
		"old key":               {spot{"info-key", dataset.Note, -1, -1, "total_chunks"}, infoEdit(`"total_tasks"`, `"total_chunks": 1, "total_tasks"`)},
		"slash in a name":       {spot{"feature-name", dataset.Error, -1, -1, "a/b"}, infoEdit(`"pedal"`, `"a/b"`)},
		"picture names null":    {spot{"picture-names", dataset.Error, -1, -1, "left"}, pictureNames("null")},
		"picture names CHW":     {spot{"picture-order", dataset.Warn, -1, -1, "left"}, pictureNames(`["channels","height","width"]`)},
		"image in a vector":     {spot{"feature-image-name", dataset.Error, -1, -1, "7 numbers"}, imageVector},
		"no rows of an episode": {spot{"episodes-missing", dataset.Error, -1, -1, "1 of 3 listed episodes are missing: 1"}, remove(data1)},
		"footer cut off":        {spot{"data-file", dataset.Error, -1, -1, "footer"}, cutOff(data1)},
		"episode file cut off":  {spot{"episodes-file", dataset.Error, -1, -1, "footer"}, cutOff(table1)},
		"orphan data":           {spot{"data-orphan", dataset.Error, -1, -1, "no listed episode lies in it"}, copyFileIn(data1, "data/chunk-000/file-009.parquet")},
		"stray file":            {spot{"stray-file", dataset.Warn, -1, -1, "every file"}, copyFileIn(data1, "meta/episodes/chunk-000/file-001.parquet.tmp")},
		"extra column":          {spot{"column-extra", dataset.Error, -1, -1, `"more"`}, func(t *testing.T, r string) { editTable(t, r, data1, addColumn("more", make([]int64, 7)), nil) }},
		"missing column":        {spot{"column-missing", dataset.Error, -1, -1, `"pedal"`}, func(t *testing.T, r string) { editTable(t, r, data1, dropColumn("pedal"), nil) }},
		"list of one":           {spot{"column-nesting", dataset.Error, -1, -1, "1 deep, shape [1] wants 0"}, edit(data1, "capture_ns", func(c *pq.Column) { c.Shape = []int{1} })},
		"wrong width":           {spot{"column-length", dataset.Error, -1, -1, "2 values in row 0 of the file, shape [3]"}, edit(data1, "pedal", func(c *pq.Column) { c.Shape, c.Values = []int{2}, make([]int32, 14) })},
		"text for numbers":      {spot{"column-type", dataset.Error, -1, -1, "string, info.json says int64"}, edit(data1, "capture_ns", func(c *pq.Column) { c.Values = make([]string, 7) })},
		"cast width":            {spot{"column-cast", dataset.Note, -1, -1, "float32 and is cast to float64"}, edit(data1, "action", func(c *pq.Column) { c.Values = make([]float32, 14) })},
		"list metadata":         {spot{"data-metadata-list", dataset.Note, -1, -1, `"List"`}, listMetadata},
		"index starts over":     {spot{"index", dataset.Error, 1, 0, "index is 0, the row is number 12"}, edit(data1, dataset.Index, set(0, int64(0)))},
		"frame skipped":         {spot{"frame-index", dataset.Error, 1, 4, "frame_index is 5, want 4"}, edit(data1, dataset.FrameIndex, set(4, int64(5)))},
		"wall clock time":       {spot{"timestamp", dataset.Error, 1, 3, "off by 0.012000 s"}, edit(data1, dataset.Timestamp, set(3, float32(0.112)))},
		"unknown task":          {spot{"task-index", dataset.Error, 1, 2, "task_index is 7, there are 2 tasks"}, edit(data1, dataset.TaskIndex, set(2, int64(7)))},
		"NaN":                   {spot{"not-finite", dataset.Error, 1, 1, "element 1 (b) is NaN"}, edit(data1, "action", set(3, math.NaN()))},
		"length in the table":   {spot{"episode-rows", dataset.Error, 1, -1, "7 rows are there, the table says 8"}, edit(table1, "length", set(0, int64(8)))},
		"table order":           {spot{"episodes-twice", dataset.Error, 2, -1, "episode 2 is listed twice"}, edit(table1, "episode_index", set(0, int64(2)))},
		"range gap":             {spot{"episodes-range", dataset.Error, 1, -1, "starts at row 13, the one before ends at 12"}, edit(table1, "dataset_from_index", set(0, int64(13)))},
		"NaN in whole numbers":  {spot{"episodes-value", dataset.Error, -1, -1, "row 0: it is NaN"}, edit(table1, "data/file_index", func(c *pq.Column) { c.Values = []float64{math.NaN()} })},
		"table columns differ":  {spot{"episodes-columns", dataset.Error, -1, -1, "more"}, func(t *testing.T, r string) { editTable(t, r, table1, addColumn("more", []string{"x"}), nil) }},
		"fence post":            {spot{"video-span", dataset.Error, 1, -1, "6 frames at 30 Hz, the episode has 7 rows (counted"}, edit(table1, "videos/observation.images.left/to_timestamp", set(0, 6.0/30))},
		"running sum":           {spot{"video-from", dataset.Error, 1, -1, "0.000200 s away"}, edit(table1, "videos/observation.images.left/from_timestamp", set(0, 0.0002))},
		"long file":             {spot{"video-long", dataset.Warn, 1, -1, "1030 s"}, edit(table1, "videos/observation.images.left/to_timestamp", set(0, 1030.0))},
		"two in one place":      {spot{"video-overlap", dataset.Error, 1, -1, "episode 0 before it ends at 0.4000"}, edit(table1, "videos/observation.images.left/file_index", set(0, int64(0)))},
		"video gone":            {spot{"video-missing", dataset.Error, -1, -1, "1 of 3 episodes is missing: 1"}, remove(left1)},
		"video short":           {spot{"video-frames", dataset.Error, 1, 5, "frames 0 to 6, the mp4 has 5"}, otherVideo("-r 30", 5)},
		"video cut off":         {spot{"video-file", dataset.Error, 1, -1, "cut off"}, cutOff(left1)},
		"other codec":           {spot{"video-codec", dataset.Error, -1, -1, `"h264", the mp4 holds mpeg4`}, otherVideo("-c:v mpeg4 -g 2", 7)},
		"other rate":            {spot{"video-rate", dataset.Error, 1, -1, "25.0000 Hz, the rows at 30"}, otherVideo("-r 25", 7)},
		"other size":            {spot{"video-size", dataset.Error, -1, -1, "64x48 pixels, the mp4 has 32x48"}, otherVideo("-vf scale=32:48", 7)},
		"late start":            {spot{"video-times", dataset.Error, 1, 0, "frame 0 of the file is at 0.5"}, otherVideo("-output_ts_offset 0.5", 7)},
		"long GOP":              {spot{"video-gop", dataset.Warn, -1, -1, "up to 7 frames"}, otherVideo("-g 12 -bf 0", 7)},
		"B-frames":              {spot{"video-bframes", dataset.Warn, -1, -1, "B-frames"}, otherVideo("-g 12 -bf 2", 7)},
		"tasks gone":            {spot{"tasks-missing", dataset.Error, -1, -1, "missing or empty"}, remove(survey.TasksPath)},
		"tasks without pandas": {spot{"tasks-pandas", dataset.Error, -1, -1, "row number"}, func(t *testing.T, r string) {
			editTable(t, r, survey.TasksPath, func(map[string]*pq.Column) {}, map[string]string{})
		}},
		"tasks out of order":      {spot{"tasks-order", dataset.Error, -1, -1, "row 0 holds task_index 1"}, swapTasks},
		"tasks with a gap":        {spot{"tasks-numbers", dataset.Error, -1, -1, "task_index 5"}, edit(survey.TasksPath, "task_index", set(1, int64(5)))},
		"tasks equal":             {spot{"task-duplicate", dataset.Warn, -1, -1, "tasks 0 and 1"}, edit(survey.TasksPath, "__index_level_0__", set(1, "Task  0"))},
		"no statistics":           {spot{"stats-missing", dataset.Error, -1, -1, "missing"}, remove(survey.StatsPath)},
		"statistics NaN":          {spot{"stats-nan", dataset.Error, -1, -1, "NaN"}, statsEdit(`"mean": [`, `"mean": [NaN, `)},
		"camera not in stats":     {spot{"stats-feature", dataset.Error, -1, -1, "observation.images.left"}, statsEdit(`"observation.images.left"`, `"other"`)},
		"no quantiles":            {spot{"stats-quantiles", dataset.Warn, -1, -1, "q01"}, statsEdit(`"q01"`, `"q02"`)},
		"flat picture statistics": {spot{"stats-shape", dataset.Error, -1, -1, "[1], which LeRobot's merge refuses"}, flatFresh},
		"stale statistics":        {spot{"stats-stale", dataset.Warn, -1, -1, "stored"}, edit(data1, "observation.state", set(0, float32(50)))},
		"interrupted save":        {spot{"interrupted", dataset.Error, -1, -1, "interrupted"}, interrupted},
	} {
		root := filepath.Join(memoryDir(t), "set")
		copyTree(t, base, root)
		c.fault(t, root)
		report, err := Run(context.Background(), root, Options{})
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

func (p spot) matches(f dataset.Finding) bool {
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
	return func(t *testing.T, root string) { editLine(t, root, survey.StatsPath, old, new) }
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
		editJSON(t, root, survey.InfoPath, func(v map[string]any) {
			v["features"].(map[string]any)["observation.images.left"].(map[string]any)["names"] = json.RawMessage(names)
		})
	}
}

func imageVector(t *testing.T, root string) {
	editJSON(t, root, survey.InfoPath, func(v map[string]any) {
		v["features"].(map[string]any)["observation.image.pose"] = map[string]any{"dtype": "float32", "shape": []int{7}, "names": nil}
	})
}

func listMetadata(t *testing.T, root string) {
	editTable(t, root, data1, func(map[string]*pq.Column) {}, map[string]string{"huggingface": `{"info": {"features": {"action": {"_type": "List"}}}}`})
}

func swapTasks(t *testing.T, root string) {
	editTable(t, root, survey.TasksPath, func(c map[string]*pq.Column) {
		c["task_index"].Values = []int64{1, 0}
		c["__index_level_0__"].Values = []string{"task 1", "task 0"}
	}, nil)
}

func flatFresh(t *testing.T, root string) {
	editJSON(t, root, survey.StatsPath, func(v map[string]any) {
		v["observation.image.left.is_fresh"].(map[string]any)["mean"] = []float64{0.5}
	})
}

func interrupted(t *testing.T, root string) {
	os.MkdirAll(filepath.Join(root, ".pinch"), 0o755)
	os.WriteFile(filepath.Join(root, ".pinch/commit.json"), []byte(`{"moves":[]}`), 0o644)
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
