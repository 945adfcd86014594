package kernel

// Rotate turns pairs of elements of each row of x, heads·d elements a row: element j of a head's first half is paired with element j of its
// second half and turned by the angle whose cosine and sine are row r's elements j of cos and sin (d/2 elements a row). sign +1 turns
// forward, −1 back. Row r uses row r % period of cos and sin.
func Rotate[T Float](y, x, cos, sin []T, heads, d, period int, sign T) {
	half := d / 2
	rows := len(x) / (heads * d)
	y = y[:len(x)]
	for r := range rows {
		c, s := cos[(r%period)*half:][:half], sin[(r%period)*half:][:half]
		for h := range heads {
			at := (r*heads + h) * d
			lo, hi := x[at:at+half], x[at+half:at+d]
			outLo, outHi := y[at:at+half], y[at+half:at+d]
			for j := range half {
				a, b, t := lo[j], hi[j], sign*s[j]
				outLo[j], outHi[j] = a*c[j]-b*t, b*c[j]+a*t
			}
		}
	}
}
