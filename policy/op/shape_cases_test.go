package op_test

import (
	"math"
	"slices"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

func imageCases() (list []opCase) {
	b, h, w, c, p := 2, 4, 6, 3, 2
	list = append(list, opCase{"patchify", []input{f(b, h, w, c)}, func(x nodes) *gorgonia.Node { return op.Patchify(x[0], p) },
		func(x []array) array {
			return fill([]int{b, (h / p) * (w / p), p * p * c}, func(i []int) float64 {
				row, col := i[1]/(w/p), i[1]%(w/p)
				r, k := i[2]/(p*c), i[2]%(p*c)
				return x[0].at(i[0], row*p+r, col*p+k/c, k%c)
			})
		}})
	for _, shape := range [][]int{{4}, {2, 3}} {
		list = append(list, opCase{"embedding", []input{f(5, 3), ids(5, shape...)}, func(x nodes) *gorgonia.Node { return op.Embedding(x[0], x[1]) },
			func(x []array) array {
				return fill(append(slices.Clone(shape), 3), func(i []int) float64 {
					return x[0].at(int(x[1].at(i[:len(i)-1]...)), i[len(i)-1])
				})
			}})
	}
	for _, heads := range []int{1, 2} {
		list = append(list, opCase{"rope", []input{f(2, 5, 8)}, func(x nodes) *gorgonia.Node { return op.RoPE(x[0], heads, 100, 3) },
			func(x []array) array {
				hd := 8 / heads
				return fill([]int{2, 5, 8}, func(i []int) float64 {
					head, j := i[2]/hd, i[2]%hd
					pair := j % (hd / 2)
					angle := float64(3+i[1]) * math.Pow(100, -2*float64(pair)/float64(hd))
					a, b := x[0].at(i[0], i[1], head*hd+pair), x[0].at(i[0], i[1], head*hd+pair+hd/2)
					if j < hd/2 {
						return a*math.Cos(angle) - b*math.Sin(angle)
					}
					return b*math.Cos(angle) + a*math.Sin(angle)
				})
			}})
	}
	return list
}

func conditionCases() (list []opCase) {
	for _, s := range []struct{ x, cond []int }{
		{[]int{2, 3, 4}, []int{2, 4}}, {[]int{2, 3, 4}, []int{2, 3, 4}}, {[]int{3, 4}, []int{3, 4}}, {[]int{2, 3, 2, 5}, []int{2, 5}},
	} {
		cond := func(a array, i []int) float64 {
			if len(s.cond) == len(s.x) {
				return a.at(i...)
			}
			return a.at(i[0], i[len(i)-1])
		}
		list = append(list,
			opCase{"modulate", []input{f(s.x...), f(s.cond...), f(s.cond...)}, func(x nodes) *gorgonia.Node { return op.Modulate(x[0], x[1], x[2]) },
				func(x []array) array {
					return fill(s.x, func(i []int) float64 { return x[0].at(i...)*(1+cond(x[2], i)) + cond(x[1], i) })
				}},
			opCase{"gate", []input{f(s.x...), f(s.x...), f(s.cond...)}, func(x nodes) *gorgonia.Node { return op.Gate(x[0], x[1], x[2]) },
				func(x []array) array {
					return fill(s.x, func(i []int) float64 { return x[0].at(i...) + cond(x[2], i)*x[1].at(i...) })
				}})
	}
	return list
}

func lossCases() (list []opCase) {
	for _, s := range []struct{ pred, mask []int }{
		{[]int{2, 3, 4}, []int{2, 3}}, {[]int{2, 3, 4}, []int{2}}, {[]int{2, 3, 4}, []int{2, 3, 1}}, {[]int{2, 3, 4}, []int{2, 3, 4}}, {[]int{7}, []int{7}},
	} {
		list = append(list, opCase{"maskedmse", []input{f(s.pred...), f(s.pred...), mask01(s.mask...)},
			func(x nodes) *gorgonia.Node { return op.MaskedMSE(x[0], x[1], x[2]) },
			func(x []array) array {
				sum, n := 0.0, 0.0
				each(s.pred, func(i []int) {
					j := slices.Clone(i[:len(s.mask)])
					if len(j) == 3 && s.mask[2] == 1 {
						j[2] = 0
					}
					m := x[2].at(j...)
					e := x[0].at(i...) - x[1].at(i...)
					sum, n = sum+m*e*e, n+m
				})
				return array{data: []float64{sum / n}}
			}})
	}
	return list
}

func shapeCases() (list []opCase) {
	list = append(list, opCase{"reshape", []input{f(2, 6)}, func(x nodes) *gorgonia.Node { return op.Reshape(x[0], 3, -1) },
		func(x []array) array { return array{[]int{3, 4}, x[0].data} }})
	for _, perm := range [][]int{{0, 2, 1}, {2, 0, 1}, {1, 0, 2}, {2, 1, 0}} {
		s := []int{2, 3, 4}
		list = append(list, opCase{"transpose", []input{f(s...)}, func(x nodes) *gorgonia.Node { return op.Transpose(x[0], perm...) },
			func(x []array) array {
				return fill([]int{s[perm[0]], s[perm[1]], s[perm[2]]}, func(i []int) float64 {
					from := make([]int, 3)
					for a, axis := range perm {
						from[axis] = i[a]
					}
					return x[0].at(from...)
				})
			}})
	}
	for axis := range 3 {
		a, b := []int{2, 3, 4}, []int{2, 3, 4}
		b[axis] = 5
		y := slices.Clone(a)
		y[axis] += 5
		list = append(list, opCase{"concat", []input{f(a...), f(b...)}, func(x nodes) *gorgonia.Node { return op.Concat(axis, x[0], x[1]) },
			func(x []array) array {
				return fill(y, func(i []int) float64 {
					if i[axis] < a[axis] {
						return x[0].at(i...)
					}
					j := slices.Clone(i)
					j[axis] -= a[axis]
					return x[1].at(j...)
				})
			}})
		s := slices.Clone(a)
		s[axis] = 1
		list = append(list, opCase{"slice", []input{f(a...)}, func(x nodes) *gorgonia.Node { return op.Slice(x[0], axis, 1, 2) },
			func(x []array) array {
				return fill(s, func(i []int) float64 {
					j := slices.Clone(i)
					j[axis]++
					return x[0].at(j...)
				})
			}})
	}
	for _, axes := range [][]int{{}, {0}, {1}, {2}, {0, 1}, {1, 2}, {0, 2}, {0, 1, 2}} {
		var left []int
		s := []int{2, 3, 4}
		for axis, n := range s {
			if len(axes) > 0 && !slices.Contains(axes, axis) {
				left = append(left, n)
			}
		}
		total := func(x []array) array {
			y := fill(left, func([]int) float64 { return 0 })
			each(s, func(i []int) {
				at := 0
				for axis, n := range s {
					if len(axes) > 0 && !slices.Contains(axes, axis) {
						at = at*n + i[axis]
					}
				}
				y.data[at] += x[0].at(i...)
			})
			return y
		}
		list = append(list,
			opCase{"sum", []input{f(s...)}, func(x nodes) *gorgonia.Node { return op.Sum(x[0], axes...) }, total},
			opCase{"mean", []input{f(s...)}, func(x nodes) *gorgonia.Node { return op.Mean(x[0], axes...) }, func(x []array) array {
				y := total(x)
				for i := range y.data {
					y.data[i] *= float64(len(y.data)) / 24
				}
				return y
			}})
	}
	return list
}
