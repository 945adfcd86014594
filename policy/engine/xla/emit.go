package xla

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Precision says in which element type activations pass from one operation to the next.
type Precision string

const (
	// Full keeps float32 (or the graph's float64) everywhere.
	Full Precision = "float32"
	// BFloat16 passes activations and their gradients on in bfloat16 and multiplies matrices of it, summed in float32. Parameters, their
	// gradients, norms, softmax and losses are computed in float32.
	BFloat16 Precision = "bfloat16"
)

// Options of a compiled graph.
type Options struct {
	Precision Precision // default Full
	// Devices is the number of devices that share the batch: axis 0 of every input that is neither a parameter nor in Whole, which must
	// be a multiple of it. 0 and 1 mean one device.
	Devices int
	// Whole lists inputs that every device sees as a whole, beside parameters and scalars.
	Whole gorgonia.Nodes
	// Shard says what of a training step's state each device keeps only a part of.
	Shard Shard
	// CuDNN lowers attention to cuDNN's flash attention where it takes the shapes. Open's client sets it on GPUs.
	CuDNN bool
	// WeakBarriers says that the platform forgets optimization barriers before it merges equal computations. Open's client sets it on the
	// processor.
	WeakBarriers bool
}

// Shard says what of a training step's state is cut over the devices in place of lying whole on each. Losses and weights stay the same up to
// the order of sums.
type Shard string

const (
	ShardNothing   Shard = "none"  // weights, moments and average on every device
	ShardOptimiser Shard = "zero1" // moments and average are cut (ZeRO stage 1, Rajbhandari et al. 2020)
	ShardWeights   Shard = "fsdp"  // weights too; a step gathers them before it uses them
)

// Check reports a word that means nothing.
func (s Shard) Check() error {
	if s != "" && s != ShardNothing && s != ShardOptimiser && s != ShardWeights {
		return fmt.Errorf("shard %q: want %s, %s or %s", s, ShardNothing, ShardOptimiser, ShardWeights)
	}
	return nil
}

func (o Options) fill() (Options, error) {
	if o.Precision == "" {
		o.Precision = Full
	}
	if o.Shard == "" {
		o.Shard = ShardNothing
	}
	if err := o.Shard.Check(); err != nil {
		return o, err
	}
	if o.Precision != Full && o.Precision != BFloat16 {
		return o, fmt.Errorf("precision %q: want %q or %q", o.Precision, Full, BFloat16)
	}
	o.Devices = max(o.Devices, 1)
	return o, nil
}

// builder starts a function.
func (o Options) builder() *hlo.Builder {
	b := hlo.New(hlo.F32)
	if o.Precision == BFloat16 {
		b.Act = hlo.BF16
	}
	b.CuDNN, b.Shards = o.CuDNN, o.Devices
	return b
}

// Argument describes one argument of a module: an input of the graph.
type Argument struct {
	Node  *gorgonia.Node
	Name  string
	DType tensor.Dtype
	Shape []int // of the whole, empty for a scalar
	Cut   bool  // each device gets its part along axis 0
	// Below is the number of rows of the table that the elements, which are ids, look up; 0 for other inputs.
	Below int
}

// Len is the number of elements of the whole.
func (a Argument) Len() int {
	n := 1
	for _, d := range a.Shape {
		n *= d
	}
	return n
}

// graphWriter writes the computation of nodes into a function.
type graphWriter struct {
	b      *hlo.Builder
	values map[int64]hlo.Value // by node id
	inputs []*gorgonia.Node
	below  map[int64]int
	steps  []*step
	byKey  map[string]*step
	seen   map[int64]bool
	remat  *remat // nil: every value of the forward pass stays until the backward pass has read it
}

// step is one run of a family, as in the planned executor: one node, or several that are its results.
type step struct {
	family *op.Family
	in     []*gorgonia.Node
	out    []*gorgonia.Node // nil where nobody wants the result
}

func newGraphWriter(b *hlo.Builder) *graphWriter {
	return &graphWriter{b: b, values: map[int64]hlo.Value{}, below: map[int64]int{}, byKey: map[string]*step{}, seen: map[int64]bool{}}
}

// collect lists the steps and inputs that the outputs depend on, each step after what it reads.
func (w *graphWriter) collect(outputs gorgonia.Nodes) error {
	for _, n := range outputs {
		if err := w.visit(n); err != nil {
			return err
		}
	}
	return nil
}

func (w *graphWriter) visit(n *gorgonia.Node) error {
	if w.seen[n.ID()] {
		return nil
	}
	w.seen[n.ID()] = true
	if n.Op() == nil {
		w.inputs = append(w.inputs, n)
		return nil
	}
	if _, ok := n.Op().(interface{ Value() gorgonia.Value }); ok {
		return nil
	}
	var in []*gorgonia.Node
	key := &strings.Builder{}
	for children := n.Graph().From(n.ID()); children.Next(); {
		child := children.Node().(*gorgonia.Node)
		if err := w.visit(child); err != nil {
			return err
		}
		in = append(in, child)
		fmt.Fprintf(key, "%d ", child.ID())
	}
	f, index, err := familyOf(n, in)
	if err != nil {
		return err
	}
	key.WriteString(f.Key())
	s := w.byKey[key.String()]
	if s == nil {
		s = &step{family: f, in: in, out: make([]*gorgonia.Node, len(f.Out))}
		w.byKey[key.String()] = s
		w.steps = append(w.steps, s)
	}
	s.out[index] = n
	if f.Name == "embedding" && in[1].Op() == nil {
		w.below[in[1].ID()] = f.In[0].Shape[0]
	}
	return nil
}

// familyOf returns the family and result that a node stands for. gorgonia's additions, which Grad inserts, have no exported type; they
// print as "+ false".
func familyOf(n *gorgonia.Node, in []*gorgonia.Node) (*op.Family, int, error) {
	if o, ok := n.Op().(op.Op); ok {
		return o.Family, o.Index, nil
	}
	if b, ok := n.Op().(gorgonia.BinaryOp); ok && b.String() == "+ false" && slices.Equal(in[0].Shape(), in[1].Shape()) {
		return op.Addition(n.Dtype(), shapeOf(n)), 0, nil
	}
	return nil, 0, fmt.Errorf("node %q: operation %v (%T) is none of package op", n.Name(), n.Op(), n.Op())
}

// shapeOf is a node's shape, empty for a bare scalar.
func shapeOf(n *gorgonia.Node) tensor.Shape {
	if n.IsScalar() {
		return nil
	}
	return n.Shape()
}

// write writes all steps; inputs must have values.
func (w *graphWriter) write() error {
	if w.remat != nil {
		w.remat.plan(w)
	}
	for _, s := range w.steps {
		in := make([]hlo.Value, len(s.in))
		for i, n := range s.in {
			var err error
			if in[i], err = w.value(n); err != nil {
				return err
			}
		}
		if w.remat != nil {
			if err := w.remat.replace(w, s, in); err != nil {
				return err
			}
		}
		out, err := s.lower(w.b, in)
		if err != nil {
			return err
		}
		for i, n := range s.out {
			if n != nil {
				w.values[n.ID()] = out[i]
			}
		}
	}
	return nil
}

// lower writes the results of a step that somebody wants.
func (s *step) lower(b *hlo.Builder, in []hlo.Value) ([]hlo.Value, error) {
	want := make([]bool, len(s.out))
	for i, n := range s.out {
		want[i] = n != nil
	}
	return s.family.Lower(b, in, want)
}

// value is what was written for a node. Constants are written where they are first read.
func (w *graphWriter) value(n *gorgonia.Node) (hlo.Value, error) {
	if v, ok := w.values[n.ID()]; ok {
		return v, nil
	}
	c, ok := n.Op().(interface{ Value() gorgonia.Value })
	if !ok {
		return hlo.Value{}, fmt.Errorf("node %q was not given a value", n.Name())
	}
	dt, err := op.HLOType(n.Dtype())
	if err != nil {
		return hlo.Value{}, fmt.Errorf("constant %q: %w", n.Name(), err)
	}
	var v float64
	switch d := c.Value().Data().(type) {
	case float32:
		v = float64(d)
	case float64:
		v = d
	default:
		return hlo.Value{}, fmt.Errorf("constant %q holds %T; want a scalar of Float32 or Float64", n.Name(), d)
	}
	w.values[n.ID()] = w.b.Scalar(dt, v)
	return w.values[n.ID()], nil
}

// argument describes an input node.
func (w *graphWriter) argument(n *gorgonia.Node, o Options, whole bool) (Argument, error) {
	a := Argument{Node: n, Name: n.Name(), DType: n.Dtype(), Shape: shapeOf(n), Below: w.below[n.ID()]}
	a.Cut = o.Devices > 1 && !whole && len(a.Shape) > 0 && !slices.Contains(o.Whole, n)
	if a.Cut && a.Shape[0]%o.Devices != 0 {
		return a, fmt.Errorf("input %q of shape %v: axis 0 does not divide into %d devices", n.Name(), a.Shape, o.Devices)
	}
	return a, nil
}

// bind adds an argument of the function for an input node.
func (w *graphWriter) bind(a Argument, o Options, attributes ...string) error {
	dt, err := op.HLOType(a.DType)
	if err != nil {
		return fmt.Errorf("input %q: %w", a.Node.Name(), err)
	}
	w.values[a.Node.ID()] = w.b.Argument(strings.Join(append(attributes, o.sharding(len(a.Shape), a.Cut)...), ", "), dt, a.Shape...)
	return nil
}

// sharding is the attribute that says how a value lies on the devices; none for one device.
func (o Options) sharding(rank int, cut bool) []string {
	if o.Devices == 1 {
		return nil
	}
	return []string{"sdy.sharding = #sdy.sharding" + hlo.Sharding(rank, cut)}
}

// module wraps functions into a module.
func (o Options) module(name string, functions ...string) string {
	mesh := ""
	if o.Devices > 1 {
		mesh = fmt.Sprintf("  sdy.mesh @%s = <[%q=%d]>\n", hlo.Mesh, hlo.Axis, o.Devices)
	}
	return fmt.Sprintf("module @%s attributes {mhlo.num_partitions = %d : i32, mhlo.num_replicas = 1 : i32} {\n%s%s}\n", name, o.Devices, mesh, strings.Join(functions, ""))
}

// Module is a program's text and the meaning of its arguments and results.
type Module struct {
	Text      string
	Options   Options
	Arguments []Argument
	Outputs   gorgonia.Nodes
}

// Emit writes the computation of the outputs. Results come back in the graph's element types.
func Emit(outputs gorgonia.Nodes, o Options) (*Module, error) {
	o, err := o.fill()
	if err != nil {
		return nil, err
	}
	w := newGraphWriter(o.builder())
	if err := w.collect(outputs); err != nil {
		return nil, fmt.Errorf("write graph: %w", err)
	}
	m := &Module{Options: o, Outputs: outputs}
	for _, n := range w.inputs {
		a, err := w.argument(n, o, false)
		if err != nil {
			return nil, fmt.Errorf("write graph: %w", err)
		}
		if err := w.bind(a, o); err != nil {
			return nil, fmt.Errorf("write graph: %w", err)
		}
		m.Arguments = append(m.Arguments, a)
	}
	if err := w.write(); err != nil {
		return nil, fmt.Errorf("write graph: %w", err)
	}
	results, attributes := make([]hlo.Value, len(outputs)), make([]string, len(outputs))
	for i, n := range outputs {
		v, err := w.value(n)
		if err != nil {
			return nil, fmt.Errorf("write graph: %w", err)
		}
		dt, err := op.HLOType(n.Dtype())
		if err != nil {
			return nil, fmt.Errorf("write graph: output %q: %w", n.Name(), err)
		}
		results[i] = w.b.Convert(v, dt)
		attributes[i] = strings.Join(o.sharding(len(v.Shape), false), "")
	}
	m.Text = o.module("graph", w.b.Function("main", attributes, results...))
	return m, nil
}
