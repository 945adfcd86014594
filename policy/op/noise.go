package op

import (
	"fmt"
	"math"

	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Noise returns numbers from the normal distribution with mean 0 and variance 1. Like Dropout's they are a function of the stream, of key,
// an Int32 input of two elements (seed, step), and of the element's place: every engine and any number of threads or devices give the same,
// up to the rounding of a logarithm and a cosine. Source: Box and Muller 1958.
func Noise(key *Node, dt tensor.Dtype, stream uint64, shape ...int) *Node {
	if key.Dtype() != Int32 || !same(key.Shape(), []int{2}) {
		fail("noise: key %v of %v: want Int32 [2], seed and step", key.Shape(), key.Dtype())
	}
	if (dt != Float32 && dt != Float64) || len(shape) == 0 {
		fail("noise of %v in shape %v: want Float32 or Float64 and at least one axis", dt, shape)
	}
	for _, n := range shape {
		if n < 1 {
			fail("noise in shape %v: want at least one element", shape)
		}
	}
	f := &Family{
		Name: "noise", Attrs: attr("stream", stream),
		In:      args([]*Node{key}, false),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   size(shape),
		compute: pick(dt, runNoise[float32](stream, size(shape)), runNoise[float64](stream, size(shape))),
	}
	f.lower = one(func(b *hlo.Builder, in []hlo.Value) hlo.Value { return lowerNoise(b, in[0], dt, stream, shape) })
	f.grad = func(gorgonia.Nodes, *Node, *Node) gorgonia.Nodes { return gorgonia.Nodes{nil} }
	return f.apply(0, key)
}

// Of the 64 bits of a draw the upper 23 give the radius and the lower 24 the angle: both fit float32 exactly.
const (
	radiusBits = 23
	angleBits  = 24
)

func runNoise[T kernel.Float](stream uint64, total int) func(*Call) {
	return func(c *Call) {
		key, y := in[int32](c, 0), out[T](c, 0)
		seed := mix(mix(stream) ^ uint64(uint32(key[0])) ^ uint64(uint32(key[1]))<<32)
		first := uint64(c.First) * uint64(total/c.Units)
		for i := range y {
			draw := mix(seed + first + uint64(i))
			u := (float64(draw>>(64-radiusBits)) + 0.5) / (1 << radiusBits)
			turn := float64(draw&(1<<angleBits-1)) / (1 << angleBits)
			y[i] = T(math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*turn))
		}
	}
}

func lowerNoise(b *hlo.Builder, key hlo.Value, dt tensor.Dtype, stream uint64, shape []int) hlo.Value {
	kind, err := HLOType(dt)
	if err != nil {
		panic(fmt.Sprintf("op: noise of %v", dt)) // Noise has checked it
	}
	draws := lowerDraws(b, key, stream, shape)
	constant := func(v uint64) hlo.Value { return b.Spread(b.U64Scalar(v), shape) }
	u := b.Convert(b.Binary("shift_right_logical", draws, constant(64-radiusBits)), kind)
	u = b.Scale(b.Shift(u, 0.5), 1.0/(1<<radiusBits))
	turn := b.Convert(b.Binary("and", draws, constant(1<<angleBits-1)), kind)
	angle := b.Scale(turn, 2*math.Pi/(1<<angleBits))
	return b.Mul(b.Unary("sqrt", b.Scale(b.Unary("log", u), -2)), b.Unary("cosine", angle))
}
