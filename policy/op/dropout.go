package op

import (
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
