package eval

import (
	"bytes"
	"image/jpeg"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
)

func jpegOf(t testing.TB, img imaging.RGB) []byte {
	t.Helper()
	var buf bytes.Buffer
	if err := jpeg.Encode(&buf, rgbImage{img}, &jpeg.Options{Quality: 90}); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
