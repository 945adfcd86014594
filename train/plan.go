package train

import (
	"fmt"
	"strings"

	"github.com/pinch-robotics/pinch/policy"
)

// GPU is what a plan assumes of one device.
type GPU struct {
	Name     string
	TFLOPS   float64 // dense bfloat16, sustained by large matrix products
	MemoryGB float64
	BusGBs   float64 // all-reduce bus bandwidth between the devices of a node
}

// GPUs are the devices a plan knows. 790 TFLOP/s is what large products reach on an H200, not the data sheet's number.
var GPUs = map[string]GPU{
	"h200": {"h200", 790, 141, 300}, "h100": {"h100", 750, 80, 300}, "a100": {"a100", 280, 80, 200}, "l40s": {"l40s", 300, 48, 20}, "rtx4090": {"rtx4090", 150, 24, 20},
}

// PlanOptions say what is planned for.
type PlanOptions struct {
	GPU   GPU
	Count int
	MFU   float64 // share of TFLOPS that the step reaches
	Spec  policy.Spec
	Model *SpeedModel // of a device measured before; nil: GPU and MFU say how fast it is
}

// Plan is what a run will take.
type Plan struct {
	Size              string
	Parameters        float64
	TrainGFLOPs       float64 // of a sample
	Batch, Count      int
	StateGB           float64 // weights, two moments, gradient and average in float32, on each device
	ActivationsGB     float64 // of a device's share of the batch, bfloat16
	MemoryGB          float64
	Fits              bool
	Accumulate        int     // least number of parts with which it fits; 0: not at all
	StepSeconds       float64 // computing and the part of the gradient's sum that can not hide behind it
	CommunicationS    float64 // of the gradient's sum over the devices, bfloat16
	SamplesPerSecond  float64
	PicturesPerSecond float64 // that the loader must decode or read
	Hours             float64 // for all steps
	gpu               GPU
	steps             int
	mfu               float64
	measured          bool
}

// statesPerWeight are weights, gradient, two moments and the average, four bytes each.
const statesPerWeight = 5 * 4

// NewPlan predicts memory and time of a configuration before anything runs.
func NewPlan(c Config, o PlanOptions) (Plan, error) {
	if o.Count < 1 || c.Batch%o.Count != 0 {
		return Plan{}, fmt.Errorf("plan: batch %d does not divide over %d devices", c.Batch, o.Count)
	}
	if !(o.MFU > 0 && o.MFU <= 1) {
		return Plan{}, fmt.Errorf("plan: mfu is %v, want more than 0 and at most 1", o.MFU)
	}
	cost, err := policy.Measure(o.Spec, c.architecture(), c.Draws)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	p := Plan{Size: c.Size, Parameters: cost.Parameters, TrainGFLOPs: cost.TrainFLOPs() / 1e9, Batch: c.Batch, Count: o.Count, gpu: o.GPU, steps: c.Steps, mfu: o.MFU}
	p.StateGB = cost.Parameters * statesPerWeight / 1e9
	perDevice := float64(c.Batch / o.Count)
	p.ActivationsGB = cost.Activations * 2 * perDevice / 1e9
	p.fit()
	compute := cost.TrainFLOPs() * perDevice / (o.GPU.TFLOPS * 1e12 * o.MFU)
	if o.Model != nil {
		p.measured = true
		if compute, err = o.Model.Predict(o.Spec, c.architecture(), c.Batch/o.Count, c.Draws); err != nil {
			return Plan{}, fmt.Errorf("plan: %w", err)
		}
	}
	if o.Count > 1 { // a ring moves 2 (n-1)/n of the gradient
		n := float64(o.Count)
		p.CommunicationS = 2 * (n - 1) / n * cost.Parameters * 2 / (o.GPU.BusGBs * 1e9)
	}
	p.StepSeconds = compute + max(p.CommunicationS-0.8*compute, 0.1*p.CommunicationS) // four fifths of the step can hide it, a tenth never does
	p.SamplesPerSecond = float64(c.Batch) / p.StepSeconds
	p.PicturesPerSecond = p.SamplesPerSecond * float64(len(o.Spec.Cameras)*max(o.Spec.Frames, 1))
	p.Hours = p.StepSeconds * float64(c.Steps) / 3600
	return p, nil
}

// fit finds the parts in which a device's batch fits beside the states, with a tenth of the memory left to the compiler.
func (p *Plan) fit() {
	room := 0.9*p.gpu.MemoryGB - p.StateGB
	share := p.Batch / p.Count
	for parts := 1; parts <= share; parts++ {
		if share%parts == 0 && p.ActivationsGB/float64(parts) <= room {
			p.Accumulate = parts
			break
		}
	}
	p.Fits = p.Accumulate == 1
	p.MemoryGB = p.StateGB + p.ActivationsGB/float64(max(p.Accumulate, 1))
}

// String is the plan as a table.
func (p Plan) String() string {
	var b strings.Builder
	line := func(what, format string, v ...any) {
		fmt.Fprintf(&b, "%-34s "+format+"\n", append([]any{what}, v...)...)
	}
	line("size", "%s, %.1f million parameters", p.Size, p.Parameters/1e6)
	line("training FLOPs of a sample", "%.1f GFLOP (forward and backward)", p.TrainGFLOPs)
	if p.measured {
		line("devices", "%d like the one that was measured, memory and links of %s", p.Count, p.gpu.Name)
	} else {
		line("devices", "%d x %s, assumed %.0f %% of %.0f TFLOP/s", p.Count, p.gpu.Name, 100*p.mfu, p.gpu.TFLOPS)
	}
	line("batch", "%d (%d on each device)", p.Batch, p.Batch/p.Count)
	line("memory of a device", "%.1f GB of %.0f: %.1f weights, moments, gradient, average; %.1f activations", p.MemoryGB, p.gpu.MemoryGB, p.StateGB, p.MemoryGB-p.StateGB)
	switch {
	case p.Accumulate == 0:
		line("fits", "no, not even one sample at a time")
	case !p.Fits:
		line("fits", "with accumulate=%d", p.Accumulate)
	default:
		line("fits", "yes")
	}
	line("step", "%.0f ms, of which the sum over devices takes %.0f ms, mostly hidden", 1000*p.StepSeconds, 1000*p.CommunicationS)
	line("samples/s", "%.0f", p.SamplesPerSecond)
	line("pictures/s from the loader", "%.0f", p.PicturesPerSecond)
	line("all steps", "%d in %.1f h", p.steps, p.Hours)
	return b.String()
}

// PlanSpec is the Spec that a plan counts with where there is no dataset: the two-hand layout at 30 rows per second.
func PlanSpec(c Config) (policy.Spec, error) {
	if c.Spec != nil {
		return *c.Spec, nil
	}
	vector := func(name string, n int) policy.Feature {
		return policy.Feature{Name: name, DType: "float64", Shape: []int{n}}
	}
	s, err := policy.Preset(policy.PresetUMI, []policy.Feature{
		{Name: policy.LeftImage, DType: "video", Shape: []int{480, 640, 3}}, {Name: policy.RightImage, DType: "video", Shape: []int{480, 640, 3}},
		vector(policy.HandsPose, 7), vector(policy.JointStates, 2), vector(policy.LeftHandPose, 7), vector(policy.RightHandPose, 7),
	}, 30, c.presetOptions())
	s.Prompt.Vocabulary = c.Vocabulary
	return s, err
}
