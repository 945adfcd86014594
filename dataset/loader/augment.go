package loader

import (
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

// Augment changes pictures during training only. The zero value changes nothing. Brightness, Contrast and Saturation are the
// greatest relative change (0.3: factor 0.7 to 1.3); Shift is the greatest move in pixels of the network image, edges
// repeated. One draw serves all pixels of one picture; each sample and camera has its own.
type Augment struct {
	Brightness float64 `yaml:"brightness"`
	Contrast   float64 `yaml:"contrast"`
	Saturation float64 `yaml:"saturation"`
	Shift      int     `yaml:"shift"`
}

// Apply writes the changed picture to dst, which must not overlap src. Randomness comes from rng alone.
func (a Augment) Apply(dst []byte, src imaging.RGB, rng *rand.Rand) {
	span := func(f float64) float64 { return 1 + f*(2*rng.Float64()-1) }
	b, c, s := span(a.Brightness), span(a.Contrast), span(a.Saturation)
	dx, dy := 0, 0
	if a.Shift > 0 {
		dx, dy = rng.IntN(2*a.Shift+1)-a.Shift, rng.IntN(2*a.Shift+1)-a.Shift
	}
	shift(dst, src, dx, dy)
	if a.Brightness == 0 && a.Contrast == 0 && a.Saturation == 0 {
		return
	}
	colour(dst, b, c, s)
}

func shift(dst []byte, src imaging.RGB, dx, dy int) {
	if dx == 0 && dy == 0 {
		copy(dst, src.Pix)
		return
	}
	for y := range src.Height {
		sy := min(max(y-dy, 0), src.Height-1)
		for x := range src.Width {
			sx := min(max(x-dx, 0), src.Width-1)
			copy(dst[(y*src.Width+x)*3:][:3], src.Pix[(sy*src.Width+sx)*3:][:3])
		}
	}
}

// colour scales brightness b, then contrast c about the picture's mean grey m (after brightness), then saturation s about each
// pixel's grey. All three are linear, so together v becomes s c b v + (1-s) c b grey + (1-c) m.
// Grey is the Rec. 601 luma 0.299 R + 0.587 G + 0.114 B.
func colour(pix []byte, brightness, contrast, saturation float64) {
	var mean float64
	for i := 0; i+2 < len(pix); i += 3 {
		mean += luma(float64(pix[i]), float64(pix[i+1]), float64(pix[i+2]))
	}
	mean *= brightness / float64(len(pix)/3)
	own, grey, shift := saturation*contrast*brightness, (1-saturation)*contrast*brightness, (1-contrast)*mean
	for i := 0; i+2 < len(pix); i += 3 {
		r, g, b := float64(pix[i]), float64(pix[i+1]), float64(pix[i+2])
		base := grey*luma(r, g, b) + shift
		pix[i], pix[i+1], pix[i+2] = level(own*r+base), level(own*g+base), level(own*b+base)
	}
}

func luma(r, g, b float64) float64 { return 0.299*r + 0.587*g + 0.114*b }

func level(v float64) byte { return byte(min(max(v, 0), 255) + 0.5) }
