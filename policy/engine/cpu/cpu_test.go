package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func value(n *node, d []float64) gorgonia.Value {
	if n.IsScalar() {
		if n.Dtype() == op.Float32 {
			return gorgonia.NewF32(float32(d[0]))
		}
		return gorgonia.NewF64(d[0])
	}
	if n.Dtype() == op.Float32 {
		single := make([]float32, len(d))
		for i, v := range d {
			single[i] = float32(v)
		}
		return tensor.New(tensor.WithShape(n.Shape()...), tensor.WithBacking(single))
	}
	return tensor.New(tensor.WithShape(n.Shape()...), tensor.WithBacking(append([]float64(nil), d...)))
}

// run computes the outputs with our engine.
func run(t *testing.T, g *gorgonia.ExprGraph, outputs gorgonia.Nodes, inputs map[*node][]float64, o cpu.Options) [][]float64 {
	t.Helper()
	p, err := cpu.Compile(g, outputs, o)
	if err != nil {
		t.Fatal(err)
	}
	for n, d := range inputs {
		if p.Uses(n) {
			if err := p.Set(n, value(n, d)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var first [][]float64
	for range 2 { // the second run meets the memory that the first one left
		if err := p.Run(); err != nil {
			t.Fatal(err)
		}
		var list [][]float64
		for _, n := range outputs {
			list = append(list, floats(p, n))
		}
		if first != nil {
			for i := range list {
				same(t, fmt.Sprintf("second run, output %d", i), list[i], first[i], 0)
			}
		}
		first = list
	}
	return first
}

func floats(p *cpu.Program, n *node) (list []float64) {
	if n.Dtype() == op.Float64 {
		return append(list, p.Float64(n)...)
	}
	for _, v := range p.Float32(n) {
		list = append(list, float64(v))
	}
	return list
}

// tape computes the outputs with gorgonia's tape machine.
func tape(t *testing.T, g *gorgonia.ExprGraph, outputs gorgonia.Nodes, inputs map[*node][]float64) [][]float64 {
	t.Helper()
	for n, d := range inputs {
		if err := gorgonia.Let(n, value(n, d)); err != nil {
			t.Fatal(err)
		}
	}
	read := make([]gorgonia.Value, len(outputs))
	for i, n := range outputs {
		gorgonia.Read(n, &read[i])
	}
	m := gorgonia.NewTapeMachine(g)
	defer m.Close()
	if err := m.RunAll(); err != nil {
		t.Fatal(err)
	}
	var list [][]float64
	for _, v := range read {
		switch d := v.Data().(type) {
		case float64:
			list = append(list, []float64{d})
		case float32:
			list = append(list, []float64{float64(d)})
		case []float64:
			list = append(list, d)
		case []float32:
			var l []float64
			for _, x := range d {
				l = append(l, float64(x))
			}
			list = append(list, l)
		}
	}
	return list
}

// same checks that two lists agree relative to the largest element, or to 1e-3 where all are smaller: the gradient of a key's bias is 0
// but for rounding.
func same(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d elements, want %d", what, len(got), len(want))
	}
	size := 1e-3
	for _, v := range want {
		size = max(size, math.Abs(v))
	}
	for i := range got {
		if !(math.Abs(got[i]-want[i]) <= tolerance*size) {
			t.Fatalf("%s: element %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// TestTapeMachine compares loss, prediction and every gradient of a small policy with gorgonia's tape machine, for several numbers of
// threads and sizes of block.
func TestTapeMachine(t *testing.T) {
	for _, dt := range []tensor.Dtype{op.Float64, op.Float32} {
		tolerance := 1e-12
		if dt == op.Float32 {
			tolerance = 1e-5
		}
		m, err := newModel(tinySizes, dt)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(5, 6))
		inputs := map[*node][]float64{}
		for _, n := range append(m.inputs, m.params...) {
			inputs[n] = data(n, rng)
		}
		var got [][][]float64
		options := []cpu.Options{{Threads: 1, BlockBytes: 1}, {Threads: 1}, {Threads: 2}, {Threads: 2, BlockBytes: 1}, {Threads: 3}, {Threads: 4, BlockBytes: 30000}}
		for _, o := range options {
			got = append(got, run(t, m.g, m.outputs(), inputs, o))
		}
		want := tape(t, m.g, m.outputs(), inputs)
		for i, o := range options {
			for j, n := range m.outputs() {
				same(t, fmt.Sprintf("%v %+v output %s", dt, o, n.Name()), got[i][j], want[j], tolerance)
			}
		}
	}
}

// TestPlan checks that the training step of the demo's policy runs forward and backward in one segment and in reused memory.
func TestPlan(t *testing.T) {
	m, err := newModel(demoSizes, op.Float32)
	if err != nil {
		t.Fatal(err)
	}
	p, err := cpu.Compile(m.g, append(gorgonia.Nodes{m.loss}, m.grads...), cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := p.Stats()
	t.Logf("%+v", s)
	if s.LargestSegment < s.Operations-4 {
		t.Errorf("the largest of %d segments has %d of %d operations; forward and backward pass should be one segment", s.Segments, s.LargestSegment, s.Operations)
	}
	if s.ArenaBytes+2*s.BlockBytes > s.NaiveBytes/4 {
		t.Errorf("plan takes %d bytes and 2 blocks of %d, naively %d: memory is not reused", s.ArenaBytes, s.BlockBytes, s.NaiveBytes)
	}
}

// BenchmarkTrainingStep times forward and backward pass of the demo's policy. CPU time is reported beside wall time, since it means
// something on a busy machine too.
func BenchmarkTrainingStep(b *testing.B) {
	for _, block := range []int{1 << 20, 16 << 20, 64 << 20} {
		b.Run(fmt.Sprintf("block=%dMiB", block>>20), func(b *testing.B) {
			benchmark(b, demoSizes, cpu.Options{Threads: 2, BlockBytes: block}, func(m *model) gorgonia.Nodes { return append(gorgonia.Nodes{m.loss}, m.grads...) })
		})
	}
}

// BenchmarkInference times one forward pass of one sample.
func BenchmarkInference(b *testing.B) {
	s := demoSizes
	s.batch = 1
	for _, threads := range []int{1, 2} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			benchmark(b, s, cpu.Options{Threads: threads}, func(m *model) gorgonia.Nodes { return gorgonia.Nodes{m.pred} })
		})
	}
}

func benchmark(b *testing.B, s sizes, o cpu.Options, outputs func(*model) gorgonia.Nodes) {
	m, err := newModel(s, op.Float32)
	if err != nil {
		b.Fatal(err)
	}
	p, err := cpu.Compile(m.g, outputs(m), o)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for _, n := range append(m.inputs, m.params...) {
		if !p.Uses(n) {
			continue
		}
		if err := p.Set(n, value(n, data(n, rng))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	before := cpuSeconds()
	for b.Loop() {
		if err := p.Run(); err != nil {
			b.Fatal(err)
		}
	}
	perStep := b.Elapsed().Seconds() / float64(b.N)
	b.ReportMetric(float64(s.batch)/perStep, "samples/s")
	if s.batch > 1 {
		b.ReportMetric(s.flops()/perStep/1e9, "GFLOP/s")
	} else {
		b.Logf("%+v", p.Stats())
	}
	b.ReportMetric(1e3*(cpuSeconds()-before)/float64(b.N), "cpu-ms/op")
}

// cpuSeconds returns the processor time that this process has used.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
