// Package hlo writes StableHLO text: the language in which operations describe themselves to XLA.
//
// A Builder collects the statements of one function; a Value names a result with its element type and shape. Methods check shapes and
// panic on a mistake of the caller, since shapes were checked when the graph was built.
//
//	b := hlo.New(hlo.BF16)
//	x := b.Argument("x", hlo.F32, 64, 32)
//	y := b.Unary("tanh", x)
//	text := b.Function("main", y)
//
// Specification: https://openxla.org/stablehlo/spec. Sharding annotations: https://openxla.org/shardy.
//
// Precision is decided per value. Act is the element type of activations: with BF16 an operation computes norms, softmax, element-wise
// functions and losses in float32 (Wide) and hands its result on in bfloat16 (Narrow); matrix products read bfloat16 and add up in
// float32. Parameters, their gradients and losses stay float32.
package hlo

import (
	"fmt"
	"math"
	"strings"
)

// DType is an element type by its StableHLO name.
type DType string

// Element types.
const (
	F32  DType = "f32"
	F64  DType = "f64"
	BF16 DType = "bf16"
	I32  DType = "i32"
	I64  DType = "i64"
	U8   DType = "ui8"
	U32  DType = "ui32"
	U64  DType = "ui64"
	I1   DType = "i1"
)

// Float reports whether elements are floating-point numbers.
func (d DType) Float() bool { return d == F32 || d == F64 || d == BF16 }

// Bytes is the size of an element.
func (d DType) Bytes() int {
	switch d {
	case F64, I64, U64:
		return 8
	case BF16:
		return 2
	case I1, U8:
		return 1
	}
	return 4
}

// Value is one result in a function.
type Value struct {
	name  string
	DType DType
	Shape []int // empty for a scalar
	// Kept is what a fused attention keeps for its gradient in place of the attention weights; nil for other values.
	Kept []Value
}

// Valid reports whether the value exists; operations leave results that nobody wants empty.
func (v Value) Valid() bool { return v.name != "" }

// Size is the number of elements.
func (v Value) Size() int {
	n := 1
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// Type is the value's type as text.
func (v Value) Type() string { return typeText(v.DType, v.Shape) }

func typeText(dt DType, shape []int) string {
	var s strings.Builder
	s.WriteString("tensor<")
	for _, n := range shape {
		fmt.Fprintf(&s, "%dx", n)
	}
	s.WriteString(string(dt))
	s.WriteByte('>')
	return s.String()
}

// Builder collects the statements of one function. It is not safe for concurrent use.
type Builder struct {
	// Act is the element type of activations: F32 or BF16.
	Act DType
	// CuDNN says that attention may be lowered to cuDNN's fused kernels.
	CuDNN bool
	// Shards is the number of devices that share the batch, 1 without sharding. Fused kernels, which the partitioner can not cut, are
	// wrapped into a region per device.
	Shards int

	body      strings.Builder
	arguments []string
	next      int
	scalars   map[string]Value
}

// New returns a builder with the given element type of activations.
func New(act DType) *Builder { return &Builder{Act: act, Shards: 1, scalars: map[string]Value{}} }

// Argument adds an argument of the function. attributes, such as a sharding, may be empty.
func (b *Builder) Argument(attributes string, dt DType, shape ...int) Value {
	v := Value{name: fmt.Sprintf("%%arg%d", len(b.arguments)), DType: dt, Shape: shape}
	text := v.name + ": " + v.Type()
	if attributes != "" {
		text += " {" + attributes + "}"
	}
	b.arguments = append(b.arguments, text)
	return v
}

// Function closes the builder and returns the function's text. attributes gives one text per result, or is nil.
func (b *Builder) Function(name string, attributes []string, results ...Value) string {
	var s strings.Builder
	names, types, signature := make([]string, len(results)), make([]string, len(results)), make([]string, len(results))
	for i, r := range results {
		names[i], types[i] = r.name, r.Type()
		signature[i] = types[i]
		if attributes != nil && attributes[i] != "" {
			signature[i] += " {" + attributes[i] + "}"
		}
	}
	visibility := "public"
	if name != "main" {
		visibility = "private"
	}
	fmt.Fprintf(&s, "  func.func %s @%s(%s) -> (%s) {\n%s", visibility, name, strings.Join(b.arguments, ", "), strings.Join(signature, ", "), b.body.String())
	fmt.Fprintf(&s, "    return %s : %s\n  }\n", strings.Join(names, ", "), strings.Join(types, ", "))
	return s.String()
}

// emit adds a statement with one result.
func (b *Builder) emit(dt DType, shape []int, format string, args ...any) Value {
	v := Value{name: fmt.Sprintf("%%%d", b.next), DType: dt, Shape: shape}
	b.next++
	fmt.Fprintf(&b.body, "    %s = ", v.name)
	fmt.Fprintf(&b.body, format, args...)
	b.body.WriteByte('\n')
	return v
}

// emitMany adds a statement with several results.
func (b *Builder) emitMany(results []Value, format string, args ...any) []Value {
	name := fmt.Sprintf("%%%d", b.next)
	b.next++
	out := make([]Value, len(results))
	for i, r := range results {
		out[i] = Value{name: fmt.Sprintf("%s#%d", name, i), DType: r.DType, Shape: r.Shape}
	}
	fmt.Fprintf(&b.body, "    %s:%d = ", name, len(results))
	fmt.Fprintf(&b.body, format, args...)
	b.body.WriteByte('\n')
	return out
}

// number writes a constant so that no digit is lost; NaN and infinities as bits.
func number(dt DType, v float64) string {
	if !dt.Float() {
		if dt == I1 {
			return fmt.Sprint(v != 0)
		}
		return fmt.Sprintf("%d", int64(v))
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		switch dt {
		case F64:
			return fmt.Sprintf("0x%016X", math.Float64bits(v))
		case BF16:
			return fmt.Sprintf("0x%04X", math.Float32bits(float32(v))>>16)
		}
		return fmt.Sprintf("0x%08X", math.Float32bits(float32(v)))
	}
	return fmt.Sprintf("%.17e", v)
}

// Scalar is a constant without axes.
func (b *Builder) Scalar(dt DType, v float64) Value { return b.Splat(dt, v) }

// Splat is a constant tensor of one value.
func (b *Builder) Splat(dt DType, v float64, shape ...int) Value {
	text := number(dt, v)
	key := typeText(dt, shape) + text
	if old, ok := b.scalars[key]; ok {
		return old
	}
	out := b.emit(dt, shape, "stablehlo.constant dense<%s> : %s", text, typeText(dt, shape))
	b.scalars[key] = out
	return out
}

// U64Scalar is an unsigned constant of 64 bits.
func (b *Builder) U64Scalar(v uint64) Value {
	return b.emit(U64, nil, "stablehlo.constant dense<%d> : %s", v, typeText(U64, nil))
}

// Table is a constant of float32 or float64 elements.
func (b *Builder) Table(dt DType, data []float64, shape ...int) Value {
	var s strings.Builder
	for _, v := range data {
		if dt == F64 {
			writeHex(&s, math.Float64bits(v), 8)
		} else {
			writeHex(&s, uint64(math.Float32bits(float32(v))), 4)
		}
	}
	return b.emit(dt, shape, "stablehlo.constant dense<\"0x%s\"> : %s", s.String(), typeText(dt, shape))
}

func writeHex(s *strings.Builder, bits uint64, bytes int) {
	for i := range bytes {
		fmt.Fprintf(s, "%02X", byte(bits>>(8*i)))
	}
}
