package train

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
)

// twoHands is the two-hand Spec without a dataset behind it.
func twoHands(b *testing.B) policy.Spec {
	b.Helper()
	s, err := policy.Preset(policy.PresetUMI, []policy.Feature{
		{Name: policy.LeftImage, DType: "video", Shape: []int{480, 640, 3}}, {Name: policy.RightImage, DType: "video", Shape: []int{480, 640, 3}},
		{Name: policy.HandsPose, DType: "float64", Shape: []int{7}}, {Name: policy.JointStates, DType: "float64", Shape: []int{2}},
		{Name: "observation.pose.left_hand_root.absolute", DType: "float64", Shape: []int{7}},
		{Name: "observation.pose.right_hand_root.absolute", DType: "float64", Shape: []int{7}},
	}, 30, policy.PresetOptions{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// BenchmarkStep is one optimiser step of the tiny two-hand policy without the loader; it reports encoded samples per second.
func BenchmarkStep(b *testing.B) {
	c := DefaultConfig()
	s, a := twoHands(b), c.architecture()
	params, err := policy.NewParams(s, a, 1)
	if err != nil {
		b.Fatal(err)
	}
	g, err := policy.BuildTraining(s, a, c.Batch, c.Draws)
	if err != nil {
		b.Fatal(err)
	}
	p, err := cpu.Compile(g.Graph, g.Outputs(), cpu.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i, info := range params.Info {
		if err := p.Bind(g.Params[i], params.View(info.Name)); err != nil {
			b.Fatal(err)
		}
	}
	o := newOptimiser(c, params)
	batch := policy.NewBatch(s, a, c.Batch, c.Draws)
	valid := make([]bool, s.Horizon)
	for i := range valid {
		valid[i] = true
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range c.Batch {
		batch.SetChunk(i, make([]float32, s.Horizon*s.ActionDim()), valid, rng)
		if err := batch.SetPrompt(i, "put the block on the tray"); err != nil {
			b.Fatal(err)
		}
	}
	grads := make([][]float32, len(g.Gradients))
	spent, _ := processorTime()
	for b.Loop() {
		for _, f := range g.Feeds(batch) {
			if err := p.Set(f.Node, f.Value); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Run(); err != nil {
			b.Fatal(err)
		}
		for i, n := range g.Gradients {
			grads[i] = p.Float32(n)
		}
		o.update(grads)
	}
	b.ReportMetric(float64(b.N*c.Batch)/b.Elapsed().Seconds(), "samples/s")
	b.ReportMetric(peakMB(b), "peak-MB")
	end, _ := processorTime()
	b.ReportMetric(1e3*(end-spent).Seconds()/float64(b.N), "processor-ms/op")
}

// peakMB is the most memory that this process held.
func peakMB(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kb / 1024
		}
	}
	return 0
}

// BenchmarkFill is the loader's part of one sample: two augmented pictures, patches and eight noise draws.
func BenchmarkFill(b *testing.B) {
	c := DefaultConfig()
	s := twoHands(b)
	batch := policy.NewBatch(s, c.architecture(), 1, c.Draws)
	src, dst := imaging.NewRGB(64, 64), make([]byte, 64*64*3)
	valid := make([]bool, s.Horizon)
	rng := rand.New(rand.NewPCG(1, 1))
	action := make([]float32, s.Horizon*s.ActionDim())
	for b.Loop() {
		for cam := range 2 {
			c.Augment.Apply(dst, src, rng)
			if err := batch.SetImage(0, cam, dst); err != nil {
				b.Fatal(err)
			}
		}
		batch.SetChunk(0, action, valid, rng)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "samples/s")
}
