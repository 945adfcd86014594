package importer

import "math"

// resize fits a table of rows x cols vectors to another grid by bicubic interpolation with a = -0.75, half-pixel centres and repeated edges:
// torch.nn.functional.interpolate(mode="bicubic", align_corners=False), as transformers resizes position tables.
func resize(table []float32, rows, cols, toRows, toCols, dim int) []float32 {
	out := make([]float32, toRows*toCols*dim)
	if rows == toRows && cols == toCols {
		copy(out, table)
		return out
	}
	for y := range toRows {
		y0, wy := cubic(y, rows, toRows)
		for x := range toCols {
			x0, wx := cubic(x, cols, toCols)
			for i := range 4 {
				for j := range 4 {
					w := wy[i] * wx[j]
					from := (clamp(y0+i, rows)*cols + clamp(x0+j, cols)) * dim
					to := (y*toCols + x) * dim
					for d := range dim {
						out[to+d] += float32(w * float64(table[from+d]))
					}
				}
			}
		}
	}
	return out
}

// cubic gives the first of four neighbours of a target cell and their weights. Source: Keys 1981, equation 4, with torch's a.
func cubic(i, n, to int) (first int, w [4]float64) {
	const a = -0.75
	at := (float64(i)+0.5)*float64(n)/float64(to) - 0.5
	base := math.Floor(at)
	for k := range w {
		t := math.Abs(at - (base - 1 + float64(k)))
		if t <= 1 {
			w[k] = ((a+2)*t-(a+3))*t*t + 1
		} else {
			w[k] = ((a*t-5*a)*t+8*a)*t - 4*a
		}
	}
	return int(base) - 1, w
}

func clamp(i, n int) int { return min(max(i, 0), n-1) }
