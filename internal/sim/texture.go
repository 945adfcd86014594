package sim

import "math/rand/v2"

// textureSize is the table texture's width and height in texels; one texel is about 3 mm of table.
const textureSize = 512

// fillTexture writes the table's surface: a pale ground with soft blotches and fine grain, so that the wrist cameras see motion
// over it and no two places look quite alike. rgb has 3 textureSize^2 bytes. The seed is fixed: the table is always the same.
func fillTexture(rgb []byte) {
	rng := rand.New(rand.NewPCG(0x7ab1e, 1))
	coarse := valueNoise(rng, 12)
	fine := valueNoise(rng, 96)
	ground := [3]float64{186, 181, 171}
	for y := range textureSize {
		for x := range textureSize {
			v := 16*coarse(x, y) + 10*fine(x, y) + 5*(rng.Float64()-0.5)
			for c := range 3 {
				rgb[3*(y*textureSize+x)+c] = byte(ground[c] + v)
			}
		}
	}
}

// valueNoise is a smooth random field in [-1, 1] over the texture with n cells a side, made by bilinear interpolation.
func valueNoise(rng *rand.Rand, n int) func(x, y int) float64 {
	grid := make([]float64, (n+1)*(n+1))
	for i := range grid {
		grid[i] = 2*rng.Float64() - 1
	}
	return func(x, y int) float64 {
		fx, fy := float64(x*n)/textureSize, float64(y*n)/textureSize
		ix, iy := int(fx), int(fy)
		tx, ty := fx-float64(ix), fy-float64(iy)
		at := func(dx, dy int) float64 { return grid[(iy+dy)*(n+1)+ix+dx] }
		return (at(0, 0)*(1-tx)+at(1, 0)*tx)*(1-ty) + (at(0, 1)*(1-tx)+at(1, 1)*tx)*ty
	}
}
