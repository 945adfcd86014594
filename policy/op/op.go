// Package op holds the differentiable operations that policies are made of. Each implements gorgonia's Op and SDOp interfaces: it has a
// CPU kernel, a symbolic gradient made of operations of this package, and a lowering to StableHLO, all three in the operation's file.
//
// Graph functions take nodes and return nodes. They check shapes at the door and panic; Build turns such a panic into an error, so a
// model is built as
//
//	err := op.Build(func() {
//		x := op.Input(g, op.Float32, "x", 64, 16, 32)
//		w := op.Param(g, op.Float32, "w", 32, 8)
//		loss := op.MaskedMSE(op.Linear(x, w, nil), target, mask)
//		grads = op.Grad(loss, w)
//	})
//
// Floating tensors are all Float32 or all Float64. Shapes are fixed when the graph is built. Where axis 0 is the batch, keep it axis 0:
// an operation says which inputs are cut along it, and an engine runs a chain of such operations block by block of samples.
package op

import (
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/chewxy/hm"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Node is a value in a graph.
type Node = gorgonia.Node

// Element types of nodes.
var (
	Float32 = tensor.Float32
	Float64 = tensor.Float64
	Int32   = tensor.Int32 // ids and keys
	Bool    = tensor.Bool  // masks
)

// Family is one computation with one or more results. Most have one; where one pass gives several (attention and its weights, the
// gradients of a linear layer) each result is a node of its own with an Op of the same family, and an engine computes them together.
type Family struct {
	Name  string
	Attrs string // every attribute that changes the result, written out: part of the hash
	In    []Arg
	Out   []Result
	// Units is the number of equal parts into which the computation may be cut; any divisor of it will do too. Part i of every split
	// input and output is the i-th run of elements in memory order.
	Units int
	// View says that the one output is the first input's memory under another shape.
	View bool

	compute func(*Call)
	lower   lowering
	// grad returns the gradient for each input, nil for those that have none. It is nil if the operation is not differentiable.
	grad func(in gorgonia.Nodes, out, grad *Node) gorgonia.Nodes
	salt int // tells apart two nodes whose hashes collide
}

// Arg describes one input of a family.
type Arg struct {
	Dtype tensor.Dtype
	Shape tensor.Shape // empty for a bare scalar
	Split bool         // cut into parts along with the computation; if not, every part reads the whole
	Fixed bool         // no gradient flows to it, although its elements are floats (masks, targets)
}

// Result describes one output of a family.
type Result struct {
	Dtype tensor.Dtype
	Shape tensor.Shape // empty for a bare scalar
	// Reduce says that every part of the computation adds to the whole output, which starts at zero; if not, each part writes its own part.
	Reduce bool
}

// Op is one result of a family, as gorgonia's Op.
type Op struct {
	*Family
	Index int // which result
}

// Call is one run of a family over parts [First, First+Count) of its Units.
type Call struct {
	Worker              *kernel.Worker
	In                  []kernel.Buffer // cut to the parts where split
	Out                 []kernel.Buffer // cut to the parts unless reduced; zero where nobody wants the result
	First, Count, Units int
	err                 error
}

// Fail records the first error of a call, such as an index out of range.
func (c *Call) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
}

// Err returns the error recorded by Fail and clears it.
func (c *Call) Err() error {
	err := c.err
	c.err = nil
	return err
}

// wants reports whether result i is to be computed.
func (c *Call) wants(i int) bool { return !c.Out[i].IsZero() }

func in[T any](c *Call, i int) []T  { return kernel.View[T](c.In[i]) }
func out[T any](c *Call, i int) []T { return kernel.View[T](c.Out[i]) }

// Compute runs the family's kernel.
func (f *Family) Compute(c *Call) {
	c.Worker.Reset()
	f.compute(c)
}

// pick returns the kernel for an element type.
func pick(dt tensor.Dtype, f32, f64 func(*Call)) func(*Call) {
	if dt == Float64 {
		return f64
	}
	return f32
}

// graphError is what graph functions panic with and Build returns.
type graphError struct{ err error }

func (e graphError) Error() string { return e.err.Error() }
func (e graphError) Unwrap() error { return e.err }

func fail(format string, args ...any) { panic(graphError{fmt.Errorf(format, args...)}) }

// Build runs f, which calls graph functions, and returns the error with which one of them gave up. Other panics pass through.
func Build(f func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case graphError:
			err = fmt.Errorf("build graph: %w", r.err)
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// Input adds a named input of the given element type and shape to g; no shape makes a bare scalar. It fails if the name is taken, since
// gorgonia would silently merge two inputs of equal name, type and shape.
func Input(g *gorgonia.ExprGraph, dt tensor.Dtype, name string, shape ...int) *Node {
	if name == "" {
		fail("an input of shape %v has no name", shape)
	}
	if len(g.ByName(name)) > 0 {
		fail("the graph already has a node named %q; give each input a name of its own", name)
	}
	for axis, n := range shape {
		if n <= 0 {
			fail("input %q of shape %v: axis %d has no elements", name, shape, axis)
		}
	}
	if len(shape) == 0 {
		return gorgonia.NewScalar(g, dt, gorgonia.WithName(name))
	}
	return gorgonia.NewTensor(g, dt, len(shape), gorgonia.WithShape(shape...), gorgonia.WithName(name))
}

// Param adds a named trainable input; it is Input under the name that tells a reader what it is for.
func Param(g *gorgonia.ExprGraph, dt tensor.Dtype, name string, shape ...int) *Node {
	return Input(g, dt, name, shape...)
}

// Grad returns the gradient of a bare scalar cost with respect to each parameter, in order. Call it once per graph with every parameter:
// gorgonia keeps the gradient of each node and would build on it.
func Grad(cost *Node, params ...*Node) []*Node {
	if !cost.IsScalar() {
		fail("gradient of a cost of shape %v: the cost must be a bare scalar, as MaskedMSE, Sum and Mean give", cost.Shape())
	}
	grads, err := gorgonia.Grad(cost, params...)
	if err != nil {
		fail("gradient: %w", err)
	}
	return grads
}

// apply adds result i of f over the children to their graph.
func (f *Family) apply(i int, children ...*Node) *Node {
	for salt := 0; ; salt++ {
		n, err := gorgonia.ApplyOp(Op{f, i}, children...)
		if err != nil {
			fail("%s: %w", f.Name, err)
		}
		if sameChildren(n, children) {
			return n
		}
		// gorgonia took an older node of equal 32-bit hash and equal op for this one without looking at its children. Hash differently.
		copied := *f
		copied.salt = salt + 1
		f = &copied
	}
}

func sameChildren(n *Node, children []*Node) bool {
	have := n.Graph().From(n.ID())
	for _, c := range children {
		if !have.Next() || have.Node().ID() != c.ID() {
			return false
		}
	}
	return true
}

// args describes nodes as inputs; split says which are cut.
func args(nodes []*Node, split ...bool) []Arg {
	list := make([]Arg, len(nodes))
	for i, n := range nodes {
		list[i] = Arg{Dtype: n.Dtype(), Shape: n.Shape(), Split: split[i]}
	}
	return list
}

// floats checks that every given node is of one floating element type, and returns it.
func floats(name string, nodes ...*Node) tensor.Dtype {
	dt := nodes[0].Dtype()
	if dt != Float32 && dt != Float64 {
		fail("%s: wants Float32 or Float64, not %v", name, dt)
	}
	for _, n := range nodes {
		if n != nil && n.Dtype() != dt {
			fail("%s: element types %v and %v differ", name, dt, n.Dtype())
		}
	}
	return dt
}

// Arity implements gorgonia.Op.
func (o Op) Arity() int { return len(o.In) }

// Type implements gorgonia.Op. The type is concrete, with the ranks written out, since hm types have no rank polymorphism.
func (o Op) Type() hm.Type {
	types := make([]hm.Type, 0, len(o.In)+1)
	for _, a := range o.In {
		types = append(types, typeOf(a.Dtype, a.Shape))
	}
	types = append(types, typeOf(o.Out[o.Index].Dtype, o.Out[o.Index].Shape))
	return hm.NewFnType(types...)
}

func typeOf(dt tensor.Dtype, shape tensor.Shape) hm.Type {
	if len(shape) == 0 {
		return dt
	}
	return gorgonia.TensorType{Dims: len(shape), Of: dt}
}

// InferShape implements gorgonia.Op. It checks that the inputs have the shapes that the op was made for.
func (o Op) InferShape(inputs ...gorgonia.DimSizer) (tensor.Shape, error) {
	if len(inputs) != len(o.In) {
		return nil, fmt.Errorf("%s: %d inputs given, %d wanted", o.Name, len(inputs), len(o.In))
	}
	for i, in := range inputs {
		if s, ok := in.(tensor.Shape); !ok || !same(s, o.In[i].Shape) {
			return nil, fmt.Errorf("%s: input %d has shape %v, not %v", o.Name, i, in, o.In[i].Shape)
		}
	}
	return o.Out[o.Index].Shape.Clone(), nil
}

// ReturnsPtr implements gorgonia.Op. Together with CallsExtern it makes gorgonia's machines call UsePreallocDo.
func (o Op) ReturnsPtr() bool { return true }

// CallsExtern implements gorgonia.Op.
func (o Op) CallsExtern() bool { return true }

// OverwritesInput implements gorgonia.Op: no input is overwritten.
func (o Op) OverwritesInput() int { return -1 }

// Key names a family by everything that decides its results: two families of equal keys compute the same from the same inputs.
func (f *Family) Key() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pinch:%s[%s]~%d", f.Name, f.Attrs, f.salt)
	for _, a := range f.In {
		fmt.Fprintf(&b, "|%v%v", a.Dtype, []int(a.Shape))
	}
	for _, r := range f.Out {
		fmt.Fprintf(&b, ">%v%v", r.Dtype, []int(r.Shape))
	}
	return b.String()
}

// WriteHash implements gorgonia.Op: every attribute, shape and element type counts, so that ops that differ never merge.
func (o Op) WriteHash(h hash.Hash) { fmt.Fprintf(h, "%s#%d", o.Key(), o.Index) }

// Hashcode implements gorgonia.Op.
func (o Op) Hashcode() uint32 {
	h := fnv.New32a()
	o.WriteHash(h)
	return h.Sum32()
}

// String names the operation, its attributes and, beyond the first, the result.
func (o Op) String() string {
	s := o.Name
	if o.Attrs != "" {
		s += "[" + o.Attrs + "]"
	}
	if o.Index > 0 {
		s += fmt.Sprintf("#%d", o.Index)
	}
	return s
}

// DiffWRT implements gorgonia.SDOp.
func (o Op) DiffWRT(int) []bool {
	which := make([]bool, len(o.In))
	for i, a := range o.In {
		which[i] = o.grad != nil && o.Index == 0 && !a.Fixed && (a.Dtype == Float32 || a.Dtype == Float64)
	}
	return which
}

// SymDiff implements gorgonia.SDOp.
func (o Op) SymDiff(inputs gorgonia.Nodes, output, grad *Node) (grads gorgonia.Nodes, err error) {
	if o.grad == nil || o.Index != 0 {
		return nil, fmt.Errorf("%v is not differentiable", o)
	}
	err = Build(func() { grads = o.grad(inputs, output, grad) })
	return grads, err
}

// same reports whether two shapes are equal, axis by axis. (tensor.Shape.Eq takes [n] and [n, 1] for equal.)
func same(a, b tensor.Shape) bool { return slices.Equal(a, b) }

// size returns the number of elements of a shape.
func size(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// last returns the size of the last axis.
func last(shape []int) int { return shape[len(shape)-1] }
