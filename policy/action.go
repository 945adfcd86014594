package policy

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/op"
)

// Chunks of the modulation of one action block, in order: shift, scale and gate of self-attention, cross-attention and MLP.
const modulations = 9

// velocity predicts dx/dt for noisy chunks: x [B, K*H, A], flow-time features [B, K*H, F] (each token has its own time),
// summary [B, D], keys and values [B, S, D]; valid is nil or [B*K, 1, H] bool, false at steps that no token may attend to.
// The blocks are those of DiT with adaLN-zero (Peebles and Xie 2023, section 3.2); all blocks share one modulation network and
// add an offset of their own (PixArt-alpha, Chen et al. 2023, section 2.3).
func (n *network) velocity(x, time, summary, valid *op.Node, m memory, batch, draws int) *op.Node {
	a, h := n.arch, n.spec.Horizon
	d, cols := a.Dim, n.spec.ActionDim()
	x = n.linear("action.in", x, cols, d, InitMatrix) // [B, K*H, D]
	x = op.Reshape(x, batch*draws, h, d)
	x = op.Add(x, n.param("action.position", InitTable, h, d))
	x = op.Reshape(x, batch, draws*h, d)

	c := n.linear("time.out", op.SiLU(n.linear("time.in", time, a.TimeDim, d, InitMatrix)), d, d, InitMatrix)
	c = op.SiLU(op.Add(c, op.Reshape(summary, batch, 1, d))) // [B, K*H, D]
	shared := n.linear("action.modulation", c, d, modulations*d, InitZero)
	var mod [modulations]*op.Node
	for j := range mod {
		mod[j] = op.Slice(shared, 2, j*d, (j+1)*d)
	}
	for i := range a.Depth {
		x = n.actionBlock(fmt.Sprintf("action.%d", i), x, valid, mod, m.keys[i], m.values[i], batch, draws)
	}
	final := n.linear("action.final", c, d, 2*d, InitZero)
	x = op.LayerNorm(x, nil, nil, normEps)
	x = op.Modulate(x, op.Slice(final, 2, 0, d), op.Slice(final, 2, d, 2*d))
	return n.linear("action.out", x, d, cols, InitZero)
}

// actionBlock is x + gate * f(modulated norm of x) for self-attention inside each draw, cross-attention to the context and MLP.
func (n *network) actionBlock(name string, x, valid *op.Node, mod [modulations]*op.Node, keys, values *op.Node, batch, draws int) *op.Node {
	a, h, d := n.arch, n.spec.Horizon, n.arch.Dim
	at := func(j int) *op.Node {
		return op.Add(mod[j], n.param(fmt.Sprintf("%s.modulation.%d", name, j), InitZero, d))
	}
	modulated := func(j int) *op.Node {
		return op.Modulate(op.LayerNorm(x, nil, nil, normEps), at(j), at(j+1))
	}
	perDraw := func(y *op.Node) *op.Node { return op.Reshape(y, batch*draws, h, d) }

	y := modulated(0)
	q := perDraw(n.linear(name+".self.q", y, d, d, InitMatrix))
	k := perDraw(n.linear(name+".self.k", y, d, d, InitMatrix))
	v := perDraw(n.linear(name+".self.v", y, d, d, InitMatrix))
	y = op.Reshape(op.Attention(q, k, v, valid, a.Heads), batch, draws*h, d)
	x = op.Gate(x, n.linear(name+".self.o", y, d, d, InitMatrix), at(2))

	q = n.linear(name+".cross.q", modulated(3), d, d, InitMatrix)
	y = op.Attention(q, keys, values, nil, a.Heads)
	x = op.Gate(x, n.linear(name+".cross.o", y, d, d, InitMatrix), at(5))

	y = op.GELU(n.linear(name+".up", modulated(6), d, a.MLP*d, InitMatrix))
	return op.Gate(x, n.linear(name+".down", y, a.MLP*d, d, InitMatrix), at(8))
}
