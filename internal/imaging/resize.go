package imaging

// areaResize writes the exact area mean of the part r of src to a w x h image.
//
// On an axis with n source and m target pixels cut each source pixel into m equal parts and each target pixel into n: both
// then count parts of the same size, so every overlap is an integer and the overlaps of one target pixel add up to n.
// The weights of the two axes multiply; their sum is r.W*r.H, and 255*r.W*r.H fits 32 bits for images up to 16 megapixels,
// which is why sums are kept in 64 bits and nothing else can overflow. Larger targets than sources repeat pixels.
func areaResize(dst []byte, w, h int, src RGB, r Rect) {
	cols, rows := spans(r.W, w), spans(r.H, h)
	sums := make([]uint64, r.W*3) // one target row, still at source width
	area := uint64(r.W) * uint64(r.H)
	for y, row := range rows {
		clear(sums)
		for k := row.first; k <= row.last; k++ {
			addRow(sums, src.Pix[((r.Y+k)*src.Width+r.X)*3:], row.weight(k, r.H, h))
		}
		out := dst[y*w*3 : (y+1)*w*3]
		for x, col := range cols {
			var red, green, blue uint64
			for k := col.first; k <= col.last; k++ {
				wt := col.weight(k, r.W, w)
				red += wt * sums[3*k]
				green += wt * sums[3*k+1]
				blue += wt * sums[3*k+2]
			}
			out[3*x] = byte((red + area/2) / area)
			out[3*x+1] = byte((green + area/2) / area)
			out[3*x+2] = byte((blue + area/2) / area)
		}
	}
}

// addRow adds weight times one source row to sums.
func addRow(sums []uint64, row []byte, weight uint64) {
	row = row[:len(sums)]
	for i, v := range row {
		sums[i] += weight * uint64(v)
	}
}

// span is the run of source pixels that one target pixel covers; index is the target pixel.
type span struct{ index, first, last int }

// spans lists the runs of m target pixels over n source pixels.
func spans(n, m int) []span {
	s := make([]span, m)
	for j := range s {
		s[j] = span{index: j, first: j * n / m, last: ((j+1)*n - 1) / m}
	}
	return s
}

// weight is the overlap of source pixel k, parts [k*m, (k+1)*m), with the span's target pixel, parts [j*n, (j+1)*n).
func (s span) weight(k, n, m int) uint64 {
	lo := max(k*m, s.index*n)
	hi := min((k+1)*m, (s.index+1)*n)
	return uint64(hi - lo)
}
