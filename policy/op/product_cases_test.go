package op_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

func productCases() (list []opCase) {
	for _, s := range []struct {
		spec string
		a, b []int
		out  []int
	}{
		{"bthd,bshd->bhts", []int{2, 3, 2, 4}, []int{2, 5, 2, 4}, []int{2, 2, 3, 5}},
		{"bhts,bshd->bthd", []int{2, 2, 3, 5}, []int{2, 5, 2, 4}, []int{2, 3, 2, 4}},
		{"ab,bc->ca", []int{3, 4}, []int{4, 5}, []int{5, 3}},
		{"ab,ab->b", []int{3, 4}, []int{3, 4}, []int{4}},
		{"a,b->ba", []int{3}, []int{4}, []int{4, 3}},
	} {
		list = append(list, opCase{"einsum " + s.spec, []input{f(s.a...), f(s.b...)}, func(x nodes) *gorgonia.Node { return op.Einsum(s.spec, x[0], x[1]) },
			func(x []array) array { return einsum(s.spec, x[0], x[1], s.out) }})
	}
	for _, m := range []int{1, 2, 3} {
		rows, cols, d := 6, 6, 2
		list = append(list, opCase{"pixelshuffle", []input{f(2, rows*cols, d)}, func(x nodes) *gorgonia.Node { return op.PixelShuffle(x[0], rows, cols, m) },
			func(x []array) array {
				return fill([]int{2, rows * cols / (m * m), m * m * d}, func(i []int) float64 {
					row, col := i[1]/(cols/m)*m+i[2]/d/m, i[1]%(cols/m)*m+i[2]/d%m
					return x[0].at(i[0], row*cols+col, i[2]%d)
				})
			}})
	}
	for _, shape := range [][]int{{4}, {2, 3}} {
		const v = 5
		list = append(list, opCase{"crossentropy", []input{f(append(slices.Clone(shape), v)...), ids(v, shape...), mask01(shape...)},
			func(x nodes) *gorgonia.Node { return op.CrossEntropy(x[0], x[1], x[2]) },
			func(x []array) array {
				var total, n float64
				each(shape, func(i []int) {
					var sum float64
					for j := range v {
						sum += math.Exp(x[0].at(append(slices.Clone(i), j)...))
					}
					m := x[2].at(i...)
					total += m * (math.Log(sum) - x[0].at(append(slices.Clone(i), int(x[1].at(i...)))...))
					n += m
				})
				return array{data: []float64{total / n}}
			}})
	}
	return list
}

// einsum loops over all letters.
func einsum(spec string, a, b array, shape []int) array {
	var letters []rune
	sizes := map[rune]int{}
	parts := [2]string{}
	out := ""
	for i, part := 0, 0; i < len(spec); i++ {
		switch c := rune(spec[i]); {
		case c == ',':
			part++
		case c == '-':
			out = spec[i+2:]
			i = len(spec)
		default:
			shape := [][]int{a.shape, b.shape}[part]
			if _, ok := sizes[c]; !ok {
				letters = append(letters, c)
			}
			sizes[c] = shape[len(parts[part])]
			parts[part] += string(c)
		}
	}
	y := fill(shape, func([]int) float64 { return 0 })
	all := make([]int, len(letters))
	for i, l := range letters {
		all[i] = sizes[l]
	}
	each(all, func(index []int) {
		at := func(text string) (i []int) {
			for _, l := range text {
				i = append(i, index[slices.Index(letters, l)])
			}
			return i
		}
		o := 0
		for axis, i := range at(out) {
			o = o*shape[axis] + i
		}
		y.data[o] += a.at(at(parts[0])...) * b.at(at(parts[1])...)
	})
	return y
}

// groupedCases are attentions whose keys and values have fewer heads than their queries.
func groupedCases() (list []opCase) {
	for _, s := range []struct{ b, tq, tk, hd, heads, groups int }{{2, 3, 5, 2, 4, 2}, {1, 4, 4, 4, 3, 1}, {2, 2, 6, 8, 4, 1}} {
		q, k := []int{s.b, s.tq, s.heads * s.hd}, []int{s.b, s.tk, s.groups * s.hd}
		for _, mask := range []*input{nil, {shape: []int{s.b, 1, s.tk}, dtype: &op.Bool, fixed: true, data: func(rng *rand.Rand, _ []int) float64 { return float64(rng.IntN(2)) }}} {
			in := []input{f(q...), f(k...), f(k...)}
			if mask != nil {
				in = append(in, *mask)
			}
			list = append(list, opCase{"attention grouped", in,
				func(x nodes) *gorgonia.Node {
					var m *gorgonia.Node
					if len(x) > 3 {
						m = x[3]
					}
					return op.Attention(x[0], x[1], x[2], m, s.heads)
				},
				func(x []array) array {
					return fill(q, func(i []int) float64 {
						h, c := i[2]/s.hd, i[2]%s.hd
						g := h / (s.heads / s.groups)
						var sum, value float64
						for t := range s.tk {
							score := 0.0
							for j := range s.hd {
								score += x[0].at(i[0], i[1], h*s.hd+j) * x[1].at(i[0], t, g*s.hd+j)
							}
							weight := math.Exp(score / math.Sqrt(float64(s.hd)))
							if len(x) > 3 {
								weight *= x[3].at(i[0], 0, t)
							}
							sum += weight
							value += weight * x[2].at(i[0], t, g*s.hd+c)
						}
						if sum == 0 {
							return 0
						}
						return value / sum
					})
				}})
		}
	}
	return list
}

// TestNoise checks mean, variance and the share within one standard deviation, and that streams, seeds and steps differ and repeat.
func TestNoise(t *testing.T) {
	const n = 40000
	graph(t, func(g *gorgonia.ExprGraph) {
		key := op.Input(g, op.Int32, "key", 2)
		first, other := op.Noise(key, op.Float64, 1, n), op.Noise(key, op.Float64, 2, 200, 200)
		at := func(node *gorgonia.Node, seed, step float64) []float64 {
			e := eval{key: array{[]int{2}, []float64{seed, step}}.value(op.Int32)}
			return floatsOf(e.of(t, node))
		}
		a := at(first, 7, 1)
		var sum, square, within float64
		for _, v := range a {
			sum, square = sum+v, square+v*v
			if math.Abs(v) < 1 {
				within++
			}
		}
		// Five standard deviations each: of the mean 1/√n, of the mean square √(2/n), of the share √(p(1−p)/n).
		if mean := sum / n; math.Abs(mean) > 5/math.Sqrt(n) {
			t.Errorf("mean %v", mean)
		}
		if v := square / n; math.Abs(v-1) > 5*math.Sqrt(2.0/n) {
			t.Errorf("variance %v", v)
		}
		const p = 0.6826894921
		if share := within / n; math.Abs(share-p) > 5*math.Sqrt(p*(1-p)/n) {
			t.Errorf("share within one standard deviation %v, want %v", share, p)
		}
		if agree(a, at(first, 7, 1)) != n {
			t.Error("the same key gives other noise")
		}
		for what, b := range map[string][]float64{"seed": at(first, 8, 1), "step": at(first, 7, 2), "stream": at(other, 7, 1)} {
			var product float64
			for i := range a {
				product += a[i] * b[i]
			}
			if c := product / n; math.Abs(c) > 5/math.Sqrt(n) {
				t.Errorf("noise of another %s is correlated: %v", what, c)
			}
		}
	})
}
