package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"

	"github.com/pinch-robotics/pinch/dataset"
	"github.com/pinch-robotics/pinch/dataset/video"
)

// LoaderData describes a dataset made for measuring loaders: two cameras of moving textures, a state and an action of 16 numbers.
type LoaderData struct {
	Codec                           video.Codec
	Preset                          string // of the encoder; "" is the writer's default
	Width, Height, Episodes, Length int
}

// FillDefaults takes 8 episodes of 250 frames, 640x480.
func (d *LoaderData) FillDefaults() {
	if d.Width == 0 {
		d.Width, d.Height = 640, 480
	}
	if d.Episodes == 0 {
		d.Episodes, d.Length = 8, 250
	}
}

// Names of its features.
const (
	loaderLeft, loaderRight = "observation.images.left", "observation.images.right"
	loaderDim               = 16
	loaderFPS               = 30
)

// MakeLoaderData writes the dataset to a new folder.
func MakeLoaderData(ctx context.Context, root string, d LoaderData) error {
	d.FillDefaults()
	shape := []int{d.Height, d.Width, 3}
	w, err := dataset.Create(root, dataset.Options{FPS: loaderFPS, Features: []dataset.Feature{
		{Name: "observation.state", DType: dataset.Float32, Shape: []int{loaderDim}}, {Name: "action", DType: dataset.Float32, Shape: []int{loaderDim}},
		{Name: loaderLeft, DType: dataset.Video, Shape: shape}, {Name: loaderRight, DType: dataset.Video, Shape: shape}}})
	if err != nil {
		return err
	}
	for e := range d.Episodes {
		ep := dataset.Episode{Length: d.Length, Tasks: []string{"measure"}, Videos: map[string]string{}}
		state := make([]float32, d.Length*loaderDim)
		for i := range state {
			state[i] = float32(math.Sin(float64(i/loaderDim)/20 + float64(i%loaderDim+e)))
		}
		ep.Columns = map[string]any{"observation.state": state, "action": state}
		for k, camera := range []string{loaderLeft, loaderRight} {
			path := filepath.Join(w.Scratch(), fmt.Sprintf("%d-%d.mp4", e, k))
			if err := d.film(ctx, path, uint64(2*e+k)); err != nil {
				return err
			}
			ep.Videos[camera] = path
		}
		if _, err := w.AddEpisode(ctx, ep); err != nil {
			return err
		}
	}
	return w.Close()
}

// film encodes one video: three layers of smooth texture that move against each other, with the grain of a camera.
func (d LoaderData) film(ctx context.Context, path string, seed uint64) error {
	enc, err := video.NewEncoder(ctx, path, video.EncodeOptions{Codec: d.Codec, Preset: d.Preset, FPS: loaderFPS, Width: d.Width, Height: d.Height, Threads: 2})
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	layers := make([][]byte, 3)
	for i := range layers {
		layers[i] = texture(rng, d.Width*2, d.Height*2, 6<<i)
	}
	grain := make([]byte, 1<<16)
	for i := range grain {
		grain[i] = byte(rng.IntN(5))
	}
	rgb := make([]byte, d.Width*d.Height*3)
	for f := range d.Length {
		noise := rng.IntN(1 << 15)
		for y := range d.Height {
			for x := range d.Width {
				i := (y*d.Width + x) * 3
				for c, layer := range layers {
					sx, sy := (x+f*(c+1))%(2*d.Width), (y+f*(2-c)+d.Height/2)%(2*d.Height)
					rgb[i+c] = layer[sy*2*d.Width+sx]/2 + layers[(c+1)%3][y*2*d.Width+x]/3 + grain[(noise+i+c)&(1<<16-1)] + 20
				}
			}
		}
		if err := enc.WriteRGB(rgb); err != nil {
			enc.Abort()
			return err
		}
	}
	_, err = enc.Close()
	return err
}

// texture is random values on a grid of the given step, with straight lines between them.
func texture(rng *rand.Rand, w, h, step int) []byte {
	gw := w/step + 2
	grid := make([]float64, gw*(h/step+2))
	for i := range grid {
		grid[i] = 255 * rng.Float64()
	}
	out := make([]byte, w*h)
	for y := range h {
		for x := range w {
			gx, gy, fx, fy := x/step, y/step, float64(x%step)/float64(step), float64(y%step)/float64(step)
			at := gy*gw + gx
			top, bottom := grid[at]*(1-fx)+grid[at+1]*fx, grid[at+gw]*(1-fx)+grid[at+gw+1]*fx
			out[y*w+x] = byte(top*(1-fy) + bottom*fy)
		}
	}
	return out
}
