package policy

// Patches cuts an image (Height*Width*3 bytes in the Spec's geometry) into tokens, row by row: token values are the window's
// rows, columns and channels, scaled from 0..255 to -1..1. A window larger than the patch reaches into its neighbours and
// repeats the image's edge. dst has tokens*window*window*3 numbers.
func (a Architecture) Patches(dst []float32, pix []byte, width, height int) {
	reach := (a.Window - a.Patch) / 2
	i := 0
	for py := 0; py < height; py += a.Patch {
		for px := 0; px < width; px += a.Patch {
			for y := py - reach; y < py+a.Patch+reach; y++ {
				row := min(max(y, 0), height-1) * width
				for x := px - reach; x < px+a.Patch+reach; x++ {
					p := pix[(row+min(max(x, 0), width-1))*3:][:3]
					dst[i] = levels[p[0]]
					dst[i+1] = levels[p[1]]
					dst[i+2] = levels[p[2]]
					i += 3
				}
			}
		}
	}
}

// levels maps a byte to -1..1.
var levels = func() (t [256]float32) {
	for i := range t {
		t[i] = float32(i)/127.5 - 1
	}
	return t
}()
