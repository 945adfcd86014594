package imaging

import "fmt"

// RGB is an 8-bit colour image: Pix has Height*Width*3 bytes, rows from the top, pixels from the left, red first.
// It is a plain value; copying it shares Pix.
type RGB struct {
	Width, Height int // pixels
	Pix           []byte
}

// NewRGB gives a black image of width x height pixels.
func NewRGB(width, height int) RGB {
	return RGB{Width: width, Height: height, Pix: make([]byte, width*height*3)}
}

// Check reports an image whose size is not positive or whose Pix does not have Width*Height*3 bytes.
func (m RGB) Check() error {
	if m.Width <= 0 || m.Height <= 0 {
		return fmt.Errorf("image of %d x %d pixels: both sides must be positive", m.Width, m.Height)
	}
	if want := m.Width * m.Height * 3; len(m.Pix) != want {
		return fmt.Errorf("image of %d x %d pixels has %d bytes, want %d (interleaved RGB)", m.Width, m.Height, len(m.Pix), want)
	}
	return nil
}

// At gives the red, green and blue levels (0 to 255) of the pixel in column x and row y.
func (m RGB) At(x, y int) (r, g, b byte) {
	i := (y*m.Width + x) * 3
	return m.Pix[i], m.Pix[i+1], m.Pix[i+2]
}
