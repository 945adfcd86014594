package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

type nodes = []*gorgonia.Node

// input is one input of a case: a random float tensor unless data says otherwise.
type input struct {
	shape []int
	dtype *tensor.Dtype // nil: the case's floating type
	data  func(rng *rand.Rand, index []int) float64
	fixed bool // no gradient is asked for
}

func f(shape ...int) input { return input{shape: shape} }

func mask01(shape ...int) input {
	return input{shape: shape, fixed: true, data: func(rng *rand.Rand, _ []int) float64 { return float64(rng.IntN(2)) }}
}

func boolMask(shape ...int) input {
	m := mask01(shape...)
	m.dtype = &op.Bool
	return m
}

func ids(v int, shape ...int) input {
	return input{shape: shape, fixed: true, dtype: &op.Int32, data: func(rng *rand.Rand, _ []int) float64 { return float64(rng.IntN(v)) }}
}

// opCase is one operation on one set of shapes, with a reference implementation that loops over indices.
type opCase struct {
	name string
	in   []input
	op   func(x nodes) *gorgonia.Node
	want func(x []array) array
}

func cases() []opCase {
	return slices.Concat(linearCases(), broadcastCases(), unaryCases(), normCases(), attentionCases(), imageCases(), conditionCases(), lossCases(), shapeCases(), productCases(), groupedCases())
}

// TestValue checks every operation against its reference, in both element types.
func TestValue(t *testing.T) {
	for _, c := range cases() {
		for _, dt := range []tensor.Dtype{op.Float64, op.Float32} {
			t.Run(fmt.Sprintf("%s/%v", c.name, dt), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				_, x, data, y := build(t, c, dt, rng)
				e := eval{}
				for i, n := range x {
					e[n] = data[i].value(n.Dtype())
				}
				want := c.want(data)
				if len(want.shape) > 0 && !slices.Equal(y.Shape(), want.shape) || len(want.shape) == 0 && !y.IsScalar() {
					t.Fatalf("shape %v, want %v", y.Shape(), want.shape)
				}
				tolerance := 1e-12
				if dt == op.Float32 {
					tolerance = 2e-6 * math.Sqrt(float64(len(data[0].data)))
				}
				compare(t, "value", floatsOf(e.of(t, y)), want.data, tolerance)
			})
		}
	}
}

func build(t *testing.T, c opCase, dt tensor.Dtype, rng *rand.Rand) (g *gorgonia.ExprGraph, x nodes, data []array, y *gorgonia.Node) {
	t.Helper()
	g = gorgonia.NewGraph()
	if err := op.Build(func() {
		for i, in := range c.in {
			kind := dt
			if in.dtype != nil {
				kind = *in.dtype
			}
			x = append(x, op.Input(g, kind, fmt.Sprintf("x%d", i), in.shape...))
			if in.data == nil {
				data = append(data, random(rng, in.shape...))
			} else {
				data = append(data, fill(in.shape, func(index []int) float64 { return in.data(rng, index) }))
			}
		}
		y = c.op(x)
	}); err != nil {
		t.Fatal(err)
	}
	return g, x, data, y
}

// TestGradient checks every operation's symbolic gradient against central finite differences in float64.
func TestGradient(t *testing.T) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(3, 4))
			_, x, data, y := build(t, c, op.Float64, rng)
			weights := random(rng, y.Shape()...)
			var cost *gorgonia.Node
			var wrt, grads nodes
			if err := op.Build(func() {
				cost = y
				if !y.IsScalar() {
					w := op.Input(y.Graph(), op.Float64, "weights", y.Shape()...)
					x, data = append(x, w), append(data, weights)
					cost = op.Sum(op.Mul(y, w))
				}
				for i, in := range c.in {
					if !in.fixed {
						wrt = append(wrt, x[i])
					}
				}
				grads = op.Grad(cost, wrt...)
			}); err != nil {
				t.Fatal(err)
			}
			at := func() eval {
				e := eval{}
				for i, n := range x {
					e[n] = data[i].value(n.Dtype())
				}
				return e
			}
			e := at()
			for i, n := range wrt {
				got := floatsOf(e.of(t, grads[i]))
				d := data[slices.Index(x, n)].data
				want := make([]float64, len(d))
				for j, v := range d {
					h := 1e-5 * max(1, math.Abs(v))
					d[j] = v + h
					up := floatsOf(at().of(t, cost))[0]
					d[j] = v - h
					down := floatsOf(at().of(t, cost))[0]
					d[j] = v
					want[j] = (up - down) / (2 * h)
				}
				compare(t, fmt.Sprintf("gradient of input %s", n.Name()), got, want, 2e-7)
			}
		})
	}
}
