//go:build xla && cgo

package op_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func TestMain(m *testing.M) {
	// Compiling dominates these tests; what the programs compute does not depend on it.
	if os.Getenv("XLA_FLAGS") == "" {
		_ = os.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
	}
	os.Exit(m.Run())
}

var host = sync.OnceValues(func() (*xla.Client, error) { return xla.Open(xla.OpenOptions{Platform: xla.CPU}) })

// xlaClient opens XLA's CPU devices, or skips the test.
func xlaClient(t *testing.T) *xla.Client {
	t.Helper()
	testpeer.Python(t, "lammps_jax_pjrt_cpu")
	c, err := host()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// many is a graph with several cases side by side: values and gradients of all of them.
type many struct {
	outputs gorgonia.Nodes
	names   []string
	inputs  nodes
	data    []array
}

func (m *many) add(t *testing.T, g *gorgonia.ExprGraph, c opCase, dt tensor.Dtype, rng *rand.Rand) {
	t.Helper()
	if err := op.Build(func() {
		prefix := fmt.Sprintf("c%d.", len(m.inputs))
		var x, wrt nodes
		for i, in := range c.in {
			kind := dt
			if in.dtype != nil {
				kind = *in.dtype
			}
			n := op.Input(g, kind, fmt.Sprintf("%sx%d", prefix, i), in.shape...)
			if !in.fixed {
				wrt = append(wrt, n)
			}
			d := random(rng, in.shape...)
			if in.data != nil {
				d = fill(in.shape, func(index []int) float64 { return in.data(rng, index) })
			}
			x, m.inputs, m.data = append(x, n), append(m.inputs, n), append(m.data, d)
		}
		y := c.op(x)
		cost := y
		if !y.IsScalar() {
			w := op.Input(g, dt, prefix+"w", y.Shape()...)
			m.inputs, m.data = append(m.inputs, w), append(m.data, random(rng, y.Shape()...))
			cost = op.Sum(op.Mul(y, w))
		}
		m.outputs, m.names = append(m.outputs, y), append(m.names, c.name+" "+fmt.Sprint(c.in))
		for i, d := range op.Grad(cost, wrt...) {
			m.outputs, m.names = append(m.outputs, d), append(m.names, fmt.Sprintf("%s gradient %d", c.name, i))
		}
	}); err != nil {
		t.Fatalf("%s: %v", c.name, err)
	}
}

// read copies an output to the host as float64.
func read(t *testing.T, p *xla.Program, n *gorgonia.Node) []float64 {
	t.Helper()
	if n.Dtype() == op.Float64 {
		d, err := p.Read64(n)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d, err := p.Read(n)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(d))
	for i, v := range d {
		out[i] = float64(v)
	}
	return out
}

// distance is ‖a − b‖/‖b‖, and infinite where only one of two elements is finite.
func distance(a, b []float64) float64 {
	var diff, size float64
	for i := range b {
		if math.IsNaN(a[i]) != math.IsNaN(b[i]) || math.IsInf(a[i], 0) != math.IsInf(b[i], 0) {
			return math.Inf(1)
		}
		if math.IsNaN(b[i]) || math.IsInf(b[i], 0) {
			continue
		}
		diff += (a[i] - b[i]) * (a[i] - b[i])
		size += b[i] * b[i]
	}
	if diff == 0 {
		return 0
	}
	return math.Sqrt(diff / max(size, 1e-12))
}

// TestXLA holds that every operation and its gradient give the same on the CPU engine's kernels and, by its lowering, on XLA: in float32 to
// 1e-5 and in mixed precision to 1e-2, relative to the result's norm.
func TestXLA(t *testing.T) {
	client := xlaClient(t)
	byName := map[string][]opCase{}
	var order []string
	for _, c := range cases() {
		family, _, _ := strings.Cut(c.name, " ")
		if byName[family] == nil {
			order = append(order, family)
		}
		byName[family] = append(byName[family], c)
	}
	for _, family := range order {
		for _, mode := range []struct {
			dt        tensor.Dtype
			precision xla.Precision
			tolerance float64
		}{{op.Float32, xla.Full, 1e-5}, {op.Float32, xla.BFloat16, 1e-2}} {
			t.Run(fmt.Sprintf("%s/%v/%s", family, mode.dt, mode.precision), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(5, 6))
				g := gorgonia.NewGraph()
				m := &many{}
				for _, c := range byName[family] {
					m.add(t, g, c, mode.dt, rng)
				}
				m.check(t, client, mode.precision, mode.tolerance)
			})
		}
	}
}

func (m *many) check(t *testing.T, client *xla.Client, precision xla.Precision, tolerance float64) {
	t.Helper()
	p, err := client.Compile(m.outputs, xla.Options{Precision: precision})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	e := eval{}
	for i, n := range m.inputs {
		e[n] = m.data[i].value(n.Dtype())
		if !p.Uses(n) {
			continue
		}
		if err := p.Set(n, e[n].Data()); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	for i, n := range m.outputs {
		got, want := read(t, p, n), floatsOf(e.of(t, n))
		if d := distance(got, want); !(d <= tolerance) {
			t.Errorf("%s: XLA is %.2g from the CPU kernel, want %.2g\ngot  %v\nwant %v", m.names[i], d, tolerance, got[:min(8, len(got))], want[:min(8, len(want))])
		}
	}
}
