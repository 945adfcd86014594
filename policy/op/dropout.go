package op

import (
	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
)

// Dropout sets each element of x to 0 with probability rate and divides the others by 1 − rate. Which ones is a hash of the stream, of
// key, an Int32 input of two elements (seed, step), and of the element's place, so a run is repeated by repeating its key, whatever the
// number of threads. Give each dropout of a model a stream of its own. Build inference graphs without it. Source: Srivastava et al. 2014.
func Dropout(x, key *Node, rate float64, stream uint64) *Node {
	if key.Dtype() != Int32 || !same(key.Shape(), []int{2}) {
		fail("dropout: key %v of %v: want Int32 [2], seed and step", key.Shape(), key.Dtype())
	}
	if !(rate >= 0 && rate < 1) {
		fail("dropout: rate %v, want [0, 1)", rate)
	}
	if rate == 0 {
		return x
	}
	dt := floats("dropout", x)
	f := elementwise("dropout", x)
	f.Attrs = attr("rate", rate) + attr(",stream", stream)
	f.In = append(f.In, Arg{Dtype: Int32, Shape: key.Shape()})
	f.compute = pick(dt, runDropout[float32](rate, stream), runDropout[float64](rate, stream))
	f.lower = lowerDropout(rate, stream)
	f.grad = func(in gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{Dropout(grad, in[1], rate, stream), nil}
	}
	return f.apply(0, x, key)
}

func runDropout[T kernel.Float](rate float64, stream uint64) func(*Call) {
	limit := uint64(rate * (1 << 32))
	keep := T(1 / (1 - rate))
	return func(c *Call) {
		x, key, y := in[T](c, 0), in[int32](c, 1), out[T](c, 0)
		seed := mix(mix(stream) ^ uint64(uint32(key[0])) ^ uint64(uint32(key[1]))<<32)
		first := uint64(c.First) * uint64(len(x)/c.Count)
		for i, v := range x {
			y[i] = v * keep
			if mix(seed+first+uint64(i))>>32 < limit {
				y[i] = v * 0 // keeps a NaN
			}
		}
	}
}

// mix is the finaliser of SplitMix64 (Steele et al. 2014, figure 16) after one step of its golden gamma.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func lowerDropout(rate float64, stream uint64) lowering {
	limit := uint64(rate * (1 << 32))
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		x := b.Wide(in[0])
		draws := lowerDraws(b, in[1], stream, x.Shape)
		high := b.Binary("shift_right_logical", draws, b.Spread(b.U64Scalar(32), x.Shape))
		drop := b.Compare("LT", high, b.Spread(b.U64Scalar(limit), x.Shape))
		keep := b.Scale(x, 1/(1-rate))
		return b.Convert(b.Select(drop, b.Scale(x, 0), keep), in[0].DType)
	})
}

// lowerDraws is a 64-bit hash for each element of a shape: mix(seed + place), with the seed of runDropout.
func lowerDraws(b *hlo.Builder, key hlo.Value, stream uint64, shape []int) hlo.Value {
	word := func(i int) hlo.Value { return b.Convert(b.Bits(b.Reshape(b.Slice(key, 0, i, i+1)), hlo.U32), hlo.U64) }
	seed := b.Binary("xor", b.U64Scalar(mix(stream)), word(0))
	seed = b.Binary("xor", seed, b.Binary("shift_left", word(1), b.U64Scalar(32)))
	at := b.Spread(lowerMix(b, seed), shape)
	for axis, stride := range stridesOf(shape) {
		at = b.Add(at, b.Mul(b.Iota(hlo.U64, axis, shape...), b.Spread(b.U64Scalar(uint64(stride)), shape)))
	}
	return lowerMix(b, at)
}

// lowerMix is mix.
func lowerMix(b *hlo.Builder, z hlo.Value) hlo.Value {
	constant := func(v uint64) hlo.Value { return b.Spread(b.U64Scalar(v), z.Shape) }
	fold := func(z hlo.Value, n uint64) hlo.Value {
		return b.Binary("xor", z, b.Binary("shift_right_logical", z, constant(n)))
	}
	z = b.Add(z, constant(0x9e3779b97f4a7c15))
	z = b.Mul(fold(z, 30), constant(0xbf58476d1ce4e5b9))
	z = b.Mul(fold(z, 27), constant(0x94d049bb133111eb))
	return fold(z, 31)
}
