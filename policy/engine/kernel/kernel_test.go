package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The tests of this file compare each float32 kernel as built (C and OpenBLAS with the tag blas, Go without) with its Go twin run in
// float64, on lengths around the vector width.

var lengths = []int{1, 2, 7, 15, 16, 17, 31, 32, 33, 64, 96, 100, 1000}

type pair struct {
	s []float32
	d []float64
}

func normal(rng *rand.Rand, n int, scale float64) pair {
	p := pair{make([]float32, n), make([]float64, n)}
	for i := range p.s {
		p.s[i] = float32(scale * rng.NormFloat64())
		p.d[i] = float64(p.s[i])
	}
	return p
}

// check compares relative to the size of each element, at least floor.
func check(t *testing.T, what string, got []float32, want []float64, tolerance, floor float64) {
	t.Helper()
	for i, w := range want {
		g := float64(got[i])
		if math.IsNaN(w) && math.IsNaN(g) || g == w || got[i] == float32(w) {
			continue
		}
		if !(math.Abs(g-w) <= tolerance*max(math.Abs(w), floor)) {
			t.Fatalf("%s: element %d of %d is %v, want %v", what, i, len(want), g, w)
		}
	}
}

func TestGemm(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		m, n, k := 1+rng.IntN(70), 1+rng.IntN(70), 1+rng.IntN(70)
		if rng.IntN(4) == 0 {
			m, n = 1+rng.IntN(200), 16*(1+rng.IntN(20))
		}
		ta, tb, beta := rng.IntN(2) == 0, rng.IntN(2) == 0, float64(rng.IntN(2))
		lda, ldb, ldc := rows(ta, k, m)+rng.IntN(9), rows(tb, n, k)+rng.IntN(9), n+rng.IntN(9)
		a, b, c := normal(rng, rows(ta, m, k)*lda, 1), normal(rng, rows(tb, k, n)*ldb, 1), normal(rng, m*ldc, 1)
		want := append([]float64(nil), c.d...)
		plainGemm(ta, tb, m, n, k, a.d, lda, b.d, ldb, beta, want, ldc)
		Gemm(ta, tb, m, n, k, a.s, lda, b.s, ldb, float32(beta), c.s, ldc)
		check(t, "gemm float32", c.s, want, 1e-5, 1)
		Gemm(ta, tb, m, n, k, a.d, lda, b.d, ldb, beta, c.d, ldc)
		for i := range want {
			if math.Abs(c.d[i]-want[i]) > 1e-12*max(1, math.Abs(want[i])) {
				t.Fatalf("gemm float64 %dx%dx%d (%t, %t): element %d is %v, want %v", m, n, k, ta, tb, i, c.d[i], want[i])
			}
		}
	}
}

func TestLinear(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		m, n, k := 1+rng.IntN(60), 1+rng.IntN(150), 1+rng.IntN(300)
		tw := rng.IntN(2) == 0
		x, w, bias := normal(rng, m*k, 1), normal(rng, k*n, 1), normal(rng, n, 1)
		if rng.IntN(2) == 0 {
			bias = pair{}
		}
		got, want := make([]float32, m*n), make([]float64, m*n)
		for i := range want {
			if bias.d != nil {
				want[i] = bias.d[i%n]
			}
			got[i] = float32(math.NaN()) // must not be read
		}
		ldw := rows(tw, n, k)
		plainGemm(false, tw, m, n, k, x.d, k, w.d, ldw, 1, want, n)
		Linear(tw, n, k, x.s, w.s, bias.s, got)
		check(t, "linear", got, want, 2e-5, 3)
	}
}

// TestGemmShowsNaN holds that a NaN behind a zero is not lost, and that beta 0 does not read the old result.
func TestGemmShowsNaN(t *testing.T) {
	nan := float32(math.NaN())
	for _, ta := range []bool{false, true} {
		for _, tb := range []bool{false, true} {
			const n = 20
			a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
			for i := range c {
				c[i] = nan
			}
			b[3] = nan
			Gemm(ta, tb, n, n, n, a, n, b, n, 0, c, n)
			seen := 0
			for i, v := range c {
				if v != v {
					seen++
				} else if v != 0 {
					t.Fatalf("element %d is %v", i, v)
				}
			}
			if seen != n {
				t.Errorf("transposed %t, %t: %d elements are NaN, want %d", ta, tb, seen, n)
			}
		}
	}
}

func TestBinary(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 1))
	for _, cols := range lengths {
		for _, acs := range []int{0, 1} {
			for _, bcs := range []int{0, 1} {
				for kind := AddKind; kind <= MulKind; kind++ {
					for _, repeat := range []bool{false, true} {
						rows, ars, brs := 3, cols, cols
						if repeat {
							brs = 0
						}
						a, b := normal(rng, rows*cols, 1), normal(rng, rows*cols, 1)
						got, want := make([]float32, rows*cols), make([]float64, rows*cols)
						Binary(kind, got, rows, cols, a.s, ars, acs, b.s, brs, bcs)
						goBinary(kind, want, rows, cols, a.d, ars, acs, b.d, brs, bcs)
						check(t, "binary", got, want, 1e-6, 1e-3)
					}
				}
			}
		}
	}
}

func TestSums(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	for _, cols := range lengths {
		for _, strides := range [][2]int{{0, 1}, {1, 0}, {0, 0}, {cols, 1}} {
			rows := 5
			x, y := normal(rng, rows*cols, 1), normal(rng, rows*cols, 1)
			want := append([]float64(nil), y.d...)
			SumTo(y.s, strides[0], strides[1], x.s, rows, cols)
			goSumTo(want, strides[0], strides[1], x.d, rows, cols)
			check(t, "sum", y.s, want, 1e-5, 1)
		}
		a, b, s := normal(rng, 5*cols, 1), normal(rng, 5*cols, 1), normal(rng, cols, 1)
		want := append([]float64(nil), s.d...)
		MulSum(s.s, a.s, b.s, cols)
		goMulSum(want, a.d, b.d, 5, cols)
		check(t, "sum of products", s.s, want, 1e-5, 1)
	}
}

func TestConditioned(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 1))
	for _, d := range lengths {
		for _, stride := range []int{0, d} {
			x, y, a, b := normal(rng, 3*d, 1), normal(rng, 3*d, 1), normal(rng, 3*d, 1), normal(rng, 3*d, 1)
			got, want := make([]float32, 3*d), make([]float64, 3*d)
			Modulate(got, x.s, a.s, b.s, d, stride)
			goModulate(want, x.d, a.d, b.d, 3, d, stride)
			check(t, "modulate", got, want, 1e-6, 1)
			Modulate(got, x.s, a.s, nil, d, stride)
			goModulate(want, x.d, a.d, nil, 3, d, stride)
			check(t, "modulate without shift", got, want, 1e-6, 1)
			Gate(got, x.s, y.s, a.s, d, stride)
			goGate(want, x.d, y.d, a.d, 3, d, stride)
			check(t, "gate", got, want, 1e-6, 1)
		}
	}
}

func TestActivations(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	for _, n := range lengths {
		for kind := GELU; kind <= Tanh; kind++ {
			for _, scale := range []float64{1e-4, 0.5, 5} {
				x, up := normal(rng, n, scale), normal(rng, n, 1)
				got, want := make([]float32, n), make([]float64, n)
				Activate(kind, got, x.s)
				goActivate(kind, want, x.d)
				// eˣ of a rounded x is off by x roundings, and far out the GELU is such a power.
				check(t, "activation", got, want, 2e-6*(1+scale), 1e-30)
				ActivateGrad(kind, got, x.s, up.s)
				goActivateGrad(kind, want, x.d, up.d)
				check(t, "gradient of activation", got, want, 2e-6, 1e-1)
			}
		}
		x := normal(rng, n, 30)
		got, want := make([]float32, n), make([]float64, n)
		Exp(got, x.s)
		goExp(want, x.d)
		check(t, "exp", got, want, 1e-6, 1e-37)
		Affine(got, x.s, 1.5, -0.25)
		goAffine(want, x.d, 1.5, -0.25)
		check(t, "affine", got, want, 1e-6, 1)
	}
}

// TestExtremes holds that infinities and NaN come out where mathematics says so.
func TestExtremes(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	in := []float64{inf, -inf, nan, 89, -110, 0}
	x := make([]float32, len(in))
	for i, v := range in {
		x[i] = float32(v)
	}
	y := make([]float32, len(x))
	Exp(y, x)
	check(t, "exp", y, []float64{inf, 0, nan, inf, 0, 1}, 0, 0)
	Activate(Tanh, y, x)
	check(t, "tanh", y, []float64{1, -1, nan, 1, -1, 0}, 0, 0)
	Activate(GELU, y, x)
	check(t, "gelu", y[:1], []float64{inf}, 0, 0)
	check(t, "gelu", y[2:], []float64{nan, 89, 0, 0}, 0, 0)
}

func TestNorms(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 1))
	for _, d := range lengths[1:] {
		for _, centre := range []bool{false, true} {
			for _, plain := range []bool{false, true} {
				x, up, gain, bias := normal(rng, 3*d, 2), normal(rng, 3*d, 1), normal(rng, d, 1), normal(rng, d, 1)
				if plain {
					gain, bias = pair{}, pair{}
				}
				got, want := make([]float32, 3*d), make([]float64, 3*d)
				Norm(centre, got, x.s, gain.s, bias.s, d, 1e-3)
				goNorm(centre, want, x.d, gain.d, bias.d, 3, d, 1e-3)
				check(t, "norm", got, want, 1e-5, 1)
				NormGrad(centre, got, x.s, gain.s, up.s, d, 1e-3)
				goNormGrad(centre, want, x.d, gain.d, up.d, 3, d, 1e-3)
				check(t, "gradient of norm", got, want, 2e-5, 10)
				dg, db := normal(rng, d, 1), normal(rng, d, 1)
				wg, wb := append([]float64(nil), dg.d...), append([]float64(nil), db.d...)
				NormParamGrad(centre, dg.s, db.s, x.s, up.s, d, 1e-3)
				goNormParamGrad(centre, wg, wb, x.d, up.d, 3, d, 1e-3)
				check(t, "gradient of gain", dg.s, wg, 1e-5, 1)
				check(t, "gradient of bias", db.s, wb, 1e-5, 1)
			}
		}
	}
}

func TestSoftmax(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, d := range lengths {
		x, up, mask := normal(rng, 4*d, 5), normal(rng, 4*d, 1), normal(rng, 4*d, 1)
		for i := range d { // row 1 is shut, row 2 in part
			mask.s[d+i], mask.d[d+i] = float32(math.Inf(-1)), math.Inf(-1)
			if i%3 == 1 {
				mask.s[2*d+i], mask.d[2*d+i] = float32(math.Inf(-1)), math.Inf(-1)
			}
		}
		got, want := make([]float32, 4*d), make([]float64, 4*d)
		Softmax(got, x.s, d)
		goSoftmax(want, x.d, 4, d)
		check(t, "softmax", got, want, 1e-5, 1e-6)
		SoftmaxGrad(got, got, up.s, d, 0.5)
		goSoftmaxGrad(want, want, up.d, 4, d, 0.5)
		check(t, "gradient of softmax", got, want, 1e-5, 1e-1)
		copy(got, x.s)
		copy(want, x.d)
		Scores(got, d, 0.25, mask.s, d)
		goScores(want, 4, d, 0.25, mask.d, d)
		check(t, "scores", got, want, 1e-5, 1e-6)
		copy(got, x.s)
		copy(want, x.d)
		got[0], want[0] = float32(math.NaN()), math.NaN()
		got[d], want[d] = float32(math.NaN()), math.NaN() // in the shut row
		Scores(got, d, 0.25, mask.s, d)
		goScores(want, 4, d, 0.25, mask.d, d)
		check(t, "scores with NaN", got, want, 1e-5, 1e-6)
		if d > 1 && (got[1] == got[1] || got[d+1] == got[d+1]) {
			t.Errorf("a NaN among %d scores is hidden", d)
		}
	}
}

// TestAdamW follows the paper's algorithm literally for some steps.
func TestAdamW(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	for _, n := range lengths {
		p, m, v := normal(rng, n, 1), pair{make([]float32, n), make([]float64, n)}, pair{make([]float32, n), make([]float64, n)}
		a := Adam{Rate: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, GradScale: 0.5}
		for step := 1; step <= 5; step++ {
			g := normal(rng, n, 1)
			a.Step = step
			AdamW(p.s, g.s, m.s, v.s, a)
			for i := range n {
				d := 0.5 * g.d[i]
				m.d[i] = a.Beta1*m.d[i] + (1-a.Beta1)*d
				v.d[i] = a.Beta2*v.d[i] + (1-a.Beta2)*d*d
				mHat := m.d[i] / (1 - math.Pow(a.Beta1, float64(step)))
				vHat := v.d[i] / (1 - math.Pow(a.Beta2, float64(step)))
				p.d[i] -= a.Rate * (mHat/(math.Sqrt(vHat)+a.Eps) + a.Decay*p.d[i])
			}
		}
		check(t, "parameter", p.s, p.d, 1e-5, 1)
		check(t, "first moment", m.s, m.d, 1e-5, 1)
		check(t, "second moment", v.s, v.d, 1e-5, 1)

		var want float64
		for i := range n {
			want += p.d[i] * p.d[i]
		}
		if got := SumSquares(p.s); math.Abs(got-want) > 1e-5*want {
			t.Errorf("sum of %d squares is %v, want %v", n, got, want)
		}
		average, x := normal(rng, n, 1), normal(rng, n, 1)
		EMA(average.s, x.s, 0.99)
		for i := range n {
			average.d[i] = 0.99*average.d[i] + 0.01*x.d[i]
		}
		check(t, "average", average.s, average.d, 1e-6, 1)
	}
}

// TestScratch holds that scratch memory lent in one go never overlaps, also when it has to grow.
func TestScratch(t *testing.T) {
	var w Worker
	for round := range 3 {
		w.Reset()
		var lent [][]float32
		for i := range 20 {
			s := Scratch[float32](&w, 1+i*i*(round+1))
			for j := range s {
				s[j] = float32(i)
			}
			lent = append(lent, s)
		}
		for i, s := range lent {
			for _, v := range s {
				if v != float32(i) {
					t.Fatalf("round %d: loan %d was overwritten by loan %v", round, i, v)
				}
			}
		}
	}
}

// BenchmarkGemm times the products of a training step of a small vision transformer, on one thread.
func BenchmarkGemm(b *testing.B) {
	rng := rand.New(rand.NewPCG(9, 1))
	for _, c := range []struct {
		name    string
		ta, tb  bool
		m, n, k int
	}{
		{"up", false, false, 128, 256, 64}, {"down", false, false, 128, 64, 256}, {"gradient of input", false, true, 128, 64, 256},
		{"gradient of weight", true, false, 64, 256, 128}, {"scores of a head", false, true, 128, 128, 16}, {"values of a head", false, false, 128, 16, 128},
	} {
		b.Run(c.name, func(b *testing.B) {
			x, y, z := normal(rng, c.m*c.k, 1).s, normal(rng, c.k*c.n, 1).s, make([]float32, c.m*c.n)
			for b.Loop() {
				Gemm(c.ta, c.tb, c.m, c.n, c.k, x, rows(c.ta, c.k, c.m), y, rows(c.tb, c.n, c.k), 0, z, c.n)
			}
			b.ReportMetric(2*float64(c.m*c.n*c.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
