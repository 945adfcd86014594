package dataset

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"math"

	"github.com/pinch-robotics/pinch/dataset/internal/pq"
)

// stillStats computes picture statistics of an episode of an image feature, by the sample that videos have.
func stillStats(ctx context.Context, p pq.Pictures) (Stats, error) {
	var acc ImageAccumulator
	var rgb []byte
	for _, i := range SampleFrames(len(p.Bytes)) {
		if err := ctx.Err(); err != nil {
			return Stats{}, err
		}
		img, _, err := image.Decode(bytes.NewReader([]byte(p.Bytes[i])))
		if err != nil {
			return Stats{}, fmt.Errorf("row %d: decode picture: %w", i, err)
		}
		b := img.Bounds()
		if n := b.Dx() * b.Dy() * 3; len(rgb) != n {
			rgb = make([]byte, n)
		}
		toRGB(img, rgb)
		acc.Add(rgb, b.Dx(), b.Dy())
	}
	return acc.Stats(), nil
}

// ImageAccumulator gathers statistics of RGB frames in a histogram of the 256 levels per channel, so sums are exact.
// The zero value is ready.
type ImageAccumulator struct {
	histogram [3][256]int64
	frames    int64
}

// pixelStep thins large pictures as LeRobot does: every k-th pixel of every k-th row, k = larger side / 150, from 300 on.
func pixelStep(width, height int) int {
	if side := max(width, height); side >= 300 {
		return side / 150
	}
	return 1
}

// Add counts the pixels of an RGB24 frame of width x height, thinned by LeRobot's rule.
func (a *ImageAccumulator) Add(rgb []byte, width, height int) {
	step := pixelStep(width, height)
	for y := 0; y < height; y += step {
		row := rgb[y*width*3 : (y+1)*width*3]
		for x := 0; x+2 < len(row); x += 3 * step {
			a.histogram[0][row[x]]++
			a.histogram[1][row[x+1]]++
			a.histogram[2][row[x+2]]++
		}
	}
	a.frames++
}

// Stats returns the statistics so far, per channel, divided by 255; Count is the number of frames.
func (a *ImageAccumulator) Stats() Stats {
	s := Stats{Count: a.frames}
	for c := range a.histogram {
		h := &a.histogram[c]
		var n, sum, squares int64
		for level, k := range h {
			n += k
			sum += k * int64(level)
			squares += k * int64(level) * int64(level)
		}
		if n == 0 {
			return Stats{}
		}
		mean := float64(sum) / float64(n)
		variance := float64(squares)/float64(n) - mean*mean
		s.Mean = append(s.Mean, mean/255)
		s.Std = append(s.Std, math.Sqrt(math.Max(0, variance))/255)
		s.Min = append(s.Min, histogramAt(h, 0)/255)
		s.Max = append(s.Max, histogramAt(h, n-1)/255)
		for i, q := range s.quantiles() {
			at := quantileLevels[i] * float64(n-1)
			low := math.Floor(at)
			a, b := histogramAt(h, int64(low)), histogramAt(h, int64(math.Ceil(at)))
			*q = append(*q, (a+(at-low)*(b-a))/255)
		}
	}
	return s
}

// histogramAt is the level of the k-th smallest pixel.
func histogramAt(h *[256]int64, k int64) float64 {
	for level, n := range h {
		if k < n {
			return float64(level)
		}
		k -= n
	}
	return 255
}

// SampleFrames lists the frames that image statistics use: LeRobot's number of evenly spaced frames of n:
// max(min(n, 100), min(n^0.75, 10000)).
func SampleFrames(n int) []int {
	if n <= 0 {
		return nil
	}
	count := max(min(n, 100), min(int(math.Pow(float64(n), 0.75)), 10000))
	frames := make([]int, count)
	for i := range frames {
		if count > 1 {
			frames[i] = int(math.RoundToEven(float64(i) * float64(n-1) / float64(count-1)))
		}
	}
	return frames
}

// mixQuantiles estimates the quantiles of pictures over episodes from each episode's own: every episode is taken as the
// piecewise linear distribution through its min, quantiles and max, and the mixture weighted by count is inverted.
func mixQuantiles(parts []Stats) Stats {
	var out Stats
	if len(parts) == 0 {
		return out
	}
	for c := range parts[0].Mean {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range parts {
			lo, hi = math.Min(lo, p.Min[c]), math.Max(hi, p.Max[c])
		}
		for i, q := range out.quantiles() {
			*q = append(*q, invert(parts, c, quantileLevels[i], lo, hi))
		}
	}
	return out
}

// invert bisects the mixture's distribution function.
func invert(parts []Stats, c int, level, lo, hi float64) float64 {
	for range 50 {
		mid := (lo + hi) / 2
		below, total := 0.0, 0.0
		for _, p := range parts {
			below += float64(p.Count) * p.cdf(c, mid)
			total += float64(p.Count)
		}
		if below < level*total {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// cdf is the piecewise linear distribution function of element c.
func (s Stats) cdf(c int, x float64) float64 {
	levels := [7]float64{0, 0.01, 0.10, 0.50, 0.90, 0.99, 1}
	knots := [7]float64{s.Min[c], s.Q01[c], s.Q10[c], s.Q50[c], s.Q90[c], s.Q99[c], s.Max[c]}
	if x < knots[0] {
		return 0
	}
	for i := 1; i < len(knots); i++ {
		if x < knots[i] {
			return levels[i-1] + (levels[i]-levels[i-1])*(x-knots[i-1])/(knots[i]-knots[i-1])
		}
	}
	return 1
}
