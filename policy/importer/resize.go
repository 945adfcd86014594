package importer

import "math"

// resize fits a table of rows x cols vectors to another grid by bicubic interpolation, as torch.nn.functional.interpolate(mode="bicubic",
// align_corners=False) does: plain (transformers' tables), or with antialias (DINOv2 with registers, and timm).
func resize(table []float32, rows, cols, toRows, toCols, dim int, antialias bool) []float32 {
	out := make([]float32, toRows*toCols*dim)
	if rows == toRows && cols == toCols {
		copy(out, table)
		return out
	}
	weights := plain
	if antialias {
		weights = smooth
	}
	for y := range toRows {
		wy := weights(y, rows, toRows)
		for x := range toCols {
			to := out[(y*toCols+x)*dim:][:dim]
			for _, v := range wy {
				for _, u := range weights(x, cols, toCols) {
					from := table[(v.at*cols+u.at)*dim:]
					w := float32(v.weight * u.weight)
					for d := range to {
						to[d] += w * from[d]
					}
				}
			}
		}
	}
	return out
}

// tap is one source cell of a target cell.
type tap struct {
	at     int
	weight float64
}

// plain takes four neighbours with a = -0.75; edges are repeated.
func plain(i, n, to int) []tap {
	at := (float64(i)+0.5)*float64(n)/float64(to) - 0.5
	base := int(math.Floor(at))
	var out []tap
	for k := base - 1; k <= base+2; k++ {
		out = append(out, tap{min(max(k, 0), n-1), keys(at-float64(k), -0.75)})
	}
	return out
}

// smooth takes the neighbours within two cells of the coarser grid with a = -0.5; beyond the edges there are none, and the weights sum to one.
func smooth(i, n, to int) []tap {
	scale := float64(n) / float64(to)
	wide := math.Max(scale, 1)
	centre := (float64(i) + 0.5) * scale
	first, last := max(int(centre-2*wide+0.5), 0), min(int(centre+2*wide+0.5), n)
	var out []tap
	sum := 0.0
	for k := first; k < last; k++ {
		w := keys((float64(k)-centre+0.5)/wide, -0.5)
		out, sum = append(out, tap{k, w}), sum+w
	}
	for k := range out {
		out[k].weight /= sum
	}
	return out
}

// keys is the cubic convolution kernel. Source: Keys 1981, equation 4.
func keys(x, a float64) float64 {
	x = math.Abs(x)
	switch {
	case x <= 1:
		return ((a+2)*x-(a+3))*x*x + 1
	case x < 2:
		return ((a*x-5*a)*x+8*a)*x - 4*a
	}
	return 0
}
