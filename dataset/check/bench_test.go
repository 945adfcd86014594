package check

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// BenchmarkCheck checks 100 YUBI-shaped episodes (56 features, 25 s at 30 Hz) without decoding; the target is one second on two
// cores. PINCH_BENCH_SET keeps the dataset for other tools.
func BenchmarkCheck(b *testing.B) {
	root := os.Getenv("PINCH_BENCH_SET")
	if root == "" {
		root = filepath.Join(b.TempDir(), "set")
	}
	if _, err := os.Stat(root); err != nil {
		newMaker(30, 48, 64, false).write(b, root, slices.Repeat([]int{750}, 100), false)
	}
	for b.Loop() {
		r, err := Run(context.Background(), root, Options{})
		if err != nil || r.Present != 100 || r.Frames != 75000 {
			b.Fatalf("%v %+v", err, r)
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/check")
}
