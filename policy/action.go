package policy

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/op"
)

// Chunks of the modulation of one action block, in order: shift, scale and gate of self-attention, cross-attention and MLP.
const modulations = 9

// velocity predicts dx/dt [B, K*H, A] for noisy chunks x [B, K*H, A], the features of their flow time ([B, K, F], or [B, K*H, F]
// when each token has its own), the summary [B, D] and the context's keys and values [B, S, D]. valid is nil or [B*K, 1, H]
// bool, false at steps that no token may attend to. The blocks are those of DiT with adaLN-zero (Peebles and Xie 2023,
// section 3.2); unless each has a modulation network of its own, all blocks share one and add an offset (PixArt-alpha, Chen et
// al. 2023, section 2.3).
func (n *network) velocity(x, time, summary, valid *op.Node, m memory, batch, draws int) *op.Node {
	a, h := n.arch, n.spec.Horizon
	d, cols := a.Dim, n.spec.ActionDim()
	x = n.linear("action.in", x, cols, d, InitMatrix)
	x = op.Reshape(x, batch*draws, h, d)
	if !a.Rotary {
		x = op.Add(x, n.param("action.position", InitTable, h, d))
	}

	c := n.linear("time.out", op.SiLU(n.linear("time.in", time, a.TimeDim, d, InitMatrix)), d, d, InitMatrix)
	c = op.SiLU(op.Add(c, op.Reshape(summary, batch, 1, d)))
	if a.TokenTime {
		c = op.Reshape(c, batch*draws, h, d)
	} else {
		c = op.Reshape(c, batch*draws, d)
	}
	x, c = n.mark(x), n.mark(c)
	var mod []*op.Node
	if !a.OwnModulation {
		mod = split(n.linear("action.modulation", c, d, modulations*d, InitZero), modulations)
		for _, part := range mod { // all blocks read them
			n.mark(part)
		}
	}
	for i := range a.Depth {
		name := fmt.Sprintf("action.%d", i)
		if a.OwnModulation {
			mod = split(n.linear(name+".modulation", c, d, modulations*d, InitZero), modulations)
		}
		x = n.mark(n.actionBlock(name, x, valid, mod, m.keys[i], m.values[i], m.mask, batch, draws))
	}
	final := split(n.linear("action.final", c, d, 2*d, InitZero), 2)
	x = op.Modulate(op.LayerNorm(x, nil, nil, normEps), final[0], final[1])
	return op.Reshape(n.linear("action.out", x, d, cols, InitZero), batch, draws*h, cols)
}

// split cuts the last axis into equal parts.
func split(x *op.Node, parts int) []*op.Node {
	axis := x.Shape().Dims() - 1
	size := x.Shape()[axis] / parts
	out := make([]*op.Node, parts)
	for j := range out {
		out[j] = op.Slice(x, axis, j*size, (j+1)*size)
	}
	return out
}

// actionBlock is x + gate * f(modulated norm of x) for self-attention inside each draw, cross-attention to the context and MLP;
// x is [B*K, H, D].
func (n *network) actionBlock(name string, x, valid *op.Node, mod []*op.Node, keys, values, mask *op.Node, batch, draws int) *op.Node {
	a, h, d := n.arch, n.spec.Horizon, n.arch.Dim
	at := func(j int) *op.Node {
		if a.OwnModulation {
			return mod[j]
		}
		return op.Add(mod[j], n.param(fmt.Sprintf("%s.modulation.%d", name, j), InitZero, d))
	}
	modulated := func(j int) *op.Node {
		return op.Modulate(op.LayerNorm(x, nil, nil, normEps), at(j), at(j+1))
	}

	y := modulated(0)
	q := n.turn(n.headNorm(name+".self.q", n.linear(name+".self.q", y, d, d, InitMatrix)))
	k := n.turn(n.headNorm(name+".self.k", n.linear(name+".self.k", y, d, d, InitMatrix)))
	v := n.linear(name+".self.v", y, d, d, InitMatrix)
	y = op.Attention(q, k, v, valid, a.Heads)
	x = op.Gate(x, n.drop(n.linear(name+".self.o", y, d, d, InitMatrix)), at(2))

	// All draws of a sample ask the same context, so they attend together: [B, K*H, D].
	q = n.headNorm(name+".cross.q", n.linear(name+".cross.q", modulated(3), d, d, InitMatrix))
	q = op.Reshape(q, batch, draws*h, d)
	y = op.Reshape(op.Attention(q, keys, values, mask, a.Heads), batch*draws, h, d)
	x = op.Gate(x, n.drop(n.linear(name+".cross.o", y, d, d, InitMatrix)), at(5))

	y = op.GELU(n.linear(name+".up", modulated(6), d, a.MLP*d, InitMatrix))
	return op.Gate(x, n.drop(n.linear(name+".down", y, a.MLP*d, d, InitMatrix)), at(8))
}

// rotaryBase of the steps' rotary positions, as in RoFormer (Su et al. 2021).
const rotaryBase = 10000

// turn gives queries or keys [B*K, H, D] their rotary positions, where the architecture has them.
func (n *network) turn(x *op.Node) *op.Node {
	if !n.arch.Rotary {
		return x
	}
	return op.RoPE(x, n.arch.Heads, rotaryBase, 0)
}

// dropout is switched on in training graphs only.
type dropout struct {
	key    *op.Node // [2] int32: seed and step
	stream uint64   // the next dropout's
}

// drop sets a share of x to zero in training graphs of architectures with dropout.
func (n *network) drop(x *op.Node) *op.Node {
	if n.drops.key == nil {
		return x
	}
	n.drops.stream++
	return op.Dropout(x, n.drops.key, n.arch.Dropout, n.drops.stream)
}
