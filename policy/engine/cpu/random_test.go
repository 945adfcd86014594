package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// grow builds a random graph: chains by sample, sums over samples that are read again, transposes that end a segment, views of views,
// values read once at once and once much later. It returns some outputs beside the cost and its gradients.
func grow(rng *rand.Rand, dt tensor.Dtype) (g *gorgonia.ExprGraph, inputs []*node, outputs gorgonia.Nodes, err error) {
	g = gorgonia.NewGraph()
	b, t, d := 2+rng.IntN(7), 1+rng.IntN(4), 4*(1+rng.IntN(3))
	input := func(shape ...int) *node {
		n := op.Input(g, dt, fmt.Sprintf("x%d", len(inputs)), shape...)
		inputs = append(inputs, n)
		return n
	}
	err = op.Build(func() {
		pool := []*node{input(b, t, d), input(b, t, d)}
		pickOne := func() *node { return pool[len(pool)-1-rng.IntN(min(len(pool), 6))] }
		for range 5 + rng.IntN(25) {
			x, y := pickOne(), pickOne()
			var z *node
			switch rng.IntN(14) {
			case 0:
				z = op.Add(x, y)
			case 1:
				z = op.Mul(op.Tanh(x), y)
			case 2:
				z = op.Linear(x, input(d, d), input(d))
			case 3:
				z = op.LayerNorm(x, input(d), nil, 1e-3)
			case 4:
				z = op.Attention(x, y, op.GELU(y), nil, 2)
			case 5: // the mean over the batch, read as a whole
				z = op.Sub(x, op.BroadcastTo(op.Reshape(op.Mean(x, 0), 1, t, d), b, t, d))
			case 6:
				z = op.Reshape(op.GELU(op.Reshape(op.Reshape(x, b*t, d), b, t*d)), b, t, d)
			case 7: // axis 0 leaves its place and comes back
				z = op.Transpose(op.Softmax(op.Transpose(x, 2, 1, 0)), 2, 1, 0)
			case 8:
				z = op.Concat(2, op.Slice(x, 2, d/2, d), op.Slice(y, 2, 0, d/2))
			case 9:
				z = op.Slice(op.Concat(0, x, y), 0, 1, b+1)
			case 10:
				z = op.Modulate(x, op.Sum(y, 1), op.Scale(op.Reshape(op.Slice(y, 1, 0, 1), b, d), 0.1))
			case 11:
				z = op.Add(x, op.Scale(op.Mean(y), 0.5))
			case 12:
				z = op.MatMul(op.Scale(op.MatMul(x, y, false, true), 0.1), y, false, false)
			case 13:
				z = op.Gate(x, y, op.Tanh(op.Sum(x, 1)))
			}
			pool = append(pool, op.Scale(z, 0.7))
			if rng.IntN(6) == 0 {
				outputs = append(outputs, z)
			}
		}
		cost := op.Mean(op.Mul(pool[len(pool)-1], pool[len(pool)-2]))
		var wrt []*node
		for _, n := range inputs {
			if reaches(g, cost, n) {
				wrt = append(wrt, n)
			}
		}
		outputs = append(outputs, cost)
		outputs = append(outputs, op.Grad(cost, wrt...)...)
	})
	return g, inputs, outputs, err
}

func reaches(g *gorgonia.ExprGraph, from, to *node) bool {
	seen := map[int64]bool{}
	var walk func(n *node) bool
	walk = func(n *node) bool {
		if n == to {
			return true
		}
		if seen[n.ID()] {
			return false
		}
		seen[n.ID()] = true
		for c := g.From(n.ID()); c.Next(); {
			if walk(c.Node().(*node)) {
				return true
			}
		}
		return false
	}
	return walk(from)
}

// reference computes nodes by calling each op once, each result in memory of its own.
func reference(t *testing.T, g *gorgonia.ExprGraph, outputs gorgonia.Nodes, inputs map[*node][]float64) [][]float64 {
	t.Helper()
	values := map[int64]gorgonia.Value{}
	for n, d := range inputs {
		values[n.ID()] = value(n, d)
	}
	var visit func(n *node) gorgonia.Value
	visit = func(n *node) gorgonia.Value {
		if v, ok := values[n.ID()]; ok {
			return v
		}
		var in []gorgonia.Value
		for c := g.From(n.ID()); c.Next(); {
			in = append(in, visit(c.Node().(*node)))
		}
		v, err := n.Op().Do(in...)
		if err != nil {
			t.Fatalf("%v: %v", n, err)
		}
		values[n.ID()] = v
		return v
	}
	var list [][]float64
	for _, n := range outputs {
		switch d := visit(n).Data().(type) {
		case []float64:
			list = append(list, d)
		case float64:
			list = append(list, []float64{d})
		}
	}
	return list
}

// TestRandomGraphs compares the planned run of random graphs, in reused memory and cut into blocks, with one that reuses nothing.
func TestRandomGraphs(t *testing.T) {
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 9))
		g, nodes, outputs, err := grow(rng, op.Float64)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		inputs := map[*node][]float64{}
		for _, n := range nodes {
			inputs[n] = data(n, rng)
		}
		want := reference(t, g, outputs, inputs)
		for _, o := range []cpu.Options{{Threads: 1}, {Threads: 2}, {Threads: 2, BlockBytes: 1}, {Threads: 5, BlockBytes: 1000}} {
			got := run(t, g, outputs, inputs, o)
			for i := range want {
				same(t, fmt.Sprintf("seed %d, %+v, output %d %v", seed, o, i, outputs[i]), got[i], want[i], 1e-10)
			}
		}
	}
}

// TestSameRunSameBits holds that two programs of one thread count agree to the bit, whatever the scheduling.
func TestSameRunSameBits(t *testing.T) {
	m, err := newModel(tinySizes, op.Float32)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	inputs := map[*node][]float64{}
	for _, n := range append(m.inputs, m.params...) {
		inputs[n] = data(n, rng)
	}
	first := run(t, m.g, m.outputs(), inputs, cpu.Options{Threads: 2})
	for range 20 {
		for i, got := range run(t, m.g, m.outputs(), inputs, cpu.Options{Threads: 2}) {
			same(t, m.outputs()[i].Name(), got, first[i], 0)
		}
	}
}

// TestBind holds that a bound slice is the parameter: what an optimiser writes is what the next run reads, in every program.
func TestBind(t *testing.T) {
	g := gorgonia.NewGraph()
	var x, w, y, z *node
	if err := op.Build(func() {
		x, w = op.Input(g, op.Float32, "x", 2, 3), op.Param(g, op.Float32, "w", 3, 1)
		y = op.Linear(x, w, nil)
		z = op.Scale(w, 2)
	}); err != nil {
		t.Fatal(err)
	}
	p, err := cpu.Compile(g, gorgonia.Nodes{y}, cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	q, err := cpu.Compile(g, gorgonia.Nodes{z, w}, cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(); err == nil || !strings.Contains(err.Error(), "never set") {
		t.Errorf("run without inputs: error %v", err)
	}
	weights := []float32{1, 2, 3}
	for _, prog := range []*cpu.Program{p, q} {
		if err := prog.Bind(w, weights); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Set(x, []float32{1, 0, 0, 0, 1, 1}); err != nil {
		t.Fatal(err)
	}
	for _, v := range []float32{2, -1} {
		weights[2] = v
		if err := p.Run(); err != nil {
			t.Fatal(err)
		}
		if err := q.Run(); err != nil {
			t.Fatal(err)
		}
		if got, want := p.Float32(y), []float32{1, 2 + v}; !slices.Equal(got, want) {
			t.Errorf("product %v, want %v", got, want)
		}
		if got, want := q.Float32(z), []float32{2, 4, 2 * v}; !slices.Equal(got, want) {
			t.Errorf("scaled %v, want %v", got, want)
		}
		if got := q.Value(w).Data().([]float32); !slices.Equal(got, weights) {
			t.Errorf("an input that is an output reads %v, want %v", got, weights)
		}
	}
	if err := p.Bind(w, weights[:2]); err == nil {
		t.Error("a slice that is too short was bound")
	}
	if err := q.Set(x, []float32{1, 0, 0, 0, 1, 1}); err == nil {
		t.Error("an input that no output depends on was set")
	}
	if err := p.Set(x, []float64{1, 0, 0, 0, 1, 1}); err == nil {
		t.Error("float64 data was set on a float32 input")
	}
}

// TestRunError holds that the error of an operation in any worker's share comes out, and that the program runs again afterwards.
func TestRunError(t *testing.T) {
	g := gorgonia.NewGraph()
	var table, ids, y *node
	if err := op.Build(func() {
		table, ids = op.Param(g, op.Float32, "table", 8, 300), op.Input(g, op.Int32, "ids", 64)
		y = op.Scale(op.Embedding(table, ids), 2)
	}); err != nil {
		t.Fatal(err)
	}
	p, err := cpu.Compile(g, gorgonia.Nodes{y}, cpu.Options{Threads: 2, BlockBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Float32(table) {
		p.Float32(table)[i] = float32(i / 300)
	}
	list := make([]int32, 64)
	list[63] = 8
	if err := p.Set(ids, list); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(); err == nil || !strings.Contains(err.Error(), "id 8 at element 63") {
		t.Fatalf("error %v, want one that names id 8 at element 63", err)
	}
	list[63] = 7
	if err := p.Set(ids, list); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if got := p.Float32(y)[63*300]; got != 14 {
		t.Errorf("last row is %v, want 14", got)
	}
}

// TestNaNShows holds that a NaN in one sample reaches the loss and the gradients.
func TestNaNShows(t *testing.T) {
	m, err := newModel(tinySizes, op.Float32)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	inputs := map[*node][]float64{}
	for _, n := range append(m.inputs, m.params...) {
		inputs[n] = data(n, rng)
		switch n.Name() {
		case "mask":
			for i := range inputs[n] {
				inputs[n][i] = 1
			}
		case "pixels":
			inputs[n][len(inputs[n])-1] = math.NaN()
		}
	}
	p, err := cpu.Compile(m.g, m.outputs(), cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	for n, d := range inputs {
		if err := p.Set(n, value(n, d)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	if v := p.Scalar(m.loss); !math.IsNaN(v) {
		t.Errorf("loss %v, want NaN", v)
	}
	if v := p.Float32(m.grads[0])[0]; v == v {
		t.Errorf("gradient of %s is %v, want NaN", m.params[0].Name(), v)
	}
}

// TestForeignOperation holds that operations of gorgonia's own, but for the additions of Grad, are refused by name.
func TestForeignOperation(t *testing.T) {
	g := gorgonia.NewGraph()
	x := gorgonia.NewTensor(g, op.Float32, 2, gorgonia.WithShape(2, 2), gorgonia.WithName("x"))
	y := gorgonia.Must(gorgonia.Sigmoid(x))
	if _, err := cpu.Compile(g, gorgonia.Nodes{y}, cpu.Options{}); err == nil || !strings.Contains(err.Error(), "none of package op") {
		t.Errorf("error %v", err)
	}
}

// TestNoAllocation holds that a run allocates next to nothing: only what Go needs to start the second worker.
func TestNoAllocation(t *testing.T) {
	m, err := newModel(tinySizes, op.Float32)
	if err != nil {
		t.Fatal(err)
	}
	p, err := cpu.Compile(m.g, m.outputs(), cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range append(m.inputs, m.params...) {
		if err := p.Set(n, value(n, data(n, rng))); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(20, func() { _ = p.Run() }); n > 8 {
		t.Errorf("%v allocations a run", n)
	}
}
