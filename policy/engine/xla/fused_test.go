//go:build xla && cgo

package xla_test

import (
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// TestFusedAttentionText holds that the text of cuDNN's attention, forward and backward, with and without a mask, on one device and in a region
// per device, is taken by XLA's parser and partitioner: on a platform without cuDNN nothing but the kernels is missing, and the error names them.
func TestFusedAttentionText(t *testing.T) {
	for _, devices := range []int{1, 2} {
		for _, masked := range []bool{false, true} {
			g := gorgonia.NewGraph()
			var loss *op.Node
			var grads gorgonia.Nodes
			if err := op.Build(func() {
				q, k := op.Input(g, op.Float32, "q", 4, 6, 32), op.Input(g, op.Float32, "k", 4, 8, 16) // two heads of queries share one of keys
				var mask *op.Node
				if masked {
					mask = op.Input(g, op.Bool, "mask", 4, 1, 8)
				}
				y := op.Attention(q, k, op.GELU(k), mask, 2)
				loss = op.Mean(op.Mul(y, y))
				grads = op.Grad(loss, q, k)
			}); err != nil {
				t.Fatal(err)
			}
			o := xla.Options{Precision: xla.BFloat16, CuDNN: true, Devices: devices}
			m, err := xla.Emit(append(gorgonia.Nodes{loss}, grads...), o)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"__cudnn$fmhaSoftmax(", "__cudnn$fmhaSoftmaxBackward("}
			if masked {
				want = []string{"__cudnn$fmhaScaleBiasSoftmax(", "__cudnn$fmhaScaleBiasSoftmaxBackward("}
			}
			for _, w := range want {
				if strings.Count(m.Text, w) != 1 {
					t.Errorf("devices %d, masked %t: %d calls of %s, want 1", devices, masked, strings.Count(m.Text, w), w)
				}
			}
			_, err = client(t).Compile(append(gorgonia.Nodes{loss}, grads...), o)
			if err == nil || !strings.Contains(err.Error(), "__cudnn$fmha") {
				t.Errorf("devices %d, masked %t: error %v, want one that names the kernels", devices, masked, err)
			}
		}
	}
}
