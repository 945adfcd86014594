package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/testpeer"
)

const camW, camH, fps = 96, 64, 30

// base is the first episode's start_ns; 1e9/30 is no whole number, so times are rounded down.
const base = int64(1_700_000_000_123_456_789)

var rows = []int{14, 9}

// shade is the grey level of frame i of a test video.
func shade(seed, i int) byte { return byte(25 + (i*37+seed*53)%200) }

var madeDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if madeDir != "" {
		os.RemoveAll(madeDir)
	}
	os.Exit(code)
}

const (
	left  = "observation.image.left"
	right = "observation.image.right"
	hand  = "observation.pose.left_hand_root.absolute"
	apart = "observation.pose.left_hand_root_to_right_hand_root.absolute"
)

var poseNames = []string{"x", "y", "z", "qx", "qy", "qz", "qw"}

func features() []dataset.Feature {
	return []dataset.Feature{
		{Name: "observation.state", DType: dataset.Int32, Shape: []int{2}, Names: []string{"pedal 0", "1st"}},
		{Name: hand, DType: dataset.Float64, Shape: []int{7}, Names: poseNames},
		{Name: apart, DType: dataset.Float64, Shape: []int{7}, Names: poseNames},
		{Name: "observation.pose.left_hand_root.relative", DType: dataset.Float64, Shape: []int{7}, Names: []string{"dx", "dy", "dz", "dqx", "dqy", "dqz", "dqw"}},
		{Name: left, DType: dataset.Video, Shape: []int{camH, camW, 3}},
		{Name: right, DType: dataset.Video, Shape: []int{camH, camW, 3}},
		{Name: "observation.image.left.is_fresh", DType: dataset.Bool, Shape: []int{1}},
		{Name: "action", DType: dataset.Float32, Shape: []int{2}, Names: []string{"a", "b"}},
		{Name: "observation.capture_time.row", DType: dataset.Int64, Shape: []int{1}},
		{Name: "phase", DType: dataset.String, Shape: []int{1}},
	}
}

// write makes a video of n grey frames.
func write(t testing.TB, path string, codec video.Codec, n, seed int) {
	t.Helper()
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{Codec: codec, FPS: fps, Width: camW, Height: camH})
	if err != nil {
		t.Fatal(err)
	}
	frame := make([]byte, camW*camH*3)
	for i := range n {
		for k := range frame {
			frame[k] = shade(seed, i)
		}
		if err := enc.WriteRGB(frame); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := enc.Close(); err != nil {
		t.Fatal(err)
	}
}

func episode(t testing.TB, dir string, k int) dataset.Episode {
	t.Helper()
	n := rows[k]
	ep := dataset.Episode{Length: n, Columns: map[string]any{}, Videos: map[string]string{}, Extra: map[string]any{"start_ns": base + int64(k)*1e15, "label": "pick"}}
	for c, name := range []string{left, right} {
		ep.Videos[name] = filepath.Join(dir, fmt.Sprintf("%d-%d.mp4", k, c))
		write(t, ep.Videos[name], []video.Codec{video.H264, video.AV1}[c], n, 2*k+c)
	}
	state, pose, between, motion := make([]int32, 2*n), []float64{}, []float64{}, []float64{}
	fresh, action, ns, phase := make([]bool, n), make([]float32, 2*n), make([]int64, n), make([]string, n)
	for r := range n {
		a := float64(r+k) / 7
		ep.Tasks = append(ep.Tasks, []string{"pick", "place"}[2*r/n])
		state[2*r], state[2*r+1] = int32(r), -int32(k)
		pose = append(pose, a, math.Sqrt(a), -1/(a+1), 0, 0, math.Sin(a), math.Cos(a))
		between = append(between, 0, -0.4, a/100, 0, 0, 0, 1)
		motion = append(motion, 1e-3*a, 0, 0, 0, 0, 0, 1)
		fresh[r], action[2*r], action[2*r+1] = r%3 == 0, float32(a)/3, -float32(r)
		ns[r] = base + int64(r)*33_333_333
		phase[r] = []string{"reach", "lift"}[b2i(r > 4)]
	}
	ep.Columns = map[string]any{"observation.state": state, hand: pose, apart: between, "observation.pose.left_hand_root.relative": motion,
		"observation.image.left.is_fresh": fresh, "action": action, "observation.capture_time.row": ns, "phase": phase}
	return ep
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

var madeOnce sync.Once

// testSet is the root of a dataset that tests only read.
func testSet(t testing.TB) string {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	madeOnce.Do(func() {
		dir, err := os.MkdirTemp("", "pinch-export-")
		if err != nil {
			t.Fatal(err)
		}
		madeDir = dir
		w, err := dataset.Create(filepath.Join(dir, "cups"), dataset.Options{FPS: fps, RobotType: "hand", Features: features()})
		if err != nil {
			t.Fatal(err)
		}
		for k := range rows {
			if _, err := w.AddEpisode(context.Background(), episode(t, dir, k)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
	return filepath.Join(madeDir, "cups")
}

func copySet(t *testing.T) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "cups")
	if err := os.CopyFS(root, os.DirFS(testSet(t))); err != nil {
		t.Fatal(err)
	}
	return root
}

// log is what a peer read.
type log struct {
	Messages uint64
	Channels map[string]struct {
		Schema string
		Names  []string
		Times  []int64
		Values []json.RawMessage
	}
}

func readLog(t *testing.T, path string) log {
	t.Helper()
	python := testpeer.Python(t, "mcap", "mcap_ros2", "google.protobuf", "foxglove_schemas_protobuf", "av", "numpy")
	cmd := exec.Command(python, "testdata/foxglove_peer.py", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("Foxglove's libraries do not read it: %v", err)
	}
	var l log
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// times of the rows of both episodes.
func times() (ns []int64) {
	start := base
	for _, n := range rows {
		for r := range n {
			ns = append(ns, start+int64(r)*1e9/fps)
		}
		start += int64(n)*1e9/fps + 1e9
	}
	return ns
}

// values decodes what a channel holds; into is a pointer to a slice.
func (l log) values(t *testing.T, topic, schema string, into any) {
	t.Helper()
	c, ok := l.Channels[topic]
	if !ok || c.Schema != schema {
		t.Errorf("%s has %q, want messages %s", topic, c.Schema, schema)
		return
	}
	b, _ := json.Marshal(c.Values)
	if err := json.Unmarshal(b, into); err != nil {
		t.Errorf("%s: %v", topic, err)
	}
}

func column(t *testing.T, d *dataset.Dataset, name string) (v [][]float64) {
	t.Helper()
	f, err := d.Feature(name)
	if err != nil {
		t.Fatal(err)
	}
	for k := range rows {
		x, err := dataset.ReadColumn[float64](d, name, k)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, slices.Collect(slices.Chunk(x, f.Dim()))...)
	}
	return v
}

func mustWrite(t *testing.T, root string, o Options) (string, *Result) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "log.mcap")
	r, err := Write(t.Context(), root, out, o)
	if err != nil {
		t.Fatal(err)
	}
	return out, r
}

// Foxglove's libraries read the same numbers, texts, times and pictures.
func TestFoxgloveReadsTheRows(t *testing.T) {
	root := testSet(t)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	path, result := mustWrite(t, root, Options{Viewer: Foxglove})
	if len(result.Notes) > 0 || !slices.Equal(result.Episodes, []int{0, 1}) {
		t.Errorf("result %+v", result)
	}
	l := readLog(t, path)
	if l.Messages != result.Messages {
		t.Errorf("%d messages in the summary, %d were written", l.Messages, result.Messages)
	}
	for topic, c := range l.Channels {
		if c.Schema != "foxglove.Log" && !slices.Equal(c.Times, times()) {
			t.Errorf("%s has other times: %v", topic, c.Times)
		}
	}
	for topic, want := range map[string]struct {
		schema, feature string
		names           []string
	}{
		"/observation/state":                        {"pinch.observation_state", "observation.state", []string{"pedal_0", "_1st"}},
		"/observation/pose/left_hand_root/relative": {"pinch.observation_pose_left_hand_root_relative", "observation.pose.left_hand_root.relative", []string{"dx", "dy", "dz", "dqx", "dqy", "dqz", "dqw"}},
		"/action": {"pinch.action", "action", []string{"a", "b"}},
	} {
		var got [][]float64
		if l.values(t, topic, want.schema, &got); !reflect.DeepEqual(got, column(t, d, want.feature)) || !slices.Equal(l.Channels[topic].Names, want.names) {
			t.Errorf("%s holds %v %v, the dataset %v", topic, l.Channels[topic].Names, got, column(t, d, want.feature))
		}
	}
	var whole [][]int64
	l.values(t, "/observation/capture_time/row", "pinch.observation_capture_time_row", &whole)
	for r, v := range whole {
		if want := base + int64(r%rows[0])*33_333_333; len(v) != 1 || v[0] != want {
			t.Errorf("capture time of row %d is %v, want %d", r, v, want)
		}
	}
	var flags [][]bool
	if l.values(t, "/observation/image/left/is_fresh", "pinch.observation_image_left_is_fresh", &flags); len(flags) != 23 || !flags[3][0] || flags[4][0] || !flags[14][0] {
		t.Errorf("flags %v", flags)
	}
	l.poses(t, d)
	l.texts(t)
	l.pictures(t, "/observation/image/left", "foxglove.CompressedVideo", "left_hand_cam_link", "h264", 0)
	l.pictures(t, "/observation/image/right", "foxglove.CompressedVideo", "right_hand_cam_link", "av1", 1)
}

// poses verifies PoseInFrame and transforms.
func (l log) poses(t *testing.T, d *dataset.Dataset) {
	t.Helper()
	for topic, want := range map[string][2]string{"/observation/pose/left_hand_root/absolute": {hand, "cell"}, "/observation/pose/left_hand_root_to_right_hand_root/absolute": {apart, "left_hand_root"}} {
		var got [][2]any
		l.values(t, topic, "foxglove.PoseInFrame", &got)
		for r, v := range column(t, d, want[0]) {
			if len(got) <= r || got[r][0] != want[1] || !reflect.DeepEqual(got[r][1], boxed(v)) {
				t.Errorf("%s row %d is %v, want %v in %s", topic, r, got[r], v, want[1])
				break
			}
		}
	}
	var tf [][][3]any
	l.values(t, "/tf", "foxglove.FrameTransforms", &tf)
	first, second := column(t, d, hand), column(t, d, apart)
	for r := range first {
		want := [][3]any{{"cell", "left_hand_root", boxed(first[r])}, {"left_hand_root", "right_hand_root", boxed(second[r])}}
		if len(tf) <= r || !reflect.DeepEqual(tf[r], want) {
			t.Errorf("transforms of row %d are %v, want %v", r, tf[r], want)
			break
		}
	}
}

func boxed(v []float64) (out []any) {
	for _, x := range v {
		out = append(out, x)
	}
	return out
}

func (l log) texts(t *testing.T) {
	t.Helper()
	for topic, want := range map[string]string{
		"/task":  "instruction pick@0 instruction place@7 instruction pick@14 instruction place@19",
		"/phase": "phase reach@0 phase lift@5 phase reach@14 phase lift@19",
	} {
		var got [][2]string
		l.values(t, topic, "foxglove.Log", &got)
		var said []string
		for i, v := range got {
			said = append(said, fmt.Sprintf("%s %s@%d", v[0], v[1], slices.Index(times(), l.Channels[topic].Times[i])))
		}
		if strings.Join(said, " ") != want {
			t.Errorf("%s says %q, want %q", topic, said, want)
		}
	}
	var begins [][2]string
	if l.values(t, "/episode", "foxglove.Log", &begins); len(begins) != 2 || !strings.HasPrefix(begins[1][1], "episode 1: 9 rows\n") || !strings.Contains(begins[1][1], "label: pick") {
		t.Errorf("episodes begin with %q", begins)
	}
}

// pictures verifies frame, format and grey of every picture of camera c.
func (l log) pictures(t *testing.T, topic, schema, frame, format string, c int) {
	t.Helper()
	var got [][3]any
	l.values(t, topic, schema, &got)
	at := 0
	for k, n := range rows {
		for r := range n {
			if at >= len(got) {
				t.Errorf("%s has %d pictures", topic, len(got))
				return
			}
			g, _ := got[at][2].(float64)
			// limited range: 16 to 235 for 0 to 255, as the plane is read here
			if want := 16 + float64(shade(2*k+c, r))*219/255; got[at][0] != frame || got[at][1] != format || math.Abs(g-want) > 3 && math.Abs(g-float64(shade(2*k+c, r))) > 3 {
				t.Errorf("%s, episode %d row %d: %v, want grey %.0f in %s, %s", topic, k, r, got[at], want, frame, format)
				return
			}
			at++
		}
	}
}

// For Rerun numbers are joint states, which it plots.
func TestJointStatesForRerun(t *testing.T) {
	root := testSet(t)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	path, _ := mustWrite(t, root, Options{Viewer: Rerun})
	l := readLog(t, path)
	for topic, feature := range map[string]string{"/action": "action", "/observation/state": "observation.state", "/observation/capture_time/row": "observation.capture_time.row"} {
		var got [][]float64
		if l.values(t, topic, "sensor_msgs/msg/JointState", &got); !reflect.DeepEqual(got, column(t, d, feature)) {
			t.Errorf("%s holds %v", topic, got)
		}
		if !slices.Equal(l.Channels[topic].Times, times()) {
			t.Errorf("%s has other times", topic)
		}
	}
	if got := l.Channels["/observation/state"].Names; !slices.Equal(got, []string{"pedal 0", "1st"}) {
		t.Errorf("names %v", got)
	}
	l.poses(t, d)
	l.pictures(t, "/observation/image/left", "foxglove.CompressedVideo", "left_hand_cam_link", "h264", 0)
}

// A stream with B-frames, or of a codec that the message does not have, becomes single pictures; a missing file is left out; and the
// report says so.
func TestOtherStreamsBecomePictures(t *testing.T) {
	root := copySet(t)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	for k, codec := range [][]string{{"-c:v", "libx264", "-bf", "2", "-g", "8", "-qp", "4"}, {"-c:v", "mpeg4", "-q:v", "2", "-g", "2"}} {
		e, _ := d.Episode(k)
		path := filepath.Join(root, e.Videos[left].Path)
		other := filepath.Join(t.TempDir(), "other.mp4")
		if out, err := exec.Command("ffmpeg", append(append([]string{"-v", "error", "-i", path}, codec...), other)...).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if err := os.Rename(other, path); err != nil {
			t.Fatal(err)
		}
	}
	e, _ := d.Episode(1)
	if err := os.Remove(filepath.Join(root, e.Videos[right].Path)); err != nil {
		t.Fatal(err)
	}
	path, r := mustWrite(t, root, Options{Viewer: Foxglove})
	said := strings.Join(r.Notes, "\n")
	for _, want := range []string{"B-frames", "mpeg4 is no codec", "left out where its file is missing (episode 1"} {
		if !strings.Contains(said, want) {
			t.Errorf("the notes do not say %q:\n%s", want, said)
		}
	}
	l := readLog(t, path)
	l.pictures(t, "/observation/image/left", "foxglove.CompressedImage", "left_hand_cam_link", "jpeg", 0)
	if n := len(l.Channels["/observation/image/right"].Times); n != rows[0] {
		t.Errorf("%d pictures of the right camera, want %d", n, rows[0])
	}
}

// What was interrupted leaves nothing; wishes that make no sense are refused.
func TestNothingHalfIsLeft(t *testing.T) {
	root, out := testSet(t), filepath.Join(t.TempDir(), "log.mcap")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Write(ctx, root, out, Options{Viewer: Foxglove, Progress: func(done, _ int) { cancel() }})
	if left, _ := os.ReadDir(filepath.Dir(out)); !errors.Is(err, context.Canceled) || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
	for want, o := range map[string]Options{"neither": {Viewer: "word"}, "no episode 7": {Viewer: Rerun, Episodes: []int{7}}} {
		if _, err := Write(t.Context(), root, out, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}

// Episodes of a real robot: its numbers and the frames of its AV1 stream.
func TestRealRecordings(t *testing.T) {
	root := testpeer.Data(t, "real/unitree_g1_v21")
	path, r := mustWrite(t, root, Options{Viewer: Foxglove, Episodes: []int{2}})
	l := readLog(t, path)
	var got [][]float64
	l.values(t, "/observation/state", "pinch.observation_state", &got)
	d, err := dataset.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	want, err := dataset.ReadColumn[float64](d, "observation.state", 2)
	if err != nil || len(got) != 343 || !slices.Equal(slices.Concat(got...), want) {
		t.Errorf("%d rows of states differ from the dataset: %v", len(got), err)
	}
	pictures := 0
	for _, c := range l.Channels {
		if strings.HasPrefix(c.Schema, "foxglove.Compressed") {
			pictures += len(c.Times)
		}
	}
	if pictures != 343 {
		t.Errorf("%d pictures, notes %v", pictures, r.Notes)
	}
}
