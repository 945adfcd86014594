package train

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/pinch-robotics/pinch/internal/imaging"
	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
)

// SpeedModel predicts the time of a training step from what a network and a batch ask of a device. It is fitted to steps measured on the
// device at hand.
type SpeedModel struct {
	// Seconds for each of the works of load; none is negative.
	Seconds [works]float64
	Points  []SpeedPoint
	// StageGBs is the rate at which batches reach the device, 0 on the processor; FillPerSecond is how many samples one loader worker
	// augments and turns into network inputs in a second, from decoded pictures.
	StageGBs, FillPerSecond float64
	Processor               bool // times are processor time
}

// SpeedPoint is a measured step.
type SpeedPoint struct {
	Size      string
	Batch     int
	HeldOut   bool // not part of the fit
	Measured  float64
	Predicted float64
	load      [works]float64
}

// Error is by how much the prediction is off, as a share of what was measured.
func (p SpeedPoint) Error() float64 { return math.Abs(p.Predicted/p.Measured - 1) }

// Kinds of work in a step. Matrix products cost by operations, everything between them by the numbers that pass, the optimiser by parameters, and
// each operation its start.
const (
	perStart = iota
	perOperation
	perActivation
	perParameter
	works
)

// load is how much of each work a step has.
func load(s policy.Spec, a policy.Architecture, batch, draws int) ([works]float64, error) {
	cost, err := policy.Measure(s, a, draws)
	if err != nil {
		return [works]float64{}, err
	}
	g, err := policy.Layout(s, a)
	if err != nil {
		return [works]float64{}, err
	}
	b := float64(batch)
	return [works]float64{perStart: float64(len(g)), perOperation: b * cost.TrainFLOPs(), perActivation: b * cost.Activations, perParameter: cost.Parameters}, nil
}

// Predict is the time of a step of so many samples on one device, in seconds.
func (m *SpeedModel) Predict(s policy.Spec, a policy.Architecture, batch, draws int) (float64, error) {
	l, err := load(s, a, batch, draws)
	return m.predict(l), err
}

func (m *SpeedModel) predict(l [works]float64) (t float64) {
	for i, v := range l {
		t += v * m.Seconds[i]
	}
	return t
}

// HeldOutError is the median error of the points that the fit did not see.
func (m *SpeedModel) HeldOutError() float64 {
	var errs []float64
	for _, p := range m.Points {
		if p.HeldOut {
			errs = append(errs, p.Error())
		}
	}
	slices.Sort(errs)
	if len(errs) == 0 {
		return math.NaN()
	}
	return (errs[(len(errs)-1)/2] + errs[len(errs)/2]) / 2
}

// String is a table of the points.
func (m *SpeedModel) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %6s %12s %12s %8s\n", "size", "batch", "measured ms", "predicted ms", "error")
	for _, p := range m.Points {
		note := ""
		if p.HeldOut {
			note = "  held out"
		}
		fmt.Fprintf(&b, "%-12s %6d %12.1f %12.1f %6.1f %%%s\n", p.Size, p.Batch, 1e3*p.Measured, 1e3*p.Predicted, 100*p.Error(), note)
	}
	fmt.Fprintf(&b, "median error on held-out points: %.1f %%\n", 100*m.HeldOutError())
	if m.Processor {
		fmt.Fprintf(&b, "a step's time is what the processor spent on it over its threads: other programs do not count\n")
	}
	if m.StageGBs > 0 {
		fmt.Fprintf(&b, "batches reach the device at %.1f GB/s\n", m.StageGBs)
	}
	fmt.Fprintf(&b, "one loader worker makes %.0f samples/s from decoded pictures\n", m.FillPerSecond)
	return b.String()
}

// rung is a step to measure.
type rung struct {
	size    string
	arch    policy.Architecture // replaces numbers of the size's
	image   int                 // side, 0: the recipe's
	batch   int
	heldOut bool
}

// ladder lists what is measured: on the processor networks around the tiny one, on devices the sizes that are trained there.
func ladder(c Config) (base func(size string) Config, rungs []rung) {
	if c.Engine == engine.XLA {
		return PretrainConfig, []rung{{size: "small", batch: 16}, {size: "small", batch: 64}, {size: "base", batch: 16}, {size: "base", batch: 64},
			{size: "small", batch: 32, heldOut: true}, {size: "base", batch: 32, heldOut: true}, {size: "base", batch: 128, heldOut: true}}
	}
	wide := policy.Architecture{VisionDim: 192, VisionDepth: 4, Dim: 128, Depth: 3}
	middle := policy.Architecture{VisionDim: 128, VisionDepth: 4, Dim: 96}
	deep := policy.Architecture{VisionDepth: 6, Depth: 4}
	return func(size string) Config {
			c := DefaultConfig()
			c.Size = size
			return c
		}, []rung{{size: "nano", batch: 16}, {size: "nano", batch: 64}, {size: "tiny", batch: 16}, {size: "tiny", batch: 64}, {size: "tiny", arch: wide, batch: 8},
			{size: "tiny", arch: wide, batch: 32},
			{size: "tiny", batch: 32, heldOut: true}, {size: "tiny", arch: middle, batch: 16, heldOut: true}, {size: "tiny", arch: deep, batch: 32, heldOut: true},
			{size: "tiny", arch: wide, batch: 16, heldOut: true}, {size: "tiny", image: 96, batch: 16, heldOut: true}}
}

// MeasureSpeed times steps of several networks and batches on the configured engine with random data and fits the model to them. It takes
// minutes: every network is compiled.
func MeasureSpeed(ctx context.Context, c Config, now func() time.Time, progress func(done, total int)) (*SpeedModel, error) {
	if err := c.engine().Check(); err != nil {
		return nil, err
	}
	if c.Threads == 0 {
		c.Threads = runtime.NumCPU()
	}
	base, rungs := ladder(c)
	m := &SpeedModel{Processor: c.stepClock(now()).threads > 0}
	for i, r := range rungs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p, gbs, err := r.measure(c, base(r.size), now)
		if err != nil {
			return nil, fmt.Errorf("measure %s, batch %d: %w", r.size, r.batch, err)
		}
		m.Points, m.StageGBs = append(m.Points, p), max(m.StageGBs, gbs)
		if progress != nil {
			progress(i+1, len(rungs))
		}
	}
	if err := m.fit(); err != nil {
		return nil, err
	}
	for i := range m.Points {
		m.Points[i].Predicted = m.predict(m.Points[i].load)
	}
	var err error
	m.FillPerSecond, err = fillRate(c, now)
	return m, err
}

// measure times the steps of one network.
func (r rung) measure(c, sized Config, now func() time.Time) (p SpeedPoint, stageGBs float64, err error) {
	sized.Arch, sized.Batch, sized.Accumulate = r.arch, r.batch, 1
	sized.Engine, sized.Platform, sized.Plugin, sized.Precision, sized.Threads = c.Engine, c.Platform, c.Plugin, c.Precision, c.Threads
	if r.image > 0 {
		sized.ImageSize = r.image
	}
	spec, err := PlanSpec(sized)
	if err != nil {
		return p, 0, err
	}
	name := r.size
	if r.arch != (policy.Architecture{}) {
		name = fmt.Sprintf("%s %dx%d", r.size, max(r.arch.VisionDim, policy.Architectures[r.size].VisionDim), max(r.arch.VisionDepth, policy.Architectures[r.size].VisionDepth))
	}
	if r.image > 0 {
		name = fmt.Sprintf("%s %d px", name, r.image)
	}
	p = SpeedPoint{Size: name, Batch: r.batch, HeldOut: r.heldOut}
	if p.load, err = load(spec, sized.architecture(), r.batch, sized.Draws); err != nil {
		return p, 0, err
	}
	p.Measured, stageGBs, err = stepTime(sized, spec, now)
	return p, stageGBs, err
}

// warmSteps come before the ones that count: at least fewestSteps, and as many as fit into stepsFor.
const (
	warmSteps   = 2
	fewestSteps = 5
	mostSteps   = 200
	stepsFor    = 2500 * time.Millisecond
)

// stepClock measures a step. On the CPU engine it counts what the processors spent, divided by the threads: on a machine that other programs use
// too, the clock on the wall measures these.
type stepClock struct {
	wall    time.Time
	spent   time.Duration
	threads float64 // 0: by the wall
}

func (c Config) stepClock(now time.Time) stepClock {
	k := stepClock{wall: now}
	if spent, ok := processorTime(); ok && c.Engine != engine.XLA {
		k.spent, k.threads = spent, float64(c.Threads)
	}
	return k
}

func (k stepClock) since(now func() time.Time) float64 {
	if k.threads > 0 {
		spent, _ := processorTime()
		return (spent - k.spent).Seconds() / k.threads
	}
	return now().Sub(k.wall).Seconds()
}

// stepTime is the time of a step on one random batch, of the faster half the median, and the rate at which that batch reached the device.
func stepTime(c Config, spec policy.Spec, now func() time.Time) (seconds, stageGBs float64, err error) {
	arch := c.architecture()
	graph, err := policy.BuildTraining(spec, arch, c.Batch, c.Draws)
	if err != nil {
		return 0, 0, err
	}
	params, err := policy.NewParams(spec, arch, c.Seed)
	if err != nil {
		return 0, 0, err
	}
	s, err := newStepper(c, graph, newOptimiser(c, params))
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if e := s.close(); err == nil {
			err = e
		}
	}()
	b, bytes, err := randomBatch(spec, arch, graph, c)
	if err != nil {
		return 0, 0, err
	}
	var times []float64
	begin := now()
	for n := 0; n < warmSteps+mostSteps; n++ {
		one := filled{parts: []*policy.Batch{b}}
		start := now()
		if err := s.stage(&one); err != nil {
			return 0, 0, err
		}
		staged := now()
		clock := c.stepClock(staged)
		loss, norm, err := s.step(one)
		if err != nil {
			return 0, 0, err
		}
		if !finite(loss) || !finite(norm) {
			return 0, 0, fmt.Errorf("loss %v, gradient norm %v", loss, norm)
		}
		if n == warmSteps-1 {
			begin = now()
		}
		if n < warmSteps {
			continue
		}
		times = append(times, clock.since(now))
		if d := staged.Sub(start).Seconds(); one.staged != nil && d > 0 {
			stageGBs = max(stageGBs, bytes/d/1e9)
		}
		if len(times) >= fewestSteps && now().Sub(begin) > stepsFor {
			break
		}
	}
	slices.Sort(times)
	return times[len(times)/4], stageGBs, nil
}

// randomBatch has noise for actions and black pictures; times do not depend on the numbers.
func randomBatch(spec policy.Spec, arch policy.Architecture, graph *policy.Training, c Config) (*policy.Batch, float64, error) {
	b := policy.NewBatch(spec, arch, c.Batch, c.Draws)
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	valid := make([]bool, spec.Horizon)
	for i := range valid {
		valid[i] = true
	}
	for i := range c.Batch {
		b.SetChunk(i, make([]float32, spec.Horizon*spec.ActionDim()), valid, rng)
		if err := b.SetPrompt(i, "put it there"); err != nil {
			return nil, 0, err
		}
	}
	bytes := 0.0
	for _, f := range graph.Feeds(b) {
		size := 4.0
		if _, ok := f.Value.([]bool); ok {
			size = 1
		}
		bytes += size * float64(f.Node.Shape().TotalSize())
	}
	return b, bytes, nil
}

// fillRate is how many samples of the configuration one worker makes in a second: augmentation, patches, noise.
func fillRate(c Config, now func() time.Time) (float64, error) {
	spec, err := PlanSpec(c)
	if err != nil {
		return 0, err
	}
	arch := c.architecture()
	b := policy.NewBatch(spec, arch, 1, c.Draws)
	rng := rand.New(rand.NewPCG(c.Seed, 1))
	valid := make([]bool, spec.Horizon)
	c.Threads = 1
	begin, n := now(), 0
	clock := c.stepClock(begin)
	for ; n < mostSteps && (n < fewestSteps || now().Sub(begin) < stepsFor); n++ {
		for i, cam := range spec.Cameras {
			pix := imaging.NewRGB(cam.Geometry.Width, cam.Geometry.Height)
			changed := make([]byte, len(pix.Pix))
			c.Augment.Apply(changed, pix, rng)
			if err := b.SetImage(0, i, changed); err != nil {
				return 0, err
			}
		}
		b.SetChunk(0, make([]float32, spec.Horizon*spec.ActionDim()), valid, rng)
	}
	return float64(n) / max(clock.since(now), 1e-9), nil
}

// fit finds the non-negative costs with the least sum of squared relative errors: the best of all subsets of works, each by least squares.
func (m *SpeedModel) fit() error {
	var anchors []SpeedPoint
	for _, p := range m.Points {
		if !p.HeldOut {
			anchors = append(anchors, p)
		}
	}
	best := math.Inf(1)
	for subset := 1; subset < 1<<works; subset++ {
		cost, ok := solve(anchors, subset)
		if !ok {
			continue
		}
		sum := 0.0
		for _, p := range anchors {
			e := (&SpeedModel{Seconds: cost}).predict(p.load)/p.Measured - 1
			sum += e * e
		}
		if sum < best {
			best, m.Seconds = sum, cost
		}
	}
	if math.IsInf(best, 1) {
		return fmt.Errorf("fit step times: no costs explain the %d measured points", len(anchors))
	}
	return nil
}

// solve fits the works of a subset (bits); ok is false where a cost would be negative.
func solve(points []SpeedPoint, subset int) (cost [works]float64, ok bool) {
	var columns []int
	for i := range works {
		if subset>>i&1 == 1 {
			columns = append(columns, i)
		}
	}
	if len(columns) > len(points) {
		return cost, false
	}
	a, one := mat.NewDense(len(points), len(columns), nil), mat.NewVecDense(len(points), nil)
	scale := make([]float64, len(columns))
	for j, i := range columns { // columns of like size keep the equations well conditioned
		for _, p := range points {
			scale[j] = max(scale[j], p.load[i]/p.Measured)
		}
	}
	for r, p := range points {
		one.SetVec(r, 1)
		for j, i := range columns {
			a.Set(r, j, p.load[i]/p.Measured/scale[j])
		}
	}
	var x mat.VecDense
	if err := x.SolveVec(a, one); err != nil {
		return cost, false
	}
	for j, i := range columns {
		if cost[i] = x.AtVec(j) / scale[j]; cost[i] < 0 {
			return cost, false
		}
	}
	return cost, true
}
