package check

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

const camW, camH = 64, 48

// testOptions is a small dataset with every kind of column.
func testOptions() dataset.Options {
	return dataset.Options{FPS: 30, RobotType: "test_hand", Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{3}, Names: []string{"x", "y", "z"}},
		{Name: "observation.images.left", DType: dataset.Video, Shape: []int{camH, camW, 3}},
		{Name: "observation.images.right", DType: dataset.Video, Shape: []int{camH, camW, 3}},
		{Name: "observation.image.left.is_fresh", DType: dataset.Bool, Shape: []int{1}},
		{Name: "action", DType: dataset.Float64, Shape: []int{2}, Names: []string{"a", "b"}},
		{Name: "capture_ns", DType: dataset.Int64, Shape: []int{1}},
		{Name: "pedal", DType: dataset.Int32, Shape: []int{3}, Names: []string{"left", "middle", "right"}},
		{Name: "note", DType: dataset.String, Shape: []int{1}},
	}}
}

// shade is the grey level of frame i of a test video: distinct for neighbouring frames and cameras.
func shade(seed, i int) byte { return byte(20 + (i*37+seed*11)%200) }

var (
	videoMu    sync.Mutex
	videoCache = map[string]string{}
	videoDir   string
)

// testVideo returns an mp4 of n frames, frame i of the one grey level shade(seed, i). Videos are made once per test run.
func testVideo(t testing.TB, n, seed int) string {
	t.Helper()
	needFFmpeg(t)
	videoMu.Lock()
	defer videoMu.Unlock()
	key := fmt.Sprintf("%d-%d", n, seed)
	if p, ok := videoCache[key]; ok {
		return p
	}
	path := filepath.Join(videoDir, key+".mp4")
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: 30, Width: camW, Height: camH})
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
	videoCache[key] = path
	return path
}

// testEpisode is episode k of n rows; zeros are among the values on purpose.
func testEpisode(t testing.TB, k, n int) dataset.Episode {
	t.Helper()
	ep := dataset.Episode{Length: n, Tasks: []string{fmt.Sprintf("task %d", k%2)}, Columns: map[string]any{},
		Videos: map[string]string{"observation.images.left": testVideo(t, n, 2*k), "observation.images.right": testVideo(t, n, 2*k+1)},
		Extra:  map[string]any{"recording_sha256": fmt.Sprintf("%064d", k), "success": k%2 == 0, "tags": []string{"a", "b"}[:k%3], "score": float64(k) / 2}}
	state, action := make([]float32, 3*n), make([]float64, 2*n)
	fresh, ns, pedal, note := make([]bool, n), make([]int64, n), make([]int32, 3*n), make([]string, n)
	for r := range n {
		state[3*r], state[3*r+1], state[3*r+2] = float32(k), float32(r)/10, 0
		action[2*r], action[2*r+1] = math.Sin(float64(r+k)), -float64(r)
		fresh[r], ns[r], pedal[3*r+1] = r%2 == 0, 1_700_000_000_000_000_000+int64(r)*33_333_333, int32(r%2)
		note[r] = fmt.Sprintf("row %d", r)
	}
	ep.Columns = map[string]any{"observation.state": state, "action": action, "observation.image.left.is_fresh": fresh, "capture_ns": ns, "pedal": pedal, "note": note}
	return ep
}

func mustCreate(t testing.TB, root string) *dataset.Writer {
	t.Helper()
	w, err := dataset.Create(root, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// lengths of the episodes of makeDataset.
var lengths = []int{12, 7, 20}

// makeDataset returns the root of a fresh dataset of three episodes, written once per test run and copied.
func makeDataset(t testing.TB) string {
	t.Helper()
	needFFmpeg(t)
	base := filepath.Join(videoDir, "base")
	baseOnce.Do(func() {
		w := mustCreate(t, base)
		for k, n := range lengths {
			if got, err := w.AddEpisode(context.Background(), testEpisode(t, k, n)); err != nil || got != k {
				t.Fatalf("episode %d: %d, %v", k, got, err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
	root := filepath.Join(memoryDir(t), "set")
	copyTree(t, base, root)
	return root
}

var baseOnce sync.Once

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	for rel, content := range tree(t, from) {
		p := filepath.Join(to, rel)
		os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// tree lists the files of a folder with their contents.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		rel, _ := filepath.Rel(root, p)
		files[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "pinch-check-test")
	if err != nil {
		panic(err)
	}
	videoDir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// memoryDir is a temporary folder in memory where there is one: tests of many small saves need no real disk.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pinch-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func ffmpegRun(t testing.TB, args ...string) {
	t.Helper()
	needFFmpeg(t)
	if out, err := exec.Command("ffmpeg", args...).CombinedOutput(); err != nil {
		t.Fatalf("ffmpeg %v: %v %s", args, err, out)
	}
}

// editLine replaces the first occurrence of a text in a file.
func editLine(t *testing.T, root, path, old, new string) {
	t.Helper()
	full := filepath.Join(root, path)
	b, err := os.ReadFile(full)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(b), old, new, 1)
	if changed == string(b) {
		t.Fatalf("%s has no %q", path, old)
	}
	if err := os.WriteFile(full, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
