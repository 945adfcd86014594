package kernel

// Kind names an element-wise function of two arguments.
type Kind int32

// The functions of two arguments.
const (
	AddKind Kind = iota // a + b
	SubKind             // a - b
	MulKind             // a · b
)

// Binary computes y[i][j] = f(a[i·ars + j·acs], b[i·brs + j·bcs]) for a dense y of [rows, cols]. The column strides are 1, or 0 to repeat
// one element along the row; the row strides are free, 0 to repeat one row.
func Binary[T Float](kind Kind, y []T, rows, cols int, a []T, ars, acs int, b []T, brs, bcs int) {
	if rows == 0 || cols == 0 {
		return
	}
	y = y[:rows*cols]
	checkStrided("a", len(a), rows, cols, ars, acs)
	checkStrided("b", len(b), rows, cols, brs, bcs)
	if is32[T]() {
		binary32(kind, as32(y), rows, cols, as32(a), ars, acs, as32(b), brs, bcs)
		return
	}
	goBinary(kind, y, rows, cols, a, ars, acs, b, brs, bcs)
}

func checkStrided(name string, have, rows, cols, rowStride, colStride int) {
	if (rows-1)*rowStride+(cols-1)*colStride >= have {
		panic("kernel: operand " + name + " is smaller than its shape")
	}
}

func goBinary[T Float](kind Kind, y []T, rows, cols int, a []T, ars, acs int, b []T, brs, bcs int) {
	for i := range rows {
		for j := range cols {
			p, q := a[i*ars+j*acs], b[i*brs+j*bcs]
			switch kind {
			case AddKind:
				p += q
			case SubKind:
				p -= q
			default:
				p *= q
			}
			y[i*cols+j] = p
		}
	}
}

// SumTo adds x, a dense [rows, cols], into y: y[i·yrs + j·ycs] += x[i][j]. A stride of 0 sums that axis away.
func SumTo[T Float](y []T, yrs, ycs int, x []T, rows, cols int) {
	if rows == 0 || cols == 0 {
		return
	}
	x = x[:rows*cols]
	checkStrided("y", len(y), rows, cols, yrs, ycs)
	if is32[T]() {
		sumTo32(as32(y), yrs, ycs, as32(x), rows, cols)
		return
	}
	goSumTo(y, yrs, ycs, x, rows, cols)
}

func goSumTo[T Float](y []T, yrs, ycs int, x []T, rows, cols int) {
	for i := range rows {
		row := x[i*cols : (i+1)*cols]
		if ycs == 0 {
			var s float64
			for _, v := range row {
				s += float64(v)
			}
			y[i*yrs] += T(s)
			continue
		}
		for j, v := range row {
			y[i*yrs+j*ycs] += v
		}
	}
}

// Affine computes y = scale·x + shift.
func Affine[T Float](y, x []T, scale, shift T) {
	y = y[:len(x)]
	if is32[T]() {
		affine32(as32(y), as32(x), float32(scale), float32(shift))
		return
	}
	goAffine(y, x, scale, shift)
}

func goAffine[T Float](y, x []T, scale, shift T) {
	for i, v := range x {
		y[i] = scale*v + shift
	}
}

// FillRows writes row into each of the rows of y.
func FillRows[T any](y []T, row []T) {
	for len(y) > 0 {
		n := copy(y, row)
		y = y[n:]
	}
}

// Modulate computes y = x·(1 + scale) + shift row by row, d elements a row; row r uses elements [r·stride, r·stride+d) of scale and
// shift, so a stride of 0 repeats one row of them. shift may be nil.
func Modulate[T Float](y, x, scale, shift []T, d, stride int) {
	y = y[:len(x)]
	n := len(x) / d
	if n == 0 {
		return
	}
	checkStrided("scale", len(scale), n, d, stride, 1)
	if shift != nil {
		checkStrided("shift", len(shift), n, d, stride, 1)
	}
	if is32[T]() {
		modulate32(as32(y), as32(x), as32(scale), as32(shift), n, d, stride)
		return
	}
	goModulate(y, x, scale, shift, n, d, stride)
}

func goModulate[T Float](y, x, scale, shift []T, rows, d, stride int) {
	for r := range rows {
		for j := range d {
			v := x[r*d+j] * (1 + scale[r*stride+j])
			if shift != nil {
				v += shift[r*stride+j]
			}
			y[r*d+j] = v
		}
	}
}

// Gate computes out = x + gate·y row by row, d elements a row; row r uses elements [r·stride, r·stride+d) of gate.
func Gate[T Float](out, x, y, gate []T, d, stride int) {
	n := len(out) / d
	if n == 0 {
		return
	}
	x, y = x[:len(out)], y[:len(out)]
	checkStrided("gate", len(gate), n, d, stride, 1)
	if is32[T]() {
		gate32(as32(out), as32(x), as32(y), as32(gate), n, d, stride)
		return
	}
	goGate(out, x, y, gate, n, d, stride)
}

func goGate[T Float](out, x, y, gate []T, rows, d, stride int) {
	for r := range rows {
		for j := range d {
			out[r*d+j] = x[r*d+j] + gate[r*stride+j]*y[r*d+j]
		}
	}
}

// MulSum adds to sum[j] the column sums of a·b, d elements a row.
func MulSum[T Float](sum, a, b []T, d int) {
	sum, b = sum[:d], b[:len(a)]
	if is32[T]() {
		mulSum32(as32(sum), as32(a), as32(b), len(a)/d, d)
		return
	}
	goMulSum(sum, a, b, len(a)/d, d)
}

func goMulSum[T Float](sum, a, b []T, rows, d int) {
	for r := range rows {
		for j := range d {
			sum[j] += a[r*d+j] * b[r*d+j]
		}
	}
}
