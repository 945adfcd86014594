package cpu_test

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

type node = gorgonia.Node

// sizes of a small policy: a vision transformer over two cameras' patches and an action transformer that reads it.
type sizes struct {
	batch, cameras, image, patch int
	width, layers, heads         int
	rows, actionWidth, actions   int // action tokens, their features, their numbers
}

var demoSizes = sizes{batch: 64, cameras: 2, image: 64, patch: 8, width: 64, layers: 4, heads: 4, rows: 16, actionWidth: 96, actions: 20}

var tinySizes = sizes{batch: 6, cameras: 2, image: 8, patch: 4, width: 12, layers: 2, heads: 2, rows: 5, actionWidth: 8, actions: 3}

// model is a training graph with its inputs.
type model struct {
	g      *gorgonia.ExprGraph
	dt     tensor.Dtype
	inputs []*node
	params []*node
	loss   *node
	pred   *node
	grads  []*node
}

func (m *model) input(name string, shape ...int) *node {
	n := op.Input(m.g, m.dt, name, shape...)
	m.inputs = append(m.inputs, n)
	return n
}

func (m *model) param(name string, shape ...int) *node {
	n := op.Param(m.g, m.dt, name, shape...)
	m.params = append(m.params, n)
	return n
}

func (m *model) linear(name string, x *node, in, out int) *node {
	return op.Linear(x, m.param(name+".w", in, out), m.param(name+".b", out))
}

func (m *model) norm(name string, x *node, d int) *node {
	return op.LayerNorm(x, m.param(name+".gain", d), m.param(name+".bias", d), 1e-5)
}

func (m *model) attend(name string, x, memory *node, d, memoryD, heads int, mask *node) *node {
	q := m.linear(name+".q", x, d, d)
	k := m.linear(name+".k", memory, memoryD, d)
	v := m.linear(name+".v", memory, memoryD, d)
	return m.linear(name+".o", op.Attention(q, k, v, mask, heads), d, d)
}

func (m *model) mlp(name string, x *node, d int) *node {
	return m.linear(name+".2", op.GELU(m.linear(name+".1", x, d, 4*d)), 4*d, d)
}

// newModel builds the training graph, with adaptive norms in the action transformer.
func newModel(s sizes, dt tensor.Dtype) (*model, error) {
	m := &model{g: gorgonia.NewGraph(), dt: dt}
	err := op.Build(func() {
		pixels := m.input("pixels", s.batch*s.cameras, s.image, s.image, 3)
		tokens := s.image / s.patch * s.image / s.patch
		x := m.linear("patch", op.Patchify(pixels, s.patch), s.patch*s.patch*3, s.width)
		x = op.Reshape(x, s.batch, s.cameras*tokens, s.width)
		x = op.Add(x, m.param("position", s.cameras*tokens, s.width))
		for l := range s.layers {
			name := fmt.Sprintf("vit%d", l)
			h := m.norm(name+".n1", x, s.width)
			x = op.Add(x, m.attend(name, h, h, s.width, s.width, s.heads, nil))
			x = op.Add(x, m.mlp(name, m.norm(name+".n2", x, s.width), s.width))
		}
		memory := m.norm("vit.norm", x, s.width)

		noisy := m.input("noisy", s.batch, s.rows, s.actions)
		time := m.input("time", s.batch, 16)
		cond := op.SiLU(m.linear("time.1", time, 16, s.actionWidth))
		y := op.Add(m.linear("action.in", noisy, s.actions, s.actionWidth), m.param("row", s.rows, s.actionWidth))
		for l := range s.layers - 1 {
			name := fmt.Sprintf("act%d", l)
			mod := func(i int) *node {
				return m.linear(fmt.Sprintf("%s.mod%d", name, i), cond, s.actionWidth, s.actionWidth)
			}
			h := op.Modulate(op.LayerNorm(y, nil, nil, 1e-5), mod(0), mod(1))
			y = op.Gate(y, m.attend(name+".self", h, h, s.actionWidth, s.actionWidth, s.heads, nil), mod(2))
			h = op.LayerNorm(y, nil, nil, 1e-5)
			y = op.Add(y, m.attend(name+".cross", h, memory, s.actionWidth, s.width, s.heads, nil))
			h = op.Modulate(op.LayerNorm(y, nil, nil, 1e-5), mod(3), mod(4))
			y = op.Gate(y, m.mlp(name, h, s.actionWidth), mod(5))
		}
		m.pred = m.linear("action.out", m.norm("action.norm", y, s.actionWidth), s.actionWidth, s.actions)
		target, mask := m.input("target", s.batch, s.rows, s.actions), m.input("mask", s.batch, s.rows)
		m.loss = op.MaskedMSE(m.pred, target, mask)
		m.grads = op.Grad(m.loss, m.params...)
	})
	return m, err
}

// data returns numbers for a node: weights scaled by their fan-in, gains near 1, a mask of 0 and 1.
func data(n *node, rng *rand.Rand) []float64 {
	shape := n.Shape()
	list := make([]float64, shape.TotalSize())
	scale := 1.0
	if len(shape) == 2 {
		scale = 1 / math.Sqrt(float64(shape[0]))
	}
	for i := range list {
		list[i] = scale * rng.NormFloat64()
		if n.Name() == "mask" {
			list[i] = float64(rng.IntN(4) / 2)
			list[i] = min(1, list[i])
		}
	}
	return list
}

func (m *model) outputs() gorgonia.Nodes {
	return append(gorgonia.Nodes{m.loss, m.pred}, m.grads...)
}

// flops returns the floating-point operations of all matrix products of a training step, forward and backward, as the engine runs them.
func (s sizes) flops() float64 {
	tokens := float64(s.cameras * (s.image / s.patch) * (s.image / s.patch))
	d, a, r := float64(s.width), float64(s.actionWidth), float64(s.rows)
	patch := 2 * tokens * float64(s.patch*s.patch*3) * d
	vit := float64(s.layers) * (2*tokens*12*d*d + 4*tokens*tokens*d)
	act := float64(s.layers-1) * (2*r*(4+2+8)*a*a + 2*tokens*2*d*a + 4*r*r*a + 4*r*tokens*a + 2*6*a*a)
	// Backward is twice the forward pass, except that no gradient of the pixels is needed.
	return float64(s.batch) * (2*patch + 3*(vit+act))
}
