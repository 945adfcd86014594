package kernel

// SquaredError returns Σ m·(p − t)², where element i uses mask[i/per]: one mask value covers per elements.
func SquaredError[T Float](p, t, mask []T, per int) float64 {
	t = t[:len(p)]
	if per == 0 || len(mask)*per < len(p) {
		panic("kernel: mask is shorter than its rows")
	}
	var sum float64
	for i, m := range mask[:len(p)/per] {
		var row float64
		for j := i * per; j < (i+1)*per; j++ {
			e := float64(p[j]) - float64(t[j])
			row += e * e
		}
		sum += float64(m) * row
	}
	return sum
}

// SquaredErrorGrad computes dp = scale·m·(p − t), with the mask of SquaredError.
func SquaredErrorGrad[T Float](dp, p, t, mask []T, per int, scale T) {
	dp, t = dp[:len(p)], t[:len(p)]
	for i, m := range mask[:len(p)/per] {
		for j := i * per; j < (i+1)*per; j++ {
			dp[j] = scale * m * (p[j] - t[j])
		}
	}
}
