package policy

// Cost counts what a network takes, from its architecture alone.
type Cost struct {
	Parameters   float64 // scalars
	ForwardFLOPs float64 // of one sample with one noise draw: 2 for each weight and token of linear layers, and of both products of attention
	Activations  float64 // numbers that the backward pass needs of one sample, about
}

// TrainFLOPs is forward and backward pass of one sample: the backward pass costs twice the forward.
func (c Cost) TrainFLOPs() float64 { return 3 * c.ForwardFLOPs }

// Measure counts parameters, operations and activations.
func Measure(s Spec, a Architecture, draws int) (Cost, error) {
	info, err := Layout(s, a)
	if err != nil {
		return Cost{}, err
	}
	c := Cost{}
	for _, p := range info {
		c.Parameters += float64(p.Len())
	}
	f := func(n int) float64 { return float64(n) }
	block := func(tokens, dim, hidden float64) float64 { // four projections, the MLP, two attention products
		return tokens*(4*dim*dim+2*dim*hidden) + 2*tokens*tokens*dim
	}
	cols, rows := a.grid(s)
	images, n, d := f(len(s.Cameras)*s.frames()), f(cols*rows), f(a.Dim)
	vision, text := f(a.VisionDim), f(a.TextDim)
	seen := n + f(a.VisionTokens)
	t, h, context := f(s.Prompt.MaxTokens), f(s.Horizon*draws), f(a.contextTokens(s))
	sum := images * (n*f(a.patchDim())*vision + f(a.VisionDepth)*block(seen, vision, f(a.visionHidden())) + n*vision*d)
	sum += f(a.TextDepth)*block(t, text, f(a.textHidden())) + t*text*d
	sum += f(s.frames()) * (f(s.StateDim())*d + d*d)
	times := f(a.times(s) * draws)
	sum += times * (f(a.TimeDim)*d + d*d + 2*d*d)
	modulation := f(modulations) * times * d * d
	if a.OwnModulation {
		modulation *= f(a.Depth)
	}
	sum += modulation
	sum += f(a.Depth) * (h*(6+2*f(a.MLP))*d*d + 2*context*d*d + 2*h*f(s.Horizon)*d + 2*h*context*d)
	sum += 2 * h * f(s.ActionDim()) * d
	c.ForwardFLOPs = 2 * sum
	// A block keeps its two norms, q, k, v, the attention's result and both sides of the MLP's activation.
	c.Activations = images*f(a.VisionDepth)*seen*(8*vision+2*f(a.visionHidden())) + f(a.TextDepth)*t*(8*text+2*f(a.textHidden())) +
		f(a.Depth)*(h*(14+2*f(a.MLP))*d+2*context*d) + images*n*f(a.patchDim()) + modulation/d
	return c, nil
}
