//go:build xla && cgo

package xla_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/pinch-robotics/pinch/internal/testpeer"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/engine/kernel"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// hostDevices is how many devices XLA's CPU platform shows in these tests.
const hostDevices = 8

func TestMain(m *testing.M) {
	// Compiling dominates these tests; what the programs compute does not depend on it.
	if os.Getenv("XLA_FLAGS") == "" {
		_ = os.Setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
	}
	os.Exit(m.Run())
}

var open = sync.OnceValues(func() (*xla.Client, error) { return xla.Open(xla.OpenOptions{Platform: xla.CPU, Devices: hostDevices}) })

func client(t *testing.T) *xla.Client {
	t.Helper()
	testpeer.Python(t, "lammps_jax_pjrt_cpu")
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// network is a small policy-like graph: patches and text attend, an adaLN block turns noise into a velocity.
type network struct {
	inputs, params, grads gorgonia.Nodes
	decays                []bool
	loss                  *op.Node
}

func newNetwork(t *testing.T, batch int) *network {
	t.Helper()
	n := &network{}
	g := gorgonia.NewGraph()
	input := func(name string, shape ...int) *op.Node {
		x := op.Input(g, op.Float32, name, shape...)
		n.inputs = append(n.inputs, x)
		return x
	}
	param := func(name string, shape ...int) *op.Node {
		p := op.Param(g, op.Float32, name, shape...)
		n.params, n.decays = append(n.params, p), append(n.decays, len(shape) > 1)
		return p
	}
	const d, t1, h = 16, 4, 6
	if err := op.Build(func() {
		x := op.Linear(input("images", batch*2, t1, 12), param("patch.w", 12, d), param("patch.b", d))
		x = op.Reshape(op.Attention(x, x, op.GELU(x), nil, 2), batch, 2*t1, d)
		ids := op.Input(g, op.Int32, "ids", batch, 3)
		mask := op.Input(g, op.Bool, "mask", batch, 1, 2*t1+3)
		n.inputs = append(n.inputs, ids, mask)
		text := op.Embedding(param("table", 11, d), ids)
		context := op.LayerNorm(op.Concat(1, x, text), param("norm.gain", d), param("norm.bias", d), 1e-5)
		c := op.SiLU(op.Linear(input("time", batch, h, 8), param("time.w", 8, 3*d), nil))
		part := func(i int) *op.Node { return op.Slice(c, 2, i*d, (i+1)*d) }
		a := op.Linear(input("noisy", batch, h, 5), param("in.w", 5, d), nil)
		q := op.RoPE(op.Linear(op.Modulate(op.RMSNorm(a, nil, 1e-5), part(0), part(1)), param("q.w", d, d), nil), 2, 100, 0)
		a = op.Gate(a, op.Attention(q, context, context, mask, 2), part(2))
		y := op.Linear(a, param("out.w", d, 5), param("out.b", 5))
		n.loss = op.MaskedMSE(y, input("target", batch, h, 5), input("weight", batch, h))
		n.grads = op.Grad(n.loss, n.params...)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *network) outputs() gorgonia.Nodes { return append(gorgonia.Nodes{n.loss}, n.grads...) }

// draw gives an input or parameter random values.
func draw(n *gorgonia.Node, rng *rand.Rand) any {
	size := n.Shape().TotalSize()
	switch n.Dtype() {
	case op.Int32:
		v := make([]int32, size)
		for i := range v {
			v[i] = int32(rng.IntN(11))
		}
		return v
	case op.Bool:
		v := make([]bool, size)
		for i := range v {
			v[i] = rng.IntN(4) > 0
		}
		return v
	}
	v := make([]float32, size)
	for i := range v {
		v[i] = float32(0.5 * rng.NormFloat64())
		if n.Name() == "weight" {
			v[i] = float32(rng.IntN(2))
		}
	}
	return v
}

// training is the step of a network.
func (n *network) training() xla.Training {
	return xla.Training{Loss: n.loss, Params: n.params, Gradients: n.grads, Decays: n.decays, Beta1: 0.9, Beta2: 0.95, Clip: 0.5}
}

// rates are the numbers of step i, 1 first.
func rates(i int) xla.Rates {
	return xla.Rates{Rate: 1e-2, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Average: 0.9, Step: i}
}

// state draws first weights; moments are zero.
func (n *network) state(seed uint64) xla.State {
	rng := rand.New(rand.NewPCG(seed, 1))
	var s xla.State
	for _, p := range n.params {
		w := draw(p, rng).([]float32)
		s.Weights, s.Average = append(s.Weights, w), append(s.Average, slices.Clone(w))
		s.First, s.Second = append(s.First, make([]float32, len(w))), append(s.Second, make([]float32, len(w)))
	}
	return s
}

// worst is the largest distance of two lists of slices, relative to the size of the elements, at least 1.
func worst(a, b [][]float32) (d float64) {
	for i := range a {
		for j := range a[i] {
			x, y := float64(a[i][j]), float64(b[i][j])
			d = math.Max(d, math.Abs(x-y)/math.Max(1, math.Abs(y)))
		}
	}
	return d
}

// run makes steps on a number of devices, with batches drawn from the step's number, and returns losses, norms and the end state.
func (n *network) run(t *testing.T, devices, steps int) (metrics []float64, s xla.State) {
	t.Helper()
	p, err := client(t).CompileTraining(n.training(), xla.Options{Devices: devices})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	s = n.state(3)
	if err := p.Write(s); err != nil {
		t.Fatal(err)
	}
	for i := range steps {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for _, in := range n.inputs {
			if err := p.Set(in, draw(in, rng)); err != nil {
				t.Fatal(err)
			}
		}
		loss, norm, err := p.Run(rates(i + 1))
		if err != nil {
			t.Fatal(err)
		}
		metrics = append(metrics, loss, norm)
	}
	if err := p.Read(s); err != nil {
		t.Fatal(err)
	}
	return metrics, s
}

// TestShardedTraining holds that 20 steps with the batch cut over 1, 2, 8 and, in `make soak`, 4 devices give the same losses and weights to 1e-6, and the
// same as the CPU engine with the optimiser's kernels; and that all device memory comes back.
func TestShardedTraining(t *testing.T) {
	const steps = 20
	before := pjrt.BuffersAlive()
	n := newNetwork(t, 8)
	want, end := n.run(t, 1, steps)
	host, hostEnd := n.runHost(t, steps)
	for i := range want {
		if d := math.Abs(want[i]-host[i]) / math.Max(1, host[i]); d > 1e-5 {
			t.Errorf("metric %d: %v on one device, %v on the CPU engine", i, want[i], host[i])
		}
	}
	if d := worst(end.Weights, hostEnd.Weights); d > 1e-4 {
		t.Errorf("weights after %d steps are %.2g from the CPU engine's", steps, d)
	}
	if want[2*steps-2] >= want[0] {
		t.Errorf("the loss did not fall: %v to %v", want[0], want[2*steps-2])
	}
	counts := []int{2, 8}
	if os.Getenv("PINCH_SOAK") != "" {
		counts = []int{2, 4, 8}
	}
	for _, devices := range counts {
		got, state := n.run(t, devices, steps)
		for i := range want {
			if d := math.Abs(got[i]-want[i]) / math.Max(1, want[i]); d > 1e-6 {
				t.Errorf("%d devices: metric %d is %v, on one device %v", devices, i, got[i], want[i])
			}
		}
		for what, pair := range map[string][2][][]float32{"weights": {state.Weights, end.Weights}, "average": {state.Average, end.Average}, "first moment": {state.First, end.First}} {
			if d := worst(pair[0], pair[1]); d > 1e-6*10 {
				t.Errorf("%d devices: %s differ by %.2g", devices, what, d)
			}
		}
	}
	if alive := pjrt.BuffersAlive(); alive != before {
		t.Errorf("%d device buffers left", alive-before)
	}
}

// runHost is run on the CPU engine with the optimiser's kernels.
func (n *network) runHost(t *testing.T, steps int) (metrics []float64, s xla.State) {
	t.Helper()
	p, err := cpu.Compile(n.loss.Graph(), n.outputs(), cpu.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	s = n.state(3)
	for i, w := range n.params {
		if err := p.Bind(w, s.Weights[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i := range steps {
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for _, in := range n.inputs {
			if err := p.Set(in, draw(in, rng)); err != nil {
				t.Fatal(err)
			}
		}
		if err := p.Run(); err != nil {
			t.Fatal(err)
		}
		var squares float64
		for _, g := range n.grads {
			squares += kernel.SumSquares(p.Float32(g))
		}
		norm, r := math.Sqrt(squares), rates(i+1)
		a := kernel.Adam{Rate: r.Rate, Beta1: r.Beta1, Beta2: r.Beta2, Eps: r.Eps, Step: r.Step, GradScale: min(1, n.training().Clip/norm)}
		for j, g := range n.grads {
			a.Decay = 0
			if n.decays[j] {
				a.Decay = r.Decay
			}
			kernel.AdamW(s.Weights[j], p.Float32(g), s.First[j], s.Second[j], a)
			kernel.EMA(s.Average[j], s.Weights[j], r.Average)
		}
		metrics = append(metrics, p.Scalar(n.loss), norm)
	}
	return metrics, s
}

// TestNotFinite holds that a step whose loss is not finite leaves weights, moments and average as they were.
func TestNotFinite(t *testing.T) {
	n := newNetwork(t, 2)
	p, err := client(t).CompileTraining(n.training(), xla.Options{Precision: xla.BFloat16})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	s := n.state(4)
	if err := p.Write(s); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 7))
	for _, in := range n.inputs {
		v := draw(in, rng)
		if in.Name() == "target" {
			v.([]float32)[3] = float32(math.NaN())
		}
		if err := p.Set(in, v); err != nil {
			t.Fatal(err)
		}
		if in.Name() == "weight" {
			for i := range v.([]float32) {
				v.([]float32)[i] = 1
			}
			if err := p.Set(in, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	loss, _, err := p.Run(rates(1))
	if err != nil || !math.IsNaN(loss) {
		t.Fatalf("loss %v, error %v; want NaN", loss, err)
	}
	want := n.state(4)
	if err := p.Read(s); err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2][][]float32{"weights": {s.Weights, want.Weights}, "average": {s.Average, want.Average}, "first": {s.First, want.First}, "second": {s.Second, want.Second}} {
		if d := worst(pair[0], pair[1]); d != 0 {
			t.Errorf("%s changed by %v", what, d)
		}
	}
}

// TestInputs holds that wrong data is refused before it reaches a device, ids outside their table by number.
func TestInputs(t *testing.T) {
	n := newNetwork(t, 2)
	p, err := client(t).Compile(n.outputs()[:1], xla.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for _, in := range n.inputs {
		var bad any
		switch in.Name() {
		case "ids":
			bad = []int32{0, 1, 2, 3, 11, 4}
		case "weight":
			bad = make([]float64, 12)
		case "time":
			bad = make([]float32, 3)
		default:
			continue
		}
		if err := p.Set(in, bad); err == nil {
			t.Errorf("input %q took %T of %v", in.Name(), bad, bad)
		} else {
			t.Log(err)
		}
	}
	if err := p.Run(); err == nil {
		t.Error("ran without inputs")
	}
	if _, err := client(t).Compile(n.outputs(), xla.Options{Devices: 3}); err == nil {
		t.Error("a batch of 2 was cut over 3 devices")
	}
}

// TestFlow holds that a sampler in one program equals the encoder and ten Euler steps run one by one.
func TestFlow(t *testing.T) {
	const steps, b, h, d = 10, 1, 4, 8
	eg, sg := gorgonia.NewGraph(), gorgonia.NewGraph()
	var f xla.Flow
	var obs, w, v *op.Node
	if err := op.Build(func() {
		obs, w = op.Input(eg, op.Float32, "obs", b, d), op.Param(eg, op.Float32, "w", d, d)
		f.Encoded = gorgonia.Nodes{op.Tanh(op.Linear(obs, w, nil))}
		f.X, f.Time = op.Input(sg, op.Float32, "x", b, h, d), op.Input(sg, op.Float32, "t", b, d)
		c := op.Input(sg, op.Float32, "c", b, d)
		f.Inputs = gorgonia.Nodes{c}
		v = op.Param(sg, op.Float32, "v", d, d)
		f.Velocity = op.Modulate(op.Tanh(op.Linear(f.X, v, nil)), c, f.Time)
	}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(8, 8))
	for range steps {
		f.Times = append(f.Times, draw(f.Time, rng).([]float32))
	}
	values := map[*op.Node][]float32{}
	for _, n := range []*op.Node{obs, w, v, f.X} {
		values[n] = draw(n, rng).([]float32)
	}
	p, err := client(t).CompileFlow(f, xla.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	for n, data := range values {
		if err := p.Set(n, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Run(); err != nil {
		t.Fatal(err)
	}
	got, err := p.Read(f.Velocity)
	if err != nil {
		t.Fatal(err)
	}

	encode, err := cpu.Compile(eg, f.Encoded, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	move, err := cpu.Compile(sg, gorgonia.Nodes{f.Velocity}, cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := func(p *cpu.Program, n *op.Node, data []float32) {
		if err := p.Set(n, data); err != nil {
			t.Fatal(err)
		}
	}
	set(encode, obs, values[obs])
	set(encode, w, values[w])
	if err := encode.Run(); err != nil {
		t.Fatal(err)
	}
	set(move, f.Inputs[0], encode.Float32(f.Encoded[0]))
	set(move, v, values[v])
	x := slices.Clone(values[f.X])
	for k := range steps {
		set(move, f.X, x)
		set(move, f.Time, f.Times[k])
		if err := move.Run(); err != nil {
			t.Fatal(err)
		}
		for i, d := range move.Float32(f.Velocity) {
			x[i] -= d / steps
		}
	}
	if d := worst([][]float32{got}, [][]float32{x}); d > 1e-5 {
		t.Errorf("the sampler's end is %.2g from ten steps: %v and %v", d, got[:4], x[:4])
	}
}
