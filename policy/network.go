package policy

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/pinch-robotics/pinch/policy/op"
)

// network builds graphs of one architecture. Parameters are made on first use, in the order of use, so that the training
// graph lists all of them and the two inference graphs the part they need.
//
// Symbols in shapes: B samples, C cameras, N patch tokens of an image, T text tokens, S context tokens, K noise draws per
// sample, H steps, A action columns, D width of context and action tokens.
type network struct {
	graph  *gorgonia.ExprGraph
	spec   Spec
	arch   Architecture
	info   []ParamInfo
	params map[string]*op.Node
}

func newNetwork(s Spec, a Architecture) *network {
	return &network{graph: gorgonia.NewGraph(), spec: s, arch: a, params: map[string]*op.Node{}}
}

func (n *network) param(name string, init Init, shape ...int) *op.Node {
	if p, ok := n.params[name]; ok {
		return p
	}
	p := op.Param(n.graph, op.Float32, name, shape...)
	n.params[name] = p
	n.info = append(n.info, ParamInfo{Name: name, Shape: shape, Init: init})
	return p
}

// linear is x W + b for x [..., in].
func (n *network) linear(name string, x *op.Node, in, out int, init Init) *op.Node {
	return op.Linear(x, n.param(name+".w", init, in, out), n.param(name+".b", InitZero, out))
}

// norm is LayerNorm with gain and bias over the last axis of width dim.
func (n *network) norm(name string, x *op.Node, dim int) *op.Node {
	return op.LayerNorm(x, n.param(name+".gain", InitOne, dim), n.param(name+".bias", InitZero, dim), normEps)
}

const normEps = 1e-5

// block is a pre-norm transformer block (Vaswani et al. 2017; pre-norm as in Xiong et al. 2020) on x [B, T, dim].
func (n *network) block(name string, x, mask *op.Node, dim, heads, mlp int) *op.Node {
	y := n.norm(name+".norm1", x, dim)
	q := n.linear(name+".q", y, dim, dim, InitMatrix)
	k := n.linear(name+".k", y, dim, dim, InitMatrix)
	v := n.linear(name+".v", y, dim, dim, InitMatrix)
	y = n.linear(name+".o", op.Attention(q, k, v, mask, heads), dim, dim, InitMatrix)
	x = op.Add(x, y)
	y = n.norm(name+".norm2", x, dim)
	y = op.GELU(n.linear(name+".up", y, dim, mlp*dim, InitMatrix))
	return op.Add(x, n.linear(name+".down", y, mlp*dim, dim, InitMatrix))
}

// observation are the input nodes of the context encoder for a batch.
type observation struct {
	patches *op.Node // [B, C*N, window*window*3], levels scaled to -1..1; nil without cameras
	state   *op.Node // [B, state], normalised; nil without state
	tokens  *op.Node // [B, T] int32
	mask    *op.Node // [B, 1, T] bool: true at text, false at padding; nil without text blocks
	pool    *op.Node // [B, T, 1]: 1/count at text, 0 at padding
}

func (n *network) observe(batch int) observation {
	var o observation
	if tokens := n.imageTokens(); tokens > 0 {
		o.patches = op.Input(n.graph, op.Float32, "in.patches", batch, tokens, n.arch.patchDim())
	}
	if n.spec.StateDim() > 0 {
		o.state = op.Input(n.graph, op.Float32, "in.state", batch, n.spec.StateDim())
	}
	t := n.spec.Prompt.MaxTokens
	o.tokens = op.Input(n.graph, op.Int32, "in.tokens", batch, t)
	if n.arch.TextDepth > 0 {
		o.mask = op.Input(n.graph, op.Bool, "in.token_mask", batch, 1, t)
	}
	o.pool = op.Input(n.graph, op.Float32, "in.token_pool", batch, t, 1)
	return o
}

// imageTokens is C*N.
func (n *network) imageTokens() int {
	cols, rows := n.arch.grid(n.spec)
	return len(n.spec.Cameras) * cols * rows
}

// encode makes the context [B, S, D] and its summary [B, D]: image tokens, state token, text token.
func (n *network) encode(o observation, batch int) (context, summary *op.Node) {
	d := n.arch.Dim
	var tokens []*op.Node
	add := func(x *op.Node, pooled *op.Node) {
		tokens = append(tokens, x)
		if summary == nil {
			summary = pooled
		} else {
			summary = op.Add(summary, pooled)
		}
	}
	if o.patches != nil {
		x := n.vision(o.patches, batch)
		add(x, op.Mean(x, 1))
	}
	if o.state != nil {
		x := op.GELU(n.linear("state.in", o.state, n.spec.StateDim(), d, InitMatrix))
		x = n.linear("state.out", x, d, d, InitMatrix) // [B, D]
		add(op.Reshape(x, batch, 1, d), x)
	}
	x := n.text(o, batch) // [B, D]
	add(op.Reshape(x, batch, 1, d), x)
	context = tokens[0]
	if len(tokens) > 1 {
		context = op.Concat(1, tokens...)
	}
	context = n.norm("context.norm", context, d)
	summary = n.linear("summary", n.norm("summary.norm", summary, d), d, d, InitMatrix)
	return context, summary
}

// vision is a vision transformer (Dosovitskiy et al. 2021) shared by the cameras; attention stays inside a camera. Neighbouring
// tokens are merged and projected: [B, C*N, patch] to [B, C*N/merge^2, D].
func (n *network) vision(patches *op.Node, batch int) *op.Node {
	a := n.arch
	cols, rows := a.grid(n.spec)
	cams, count := len(n.spec.Cameras), cols*rows
	x := n.linear("vision.patch", patches, a.patchDim(), a.VisionDim, InitMatrix)
	x = op.Reshape(x, batch*cams, count, a.VisionDim)
	x = op.Add(x, n.param("vision.position", InitTable, count, a.VisionDim))
	for i := range a.VisionDepth {
		x = n.block(fmt.Sprintf("vision.%d", i), x, nil, a.VisionDim, a.VisionHeads, a.VisionMLP)
	}
	x = n.norm("vision.norm", x, a.VisionDim)
	width := a.VisionDim
	if m := a.Merge; m > 1 {
		x = op.Reshape(x, batch*cams, rows/m, m, cols/m, m, a.VisionDim)
		x = op.Transpose(x, 0, 1, 3, 2, 4, 5)
		count, width = count/(m*m), width*m*m
	}
	x = op.Reshape(x, batch, cams, count, width)
	x = n.linear("vision.out", x, width, a.Dim, InitMatrix)
	x = op.Add(x, n.param("vision.camera", InitTable, cams, 1, a.Dim))
	return op.Reshape(x, batch, cams*count, a.Dim)
}

// text encodes the prompt's bytes and pools them: [B, D].
func (n *network) text(o observation, batch int) *op.Node {
	a, t := n.arch, n.spec.Prompt.MaxTokens
	x := op.Embedding(n.param("text.table", InitTable, VocabSize, a.TextDim), o.tokens)
	x = op.Add(x, n.param("text.position", InitTable, t, a.TextDim))
	for i := range a.TextDepth {
		x = n.block(fmt.Sprintf("text.%d", i), x, o.mask, a.TextDim, a.TextHeads, 2)
	}
	x = n.norm("text.norm", x, a.TextDim)
	x = op.Sum(op.Mul(x, o.pool), 1) // [B, text]
	return n.linear("text.out", x, a.TextDim, a.Dim, InitMatrix)
}

// memory holds the keys and values of the context for each action block: [B, S, D] each. It depends on the observation
// only, so sampling computes it once.
type memory struct{ keys, values []*op.Node }

func (n *network) remember(context *op.Node) memory {
	var m memory
	for i := range n.arch.Depth {
		name := fmt.Sprintf("action.%d.cross", i)
		m.keys = append(m.keys, n.linear(name+".k", context, n.arch.Dim, n.arch.Dim, InitMatrix))
		m.values = append(m.values, n.linear(name+".v", context, n.arch.Dim, n.arch.Dim, InitMatrix))
	}
	return m
}

// contextTokens is S.
func (n *network) contextTokens() int {
	s := n.imageTokens()/(n.arch.Merge*n.arch.Merge) + 1
	if n.spec.StateDim() > 0 {
		s++
	}
	return s
}
