package policy

import (
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/op"
)

// VisionTokens runs the vision blocks of a network on one picture: the normed patch tokens before they are merged. It is for tests of
// importers, which live outside the package.
func VisionTokens(s Spec, a Architecture, p *Params, pix []byte) ([]float32, error) {
	n := newNetwork(s, a)
	cols, rows := a.grid(s)
	in := op.Input(n.graph, op.Float32, "in.patches", 1, cols*rows, a.patchDim())
	var out *op.Node
	if err := op.Build(func() {
		x := n.linear("vision.patch", in, a.patchDim(), a.VisionDim, InitMatrix)
		x = op.Add(x, n.param("vision.position", InitTable, cols*rows, a.VisionDim))
		out = n.visionBlocks(x, 1, cols*rows)
	}); err != nil {
		return nil, err
	}
	prog, err := cpu.Compile(n.graph, []*op.Node{out}, cpu.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	for _, info := range n.info {
		if err := prog.Bind(n.params[info.Name], p.View(info.Name)); err != nil {
			return nil, err
		}
	}
	patches := make([]float32, cols*rows*a.patchDim())
	a.Patches(patches, pix, s.Cameras[0].Geometry.Width, s.Cameras[0].Geometry.Height)
	if err := prog.Set(in, patches); err != nil {
		return nil, err
	}
	if err := prog.Run(); err != nil {
		return nil, err
	}
	return prog.Float32(out), nil
}
