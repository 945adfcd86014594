package op_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func graph(t *testing.T, f func(g *gorgonia.ExprGraph)) {
	t.Helper()
	if err := op.Build(func() { f(gorgonia.NewGraph()) }); err != nil {
		t.Fatal(err)
	}
}

// TestAttributesDoNotMerge holds that ops that differ in any attribute stay two nodes, and that equal ones become one.
func TestAttributesDoNotMerge(t *testing.T) {
	graph(t, func(g *gorgonia.ExprGraph) {
		x := op.Input(g, op.Float32, "x", 4, 6, 8)
		y := op.Input(g, op.Float32, "y", 4, 6, 8)
		image := op.Input(g, op.Float32, "image", 2, 8, 8, 3)
		row := op.Input(g, op.Float32, "row", 8)
		other := op.Input(g, op.Float32, "other", 8)
		key := op.Input(g, op.Int32, "key", 2)
		square := op.Input(g, op.Float32, "square", 8, 8)
		all := []func() *gorgonia.Node{
			func() *gorgonia.Node { return op.Scale(x, 2) },
			func() *gorgonia.Node { return op.Scale(x, 2+1e-15) },
			func() *gorgonia.Node { return op.AddConst(x, 2) },
			func() *gorgonia.Node { return op.LayerNorm(x, nil, nil, 1e-5) },
			func() *gorgonia.Node { return op.LayerNorm(x, nil, nil, 1e-6) },
			func() *gorgonia.Node { return op.LayerNorm(x, row, nil, 1e-5) },
			func() *gorgonia.Node { return op.LayerNorm(x, nil, row, 1e-5) },
			func() *gorgonia.Node { return op.LayerNorm(x, other, nil, 1e-5) },
			func() *gorgonia.Node { return op.RMSNorm(x, nil, 1e-5) },
			func() *gorgonia.Node { return op.Attention(x, y, y, nil, 1) },
			func() *gorgonia.Node { return op.Attention(x, y, y, nil, 2) },
			func() *gorgonia.Node { return op.RoPE(x, 2, 100, 0) },
			func() *gorgonia.Node { return op.RoPE(x, 2, 100, 1) },
			func() *gorgonia.Node { return op.RoPE(x, 2, 101, 0) },
			func() *gorgonia.Node { return op.RoPE(x, 4, 100, 0) },
			func() *gorgonia.Node { return op.Patchify(image, 2) },
			func() *gorgonia.Node { return op.Patchify(image, 4) },
			func() *gorgonia.Node { return op.Transpose(x, 0, 2, 1) },
			func() *gorgonia.Node { return op.Transpose(x, 2, 0, 1) },
			func() *gorgonia.Node { return op.Slice(x, 2, 0, 2) },
			func() *gorgonia.Node { return op.Slice(x, 2, 1, 3) },
			func() *gorgonia.Node { return op.Slice(x, 1, 1, 3) },
			func() *gorgonia.Node { return op.Concat(0, x, y) },
			func() *gorgonia.Node { return op.Concat(0, y, x) },
			func() *gorgonia.Node { return op.Sub(x, y) },
			func() *gorgonia.Node { return op.Sub(y, x) },
			func() *gorgonia.Node { return op.Dropout(x, key, 0.1, 1) },
			func() *gorgonia.Node { return op.Dropout(x, key, 0.1, 2) },
			func() *gorgonia.Node { return op.Dropout(x, key, 0.2, 1) },
			func() *gorgonia.Node { return op.MatMul(square, square, false, false) },
			func() *gorgonia.Node { return op.MatMul(square, square, true, false) },
			func() *gorgonia.Node { return op.MatMul(square, square, false, true) },
			func() *gorgonia.Node { return op.Reshape(x, 24, 8) },
			func() *gorgonia.Node { return op.Reshape(x, 8, 24) },
			func() *gorgonia.Node { return op.Sum(x, 0) },
			func() *gorgonia.Node { return op.Sum(x, 1) },
			func() *gorgonia.Node { return op.GELU(x) },
			func() *gorgonia.Node { return op.SiLU(x) },
		}
		seen := map[int64]int{}
		for i, build := range all {
			n := build()
			if j, ok := seen[n.ID()]; ok {
				t.Errorf("operations %d and %d of the list merged into %v", j, i, n)
			}
			seen[n.ID()] = i
			if again := build(); again != n {
				t.Errorf("operation %d, built twice, is two nodes", i)
			}
		}
	})
}

// TestInputNames holds that a second input of one name is refused, where gorgonia would return the first.
func TestInputNames(t *testing.T) {
	err := op.Build(func() {
		g := gorgonia.NewGraph()
		op.Param(g, op.Float32, "w", 2, 3)
		op.Param(g, op.Float32, "w", 2, 3)
	})
	if err == nil || !strings.Contains(err.Error(), `"w"`) {
		t.Fatalf("error %v, want one that names the weight", err)
	}
}

// TestHashCollision makes two nodes of equal 32-bit hash and equal op, but different inputs, which gorgonia takes for one node.
func TestHashCollision(t *testing.T) {
	// Among 3·10⁵ inputs some pair of GELU nodes collides with near certainty; find one by hash, then build only that pair.
	hash := func(name string) uint32 {
		g := gorgonia.NewGraph()
		return op.GELU(op.Input(g, op.Float32, name, 2)).Hashcode()
	}
	if testing.Short() {
		t.Skip("searches for a collision")
	}
	seen := map[uint32]string{}
	for i := range 1 << 19 {
		name := fmt.Sprintf("x%d", i)
		h := hash(name)
		first, ok := seen[h]
		seen[h] = name
		if !ok {
			continue
		}
		graph(t, func(g *gorgonia.ExprGraph) {
			a, b := op.Input(g, op.Float32, first, 2), op.Input(g, op.Float32, name, 2)
			if a.Hashcode() == b.Hashcode() {
				return // the inputs themselves collide: gorgonia tells those apart by name
			}
			if op.GELU(a) == op.GELU(b) {
				t.Errorf("GELU of %q and of %q became one node", first, name)
			}
			if op.GELU(b) != op.GELU(b) {
				t.Errorf("GELU of %q built twice is two nodes", name)
			}
		})
		return
	}
	t.Skip("no collision found")
}

// TestErrors holds that a mismatch is an error that prints both shapes and the axis.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(g *gorgonia.ExprGraph)
		want  []string
	}{
		{"linear", func(g *gorgonia.ExprGraph) {
			op.Linear(op.Input(g, op.Float32, "x", 2, 3), op.Input(g, op.Float32, "w", 4, 5), nil)
		}, []string{"(2, 3)", "(4, 5)", "axis 0"}},
		{"matmul", func(g *gorgonia.ExprGraph) {
			op.MatMul(op.Input(g, op.Float32, "x", 2, 3), op.Input(g, op.Float32, "w", 4, 5), false, false)
		}, []string{"(2, 3)", "(4, 5)", "3 and 4"}},
		{"add", func(g *gorgonia.ExprGraph) {
			op.Add(op.Input(g, op.Float32, "x", 2, 3), op.Input(g, op.Float32, "y", 2, 4))
		}, []string{"[2 3]", "[2 4]", "axis 1"}},
		{"concat", func(g *gorgonia.ExprGraph) {
			op.Concat(0, op.Input(g, op.Float32, "x", 2, 3), op.Input(g, op.Float32, "y", 2, 4))
		}, []string{"(2, 3)", "(2, 4)", "axis 1"}},
		{"column is no row", func(g *gorgonia.ExprGraph) {
			op.LayerNorm(op.Input(g, op.Float32, "x", 2, 3), op.Input(g, op.Float32, "gain", 3, 1), nil, 1e-5)
		}, []string{"(2, 3)", "(3, 1)"}},
		{"types", func(g *gorgonia.ExprGraph) {
			op.Add(op.Input(g, op.Float32, "x", 2), op.Input(g, op.Float64, "y", 2))
		}, []string{"float32", "float64"}},
		{"cost", func(g *gorgonia.ExprGraph) {
			x := op.Input(g, op.Float32, "x", 2)
			op.Grad(op.GELU(x), x)
		}, []string{"bare scalar"}},
		{"ambiguous mask", func(g *gorgonia.ExprGraph) {
			x := op.Input(g, op.Float32, "x", 3, 3, 4)
			op.Attention(x, x, x, op.Input(g, op.Bool, "mask", 3, 3), 2)
		}, []string{"[3,1,3]", "[1,3,3]"}},
		{"heads", func(g *gorgonia.ExprGraph) {
			x := op.Input(g, op.Float32, "x", 3, 3, 4)
			op.Attention(x, x, x, nil, 3)
		}, []string{"(3, 3, 4)", "3 heads"}},
	} {
		err := op.Build(func() { c.build(gorgonia.NewGraph()) })
		if err == nil {
			t.Errorf("%s: no error", c.name)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q does not say %q", c.name, err, w)
			}
		}
	}
}

// TestBuildPassesOtherPanics holds that Build catches shape errors only.
func TestBuildPassesOtherPanics(t *testing.T) {
	want := errors.New("a bug")
	defer func() {
		if r := recover(); r != want {
			t.Fatalf("recovered %v, want the bug", r)
		}
	}()
	_ = op.Build(func() { panic(want) })
}

// TestEmbeddingRange holds that an id outside the table is an error that names it.
func TestEmbeddingRange(t *testing.T) {
	graph(t, func(g *gorgonia.ExprGraph) {
		table, ids := op.Input(g, op.Float32, "table", 5, 2), op.Input(g, op.Int32, "ids", 3)
		y := op.Embedding(table, ids)
		for _, bad := range []float64{-1, 5} {
			_, err := y.Op().Do(array{[]int{5, 2}, make([]float64, 10)}.value(op.Float32), array{[]int{3}, []float64{0, bad, 1}}.value(op.Int32))
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("id %v at element 1", bad)) {
				t.Errorf("id %v: error %v", bad, err)
			}
		}
	})
}

// TestMaskedMSENothingValid holds that a batch without a valid row shows as NaN instead of passing for a loss of 0.
func TestMaskedMSENothingValid(t *testing.T) {
	graph(t, func(g *gorgonia.ExprGraph) {
		p, q, m := op.Input(g, op.Float64, "p", 2, 3), op.Input(g, op.Float64, "t", 2, 3), op.Input(g, op.Float64, "m", 2)
		e := eval{p: random(rand.New(rand.NewPCG(1, 1)), 2, 3).value(op.Float64), q: array{[]int{2, 3}, make([]float64, 6)}.value(op.Float64), m: array{[]int{2}, []float64{0, 0}}.value(op.Float64)}
		if v := floatsOf(e.of(t, op.MaskedMSE(p, q, m)))[0]; !math.IsNaN(v) {
			t.Errorf("loss %v, want NaN", v)
		}
	})
}

// TestDropout checks the share that is kept, the scale, that streams and keys differ and repeat, and that the gradient uses the same mask.
func TestDropout(t *testing.T) {
	const n, rate = 20000, 0.3
	graph(t, func(g *gorgonia.ExprGraph) {
		x, key := op.Input(g, op.Float64, "x", n), op.Input(g, op.Int32, "key", 2)
		y, other := op.Dropout(x, key, rate, 1), op.Dropout(x, key, rate, 2)
		grad := op.Grad(op.Sum(y), x)[0]
		at := func(seed, step float64) (a, b, d []float64) {
			e := eval{x: fill([]int{n}, func([]int) float64 { return 1 }).value(op.Float64), key: array{[]int{2}, []float64{seed, step}}.value(op.Int32)}
			return floatsOf(e.of(t, y)), floatsOf(e.of(t, other)), floatsOf(e.of(t, grad))
		}
		a, b, d := at(7, 1)
		kept := 0
		for i, v := range a {
			if v != 0 {
				kept++
				if math.Abs(v-1/(1-rate)) > 1e-12 {
					t.Fatalf("element %d is %v", i, v)
				}
			}
			if d[i] != v {
				t.Fatalf("gradient %d is %v where the value is %v", i, d[i], v)
			}
		}
		// Five standard deviations of a binomial count.
		if sd := math.Sqrt(n * rate * (1 - rate)); math.Abs(float64(kept)-n*(1-rate)) > 5*sd {
			t.Errorf("%d of %d kept at rate %v", kept, n, rate)
		}
		again, _, _ := at(7, 1)
		step, _, _ := at(7, 2)
		seed, _, _ := at(8, 1)
		if agree(a, again) != n {
			t.Error("the same key gives another mask")
		}
		// Independent masks agree on a share of r² + (1−r)² = 0.58 of the elements.
		for what, o := range map[string][]float64{"stream": b, "step": step, "seed": seed} {
			if got := float64(agree(a, o)) / n; math.Abs(got-0.58) > 0.02 {
				t.Errorf("masks of another %s agree on %v of the elements, want 0.58", what, got)
			}
		}
	})
}

func agree(a, b []float64) (n int) {
	for i := range a {
		if a[i] == b[i] {
			n++
		}
	}
	return n
}

// TestMachineUsesPrealloc holds that gorgonia's tape machine runs our ops into the memory that it prepared.
func TestMachineUsesPrealloc(t *testing.T) {
	graph(t, func(g *gorgonia.ExprGraph) {
		x := op.Input(g, op.Float32, "x", 2, 2)
		y := op.GELU(x)
		o := y.Op()
		if _, ok := o.(gorgonia.UsePreallocDoer); !ok || !o.CallsExtern() || !o.ReturnsPtr() {
			t.Fatal("gorgonia calls UsePreallocDo only if both CallsExtern and ReturnsPtr are true")
		}
		memory := tensor.New(tensor.Of(op.Float32), tensor.WithShape(2, 2))
		v, err := o.(gorgonia.UsePreallocDoer).UsePreallocDo(memory, array{[]int{2, 2}, []float64{1, 2, 3, 4}}.value(op.Float32))
		if err != nil || v != gorgonia.Value(memory) {
			t.Fatalf("value %v, error %v; want the prepared memory", v, err)
		}
	})
}
