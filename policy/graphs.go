package policy

import (
	"fmt"

	"gorgonia.org/gorgonia"

	"github.com/pinch-robotics/pinch/policy/op"
)

// Training is the graph of one optimiser step without the optimiser: a batch of B samples with K noise draws each. The caller
// fills the inputs (see Batch), runs an engine over Outputs and reads Loss and Gradients.
type Training struct {
	Graph *gorgonia.ExprGraph

	Patches   *op.Node // [B, C*N, window*window*3], levels scaled to -1..1; nil without cameras
	State     *op.Node // [B, state]; nil without state
	Tokens    *op.Node // [B, T] int32
	TokenMask *op.Node // [B, 1, T] bool
	TokenPool *op.Node // [B, T, 1]
	Noisy     *op.Node // [B, K*H, A] x(t)
	Time      *op.Node // [B, K, F] features of the flow time; [B, K*H, F] with token_time
	Target    *op.Node // [B, K*H, A] noise - action
	Weight    *op.Node // [B, K*H] 1 at valid steps, 0 at padding
	Attend    *op.Node // [B*K, 1, H] bool, false at padding
	Context   *op.Node // [B, 1, S] bool, false at padding of the text; nil unless text_tokens
	Dropout   *op.Node // [2] int32, seed and step of dropout; nil without dropout and in validation graphs

	Velocity  *op.Node // [B, K*H, A] prediction
	Loss      *op.Node // bare scalar: squared error summed over valid steps, divided by the number of valid scalars
	Params    []*op.Node
	Gradients []*op.Node // one per parameter, its shape
	// Keep are the values between blocks, as they were made: what an engine must keep of the forward pass when it computes the rest again.
	Keep []*op.Node

	info []ParamInfo
}

// Outputs lists what an engine has to compute: the loss, then the gradients.
func (t *Training) Outputs() gorgonia.Nodes { return append(gorgonia.Nodes{t.Loss}, t.Gradients...) }

// BuildTraining builds the training graph.
func BuildTraining(s Spec, a Architecture, batch, draws int) (*Training, error) {
	t, err := buildChecked(s, a, batch, draws, a.Dropout > 0)
	if err != nil {
		return nil, err
	}
	if err := op.Build(func() { t.Gradients = op.Grad(t.Loss, t.Params...) }); err != nil {
		return nil, fmt.Errorf("training graph: %w", err)
	}
	return t, nil
}

// BuildLoss is BuildTraining without gradients and dropout, for validation.
func BuildLoss(s Spec, a Architecture, batch, draws int) (*Training, error) {
	return buildChecked(s, a, batch, draws, false)
}

func buildChecked(s Spec, a Architecture, batch, draws int, drop bool) (*Training, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := a.Check(s); err != nil {
		return nil, err
	}
	if err := checkMemory(s, a, batch, draws); err != nil {
		return nil, err
	}
	return buildLoss(s, a, batch, draws, drop)
}

func buildLoss(s Spec, a Architecture, batch, draws int, drop bool) (*Training, error) {
	n := newNetwork(s, a)
	t := &Training{Graph: n.graph}
	err := op.Build(func() {
		o := n.observe(batch)
		t.Patches, t.State, t.Tokens, t.TokenMask, t.TokenPool, t.Context = o.patches, o.state, o.tokens, o.mask, o.pool, o.context
		if drop {
			t.Dropout = op.Input(n.graph, op.Int32, "in.dropout", 2)
			n.drops.key = t.Dropout
		}
		rows := draws * s.Horizon
		t.Noisy = op.Input(n.graph, op.Float32, "in.noisy", batch, rows, s.ActionDim())
		t.Time = op.Input(n.graph, op.Float32, "in.time", batch, a.times(s)*draws, a.TimeDim)
		t.Target = op.Input(n.graph, op.Float32, "in.target", batch, rows, s.ActionDim())
		t.Weight = op.Input(n.graph, op.Float32, "in.weight", batch, rows)
		t.Attend = op.Input(n.graph, op.Bool, "in.attend", batch*draws, 1, s.Horizon)

		context, summary := n.encode(o, batch)
		t.Velocity = n.velocity(t.Noisy, t.Time, summary, t.Attend, n.remember(context, o.context), batch, draws)
		t.Loss = op.MaskedMSE(t.Velocity, t.Target, t.Weight)
	})
	if err != nil {
		return nil, fmt.Errorf("policy graph: %w", err)
	}
	t.info, t.Keep = n.info, n.keep
	for _, p := range n.info {
		t.Params = append(t.Params, n.params[p.Name])
	}
	return t, nil
}

// encoderGraph computes what depends on the observation only: the summary and, per action block, keys and values.
type encoderGraph struct {
	*network
	in      observation
	summary *op.Node
	memory  memory
}

func buildEncoder(s Spec, a Architecture) (*encoderGraph, error) {
	e := &encoderGraph{network: newNetwork(s, a)}
	err := op.Build(func() {
		e.in = e.observe(1)
		var context *op.Node
		context, e.summary = e.encode(e.in, 1)
		e.memory = e.remember(context, e.in.context)
	})
	if err != nil {
		return nil, fmt.Errorf("encoder graph: %w", err)
	}
	return e, nil
}

func (e *encoderGraph) outputs() gorgonia.Nodes {
	out := gorgonia.Nodes{e.summary}
	out = append(out, e.memory.keys...)
	return append(out, e.memory.values...)
}

// stepGraph computes the velocity of one Euler step from a remembered observation.
type stepGraph struct {
	*network
	x, time, summary *op.Node
	memory           memory
	out              *op.Node
	committed        *op.Node // [1, H, 1]: 1 at committed steps, for a sampler in one program; nil without max_prefix
}

func buildStep(s Spec, a Architecture) (*stepGraph, error) {
	g := &stepGraph{network: newNetwork(s, a)}
	err := op.Build(func() {
		g.x = op.Input(g.graph, op.Float32, "in.noisy", 1, s.Horizon, s.ActionDim())
		g.time = op.Input(g.graph, op.Float32, "in.time", 1, a.times(s), a.TimeDim)
		if a.MaxPrefix > 0 {
			g.committed = op.Input(g.graph, op.Float32, "in.committed", 1, s.Horizon, 1)
		}
		g.summary = op.Input(g.graph, op.Float32, "in.summary", 1, a.Dim)
		tokens := a.contextTokens(s)
		if a.TextTokens {
			g.memory.mask = op.Input(g.graph, op.Bool, "in.context_mask", 1, 1, tokens)
		}
		for i := range a.Depth {
			g.memory.keys = append(g.memory.keys, op.Input(g.graph, op.Float32, fmt.Sprintf("in.keys.%d", i), 1, tokens, a.Dim))
			g.memory.values = append(g.memory.values, op.Input(g.graph, op.Float32, fmt.Sprintf("in.values.%d", i), 1, tokens, a.Dim))
		}
		g.out = g.velocity(g.x, g.time, g.summary, nil, g.memory, 1, 1)
	})
	if err != nil {
		return nil, fmt.Errorf("step graph: %w", err)
	}
	return g, nil
}

// Feed is the value of one input node: []float32, []int32 or []bool in the node's shape, row-major.
type Feed struct {
	Node  *op.Node
	Value any
}

// feeds pairs the observation's nodes with a batch.
func (o observation) feeds(b *Batch) []Feed {
	f := []Feed{{o.tokens, b.tokens}, {o.pool, b.pool}}
	if o.mask != nil {
		f = append(f, Feed{o.mask, b.mask})
	}
	if o.patches != nil {
		f = append(f, Feed{o.patches, b.patches})
	}
	if o.state != nil {
		f = append(f, Feed{o.state, b.state})
	}
	return f
}

// Feeds pairs every input of the training graph with a batch of its size.
func (t *Training) Feeds(b *Batch) []Feed {
	o := observation{t.Patches, t.State, t.Tokens, t.TokenMask, t.TokenPool, t.Context}
	f := append(o.feeds(b), Feed{t.Noisy, b.noisy}, Feed{t.Time, b.time}, Feed{t.Target, b.target}, Feed{t.Weight, b.weight}, Feed{t.Attend, b.attend})
	if t.Context != nil {
		f = append(f, Feed{t.Context, b.context})
	}
	if t.Dropout != nil {
		f = append(f, Feed{t.Dropout, b.DropoutKey[:]})
	}
	return f
}
