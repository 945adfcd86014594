package op

import (
	"github.com/pinch-robotics/pinch/policy/engine/hlo"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Patchify cuts images into square patches of p pixels: x [B, H, W, C], result [B, (H/p)·(W/p), p·p·C]. Patches go row by row; inside a
// patch the order is row, column, channel. A Linear over the result is the patch embedding of a vision transformer (Dosovitskiy et al.
// 2021, section 3.1).
func Patchify(x *Node, p int) *Node {
	s := x.Shape()
	if len(s) != 4 || p < 1 || s[1]%p != 0 || s[2]%p != 0 {
		fail("patchify: x %v: want [B,H,W,C] with axes 1 and 2 dividing into patches of %d", s, p)
	}
	return patches(x, s, p, false)
}

// patches moves pixels [B,H,W,C] into patches, or back.
func patches(x *Node, image tensor.Shape, p int, back bool) *Node {
	dt := floats("patchify", x)
	b, h, w, c := image[0], image[1], image[2], image[3]
	shape, name := tensor.Shape{b, (h / p) * (w / p), p * p * c}, "patchify"
	if back {
		shape, name = image, "unpatchify"
	}
	f := &Family{
		Name: name, Attrs: attr("p", p),
		In:      args([]*Node{x}, true),
		Out:     []Result{{Dtype: dt, Shape: shape}},
		Units:   b,
		compute: pick(dt, runPatches[float32](h, w, c, p, back), runPatches[float64](h, w, c, p, back)),
		lower:   lowerPatches(image, p, back),
	}
	f.grad = func(_ gorgonia.Nodes, _, grad *Node) gorgonia.Nodes {
		return gorgonia.Nodes{patches(grad, image, p, !back)}
	}
	return f.apply(0, x)
}

func runPatches[T kernel.Float](h, w, ch, p int, back bool) func(*Call) {
	run := p * ch // elements that lie together in both orders
	return func(c *Call) {
		x, y := in[T](c, 0), out[T](c, 0)
		at := 0 // in patch order
		for image := 0; image < len(x); image += h * w * ch {
			for row := 0; row < h; row += p {
				for col := 0; col < w; col += p {
					for r := range p {
						pixel := image + ((row+r)*w+col)*ch
						if back {
							copy(y[pixel:pixel+run], x[at:at+run])
						} else {
							copy(y[at:at+run], x[pixel:pixel+run])
						}
						at += run
					}
				}
			}
		}
	}
}

func lowerPatches(image tensor.Shape, p int, back bool) lowering {
	b0, h, w, run := image[0], image[1]/p, image[2]/p, p*image[3]
	return one(func(b *hlo.Builder, in []hlo.Value) hlo.Value {
		if back {
			return b.Reshape(b.Transpose(b.Reshape(in[0], b0, h, w, p, run), 0, 1, 3, 2, 4), image...)
		}
		return b.Reshape(b.Transpose(b.Reshape(in[0], b0, h, p, w, run), 0, 1, 3, 2, 4), b0, h*w, p*run)
	})
}

// PixelShuffle joins squares of m by m neighbouring tokens of an image into one: x [B, rows·cols, D], row by row, result
// [B, (rows/m)·(cols/m), m·m·D], inside a token row by row. A Linear over the result merges the tokens (Shi et al. 2016, section 3.2, the
// way back).
func PixelShuffle(x *Node, rows, cols, m int) *Node {
	s := x.Shape()
	if len(s) != 3 || m < 1 || rows*cols != s[1] || rows%m != 0 || cols%m != 0 {
		fail("pixel shuffle: x %v: want [B,T,D] with T = %d rows x %d columns dividing into squares of %d", s, rows, cols, m)
	}
	if m == 1 {
		return x
	}
	return Patchify(Reshape(x, s[0], rows, cols, s[2]), m)
}
