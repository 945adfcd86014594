package hlo

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Attention describes a fused attention: queries [Batch, Queries, Heads, HeadDim], keys and values [Batch, Keys, KeyHeads, HeadDim], and,
// with Bias, terms of the scores [Batch or 1, 1, Queries, Keys].
type Attention struct {
	Batch, Queries, Keys, Heads, KeyHeads, HeadDim int
	Scale                                          float64 // of the scores
	Bias                                           bool
}

// Fuses reports whether the attention is lowered to cuDNN's flash attention: bfloat16, a head of at most 128 elements in steps of 8, and
// with a bias an even number of queries and keys. Everything else takes the plain form.
func (b *Builder) Fuses(a Attention) bool {
	even := a.Queries%2 == 0 && a.Keys%2 == 0
	return b.CuDNN && b.Act == BF16 && a.HeadDim%8 == 0 && a.HeadDim <= 128 && (even || !a.Bias) && a.Batch%b.Shards == 0
}

// FusedAttention runs cuDNN's flash attention on operands query, key, value and, with Bias, bias. It returns the result in the queries'
// shape and, if it is to be differentiated, the logarithms of the softmax's sums [Batch, Heads, Queries] in float32.
func (b *Builder) FusedAttention(a Attention, in []Value, training bool) (y, stats Value) {
	target := "__cudnn$fmhaSoftmax"
	if a.Bias {
		target = "__cudnn$fmhaScaleBiasSoftmax"
	}
	out := b.perDevice(in, func(b *Builder, in []Value, shards int) []Value {
		local := a
		local.Batch /= shards
		results := []Value{{DType: BF16, Shape: []int{local.Batch, a.Heads, a.Queries, a.HeadDim}}}
		layouts := []string{headsLayout}
		if training {
			results, layouts = append(results, Value{DType: F32, Shape: []int{local.Batch, a.Heads, a.Queries}}), append(layouts, rowMajor(3))
		}
		r := b.customCall(target, local.config(false), in, results, layouts)
		r[0] = b.Transpose(r[0], 0, 2, 1, 3)
		return r
	})
	if training {
		return out[0], out[1]
	}
	return out[0], Value{}
}

// FusedAttentionGrad returns the gradients of query, key and value. Operands are query, key, value, the stats of FusedAttention, the
// gradient of its result, with Bias the bias, and its result.
func (b *Builder) FusedAttentionGrad(a Attention, in []Value) []Value {
	target := "__cudnn$fmhaSoftmaxBackward"
	if a.Bias {
		target = "__cudnn$fmhaScaleBiasSoftmaxBackward"
	}
	return b.perDevice(in, func(b *Builder, in []Value, shards int) []Value {
		local := a
		local.Batch /= shards
		keys := Value{DType: BF16, Shape: []int{local.Batch, a.KeyHeads, a.Keys, a.HeadDim}}
		results := []Value{{DType: BF16, Shape: []int{local.Batch, a.Heads, a.Queries, a.HeadDim}}, keys, keys}
		r := b.customCall(target, local.config(true), in, results, []string{headsLayout, headsLayout, headsLayout})
		for i := range r {
			r[i] = b.Transpose(r[i], 0, 2, 1, 3)
		}
		return r
	})
}

// headsLayout is the layout of [B, heads, T, hd] that is [B, T, heads, hd] in memory.
const headsLayout = "dense<[3, 1, 2, 0]> : tensor<4xindex>"

func rowMajor(rank int) string {
	if rank == 0 {
		return "dense<> : tensor<0xindex>"
	}
	axes := make([]int, rank)
	for i := range axes {
		axes[i] = rank - 1 - i
	}
	return fmt.Sprintf("dense<%s> : tensor<%dxindex>", list(axes), rank)
}

// customCall calls a fused kernel, whose last result is its workspace, and returns the others.
func (b *Builder) customCall(target, config string, in, results []Value, layouts []string) []Value {
	names, types, operands := make([]string, len(in)), make([]string, len(in)), make([]string, len(in))
	for i, v := range in {
		names[i], types[i], operands[i] = v.name, v.Type(), rowMajor(len(v.Shape))
	}
	results = append(results, Value{DType: U8, Shape: []int{0}})
	layouts = append(layouts, rowMajor(1))
	outs := make([]string, len(results))
	for i, r := range results {
		outs[i] = r.Type()
	}
	all := b.emitMany(results, "stablehlo.custom_call @%s(%s) {api_version = 2 : i32, backend_config = %q, operand_layouts = [%s], result_layouts = [%s]} : (%s) -> (%s)",
		target, strings.Join(names, ", "), config, strings.Join(operands, ", "), strings.Join(layouts, ", "), strings.Join(types, ", "), strings.Join(outs, ", "))
	return all[:len(all)-1]
}

// config is the backend configuration that XLA's cuDNN custom calls read: the message CudnnfMHABackendConfig of xla/service/gpu/backend_configs.proto.
func (a Attention) config(backward bool) string {
	type object = map[string]any
	dims := func(lhs, rhs string, batchL, batchR []string) object {
		return object{"lhs_contracting_dimensions": []string{lhs}, "rhs_contracting_dimensions": []string{rhs},
			"lhs_batch_dimensions": batchL, "rhs_batch_dimensions": batchR}
	}
	heads, scores := []string{"0", "2"}, []string{"0", "1"}
	c := object{
		"algorithm": object{"algo_id": "0", "math_type": "TENSOR_OP_MATH", "tuning_knobs": object{"17": "1", "24": "0"},
			"is_cudnn_frontend": true, "workspace_size": "0"},
		"fmha_scale": a.Scale,
		"intermediate_tensor_shape": object{
			"element_type": "BF16", "dimensions": []string{fmt.Sprint(a.Batch), fmt.Sprint(a.Heads), fmt.Sprint(a.Queries), fmt.Sprint(a.Keys)},
			"tuple_shapes": []string{},
			"layout": object{"dim_level_types": []string{}, "dim_unique": []string{}, "dim_ordered": []string{},
				"minor_to_major": []string{"3", "2", "1", "0"}, "tiles": []string{}, "element_size_in_bits": "0", "memory_space": "0",
				"index_primitive_type": "PRIMITIVE_TYPE_INVALID", "pointer_primitive_type": "PRIMITIVE_TYPE_INVALID", "dynamic_shape_metadata_prefix_bytes": "0"},
			"is_dynamic_dimension": []bool{false, false, false, false}},
		"is_flash_attention": true, "mask_type": "NO_MASK", "dropout_rate": 0.0, "seed": 42, "sliding_window_length": 0,
		"max_seg_per_batch": 1, "is_paged_attention": false,
	}
	if backward {
		c["bmm1_grad_gemm1_dot_dimension_numbers"] = dims("2", "1", scores, heads)
		c["bmm1_grad_gemm2_dot_dimension_numbers"] = dims("3", "1", scores, heads)
		c["bmm2_grad_gemm1_dot_dimension_numbers"] = dims("2", "1", scores, heads)
		c["bmm2_grad_gemm2_dot_dimension_numbers"] = dims("3", "3", heads, heads)
	} else {
		c["bmm1_dot_dimension_numbers"] = dims("3", "3", heads, heads)
		c["bmm2_dot_dimension_numbers"] = dims("3", "1", scores, heads)
	}
	text, err := json.Marshal(object{"operation_queue_id": "0", "cudnn_fmha_backend_config": c})
	if err != nil {
		panic(err) // plain values only
	}
	return string(text)
}

// Mesh is the name of the device mesh of a sharded module, and Axis the name of its one axis, along which the batch is cut.
const (
	Mesh = "mesh"
	Axis = "data"
)

// Sharding is the Shardy text of a value of the given rank that is cut along axis 0, or whole on each device.
func Sharding(rank int, cut bool) string {
	parts := make([]string, rank)
	for i := range parts {
		parts[i] = "{}"
	}
	if cut && rank > 0 {
		parts[0] = fmt.Sprintf("{%q}", Axis)
	}
	return fmt.Sprintf("<@%s, [%s]>", Mesh, strings.Join(parts, ", "))
}

// perDevice runs f on each device's share of the batch: values of more than one element along axis 0 are cut there. Without sharding f
// runs on the whole. f is given the number of shares.
func (b *Builder) perDevice(in []Value, f func(b *Builder, in []Value, shards int) []Value) []Value {
	if b.Shards == 1 {
		return f(b, in, 1)
	}
	inner := New(b.Act)
	inner.CuDNN, inner.next = b.CuDNN, b.next+1
	names, types, ins, blocks, local := make([]string, len(in)), make([]string, len(in)), make([]string, len(in)), make([]string, len(in)), make([]Value, len(in))
	for i, v := range in {
		cut := v.Shape[0] > 1
		shape := append([]int(nil), v.Shape...)
		if cut {
			shape[0] /= b.Shards
		}
		names[i], types[i], ins[i] = v.name, v.Type(), Sharding(len(v.Shape), cut)
		local[i] = Value{name: fmt.Sprintf("%%share%d_%d", b.next, i), DType: v.DType, Shape: shape}
		blocks[i] = local[i].name + ": " + local[i].Type()
	}
	results := f(inner, local, b.Shards)
	outs, outTypes, returned, returnedTypes := make([]string, len(results)), make([]string, len(results)), make([]string, len(results)), make([]string, len(results))
	whole := make([]Value, len(results))
	for i, r := range results {
		shape := append([]int(nil), r.Shape...)
		shape[0] *= b.Shards
		whole[i] = Value{DType: r.DType, Shape: shape}
		outs[i], outTypes[i] = Sharding(len(shape), true), whole[i].Type()
		returned[i], returnedTypes[i] = r.name, r.Type()
	}
	text := fmt.Sprintf("sdy.manual_computation(%s) in_shardings=[%s] out_shardings=[%s] manual_axes={%q} (%s) {\n%s      sdy.return %s : %s\n    } : (%s) -> (%s)",
		strings.Join(names, ", "), strings.Join(ins, ", "), strings.Join(outs, ", "), Axis, strings.Join(blocks, ", "), inner.body.String(),
		strings.Join(returned, ", "), strings.Join(returnedTypes, ", "), strings.Join(types, ", "), strings.Join(outTypes, ", "))
	if len(whole) == 1 {
		v := b.emit(whole[0].DType, whole[0].Shape, "%s", text)
		b.next = max(b.next, inner.next)
		return []Value{v}
	}
	all := b.emitMany(whole, "%s", text)
	b.next = max(b.next, inner.next)
	return all
}
