package op_test

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

func linearCases() (list []opCase) {
	for _, shape := range [][]int{{5}, {3, 4}, {2, 3, 5}, {2, 1, 2, 7}} {
		k, n := shape[len(shape)-1], 6
		want := func(x []array) array {
			return fill(append(slices.Clone(shape[:len(shape)-1]), n), func(i []int) float64 {
				j := i[len(i)-1]
				sum := 0.0
				if len(x) > 2 {
					sum = x[2].data[j]
				}
				for l := range k {
					sum += x[0].at(append(slices.Clone(i[:len(i)-1]), l)...) * x[1].at(l, j)
				}
				return sum
			})
		}
		list = append(list,
			opCase{"linear", []input{f(shape...), f(k, n)}, func(x nodes) *gorgonia.Node { return op.Linear(x[0], x[1], nil) }, want},
			opCase{"linear bias", []input{f(shape...), f(k, n), f(n)}, func(x nodes) *gorgonia.Node { return op.Linear(x[0], x[1], x[2]) }, want})
	}
	for _, batch := range [][]int{{}, {3}, {2, 3}} {
		for _, ta := range []bool{false, true} {
			for _, tb := range []bool{false, true} {
				m, n, k := 4, 5, 3
				a, b := []int{m, k}, []int{k, n}
				if ta {
					a = []int{k, m}
				}
				if tb {
					b = []int{n, k}
				}
				r := len(batch)
				list = append(list, opCase{"matmul", []input{f(slices.Concat(batch, a)...), f(slices.Concat(batch, b)...)},
					func(x nodes) *gorgonia.Node { return op.MatMul(x[0], x[1], ta, tb) },
					func(x []array) array {
						return fill(slices.Concat(batch, []int{m, n}), func(i []int) (sum float64) {
							for l := range k {
								p, q := []int{i[r], l}, []int{l, i[r+1]}
								if ta {
									slices.Reverse(p)
								}
								if tb {
									slices.Reverse(q)
								}
								sum += x[0].at(slices.Concat(i[:r], p)...) * x[1].at(slices.Concat(i[:r], q)...)
							}
							return sum
						})
					}})
			}
		}
	}
	return list
}

// repeated reads a at an index of the broadcast shape.
func (a array) repeated(index []int) float64 {
	own := slices.Clone(index[len(index)-len(a.shape):])
	for i, n := range a.shape {
		if n == 1 {
			own[i] = 0
		}
	}
	return a.at(own...)
}

func broadcastCases() (list []opCase) {
	shapes := []struct{ a, b, y []int }{
		{[]int{4}, []int{4}, []int{4}},
		{[]int{2, 3, 4}, []int{2, 3, 4}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{4}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{3, 4}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{2, 1, 4}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{2, 3, 1}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{2, 1, 1}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{1}, []int{2, 3, 4}},
		{[]int{2, 3, 4}, []int{}, []int{2, 3, 4}},
		{[]int{3, 1}, []int{1, 4}, []int{3, 4}},
		{[]int{1, 4}, []int{3, 4}, []int{3, 4}},
		{[]int{2, 1, 3, 1, 5}, []int{4, 1, 2, 1}, []int{2, 4, 3, 2, 5}},
		{[]int{3, 1, 2, 1}, []int{2, 2, 1}, []int{3, 2, 2, 1}},
		{[]int{1, 1, 4}, []int{1, 3, 1}, []int{1, 3, 4}},
	}
	ops := []struct {
		name string
		op   func(a, b *gorgonia.Node) *gorgonia.Node
		f    func(a, b float64) float64
	}{
		{"add", op.Add, func(a, b float64) float64 { return a + b }},
		{"sub", op.Sub, func(a, b float64) float64 { return a - b }},
		{"mul", op.Mul, func(a, b float64) float64 { return a * b }},
	}
	for _, s := range shapes {
		for _, o := range ops {
			for _, swap := range []bool{false, true} {
				in := []input{f(s.a...), f(s.b...)}
				if swap {
					slices.Reverse(in)
				}
				list = append(list, opCase{o.name, in,
					func(x nodes) *gorgonia.Node { return o.op(x[0], x[1]) },
					func(x []array) array {
						return fill(s.y, func(i []int) float64 { return o.f(x[0].repeated(i), x[1].repeated(i)) })
					}})
			}
		}
		list = append(list, opCase{"broadcast", []input{f(s.b...)},
			func(x nodes) *gorgonia.Node { return op.AddConst(op.BroadcastTo(x[0], s.y...), 1) },
			func(x []array) array { return fill(s.y, func(i []int) float64 { return x[0].repeated(i) + 1 }) }})
	}
	// A node used twice: gorgonia adds the two gradients.
	list = append(list, opCase{"square", []input{f(3, 4)}, func(x nodes) *gorgonia.Node { return op.Mul(x[0], x[0]) },
		func(x []array) array {
			return fill([]int{3, 4}, func(i []int) float64 { return x[0].at(i...) * x[0].at(i...) })
		}})
	return list
}

func unaryCases() (list []opCase) {
	sigmoid := func(v float64) float64 { return 1 / (1 + math.Exp(-v)) }
	for _, u := range []struct {
		name string
		op   func(x *gorgonia.Node) *gorgonia.Node
		f    func(v float64) float64
	}{
		{"gelu", op.GELU, func(v float64) float64 {
			return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
		}},
		{"silu", op.SiLU, func(v float64) float64 { return v * sigmoid(v) }},
		{"tanh", op.Tanh, math.Tanh},
		{"scale", func(x *gorgonia.Node) *gorgonia.Node { return op.Scale(x, -1.5) }, func(v float64) float64 { return -1.5 * v }},
		{"addconst", func(x *gorgonia.Node) *gorgonia.Node { return op.AddConst(x, 0.25) }, func(v float64) float64 { return v + 0.25 }},
	} {
		for _, shape := range [][]int{{37}, {3, 5}, {2, 3, 4}} {
			list = append(list, opCase{u.name, []input{{shape: shape, data: func(rng *rand.Rand, _ []int) float64 { return 3 * rng.NormFloat64() }}},
				func(x nodes) *gorgonia.Node { return u.op(x[0]) },
				func(x []array) array { return fill(shape, func(i []int) float64 { return u.f(x[0].at(i...)) }) }})
		}
	}
	list = append(list, opCase{"biasgelu", []input{f(2, 3, 4), f(4)}, func(x nodes) *gorgonia.Node { return op.BiasGELU(x[0], x[1]) },
		func(x []array) array {
			return fill([]int{2, 3, 4}, func(i []int) float64 {
				v := x[0].at(i...) + x[1].at(i[2])
				return 0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v)))
			})
		}})
	return list
}

func normCases() (list []opCase) {
	const eps = 1e-3
	for _, shape := range [][]int{{7}, {3, 5}, {2, 3, 20}} {
		d := shape[len(shape)-1]
		norm := func(centre bool, x []array, gain, bias []float64) array {
			return fill(shape, func(i []int) float64 {
				row := make([]float64, d)
				mean, square := 0.0, 0.0
				for j := range row {
					row[j] = x[0].at(append(slices.Clone(i[:len(i)-1]), j)...)
					mean += row[j] / float64(d)
				}
				if !centre {
					mean = 0
				}
				for _, v := range row {
					square += (v - mean) * (v - mean) / float64(d)
				}
				j := i[len(i)-1]
				y := (row[j] - mean) / math.Sqrt(square+eps)
				if gain != nil {
					y *= gain[j]
				}
				if bias != nil {
					y += bias[j]
				}
				return y
			})
		}
		list = append(list,
			opCase{"layernorm", []input{f(shape...), f(d), f(d)}, func(x nodes) *gorgonia.Node { return op.LayerNorm(x[0], x[1], x[2], eps) },
				func(x []array) array { return norm(true, x, x[1].data, x[2].data) }},
			opCase{"layernorm gain", []input{f(shape...), f(d)}, func(x nodes) *gorgonia.Node { return op.LayerNorm(x[0], x[1], nil, eps) },
				func(x []array) array { return norm(true, x, x[1].data, nil) }},
			opCase{"layernorm bias", []input{f(shape...), f(d)}, func(x nodes) *gorgonia.Node { return op.LayerNorm(x[0], nil, x[1], eps) },
				func(x []array) array { return norm(true, x, nil, x[1].data) }},
			opCase{"layernorm plain", []input{f(shape...)}, func(x nodes) *gorgonia.Node { return op.LayerNorm(x[0], nil, nil, eps) },
				func(x []array) array { return norm(true, x, nil, nil) }},
			opCase{"rmsnorm", []input{f(shape...), f(d)}, func(x nodes) *gorgonia.Node { return op.RMSNorm(x[0], x[1], eps) },
				func(x []array) array { return norm(false, x, x[1].data, nil) }},
			opCase{"rmsnorm plain", []input{f(shape...)}, func(x nodes) *gorgonia.Node { return op.RMSNorm(x[0], nil, eps) },
				func(x []array) array { return norm(false, x, nil, nil) }},
			opCase{"softmax", []input{f(shape...)}, func(x nodes) *gorgonia.Node { return op.Softmax(x[0]) },
				func(x []array) array {
					return fill(shape, func(i []int) float64 {
						sum := 0.0
						for j := range d {
							sum += math.Exp(x[0].at(append(slices.Clone(i[:len(i)-1]), j)...))
						}
						return math.Exp(x[0].at(i...)) / sum
					})
				}})
	}
	return list
}

func attentionCases() (list []opCase) {
	for _, s := range []struct{ b, tq, tk, d, heads int }{{2, 3, 3, 4, 1}, {2, 3, 5, 6, 2}, {1, 1, 4, 8, 4}, {3, 2, 17, 4, 2}} {
		q, k := []int{s.b, s.tq, s.d}, []int{s.b, s.tk, s.d}
		additive := func(shape ...int) input {
			return input{shape: shape, fixed: true, data: func(rng *rand.Rand, _ []int) float64 {
				if rng.IntN(3) == 0 {
					return math.Inf(-1)
				}
				return rng.NormFloat64()
			}}
		}
		masks := []input{{}, boolMask(s.b, 1, s.tk), boolMask(1, s.tq, s.tk), boolMask(s.b, s.tq, s.tk), additive(s.b, 1, s.tk), additive(1, s.tq, s.tk), additive(s.b, s.tq, s.tk)}
		if s.b != s.tq {
			masks = append(masks, boolMask(s.b, s.tk), additive(s.tq, s.tk))
		}
		for _, m := range masks {
			in := []input{f(q...), f(k...), f(k...)}
			if m.shape != nil {
				in = append(in, m)
			}
			list = append(list, opCase{"attention", in,
				func(x nodes) *gorgonia.Node {
					var mask *gorgonia.Node
					if len(x) > 3 {
						mask = x[3]
					}
					return op.Attention(x[0], x[1], x[2], mask, s.heads)
				},
				func(x []array) array {
					return fill(q, func(i []int) float64 {
						hd := s.d / s.heads
						h := i[2] / hd
						sum, value := 0.0, 0.0
						for t := range s.tk {
							score := 0.0
							for c := h * hd; c < (h+1)*hd; c++ {
								score += x[0].at(i[0], i[1], c) * x[1].at(i[0], t, c)
							}
							score /= math.Sqrt(float64(hd))
							if len(x) > 3 {
								score += maskAt(x[3], m, s.b, i[0], i[1], t)
							}
							sum += math.Exp(score)
							value += math.Exp(score) * x[2].at(i[0], t, i[2])
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

// maskAt reads an attention mask of any allowed shape as a term of the score.
func maskAt(m array, in input, b, sample, query, key int) float64 {
	var v float64
	switch {
	case len(m.shape) == 2 && m.shape[0] == b:
		v = m.at(sample, key)
	case len(m.shape) == 2:
		v = m.at(query, key)
	default:
		v = m.repeated([]int{sample, query, key})
	}
	if in.dtype != nil {
		return math.Log(v) // open: 0, shut: −∞
	}
	return v
}
