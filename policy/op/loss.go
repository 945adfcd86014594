package op

import (
	"slices"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// MaskedMSE returns Σ mask·(pred − target)² divided by the number of valid scalars, a bare scalar. pred and target have one shape; mask,
// of 0 and 1, has that shape or its leading axes (an axis of one element may follow them), and then one mask value covers a whole row.
// With nothing valid the loss is 0/0 = NaN. No gradient flows to the mask.
func MaskedMSE(pred, target, mask *Node) *Node {
	dt := floats("masked mse", pred, target, mask)
	if !same(pred.Shape(), target.Shape()) || pred.Dims() < 1 {
		fail("masked mse: pred %v and target %v: want one shape of at least one axis", pred.Shape(), target.Shape())
	}
	per := maskPer(pred.Shape(), mask.Shape())
	nodes := []*Node{pred, target, mask}
	f := &Family{
		Name:    "squarederror",
		In:      args(nodes, true, true, true),
		Out:     []Result{{Dtype: dt, Reduce: true}},
		Units:   size(mask.Shape()),
		compute: pick(dt, runSquaredError[float32](per), runSquaredError[float64](per)),
		lower: one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
			d, m := maskedDifference(b, in, per)
			return b.Sum(b.Mul(m, b.Mul(d, d)), axesTo(len(d.Shape))...)
		}),
	}
	f.In[2].Fixed = true
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		d := squaredErrorGrad(in[0], in[1], in[2], grad, per)
		return gorgonia.Nodes{d, Scale(d, -1), nil}
	}
	count := Scale(Sum(mask), float64(per))
	return ratio(f.apply(0, nodes...), count)
}

// maskPer returns how many scalars of pred one element of the mask covers.
func maskPer(pred, mask tensor.Shape) int {
	lead := slices.Clone(mask)
	for len(lead) > 0 && !(len(lead) <= len(pred) && same(lead, pred[:len(lead)])) {
		if last(lead) != 1 {
			break
		}
		lead = lead[:len(lead)-1]
	}
	if len(lead) == 0 || len(lead) > len(pred) || !same(lead, pred[:len(lead)]) {
		fail("masked mse: pred %v and mask %v: want the same shape, or pred's leading axes", pred, mask)
	}
	return size(pred) / size(lead)
}

func runSquaredError[T kernel.Float](per int) func(*Call) {
	return func(c *Call) { out[T](c, 0)[0] += T(kernel.SquaredError(in[T](c, 0), in[T](c, 1), in[T](c, 2), per)) }
}

// squaredErrorGrad returns 2·grad·mask·(pred − target) for a bare scalar grad.
func squaredErrorGrad(pred, target, mask, grad *Node, per int) *Node {
	nodes := []*Node{pred, target, mask, grad}
	dt := floats("squarederrorgrad", nodes...)
	f := &Family{
		Name:    "squarederrorgrad",
		In:      args(nodes, true, true, true, false),
		Out:     []Result{{Dtype: dt, Shape: pred.Shape()}},
		Units:   size(mask.Shape()),
		compute: pick(dt, runSquaredErrorGrad[float32](per), runSquaredErrorGrad[float64](per)),
		lower: one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
			d, m := maskedDifference(b, in, per)
			return b.Convert(b.Mul(b.Mul(m, d), b.Spread(b.Scale(in[3], 2), d.Shape)), in[0].DType)
		}),
	}
	return f.apply(0, nodes...)
}

func runSquaredErrorGrad[T kernel.Float](per int) func(*Call) {
	return func(c *Call) {
		kernel.SquaredErrorGrad(out[T](c, 0), in[T](c, 0), in[T](c, 1), in[T](c, 2), per, 2*in[T](c, 3)[0])
	}
}

// ratio returns a/b for bare scalars. No gradient flows to b.
func ratio(a, b *Node) *Node {
	nodes := []*Node{a, b}
	dt := floats("ratio", nodes...)
	f := &Family{
		Name:    "ratio",
		In:      args(nodes, false, false),
		Out:     []Result{{Dtype: dt}},
		Units:   1,
		compute: pick(dt, runRatio[float32], runRatio[float64]),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Div(in[0], in[1]) }),
	}
	f.In[1].Fixed = true
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes { return gorgonia.Nodes{ratio(grad, in[1]), nil} }
	return f.apply(0, nodes...)
}

func runRatio[T kernel.Float](c *Call) { out[T](c, 0)[0] = in[T](c, 0)[0] / in[T](c, 1)[0] }

// maskedDifference is pred − target and the mask, repeated to their shape: each element of the mask covers per scalars.
func maskedDifference(b *hlo.Builder, in []hlo.Value, per int) (difference, mask hlo.Value) {
	difference, mask = b.Sub(b.Wide(in[0]), b.Wide(in[1])), b.Wide(in[2])
	shape := difference.Shape
	lead := len(shape)
	for n := 1; n < per; lead-- {
		n *= shape[lead-1]
	}
	return difference, b.Spread(b.Reshape(mask, shape[:lead]...), shape, axesTo(lead)...)
}
