//go:build xla && cgo

package xla_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// grow builds a random graph over random shapes, its cost and the gradients of all its inputs, in float64.
func grow(rng *rand.Rand) (inputs, outputs gorgonia.Nodes, err error) {
	g := gorgonia.NewGraph()
	b, t, heads := 1+rng.IntN(5), 1+rng.IntN(6), 1+rng.IntN(3)
	d := 2 * heads * (1 + rng.IntN(3))
	input := func(shape ...int) *op.Node {
		n := op.Input(g, op.Float64, fmt.Sprintf("x%d", len(inputs)), shape...)
		inputs = append(inputs, n)
		return n
	}
	err = op.Build(func() {
		pool := []*op.Node{input(b, t, d), input(b, t, d)}
		pick := func() *op.Node { return pool[len(pool)-1-rng.IntN(min(len(pool), 5))] }
		steps := []func(x, y *op.Node) *op.Node{
			func(x, y *op.Node) *op.Node { return op.Add(op.Mul(op.Tanh(x), y), input(t, 1)) },
			func(x, _ *op.Node) *op.Node {
				k := 1 + rng.IntN(7)
				return op.Linear(op.GELU(op.Linear(x, input(d, k), input(k))), input(k, d), nil)
			},
			func(x, _ *op.Node) *op.Node { return op.LayerNorm(x, input(d), input(d), 1e-3) },
			func(x, _ *op.Node) *op.Node { return op.RMSNorm(x, input(d), 1e-3) },
			func(x, y *op.Node) *op.Node { return op.Attention(op.RoPE(x, heads, 50, 1), y, op.SiLU(y), nil, heads) },
			func(x, y *op.Node) *op.Node { // one head of keys and values for all
				return op.Attention(x, op.Slice(y, 2, 0, d/heads), op.Slice(y, 2, d-d/heads, d), nil, heads)
			},
			func(x, y *op.Node) *op.Node {
				return op.Modulate(x, op.Sum(y, 1), op.Reshape(op.Slice(y, 1, 0, 1), b, d))
			},
			func(x, y *op.Node) *op.Node { return op.Gate(x, y, op.Tanh(op.Mean(x, 1))) },
			func(x, y *op.Node) *op.Node {
				return op.Slice(op.Transpose(op.Concat(1, op.Transpose(x, 1, 0, 2), op.Transpose(y, 1, 0, 2)), 1, 0, 2), 0, b, 2*b)
			},
			func(x, y *op.Node) *op.Node {
				return op.Einsum("bts,bsd->btd", op.Softmax(op.Einsum("btd,bsd->bts", x, y)), op.Scale(y, 0.5))
			},
			func(x, y *op.Node) *op.Node { return op.Sub(x, op.BroadcastTo(op.Mean(y), b, t, d)) },
		}
		for range 12 {
			pool = append(pool, op.Scale(steps[rng.IntN(len(steps))](pick(), pick()), 0.7))
		}
		cost := pool[0]
		for _, x := range pool[1:] {
			cost = op.Add(cost, x)
		}
		mean := op.Mean(op.Mul(cost, cost))
		outputs = append(gorgonia.Nodes{mean}, op.Grad(mean, inputs...)...)
	})
	return inputs, outputs, err
}

// TestRandomGraphs holds that random graphs over random shapes, with their gradients, give the same on both engines to 1e-9 in float64.
func TestRandomGraphs(t *testing.T) {
	seeds := uint64(2)
	if os.Getenv("PINCH_SOAK") != "" {
		seeds = 12
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 21))
		inputs, outputs, err := grow(rng)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		host, err := cpu.Compile(outputs[0].Graph(), outputs, cpu.Options{Threads: 2})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		device, err := client(t).Compile(outputs, xla.Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, n := range inputs {
			v := make([]float64, n.Shape().TotalSize())
			for i := range v {
				v[i] = rng.NormFloat64()
			}
			if err := host.Set(n, v); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if err := device.Set(n, v); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if err := host.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := device.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i, n := range outputs {
			got, err := device.Read64(n)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			for j, want := range host.Float64(n) {
				if !(math.Abs(got[j]-want) <= 1e-9*math.Max(1, math.Abs(want))) {
					t.Fatalf("seed %d, output %d, element %d: %v on XLA, %v on the CPU engine", seed, i, j, got[j], want)
				}
			}
		}
		if err := device.Close(); err != nil {
			t.Error(err)
		}
	}
}
