package dataset

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pinch-robotics/pinch/dataset/video"
)

// cameraFrames makes n JPEGs of 640x480 like a wrist camera's: texture that moves, and sensor noise.
func cameraFrames(b *testing.B, n int) [][]byte {
	rng := rand.New(rand.NewPCG(3, 4))
	img := image.NewRGBA(image.Rect(0, 0, 640, 480))
	var out [][]byte
	for k := range n {
		for y := range 480 {
			for x := range 640 {
				p := img.Pix[img.PixOffset(x, y):]
				t := byte((x+3*k)*(y+k)/97%60 + 90)
				noise := byte(rng.IntN(6))
				p[0], p[1], p[2], p[3] = t+noise, t/2+noise+40, 140-t/3+noise, 255
			}
		}
		var buf bytes.Buffer
		if err := jpeg.Encode(&buf, img, &jpeg.Options{Quality: 88}); err != nil {
			b.Fatal(err)
		}
		out = append(out, buf.Bytes())
	}
	return out
}

// BenchmarkEpisodeFromJPEG is the dataset's part of an ingest: two wrist cameras of 640x480 at 30 Hz, encoded side by
// side, checked, measured and published. It reports the multiple of real time; the target is 5 on two cores.
func BenchmarkEpisodeFromJPEG(b *testing.B) {
	needFFmpeg(b)
	const seconds, unique = 10, 30
	frames := cameraFrames(b, unique)
	o := testOptions()
	for i, f := range o.Features {
		if f.DType == Video {
			o.Features[i].Shape = []int{480, 640, 3}
		}
	}
	w, err := Create(filepath.Join(b.TempDir(), "set"), o)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for k := 0; b.Loop(); k++ {
		ep := Episode{Length: 30 * seconds, Tasks: []string{"task"}, Videos: map[string]string{}, Extra: map[string]any{}}
		n := ep.Length
		ep.Columns = map[string]any{"observation.state": make([]float32, 3*n), "action": make([]float64, 2*n), "observation.image.left.is_fresh": make([]bool, n),
			"capture_ns": make([]int64, n), "pedal": make([]int32, 3*n), "note": make([]string, n)}
		var g errgroup.Group
		for _, cam := range []string{"observation.images.left", "observation.images.right"} {
			path := filepath.Join(w.Scratch(), fmt.Sprintf("%s-%d.mp4", cam, k))
			ep.Videos[cam] = path
			g.Go(func() error { return encodeFrames(path, frames, n) })
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		if _, err := w.AddEpisode(context.Background(), ep); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*seconds/b.Elapsed().Seconds(), "x-real-time")
}

func encodeFrames(path string, frames [][]byte, n int) error {
	enc, err := video.NewEncoder(context.Background(), path, video.EncodeOptions{FPS: 30, Width: 640, Height: 480})
	if err != nil {
		return err
	}
	defer enc.Abort()
	for i := range n {
		if err := enc.WriteJPEG(frames[i%len(frames)]); err != nil {
			return err
		}
	}
	_, err = enc.Close()
	return err
}
