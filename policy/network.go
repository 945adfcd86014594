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
	drops  dropout
	keep   []*op.Node // values between blocks
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

// mark notes a value between blocks.
func (n *network) mark(x *op.Node) *op.Node {
	n.keep = append(n.keep, x)
	return x
}

// linear is x W + b for x [..., in].
func (n *network) linear(name string, x *op.Node, in, out int, init Init) *op.Node {
	return op.Linear(x, n.param(name+".w", init, in, out), n.param(name+".b", InitZero, out))
}

// norm is LayerNorm with gain and bias over the last axis of width dim.
func (n *network) norm(name string, x *op.Node, dim int) *op.Node {
	return n.normWith(name, x, dim, normEps)
}

func (n *network) normWith(name string, x *op.Node, dim int, eps float64) *op.Node {
	return op.LayerNorm(x, n.param(name+".gain", InitOne, dim), n.param(name+".bias", InitZero, dim), eps)
}

const normEps = 1e-5

// blockForm says what differs between the blocks of the encoders.
type blockForm struct {
	dim, heads, hidden int
	eps                float64
	act                string
}

// block is a pre-norm transformer block (Vaswani et al. 2017; pre-norm as in Xiong et al. 2020) on x [B, T, dim].
func (n *network) block(name string, x, mask *op.Node, f blockForm) *op.Node {
	dim, heads := f.dim, f.heads
	y := n.normWith(name+".norm1", x, dim, f.eps)
	q := n.linear(name+".q", y, dim, dim, InitMatrix)
	k := n.linear(name+".k", y, dim, dim, InitMatrix)
	v := n.linear(name+".v", y, dim, dim, InitMatrix)
	y = n.linear(name+".o", op.Attention(q, k, v, mask, heads), dim, dim, InitMatrix)
	x = op.Add(x, y)
	y = n.normWith(name+".norm2", x, dim, f.eps)
	y = activate(f.act, n.linear(name+".up", y, dim, f.hidden, InitMatrix))
	return op.Add(x, n.linear(name+".down", y, f.hidden, dim, InitMatrix))
}

// observation are the input nodes of the context encoder for a batch.
type observation struct {
	patches *op.Node // [B, C*F*N, window*window*3], levels scaled to -1..1; nil without cameras
	state   *op.Node // [B, F*state], normalised; nil without state
	tokens  *op.Node // [B, T] int32
	mask    *op.Node // [B, 1, T] bool: true at text, false at padding; nil without text blocks
	pool    *op.Node // [B, T, 1]: 1/count at text, 0 at padding
	context *op.Node // [B, 1, S] bool: false at padding of the text; nil unless text_tokens
}

func (n *network) observe(batch int) observation {
	var o observation
	if tokens := n.imageTokens(); tokens > 0 {
		o.patches = op.Input(n.graph, op.Float32, "in.patches", batch, tokens, n.arch.patchDim())
	}
	if n.spec.StateDim() > 0 {
		o.state = op.Input(n.graph, op.Float32, "in.state", batch, n.spec.frames()*n.spec.StateDim())
	}
	t := n.spec.Prompt.MaxTokens
	o.tokens = op.Input(n.graph, op.Int32, "in.tokens", batch, t)
	if n.arch.TextDepth > 0 {
		o.mask = op.Input(n.graph, op.Bool, "in.token_mask", batch, 1, t)
	}
	o.pool = op.Input(n.graph, op.Float32, "in.token_pool", batch, t, 1)
	if n.arch.TextTokens {
		o.context = op.Input(n.graph, op.Bool, "in.context_mask", batch, 1, n.arch.contextTokens(n.spec))
	}
	return o
}

// imageTokens is C*F*N.
func (n *network) imageTokens() int { return n.arch.imageTokens(n.spec) }

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
		f := n.spec.frames()
		x := op.Reshape(o.state, batch*f, n.spec.StateDim())
		x = op.GELU(n.linear("state.in", x, n.spec.StateDim(), d, InitMatrix))
		x = n.linear("state.out", x, d, d, InitMatrix) // [B*F, D]
		pooled := x
		x = op.Reshape(x, batch, f, d)
		if f > 1 {
			x = op.Add(x, n.param("state.frame", InitTable, f, d))
			pooled = op.Mean(x, 1)
		}
		add(x, pooled)
	}
	add(n.text(o, batch))
	context = tokens[0]
	if len(tokens) > 1 {
		context = op.Concat(1, tokens...)
	}
	context = n.mark(n.norm("context.norm", context, d))
	summary = n.mark(n.linear("summary", n.norm("summary.norm", summary, d), d, d, InitMatrix))
	return context, summary
}

// vision is a vision transformer (Dosovitskiy et al. 2021) shared by the cameras; attention stays inside a camera. Neighbouring
// tokens are merged and projected: [B, C*F*N, patch] to [B, C*F*N/merge^2, D].
func (n *network) vision(patches *op.Node, batch int) *op.Node {
	a := n.arch
	cols, rows := a.grid(n.spec)
	cams, frames, count := len(n.spec.Cameras), n.spec.frames(), cols*rows
	images := cams * frames
	x := n.linear("vision.patch", patches, a.patchDim(), a.VisionDim, InitMatrix)
	x = op.Reshape(x, batch*images, count, a.VisionDim)
	x = op.Add(x, n.param("vision.position", InitTable, count, a.VisionDim))
	x = n.visionBlocks(x, batch*images, count)
	width := a.VisionDim
	if m := a.Merge; m > 1 {
		x = op.Reshape(x, batch*images, rows/m, m, cols/m, m, a.VisionDim)
		x = op.Transpose(x, 0, 1, 3, 2, 4, 5)
		count, width = count/(m*m), width*m*m
	}
	x = op.Reshape(x, batch, cams, frames*count, width)
	x = n.linear("vision.out", x, width, a.Dim, InitMatrix)
	x = op.Add(x, n.param("vision.camera", InitTable, cams, 1, a.Dim))
	if frames > 1 {
		x = op.Reshape(x, batch*cams, frames, count, a.Dim)
		x = op.Add(x, n.param("vision.frame", InitTable, frames, 1, a.Dim))
	}
	return op.Reshape(x, batch, images*count, a.Dim)
}

// visionBlocks are the blocks between patch embedding and merge: x [images, N, width].
func (n *network) visionBlocks(x *op.Node, images, count int) *op.Node {
	a := n.arch
	if a.VisionTokens > 0 {
		table := n.param("vision.tokens", InitTable, 1, a.VisionTokens, a.VisionDim)
		x = op.Concat(1, op.BroadcastTo(table, images, a.VisionTokens, a.VisionDim), x)
	}
	if a.VisionPreNorm {
		x = n.normWith("vision.prenorm", x, a.VisionDim, a.visionEps())
	}
	form := blockForm{a.VisionDim, a.VisionHeads, a.visionHidden(), a.visionEps(), a.VisionAct}
	n.mark(x)
	for i := range a.VisionDepth {
		x = n.mark(n.block(fmt.Sprintf("vision.%d", i), x, nil, form))
	}
	x = n.normWith("vision.norm", x, a.VisionDim, a.visionEps())
	if a.VisionTokens > 0 {
		x = op.Slice(x, 1, a.VisionTokens, a.VisionTokens+count)
	}
	return x
}

// text encodes the prompt. It gives the context tokens, one or with text_tokens all [B, T, D], and their mean [B, D].
func (n *network) text(o observation, batch int) (tokens, pooled *op.Node) {
	a, t := n.arch, n.spec.Prompt.MaxTokens
	x := op.Embedding(n.param("text.table", InitTable, n.spec.Prompt.vocabulary(), a.TextDim), o.tokens)
	x = op.Add(x, n.param("text.position", InitTable, t, a.TextDim))
	for i := range a.TextDepth {
		x = n.mark(n.block(fmt.Sprintf("text.%d", i), x, o.mask, blockForm{a.TextDim, a.TextHeads, a.textHidden(), normEps, ActGELU}))
	}
	x = n.norm("text.norm", x, a.TextDim)
	if a.TextTokens {
		x = n.linear("text.out", x, a.TextDim, a.Dim, InitMatrix) // [B, T, D]
		return x, op.Sum(op.Mul(x, o.pool), 1)
	}
	x = op.Sum(op.Mul(x, o.pool), 1) // [B, text]
	x = n.linear("text.out", x, a.TextDim, a.Dim, InitMatrix)
	return op.Reshape(x, batch, 1, a.Dim), x
}

// memory holds the keys and values of the context for each action block, [B, S, D] each, and which of them are no padding. It
// depends on the observation only, so sampling computes it once.
type memory struct {
	keys, values []*op.Node
	mask         *op.Node // [B, 1, S] bool, or nil
}

func (n *network) remember(context, mask *op.Node) memory {
	m := memory{mask: mask}
	for i := range n.arch.Depth {
		name := fmt.Sprintf("action.%d.cross", i)
		m.keys = append(m.keys, n.mark(n.headNorm(name+".k", n.linear(name+".k", context, n.arch.Dim, n.arch.Dim, InitMatrix))))
		m.values = append(m.values, n.mark(n.linear(name+".v", context, n.arch.Dim, n.arch.Dim, InitMatrix)))
	}
	return m
}

// headNorm is RMSNorm over each head of queries or keys [B, T, D] (Henry et al. 2020), where the architecture has it.
func (n *network) headNorm(name string, x *op.Node) *op.Node {
	if !n.arch.HeadNorm {
		return x
	}
	s, hd := x.Shape(), n.arch.Dim/n.arch.Heads
	y := op.RMSNorm(op.Reshape(x, s[0], s[1], n.arch.Heads, hd), n.param(name+".headgain", InitOne, hd), normEps)
	return op.Reshape(y, s...)
}

// imageTokens is the number of patch tokens of all cameras and frames.
func (a Architecture) imageTokens(s Spec) int {
	cols, rows := a.grid(s)
	return len(s.Cameras) * s.frames() * cols * rows
}

// contextTokens is S: images, states, text.
func (a Architecture) contextTokens(s Spec) int {
	n := a.imageTokens(s) / (a.Merge * a.Merge)
	if s.StateDim() > 0 {
		n += s.frames()
	}
	if a.TextTokens {
		return n + s.Prompt.MaxTokens
	}
	return n + 1
}

// textHidden is the hidden width of text blocks: twice the width where text is pooled, four times where it is context.
func (a Architecture) textHidden() int {
	if a.TextTokens {
		return 4 * a.TextDim
	}
	return 2 * a.TextDim
}
