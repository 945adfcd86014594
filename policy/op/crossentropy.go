package op

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// CrossEntropy returns −Σ mask·log softmax(logits)[id] divided by Σ mask, a bare scalar: logits [..., V], ids Int32 [...] and mask [...] of 0
// and 1. With nothing valid it is 0/0 = NaN; an id outside [0, V) is an error of the run, masked or not. No gradient flows to the mask.
func CrossEntropy(logits, ids, mask *Node) *Node {
	dt := floats("cross entropy", logits, mask)
	s := logits.Shape()
	if len(s) < 2 || ids.Dtype() != Int32 || !same(ids.Shape(), s[:len(s)-1]) || !same(mask.Shape(), ids.Shape()) {
		fail("cross entropy: logits %v, ids %v of %v, mask %v: want [...,V], Int32 [...] and [...]", s, ids.Shape(), ids.Dtype(), mask.Shape())
	}
	v := last(s)
	nodes := []*Node{logits, ids, mask}
	f := &Family{
		Name:    "crossentropy",
		In:      args(nodes, true, true, true),
		Out:     []Result{{Dtype: dt, Reduce: true}},
		Units:   size(ids.Shape()),
		compute: pick(dt, runCrossEntropy[float32](v), runCrossEntropy[float64](v)),
		lower:   one(lowerCrossEntropy),
	}
	f.In[2].Fixed = true
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{crossEntropyGrad(in[0], in[1], in[2], grad), nil, nil}
	}
	return ratio(f.apply(0, nodes...), Sum(mask))
}

// crossEntropyGrad returns grad·mask·(softmax(logits) − onehot(ids)) for a bare scalar grad.
func crossEntropyGrad(logits, ids, mask, grad *Node) *Node {
	dt, v := floats("cross entropy gradient", logits, mask, grad), last(logits.Shape())
	nodes := []*Node{logits, ids, mask, grad}
	f := &Family{
		Name:    "crossentropygrad",
		In:      args(nodes, true, true, true, false),
		Out:     []Result{{Dtype: dt, Shape: logits.Shape()}},
		Units:   size(ids.Shape()),
		compute: pick(dt, runCrossEntropyGrad[float32](v), runCrossEntropyGrad[float64](v)),
		lower:   one(lowerCrossEntropyGrad),
	}
	return f.apply(0, nodes...)
}

// checkID records an error for an id outside [0, v).
func checkID(c *Call, id int32, v int) bool {
	if id < 0 || int(id) >= v {
		c.Fail(fmt.Errorf("cross entropy: id %d is outside [0, %d)", id, v))
		return false
	}
	return true
}

// logSum returns the greatest element of a row and log Σ e^(x − greatest).
func logSum[T kernel.Float](row []T) (top, sum float64) {
	top = math.Inf(-1)
	for _, x := range row {
		top = math.Max(top, float64(x))
	}
	for _, x := range row {
		sum += math.Exp(float64(x) - top)
	}
	return top, math.Log(sum)
}

func runCrossEntropy[T kernel.Float](v int) func(*Call) {
	return func(c *Call) {
		logits, ids, mask := in[T](c, 0), in[int32](c, 1), in[T](c, 2)
		var total float64
		for i, id := range ids {
			if !checkID(c, id, v) {
				return
			}
			row := logits[i*v : (i+1)*v]
			top, sum := logSum(row)
			total += float64(mask[i]) * (top + sum - float64(row[id]))
		}
		out[T](c, 0)[0] += T(total)
	}
}

func runCrossEntropyGrad[T kernel.Float](v int) func(*Call) {
	return func(c *Call) {
		logits, ids, mask, up, y := in[T](c, 0), in[int32](c, 1), in[T](c, 2), float64(in[T](c, 3)[0]), out[T](c, 0)
		for i, id := range ids {
			if !checkID(c, id, v) {
				return
			}
			row, to := logits[i*v:(i+1)*v], y[i*v:(i+1)*v]
			top, sum := logSum(row)
			weight := up * float64(mask[i])
			for j, x := range row {
				to[j] = T(weight * math.Exp(float64(x)-top-sum))
			}
			to[id] -= T(weight)
		}
	}
}

// chosen is 1 where a column is its row's id, else 0.
func chosen(b *hlo.Builder, ids hlo.Value, logits hlo.Value) hlo.Value {
	axis := len(logits.Shape) - 1
	is := b.Compare("EQ", b.Iota(hlo.I32, axis, logits.Shape...), b.Spread(ids, logits.Shape, axesTo(axis)...))
	return b.Convert(is, logits.DType)
}

// lowerLogSoftmax is x − log Σ e^x over the last axis.
func lowerLogSoftmax(b *hlo.Builder, x hlo.Value) hlo.Value {
	axis := len(x.Shape) - 1
	repeat := func(v hlo.Value) hlo.Value { return b.Spread(v, x.Shape, axesTo(axis)...) }
	x = b.Sub(x, repeat(b.Reduce("maximum", x, math.Inf(-1), axis)))
	return b.Sub(x, repeat(b.Unary("log", b.Sum(b.Unary("exponential", x), axis))))
}

func lowerCrossEntropy(b *hlo.Builder, in []hlo.Value) hlo.Value {
	logs := lowerLogSoftmax(b, b.Wide(in[0]))
	axis := len(logs.Shape) - 1
	picked := b.Sum(b.Mul(logs, chosen(b, in[1], logs)), axis)
	return b.Scale(b.Sum(b.Mul(picked, b.Wide(in[2])), axesTo(axis)...), -1)
}

func lowerCrossEntropyGrad(b *hlo.Builder, in []hlo.Value) hlo.Value {
	share := b.Unary("exponential", lowerLogSoftmax(b, b.Wide(b.Again(in[0]))))
	weight := b.Mul(b.Wide(in[2]), b.Spread(in[3], in[2].Shape))
	d := b.Sub(share, chosen(b, in[1], share))
	return b.Convert(b.Mul(d, b.Spread(weight, d.Shape, axesTo(len(d.Shape)-1)...)), in[0].DType)
}
