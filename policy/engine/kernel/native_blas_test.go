//go:build blas && cgo

package kernel

import "testing"

// TestProcessors runs the tests of the kernels for each kind of processor that this one can stand in for, ending with the best.
func TestProcessors(t *testing.T) {
	for kind, name := range []string{"any", "AVX2", "AVX-512"} {
		t.Run(name, func(t *testing.T) {
			if !useKernels(kind) {
				t.Skip("this processor lacks it")
			}
			for name, test := range map[string]func(*testing.T){
				"gemm": TestGemm, "linear": TestLinear, "NaN": TestGemmShowsNaN, "binary": TestBinary, "sums": TestSums, "conditioned": TestConditioned,
				"activations": TestActivations, "extremes": TestExtremes, "norms": TestNorms, "softmax": TestSoftmax, "adamw": TestAdamW,
			} {
				t.Run(name, test)
			}
		})
	}
}
