package train

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy"
)

// shared holds the datasets of the tests.
var shared string

func TestMain(m *testing.M) {
	var err error
	if shared, err = os.MkdirTemp("", "pinch-train-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(shared)
	os.Exit(code)
}

// spots writes a dataset in which only the picture tells the action: each frame shows a bright spot at a random place and the
// row's action is that place in -1..1; the state is noise that says nothing.
// Tests share one copy of each size; none changes it.
func spots(t *testing.T, episodes, length int) string {
	t.Helper()
	testpeer.Program(t, "ffmpeg", "ffmpeg")
	dir := filepath.Join(shared, fmt.Sprintf("spots-%dx%d", episodes, length))
	if _, err := os.Stat(dir); err == nil {
		return dir
	}
	w, err := dataset.Create(dir, dataset.Options{FPS: 10, Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{3}},
		{Name: "action", DType: dataset.Float32, Shape: []int{2}},
		{Name: "observation.images.top", DType: dataset.Video, Shape: []int{64, 64, 3}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for e := range episodes {
		addSpotEpisode(t, w, rng, fmt.Sprintf("spot-%d.mp4", e), length)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func addSpotEpisode(t *testing.T, w *dataset.Writer, rng *rand.Rand, name string, length int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: 10, Width: 64, Height: 64, CRF: 12})
	if err != nil {
		t.Fatal(err)
	}
	var state, action []float32
	for range length {
		x, y := 8+rng.IntN(48), 8+rng.IntN(48)
		if err := enc.WriteRGB(spotImage(x, y)); err != nil {
			t.Fatal(err)
		}
		action = append(action, float32(x-32)/24, float32(y-32)/24)
		state = append(state, rng.Float32(), rng.Float32(), rng.Float32())
	}
	if _, err := enc.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.AddEpisode(context.Background(), dataset.Episode{
		Length: length, Tasks: []string{"point at the spot"},
		Columns: map[string]any{"observation.state": state, "action": action},
		Videos:  map[string]string{"observation.images.top": path},
	}); err != nil {
		t.Fatal(err)
	}
}

// spotImage is a 64 x 64 picture, dark blue with a yellow square of 12 pixels around (x, y).
func spotImage(x, y int) []byte {
	pix := make([]byte, 64*64*3)
	for i := 0; i < len(pix); i += 3 {
		pix[i], pix[i+1], pix[i+2] = 30, 30, 90
	}
	for v := max(y-6, 0); v < min(y+6, 64); v++ {
		for u := max(x-6, 0); u < min(x+6, 64); u++ {
			i := (v*64 + u) * 3
			pix[i], pix[i+1], pix[i+2] = 240, 220, 40
		}
	}
	return pix
}

// small is a configuration that trains in seconds.
func small(data, out string) Config {
	c := DefaultConfig()
	c.Data, c.Out = data, out
	c.Size, c.ImageSize, c.Horizon, c.MaxTokens = "nano", 32, 1, 24
	c.Batch, c.Draws, c.Steps, c.Warmup = 8, 1, 4, 1
	c.LogEvery, c.ValEvery, c.SaveEvery, c.ValRows, c.ReportRows = 1, 0, 2, 16, 8
	c.Threads = 2
	c.Augment.Shift = 0
	return c
}

func spotObservation(x, y int) policy.Observation {
	return policy.Observation{
		Images: map[string]imaging.RGB{"observation.images.top": {Width: 64, Height: 64, Pix: spotImage(x, y)}},
		Values: map[string][]float64{"observation.state": {0.5, 0.5, 0.5}},
		Prompt: "point at the spot",
	}
}
