package train

import (
	"bytes"
	"image"
	"image/png"
	"path/filepath"

	"github.com/pinch-robotics/pinch/internal/atomicfile"
	"github.com/pinch-robotics/pinch/policy"
)

// firstBatchFile shows what the network saw first.
const firstBatchFile = "first_batch.png"

// shownSamples is how many samples of the first batch first_batch.png shows, one per column, cameras below each other.
const shownSamples = 8

// saveFirstBatch writes what the network sees of the first samples, augmentation included.
func (t *trainer) saveFirstBatch(b *policy.Batch) error {
	if len(t.spec.Cameras) == 0 {
		return nil
	}
	g := t.spec.Cameras[0].Geometry
	n := min(shownSamples, b.Samples)
	img := image.NewRGBA(image.Rect(0, 0, n*g.Width, len(t.spec.Cameras)*g.Height))
	for i := range n {
		for c := range t.spec.Cameras {
			b.Picture(i, c, func(x, y int, red, green, blue byte) {
				at := img.PixOffset(i*g.Width+x, c*g.Height+y)
				img.Pix[at], img.Pix[at+1], img.Pix[at+2], img.Pix[at+3] = red, green, blue, 255
			})
		}
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		return err
	}
	size := img.Bounds().Size()
	if err := t.events.picture(t.Now(), 0, "first_batch", size.X, size.Y, buf.Bytes()); err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(t.cfg.Out, firstBatchFile), buf.Bytes(), 0o644)
}
