package op

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// MatMul returns a·b over the last two axes, each transposed first if so asked: a [..., m, k] (or [..., k, m] if transA), b [..., k, n]
// (or [..., n, k] if transB), result [..., m, n]. The leading axes must be equal. For a weight shared by the batch use Linear.
func MatMul(a, b *Node, transA, transB bool) *Node {
	dt := floats("matmul", a, b)
	as, bs := a.Shape(), b.Shape()
	r := len(as)
	if r < 2 || len(bs) != r || !same(as[:r-2], bs[:r-2]) {
		fail("matmul: a %v and b %v: the axes before the last two must be equal", as, bs)
	}
	m, k := as[r-2], as[r-1]
	if transA {
		m, k = k, m
	}
	k2, n := bs[r-2], bs[r-1]
	if transB {
		k2, n = n, k2
	}
	if k != k2 {
		fail("matmul: a %v and b %v (transposed: %t, %t): the inner axes have %d and %d elements", as, bs, transA, transB, k, k2)
	}
	shape := append(as[:r-2].Clone(), m, n)
	f := &Family{
		Name: "matmul", Attrs: fmt.Sprintf("%t,%t", transA, transB),
		Out:   []Result{{Dtype: dt, Shape: shape}},
		Units: size(as[:r-2]),
	}
	switch {
	case f.Units > 1:
		f.In = args([]*Node{a, b}, true, true)
	case !transA: // one matrix: cut by rows of a
		f.In, f.Units = args([]*Node{a, b}, true, false), m
	case !transB: // a sum over the rows of both
		f.In, f.Units, f.Out[0].Reduce = args([]*Node{a, b}, true, true), k, true
	default:
		f.In = args([]*Node{a, b}, false, false)
	}
	d := matmulDims{m, n, k, transA, transB, size(as[:r-2]), f.Out[0].Reduce}
	f.compute = pick(dt, runMatMul[float32](d), runMatMul[float64](d))
	f.lower = lowerMatMul(r, transA, transB)
	f.grad = func(in gorgonia.Nodes, _, g *Node) gorgonia.Nodes {
		a, b := in[0], in[1]
		var da, db *Node
		if transA {
			da = MatMul(b, g, transB, true)
		} else {
			da = MatMul(g, b, false, !transB)
		}
		if transB {
			db = MatMul(g, a, true, transA)
		} else {
			db = MatMul(a, g, !transA, false)
		}
		return gorgonia.Nodes{da, db}
	}
	return f.apply(0, a, b)
}

type matmulDims struct {
	m, n, k        int
	transA, transB bool
	batch          int
	reduce         bool
}

func runMatMul[T kernel.Float](d matmulDims) func(*Call) {
	lda, ldb := d.k, d.n
	if d.transA {
		lda = d.m
	}
	if d.transB {
		ldb = d.k
	}
	return func(c *Call) {
		a, b, y := in[T](c, 0), in[T](c, 1), out[T](c, 0)
		switch {
		case d.reduce:
			kernel.Gemm(true, false, d.m, d.n, len(a)/d.m, a, lda, b, ldb, 1, y, d.n)
		case d.batch == 1:
			kernel.Gemm(d.transA, d.transB, len(y)/d.n, d.n, d.k, a, lda, b, ldb, 0, y, d.n)
		default:
			for i := range len(y) / (d.m * d.n) {
				kernel.Gemm(d.transA, d.transB, d.m, d.n, d.k, a[i*d.m*d.k:], lda, b[i*d.k*d.n:], ldb, 0, y[i*d.m*d.n:], d.n)
			}
		}
	}
}

// lowerMatMul is a product of matrices over rank axes, all but the last two of which are batch axes.
func lowerMatMul(rank int, transA, transB bool) lowering {
	sumA, sumB := rank-1, rank-2
	if transA {
		sumA = rank - 2
	}
	if transB {
		sumB = rank - 1
	}
	batch := axesTo(rank - 2)
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		x, y := b.Narrow(in[0]), b.Narrow(in[1])
		return b.Dot(x, y, batch, batch, []int{sumA}, []int{sumB}, x.DType)
	})
}
