package op

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Embedding looks up rows of a table: table [V, D], ids Int32 [...], result [..., D]. An id outside [0, V) is an error of the run.
func Embedding(table, ids *Node) *Node {
	if table.Dims() != 2 || ids.Dims() < 1 || ids.Dtype() != Int32 {
		fail("embedding: table %v and ids %v of %v: want [V,D] and Int32 ids of at least one axis", table.Shape(), ids.Shape(), ids.Dtype())
	}
	dt := floats("embedding", table)
	v, d := table.Shape()[0], table.Shape()[1]
	f := &Family{
		Name:    "embedding",
		In:      args([]*Node{table, ids}, false, true),
		Out:     []Result{{Dtype: dt, Shape: append(ids.Shape(), d)}},
		Units:   size(ids.Shape()),
		compute: pick(dt, runEmbedding[float32](v, d), runEmbedding[float64](v, d)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.Narrow(b.Rows(in[0], in[1])) }),
	}
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{embeddingGrad(in[1], grad, v), nil}
	}
	return f.apply(0, table, ids)
}

func runEmbedding[T kernel.Float](v, d int) func(*Call) {
	return func(c *Call) {
		table, ids, y := in[T](c, 0), in[int32](c, 1), out[T](c, 0)
		for i, id := range ids {
			if id < 0 || int(id) >= v {
				c.Fail(fmt.Errorf("embedding: id %d at element %d is outside the table's [0, %d)", id, c.First*len(ids)/c.Count+i, v))
				return
			}
			copy(y[i*d:(i+1)*d], table[int(id)*d:])
		}
	}
}

// embeddingGrad adds each row of grad into the row of a [v, D] table that its id names.
func embeddingGrad(ids, grad *Node, v int) *Node {
	dt, d := grad.Dtype(), last(grad.Shape())
	f := &Family{
		Name:    "embeddinggrad",
		In:      args([]*Node{ids, grad}, true, true),
		Out:     []Result{{Dtype: dt, Shape: tensor.Shape{v, d}, Reduce: true}},
		Units:   size(ids.Shape()),
		compute: pick(dt, runEmbeddingGrad[float32](v, d), runEmbeddingGrad[float64](v, d)),
		lower:   one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return b.AddRows(v, in[0], b.Wide(in[1])) }),
	}
	return f.apply(0, ids, grad)
}

func runEmbeddingGrad[T kernel.Float](v, d int) func(*Call) {
	return func(c *Call) {
		ids, grad, table := in[int32](c, 0), in[T](c, 1), out[T](c, 0)
		for i, id := range ids {
			if id < 0 || int(id) >= v {
				c.Fail(fmt.Errorf("embedding gradient: id %d is outside the table's [0, %d)", id, v))
				return
			}
			kernel.SumTo(table[int(id)*d:], 0, 1, grad[i*d:], 1, d)
		}
	}
}
