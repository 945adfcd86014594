//go:build !libav

package video

import "github.com/pinch-robotics/pinch/internal/imaging"

// RandomAccess tells whether Reader decodes any frame directly (build tag libav) or by decoding from the start.
const RandomAccess = false

func newEngine() engine { return piped{} }

func openSequence(path string, x *Index, g *imaging.Geometry) (decoder, error) {
	return newCLIDecoder(path, x.Width, x.Height, g), nil
}
