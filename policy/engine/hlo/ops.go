package hlo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Convert changes the element type.
func (b *Builder) Convert(x Value, dt DType) Value {
	if x.DType == dt {
		return x
	}
	return b.emit(dt, x.Shape, "stablehlo.convert %s : (%s) -> %s", x.name, x.Type(), typeText(dt, x.Shape))
}

// Wide is x in the element type in which an operation computes: float32 for bfloat16.
func (b *Builder) Wide(x Value) Value {
	if x.DType == BF16 {
		return b.Convert(x, F32)
	}
	return x
}

// Narrow is x as an activation.
func (b *Builder) Narrow(x Value) Value {
	if x.DType == F32 {
		return b.Convert(x, b.Act)
	}
	return x
}

// Join is the element type of what is made of several values element by element: BF16 if one is, so that a parameter added to an
// activation gives an activation.
func Join(xs ...Value) DType {
	for _, x := range xs {
		if x.DType == BF16 {
			return BF16
		}
	}
	return xs[0].DType
}

// Unary applies a StableHLO function of one argument by name, such as "tanh" or "rsqrt".
func (b *Builder) Unary(name string, x Value) Value {
	return b.emit(x.DType, x.Shape, "stablehlo.%s %s : %s", name, x.name, x.Type())
}

// Binary applies a StableHLO function of two arguments of one type by name, such as "add" or "maximum".
func (b *Builder) Binary(name string, x, y Value) Value {
	if x.DType != y.DType || !slices.Equal(x.Shape, y.Shape) {
		panic(fmt.Sprintf("hlo: %s of %s and %s", name, x.Type(), y.Type()))
	}
	return b.emit(x.DType, x.Shape, "stablehlo.%s %s, %s : %s", name, x.name, y.name, x.Type())
}

// Add returns x + y.
func (b *Builder) Add(x, y Value) Value { return b.Binary("add", x, y) }

// Sub returns x − y.
func (b *Builder) Sub(x, y Value) Value { return b.Binary("subtract", x, y) }

// Mul returns x·y element by element.
func (b *Builder) Mul(x, y Value) Value { return b.Binary("multiply", x, y) }

// Div returns x/y element by element.
func (b *Builder) Div(x, y Value) Value { return b.Binary("divide", x, y) }

// Scale returns c·x.
func (b *Builder) Scale(x Value, c float64) Value { return b.Mul(x, b.Splat(x.DType, c, x.Shape...)) }

// Shift returns x + c.
func (b *Builder) Shift(x Value, c float64) Value { return b.Add(x, b.Splat(x.DType, c, x.Shape...)) }

// Compare compares element by element: EQ, NE, LT, LE, GT or GE.
func (b *Builder) Compare(direction string, x, y Value) Value {
	kind := "FLOAT"
	switch {
	case x.DType == U32 || x.DType == U64 || x.DType == I1:
		kind = "UNSIGNED"
	case !x.DType.Float():
		kind = "SIGNED"
	}
	return b.emit(I1, x.Shape, "stablehlo.compare %s, %s, %s, %s : (%s, %s) -> %s", direction, x.name, y.name, kind, x.Type(), y.Type(), typeText(I1, x.Shape))
}

// Select is x where the predicate holds, else y. The predicate is a scalar or of x's shape.
func (b *Builder) Select(p, x, y Value) Value {
	return b.emit(x.DType, x.Shape, "stablehlo.select %s, %s, %s : %s, %s", p.name, x.name, y.name, p.Type(), x.Type())
}

// Spread is broadcast_in_dim: axis i of x becomes axis axes[i] of the result.
func (b *Builder) Spread(x Value, shape []int, axes ...int) Value {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	return b.emit(x.DType, slices.Clone(shape), "stablehlo.broadcast_in_dim %s, dims = %s : (%s) -> %s", x.name, list(axes), x.Type(), typeText(x.DType, shape))
}

// BroadcastTo repeats x by numpy's rule: axes are aligned at the last, an axis of one element or a missing axis repeats.
func (b *Builder) BroadcastTo(x Value, shape []int) Value {
	axes := make([]int, len(x.Shape))
	for i := range axes {
		axes[i] = len(shape) - len(x.Shape) + i
	}
	return b.Spread(x, shape, axes...)
}

// Reshape gives the elements another shape.
func (b *Builder) Reshape(x Value, shape ...int) Value {
	if slices.Equal(x.Shape, shape) {
		return x
	}
	if (Value{Shape: shape}).Size() != x.Size() {
		panic(fmt.Sprintf("hlo: reshape of %s to %v", x.Type(), shape))
	}
	return b.emit(x.DType, slices.Clone(shape), "stablehlo.reshape %s : (%s) -> %s", x.name, x.Type(), typeText(x.DType, shape))
}

// Transpose reorders the axes: axis i of the result is axis perm[i] of x.
func (b *Builder) Transpose(x Value, perm ...int) Value {
	shape := make([]int, len(perm))
	for i, axis := range perm {
		shape[i] = x.Shape[axis]
	}
	return b.emit(x.DType, shape, "stablehlo.transpose %s, dims = %s : (%s) -> %s", x.name, list(perm), x.Type(), typeText(x.DType, shape))
}

// Slice returns elements [from, to) of one axis.
func (b *Builder) Slice(x Value, axis, from, to int) Value {
	parts, shape := make([]string, len(x.Shape)), slices.Clone(x.Shape)
	for i, n := range x.Shape {
		parts[i] = fmt.Sprintf("0:%d", n)
	}
	parts[axis], shape[axis] = fmt.Sprintf("%d:%d", from, to), to-from
	return b.emit(x.DType, shape, "stablehlo.slice %s [%s] : (%s) -> %s", x.name, strings.Join(parts, ", "), x.Type(), typeText(x.DType, shape))
}

// Concat joins values along an axis.
func (b *Builder) Concat(axis int, xs ...Value) Value {
	if len(xs) == 1 {
		return xs[0]
	}
	shape := slices.Clone(xs[0].Shape)
	shape[axis] = 0
	names, types := make([]string, len(xs)), make([]string, len(xs))
	for i, x := range xs {
		names[i], types[i] = x.name, x.Type()
		shape[axis] += x.Shape[axis]
	}
	return b.emit(xs[0].DType, shape, "stablehlo.concatenate %s, dim = %d : (%s) -> %s", strings.Join(names, ", "), axis, strings.Join(types, ", "), typeText(xs[0].DType, shape))
}

// Pad puts zeros around x along one axis.
func (b *Builder) Pad(x Value, axis, before, after int) Value {
	low, high, interior := make([]int, len(x.Shape)), make([]int, len(x.Shape)), make([]int, len(x.Shape))
	low[axis], high[axis] = before, after
	shape := slices.Clone(x.Shape)
	shape[axis] += before + after
	zero := b.Scalar(x.DType, 0)
	return b.emit(x.DType, shape, "stablehlo.pad %s, %s, low = %s, high = %s, interior = %s : (%s, %s) -> %s",
		x.name, zero.name, list(low), list(high), list(interior), x.Type(), zero.Type(), typeText(x.DType, shape))
}

// Reduce folds axes with a StableHLO function ("add", "maximum"), from a start value; the axes disappear.
func (b *Builder) Reduce(name string, x Value, start float64, axes ...int) Value {
	if len(axes) == 0 {
		return x
	}
	var shape []int
	for i, n := range x.Shape {
		if !slices.Contains(axes, i) {
			shape = append(shape, n)
		}
	}
	init := b.Scalar(x.DType, start)
	return b.emit(x.DType, shape, "stablehlo.reduce(%s init: %s) applies stablehlo.%s across dimensions = %s : (%s, %s) -> %s",
		x.name, init.name, name, list(axes), x.Type(), init.Type(), typeText(x.DType, shape))
}

// Sum adds up axes.
func (b *Builder) Sum(x Value, axes ...int) Value { return b.Reduce("add", x, 0, axes...) }

// Dot is dot_general: batch axes stay in front, then the free axes of x, then those of y. The sum is made in float32 for bfloat16
// operands, and the result has element type out.
func (b *Builder) Dot(x, y Value, batchX, batchY, sumX, sumY []int, out DType) Value {
	if x.DType != y.DType {
		panic(fmt.Sprintf("hlo: product of %s and %s", x.Type(), y.Type()))
	}
	var shape []int
	for _, axis := range batchX {
		shape = append(shape, x.Shape[axis])
	}
	free := func(v Value, batch, sum []int) {
		for i, n := range v.Shape {
			if !slices.Contains(batch, i) && !slices.Contains(sum, i) {
				shape = append(shape, n)
			}
		}
	}
	free(x, batchX, sumX)
	free(y, batchY, sumY)
	batching := ""
	if len(batchX) > 0 {
		batching = fmt.Sprintf("batching_dims = %s x %s, ", list(batchX), list(batchY))
	}
	precision := "DEFAULT"
	if x.DType != BF16 {
		precision = "HIGHEST"
	}
	return b.emit(out, shape, "stablehlo.dot_general %s, %s, %scontracting_dims = %s x %s, precision = [%s, %s] : (%s, %s) -> %s",
		x.name, y.name, batching, list(sumX), list(sumY), precision, precision, x.Type(), y.Type(), typeText(out, shape))
}

// Iota counts along one axis.
func (b *Builder) Iota(dt DType, axis int, shape ...int) Value {
	return b.emit(dt, slices.Clone(shape), "stablehlo.iota dim = %d : %s", axis, typeText(dt, shape))
}

// Bits reads the bits of a value as another type of the same width.
func (b *Builder) Bits(x Value, dt DType) Value {
	return b.emit(dt, x.Shape, "stablehlo.bitcast_convert %s : (%s) -> %s", x.name, x.Type(), typeText(dt, x.Shape))
}

// Rows looks up rows of a table [V, D] by ids [...]: [..., D]. Ids outside the table are clamped into it; check them before.
func (b *Builder) Rows(table, ids Value) Value {
	d, rank := table.Shape[1], len(ids.Shape)
	shape := append(slices.Clone(ids.Shape), d)
	return b.emit(table.DType, shape, "\"stablehlo.gather\"(%s, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [%d], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = %d>, indices_are_sorted = false, slice_sizes = array<i64: 1, %d>}> : (%s, %s) -> %s",
		table.name, ids.name, rank, rank, d, table.Type(), ids.Type(), typeText(table.DType, shape))
}

// AddRows adds each row of updates [..., D] into row ids[...] of zeros [v, D].
func (b *Builder) AddRows(v int, ids, updates Value) Value {
	d, rank, dt := updates.Shape[len(updates.Shape)-1], len(ids.Shape), updates.DType
	zeros := b.Splat(dt, 0, v, d)
	scalar := typeText(dt, nil)
	return b.emit(dt, []int{v, d}, `"stablehlo.scatter"(%s, %s, %s) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [%d], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = %d>, unique_indices = false}> ({
    ^bb0(%%old: %s, %%new: %s):
      %%sum = stablehlo.add %%old, %%new : %s
      stablehlo.return %%sum : %s
    }) : (%s, %s, %s) -> %s`, zeros.name, ids.name, updates.name, rank, rank, scalar, scalar, scalar, scalar, zeros.Type(), ids.Type(), updates.Type(), zeros.Type())
}

// Again is x behind an optimization barrier: what a gradient computes from it a second time is then not taken from the forward pass,
// which would have to keep it, in float32, until the backward pass.
func (b *Builder) Again(x Value) Value {
	if b.Act != BF16 {
		return x
	}
	return b.emit(x.DType, x.Shape, "stablehlo.optimization_barrier %s : %s", x.name, x.Type())
}

// Barrier gives the values again, none of them before all are there: what is computed from them is not merged with what was computed from
// the originals, and not begun earlier.
func (b *Builder) Barrier(xs ...Value) []Value {
	names, types := make([]string, len(xs)), make([]string, len(xs))
	for i, x := range xs {
		names[i], types[i] = x.name, x.Type()
	}
	if len(xs) == 1 {
		return []Value{b.emit(xs[0].DType, xs[0].Shape, "stablehlo.optimization_barrier %s : %s", names[0], types[0])}
	}
	return b.emitMany(xs, "stablehlo.optimization_barrier %s : %s", strings.Join(names, ", "), strings.Join(types, ", "))
}

// Constrain says how a value lies on the devices: cut along axis 0, or whole on each. Without several devices it does nothing.
func (b *Builder) Constrain(x Value, cut bool) Value {
	if b.Shards == 1 {
		return x
	}
	return b.emit(x.DType, x.Shape, "sdy.sharding_constraint %s %s : %s", x.name, Sharding(len(x.Shape), cut), x.Type())
}

// Call calls another function of the module.
func (b *Builder) Call(function string, results []Value, args ...Value) []Value {
	names, types, outs := make([]string, len(args)), make([]string, len(args)), make([]string, len(results))
	for i, a := range args {
		names[i], types[i] = a.name, a.Type()
	}
	for i, r := range results {
		outs[i] = r.Type()
	}
	text := fmt.Sprintf("call @%s(%s) : (%s) -> (%s)", function, strings.Join(names, ", "), strings.Join(types, ", "), strings.Join(outs, ", "))
	if len(results) == 1 {
		return []Value{b.emit(results[0].DType, results[0].Shape, "%s", text)}
	}
	return b.emitMany(results, "%s", text)
}

func list(v []int) string {
	parts := make([]string, len(v))
	for i, n := range v {
		parts[i] = fmt.Sprint(n)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// Finite reports for each element whether it is neither NaN nor infinite.
func (b *Builder) Finite(x Value) Value {
	return b.emit(I1, x.Shape, "stablehlo.is_finite %s : (%s) -> %s", x.name, x.Type(), typeText(I1, x.Shape))
}

// At is element i, counted along axis 0, of a table: [N, ...] gives [...].
func (b *Builder) At(table, i Value) Value {
	zero := b.Scalar(I32, 0)
	names, types, sizes := table.name+", "+i.name, table.Type()+", "+i.Type(), []int{1}
	for _, n := range table.Shape[1:] {
		names, types, sizes = names+", "+zero.name, types+", "+zero.Type(), append(sizes, n)
	}
	row := b.emit(table.DType, sizes, "stablehlo.dynamic_slice %s, sizes = %s : (%s) -> %s", names, list(sizes), types, typeText(table.DType, sizes))
	return b.Reshape(row, table.Shape[1:]...)
}

// Repeat runs body n times on a value, which keeps its type; body is given the number of the run.
func (b *Builder) Repeat(n int, x Value, body func(i, x Value) Value) Value {
	zero, one, end := b.Scalar(I32, 0), b.Scalar(I32, 1), b.Scalar(I32, float64(n))
	outer, scalars := b.body, b.scalars
	b.body, b.scalars = strings.Builder{}, maps.Clone(scalars) // constants of the loop's body do not exist outside of it
	id := b.next
	b.next++
	i := Value{name: fmt.Sprintf("%%i%d", id), DType: I32}
	in := Value{name: fmt.Sprintf("%%x%d", id), DType: x.DType, Shape: x.Shape}
	out := body(i, in)
	next := b.Add(i, one)
	text := b.body.String()
	b.body, b.scalars = strings.Builder{}, scalars
	b.body.WriteString(outer.String())
	fmt.Fprintf(&b.body, `    %%%d:2 = stablehlo.while(%s = %s, %s = %s) : %s, %s
     cond {
      %%more = stablehlo.compare LT, %s, %s, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %%more : tensor<i1>
    } do {
%s      stablehlo.return %s, %s : %s, %s
    }
`, id, i.name, zero.name, in.name, x.name, i.Type(), x.Type(), i.name, end.name, text, next.name, out.name, next.Type(), out.Type())
	return Value{name: fmt.Sprintf("%%%d#1", id), DType: x.DType, Shape: x.Shape}
}
