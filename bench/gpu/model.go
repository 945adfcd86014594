package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// size holds the widths and depths of one member of the family: a vision transformer over two wrist cameras, a text encoder, and an action
// transformer with adaLN-zero for each token that attends to both.
type size struct {
	image, patch, visionDim, visionDepth, visionHeads int
	vocab, textTokens, textDim, textDepth, textHeads  int
	dim, depth, heads, horizon                        int
}

var sizes = map[string]size{
	"nano":  {32, 8, 32, 1, 2, 64, 8, 16, 1, 2, 32, 2, 2, 8},
	"small": {224, 16, 384, 12, 6, 8192, 32, 384, 4, 6, 384, 8, 6, 32},
	"base":  {224, 16, 768, 12, 12, 16384, 48, 512, 6, 8, 768, 12, 12, 32},
	"large": {224, 16, 1024, 24, 16, 32768, 64, 768, 8, 12, 1280, 20, 20, 50},
}

// What all sizes share.
const (
	cameras     = 2
	stateTokens = 2  // pose history and widths
	stateDim    = 32 // numbers of each
	actionDim   = 20 // two hands: position, rot6d, width
	timeDim     = 256
	merge       = 2 // side of the square of image tokens that become one
	modulations = 9 // shift, scale, gate of three parts of an action block
	eps         = 1e-5
	ropeBase    = 10000
)

func (s size) patches() int  { return (s.image / s.patch) * (s.image / s.patch) }
func (s size) patchDim() int { return s.patch * s.patch * 3 }

// context is the number of tokens that the action transformer attends to.
func (s size) context() int { return cameras*s.patches()/(merge*merge) + s.textTokens + stateTokens }

// model is a training graph.
type model struct {
	size
	batch  int
	g      *gorgonia.ExprGraph
	params gorgonia.Nodes
	names  []string
	decays []bool

	images, tokens, textMask, contextMask, state *op.Node // [B·2, N, patch], [B, T], [B, 1, T], [B, 1, S], [B, 2, 32]
	noisy, time, target, weight                  *op.Node // [B, H, A], [B, H, 256], [B, H, A], [B, H]
	velocity, loss                               *op.Node
	gradients                                    gorgonia.Nodes
}

// newModel builds the loss and, if asked, its gradients.
func newModel(s size, batch int, gradients bool) (*model, error) {
	m := &model{size: s, batch: batch, g: gorgonia.NewGraph()}
	err := op.Build(func() {
		m.inputs(true)
		m.velocity = m.act(m.noisy, m.time, m.remember(m.encode()))
		m.loss = op.MaskedMSE(m.velocity, m.target, m.weight)
		if gradients {
			m.gradients = op.Grad(m.loss, m.params...)
		}
	})
	return m, err
}

// inputs adds the observation and, for training, the chunk.
func (m *model) inputs(training bool) {
	b, s := m.batch, m.size
	m.images = op.Input(m.g, op.Float32, "images", b*cameras, s.patches(), s.patchDim())
	m.tokens = op.Input(m.g, op.Int32, "tokens", b, s.textTokens)
	m.textMask = op.Input(m.g, op.Bool, "text_mask", b, 1, s.textTokens)
	m.contextMask = op.Input(m.g, op.Bool, "context_mask", b, 1, s.context())
	m.state = op.Input(m.g, op.Float32, "state", b, stateTokens, stateDim)
	if !training {
		return
	}
	m.noisy = op.Input(m.g, op.Float32, "noisy", b, s.horizon, actionDim)
	m.time = op.Input(m.g, op.Float32, "time", b, s.horizon, timeDim)
	m.target = op.Input(m.g, op.Float32, "target", b, s.horizon, actionDim)
	m.weight = op.Input(m.g, op.Float32, "weight", b, s.horizon)
}

func (m *model) param(name string, decay bool, shape ...int) *op.Node {
	if i := slices.Index(m.names, name); i >= 0 {
		return m.params[i]
	}
	p := op.Param(m.g, op.Float32, name, shape...)
	m.params, m.names, m.decays = append(m.params, p), append(m.names, name), append(m.decays, decay)
	return p
}

func (m *model) linear(name string, x *op.Node, out int) *op.Node {
	in := x.Shape()[x.Dims()-1]
	return op.Linear(x, m.param(name+".w", true, in, out), m.param(name+".b", false, out))
}

func (m *model) norm(name string, x *op.Node) *op.Node {
	d := x.Shape()[x.Dims()-1]
	return op.LayerNorm(x, m.param(name+".gain", false, d), m.param(name+".bias", false, d), eps)
}

// block is a pre-norm transformer block.
func (m *model) block(name string, x, mask *op.Node, heads int) *op.Node {
	d := x.Shape()[2]
	y := m.norm(name+".norm1", x)
	y = op.Attention(m.linear(name+".q", y, d), m.linear(name+".k", y, d), m.linear(name+".v", y, d), mask, heads)
	x = op.Add(x, m.linear(name+".o", y, d))
	y = op.GELU(m.linear(name+".up", m.norm(name+".norm2", x), 4*d))
	return op.Add(x, m.linear(name+".down", y, d))
}

// encode makes the context [B, S, D]: image tokens, text tokens, state tokens.
func (m *model) encode() *op.Node {
	x := m.linear("vision.patch", m.images, m.visionDim)
	x = op.Add(x, m.param("vision.position", false, m.patches(), m.visionDim))
	for i := range m.visionDepth {
		x = m.block(fmt.Sprintf("vision.%d", i), x, nil, m.visionHeads)
	}
	side := m.image / m.patch
	x = op.PixelShuffle(m.norm("vision.norm", x), side, side, merge)
	x = m.linear("vision.out", x, m.dim) // [B·2, N/4, D]
	x = op.Reshape(x, m.batch, cameras, m.patches()/(merge*merge), m.dim)
	x = op.Add(x, m.param("vision.camera", false, cameras, 1, m.dim))
	images := op.Reshape(x, m.batch, -1, m.dim)

	t := op.Embedding(m.param("text.table", false, m.vocab, m.textDim), m.tokens)
	t = op.Add(t, m.param("text.position", false, m.textTokens, m.textDim))
	for i := range m.textDepth {
		t = m.block(fmt.Sprintf("text.%d", i), t, m.textMask, m.textHeads)
	}
	text := m.linear("text.out", m.norm("text.norm", t), m.dim)

	state := m.linear("state.out", op.GELU(m.linear("state.in", m.state, m.dim)), m.dim)
	return m.norm("context.norm", op.Concat(1, images, text, state))
}

// memory holds keys and values of the context for each action block.
type memory struct{ keys, values []*op.Node }

func (m *model) remember(context *op.Node) (r memory) {
	for i := range m.depth {
		name := fmt.Sprintf("action.%d.cross", i)
		r.keys = append(r.keys, m.headNorm(name+".k", m.linear(name+".k", context, m.dim)))
		r.values = append(r.values, m.linear(name+".v", context, m.dim))
	}
	return r
}

// headNorm is RMSNorm over each head of queries or keys.
func (m *model) headNorm(name string, x *op.Node) *op.Node {
	s, d := x.Shape(), m.dim/m.heads
	y := op.RMSNorm(op.Reshape(x, s[0], s[1], m.heads, d), m.param(name+".headgain", false, d), eps)
	return op.Reshape(y, s...)
}

// act is the action transformer: the velocity [B, H, A] of the flow at each step.
func (m *model) act(noisy, time *op.Node, context memory) *op.Node {
	x := m.linear("action.in", noisy, m.dim)
	c := m.linear("time.out", op.SiLU(m.linear("time.in", time, m.dim)), m.dim)
	c = op.SiLU(c) // [B, H, D]
	for i := range m.depth {
		x = m.actionBlock(fmt.Sprintf("action.%d", i), x, c, context.keys[i], context.values[i])
	}
	final := m.modulation("action.final", c, 2)
	x = op.Modulate(op.LayerNorm(x, nil, nil, eps), final[0], final[1])
	return m.linear("action.out", x, actionDim)
}

func (m *model) modulation(name string, c *op.Node, parts int) []*op.Node {
	all := m.linear(name, c, parts*m.dim)
	list := make([]*op.Node, parts)
	for j := range list {
		list[j] = op.Slice(all, 2, j*m.dim, (j+1)*m.dim)
	}
	return list
}

func (m *model) actionBlock(name string, x, c, keys, values *op.Node) *op.Node {
	mod := m.modulation(name+".modulation", c, modulations)
	modulated := func(j int) *op.Node {
		return op.Modulate(op.LayerNorm(x, nil, nil, eps), mod[j], mod[j+1])
	}
	d := m.dim
	turn := func(part string, y *op.Node) *op.Node {
		return op.RoPE(m.headNorm(name+part, m.linear(name+part, y, d)), m.heads, ropeBase, 0)
	}
	y := modulated(0)
	y = op.Attention(turn(".self.q", y), turn(".self.k", y), m.linear(name+".self.v", y, d), nil, m.heads)
	x = op.Gate(x, m.linear(name+".self.o", y, d), mod[2])

	y = m.headNorm(name+".cross.q", m.linear(name+".cross.q", modulated(3), d))
	y = op.Attention(y, keys, values, m.contextMask, m.heads)
	x = op.Gate(x, m.linear(name+".cross.o", y, d), mod[5])

	y = op.GELU(m.linear(name+".up", modulated(6), 4*d))
	return op.Gate(x, m.linear(name+".down", y, d), mod[8])
}

// weights draws the parameters: gains 1, biases 0, tables 0.02, matrices 1/√inputs. Modulations are not zero, so that all parts work.
func (m *model) weights(seed uint64) [][]float32 {
	var all [][]float32
	for i, p := range m.params {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		w := make([]float32, p.Shape().TotalSize())
		std := 0.02
		if m.decays[i] {
			std = 1 / math.Sqrt(float64(p.Shape()[0]))
		}
		isGain := len(m.names[i]) > 4 && m.names[i][len(m.names[i])-4:] == "gain"
		for j := range w {
			w[j] = float32(std * rng.NormFloat64())
			if isGain {
				w[j]++
			}
		}
		all = append(all, w)
	}
	return all
}

// feed is the value of one input.
type feed struct {
	node *op.Node
	data any
}

// data draws a batch.
func (m *model) data(seed uint64) []feed {
	rng := rand.New(rand.NewPCG(seed, 0xda7a))
	normal := func(n *op.Node) []float32 {
		v := make([]float32, n.Shape().TotalSize())
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	ids := make([]int32, m.batch*m.textTokens)
	text, context := make([]bool, len(ids)), make([]bool, m.batch*m.context())
	for i := range context {
		context[i] = true
	}
	for b := range m.batch {
		length := m.textTokens/4 + rng.IntN(m.textTokens*3/4)
		for t := range m.textTokens {
			ids[b*m.textTokens+t] = int32(rng.IntN(m.vocab))
			text[b*m.textTokens+t] = t < length
			context[b*m.context()+cameras*m.patches()/(merge*merge)+t] = t < length
		}
	}
	weight := make([]float32, m.batch*m.horizon)
	for i := range weight {
		if rng.IntN(8) > 0 {
			weight[i] = 1
		}
	}
	return []feed{{m.images, normal(m.images)}, {m.tokens, ids}, {m.textMask, text}, {m.contextMask, context}, {m.state, normal(m.state)},
		{m.noisy, normal(m.noisy)}, {m.time, normal(m.time)}, {m.target, normal(m.target)}, {m.weight, weight}}
}

// flops counts the floating-point operations of one sample's training step: 2 per weight and token of each linear layer and of both
// products of attention, three times for forward and backward.
func (m *model) flops() float64 {
	f := func(v int) float64 { return float64(v) }
	block := func(tokens, keys, d float64) float64 { return tokens*(12*d*d) + 2*tokens*keys*d } // weights and both attention products
	n, t, h, c, d := f(m.patches()), f(m.textTokens), f(m.horizon), f(m.context()), f(m.dim)
	sum := f(cameras) * (n*f(m.patchDim())*f(m.visionDim) + f(m.visionDepth)*block(n, n, f(m.visionDim)) + n*f(m.visionDim)*d)
	sum += f(m.textDepth)*block(t, t, f(m.textDim)) + t*f(m.textDim)*d
	sum += stateTokens * (stateDim*d + d*d)
	perBlock := h*(modulations+4+2+8)*d*d + 2*c*d*d + 2*h*h*d + 2*h*c*d
	sum += f(m.depth)*perBlock + h*(timeDim*d+d*d+2*d*d+2*actionDim*d)
	return 3 * 2 * sum
}
