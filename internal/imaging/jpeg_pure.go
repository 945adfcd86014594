package imaging

import (
	"bytes"
	"image"
	"image/color"
	"image/jpeg"
)

// decodeJPEGGo is the pure twin, also compared with OpenCV in tests of that build.
func decodeJPEGGo(data []byte) (RGB, error) {
	img, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return RGB{}, err
	}
	return fromImage(img), nil
}

// fromImage converts any standard image; JPEG's YCbCr takes the fast way.
func fromImage(img image.Image) RGB {
	b := img.Bounds()
	out := NewRGB(b.Dx(), b.Dy())
	ycc, fast := img.(*image.YCbCr)
	i := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if fast {
				c := ycc.COffset(x, y)
				out.Pix[i], out.Pix[i+1], out.Pix[i+2] = color.YCbCrToRGB(ycc.Y[ycc.YOffset(x, y)], ycc.Cb[c], ycc.Cr[c])
			} else {
				r, g, bl, _ := img.At(x, y).RGBA()
				out.Pix[i], out.Pix[i+1], out.Pix[i+2] = byte(r>>8), byte(g>>8), byte(bl>>8)
			}
			i += 3
		}
	}
	return out
}
