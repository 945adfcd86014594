package train

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// speed turns samples per second into floating-point operations per second. Only the operations of the network count, forward and backward, not
// those that are computed again: model FLOPs, as in Chowdhery et al. 2022, PaLM, appendix B.
type speed struct {
	flops float64 // of a sample
	peak  float64 // operations per second that all devices together reach with large matrix products; 0: not known
}

func (t *trainer) newSpeed() (speed, error) {
	cost, err := policy.Measure(t.spec, t.arch, t.cfg.Draws)
	if err != nil {
		return speed{}, err
	}
	return speed{cost.TrainFLOPs(), t.peak()}, nil
}

// of gives TFLOP/s and their share of the peak, 0 where that is not known.
func (s speed) of(samplesPerSecond float64) (tflops, mfu float64) {
	if s.peak > 0 {
		mfu = samplesPerSecond * s.flops / s.peak
	}
	return samplesPerSecond * s.flops / 1e12, mfu
}

func (s speed) text(samplesPerSecond float64) string {
	_, mfu := s.of(samplesPerSecond)
	if mfu == 0 {
		return fmt.Sprintf("%.0f samples/s", samplesPerSecond)
	}
	return fmt.Sprintf("%.0f samples/s  MFU %.0f %%", samplesPerSecond, 100*mfu)
}

// peak is that of the configuration, of the GPU's model, or, on the processor, measured.
func (t *trainer) peak() float64 {
	c := t.cfg
	switch {
	case c.PeakTFLOPS > 0:
		return c.PeakTFLOPS * 1e12 * float64(max(c.Devices, 1))
	case c.Engine != engine.XLA:
		return processorPeak(c.Threads, t.Now)
	case c.Platform == xla.CUDA:
		return GPUs[gpuModel()].TFLOPS * 1e12 * float64(max(c.Devices, 1))
	}
	return 0
}

// gpuModel is the key in GPUs of the first GPU, empty for one that is not listed.
func gpuModel() string {
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information") // the pattern is valid
	if len(files) == 0 {
		return ""
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if model, ok := strings.CutPrefix(line, "Model:"); ok {
			return gpuNamed(model)
		}
	}
	return ""
}

// gpuNamed finds the key in GPUs of a model such as "NVIDIA H200" or "NVIDIA GeForce RTX 4090".
func gpuNamed(model string) string {
	model = strings.ToLower(strings.ReplaceAll(model, " ", ""))
	for key := range GPUs {
		if strings.Contains(model, key) {
			return key
		}
	}
	return ""
}

// peakSide is the side of the matrices that a thread multiplies, peakRuns how often: the best run counts.
const peakSide, peakRuns = 256, 4

// processorPeak measures matrix products, one in each thread at a time. 0 where the clock stands still.
func processorPeak(threads int, now func() time.Time) float64 {
	n := peakSide
	best := math.Inf(1)
	for range peakRuns {
		var all sync.WaitGroup
		start := now()
		for range threads {
			all.Go(func() {
				a, b, c := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
				kernel.Gemm(false, false, n, n, n, a, n, b, n, 0, c, n)
			})
		}
		all.Wait()
		best = min(best, now().Sub(start).Seconds())
	}
	if best <= 0 {
		return 0
	}
	return float64(threads) * 2 * float64(n*n*n) / best
}
