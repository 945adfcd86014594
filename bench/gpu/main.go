// Command gpu measures the XLA engine on one accelerator with a policy of the family's architecture: training steps on random data that
// lies on the device. reference_jax.py and reference_torch.py beside it are the same network in JAX and PyTorch; check.sh compares the
// three on a small size, and run.sh measures all on one machine.
//
//	gpu dump -size nano -batch 2 DIR      writes weights and a batch for the references
//	gpu step -size base -batch 64 ...     compiles and times training steps, one line of JSON
//	gpu infer -size base ...              compiles and times single requests from host to host, one line of JSON
package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gpu:", err)
		os.Exit(1)
	}
}

// options of all verbs.
type options struct {
	size, precision, platform, plugin, text string
	batch, steps, warm, devices             int
	noFused                                 bool
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want a verb: dump, step or infer")
	}
	o := options{}
	f := flag.NewFlagSet(args[0], flag.ContinueOnError)
	f.StringVar(&o.size, "size", "nano", "nano, small, base or large")
	f.StringVar(&o.precision, "precision", "bfloat16", "bfloat16 or float32")
	f.StringVar(&o.platform, "platform", "cuda", "cuda or cpu")
	f.StringVar(&o.plugin, "plugin", "", "path of the PJRT plugin (default: JAX's, where pip puts it)")
	f.StringVar(&o.text, "text", "", "also write the program's StableHLO to this file")
	f.IntVar(&o.batch, "batch", 64, "samples")
	f.IntVar(&o.steps, "steps", 30, "timed steps")
	f.IntVar(&o.warm, "warm", 5, "steps before them")
	f.IntVar(&o.devices, "devices", 1, "devices that share the batch")
	f.BoolVar(&o.noFused, "plain-attention", false, "plain attention instead of cuDNN's")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	s, ok := sizes[o.size]
	if !ok {
		return fmt.Errorf("size %q: want nano, small, base or large", o.size)
	}
	switch args[0] {
	case "dump":
		return dump(s, o, f.Arg(0))
	case "step":
		return step(s, o)
	case "infer":
		return infer(s, o)
	}
	return fmt.Errorf("verb %q: want dump, step or infer", args[0])
}

// dump writes weights.bin and batch.bin, little-endian numbers one after another, and the order of both in names.json.
func dump(s size, o options, dir string) error {
	m, err := newModel(s, o.batch, true)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	type entry struct {
		Name  string
		Shape []int
		DType string
	}
	var entries struct{ Weights, Batch []entry }
	var weights, batch []byte
	for i, w := range m.weights(1) {
		entries.Weights = append(entries.Weights, entry{m.names[i], m.params[i].Shape(), "float32"})
		if weights, err = binary.Append(weights, binary.LittleEndian, w); err != nil {
			return err
		}
	}
	for _, d := range m.data(2) {
		kind := "float32"
		switch d.data.(type) {
		case []int32:
			kind = "int32"
		case []bool:
			kind = "bool"
		}
		entries.Batch = append(entries.Batch, entry{d.node.Name(), d.node.Shape(), kind})
		if batch, err = binary.Append(batch, binary.LittleEndian, d.data); err != nil {
			return err
		}
	}
	names, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"weights.bin": weights, "batch.bin": batch, "names.json": names} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// open takes the devices.
func (o options) open() (*xla.Client, xla.Options, error) {
	if o.noFused {
		if err := os.Setenv("PINCH_NO_CUDNN", "1"); err != nil {
			return nil, xla.Options{}, err
		}
	}
	c, err := xla.Open(xla.OpenOptions{Platform: xla.Platform(o.platform), Plugin: o.plugin, Devices: o.devices})
	return c, xla.Options{Precision: xla.Precision(o.precision), Devices: o.devices}, err
}

// The optimiser's numbers, the same in the references.
const (
	beta1, beta2 = 0.9, 0.95
	clip         = 1.0
	rate         = 1e-4
	decay        = 0.01
	average      = 0.999
)

func rates(step int) xla.Rates {
	return xla.Rates{Rate: rate, Beta1: beta1, Beta2: beta2, Eps: 1e-8, Decay: decay, Average: average, Step: step}
}

// peak is the matrix rate of an H200 on random bfloat16 data in FLOP/s, against which the share of the peak (MFU) is counted.
const peak = 790e12

func step(s size, o options) error {
	m, err := newModel(s, o.batch, true)
	if err != nil {
		return err
	}
	t := xla.Training{Loss: m.loss, Params: m.params, Gradients: m.gradients, Decays: m.decays, Beta1: beta1, Beta2: beta2, Clip: clip}
	begin := time.Now()
	client, xo, err := o.open()
	if err != nil {
		return err
	}
	opened := time.Since(begin)
	if o.text != "" {
		module, err := xla.EmitTraining(t, xo)
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.text, []byte(module.Text), 0o644); err != nil {
			return err
		}
	}
	begin = time.Now()
	p, err := client.CompileTraining(t, xo)
	if err != nil {
		return err
	}
	compiled := time.Since(begin)
	w := m.weights(1)
	zeros := make([][]float32, len(w))
	parameters := 0
	for i := range w {
		zeros[i] = make([]float32, len(w[i]))
		parameters += len(w[i])
	}
	if err := p.Write(xla.State{Weights: w, First: zeros, Second: zeros, Average: w}); err != nil {
		return err
	}
	for _, d := range m.data(2) {
		if err := p.Set(d.node, d.data); err != nil {
			return err
		}
	}
	var losses []float64
	var times []time.Duration
	for n := range o.warm + o.steps {
		begin := time.Now()
		loss, norm, err := p.Run(rates(n + 1))
		if err != nil {
			return err
		}
		if n < 5 {
			losses = append(losses, loss, norm)
		}
		if n >= o.warm {
			times = append(times, time.Since(begin))
		}
	}
	slices.Sort(times)
	median := times[len(times)/2].Seconds()
	mem := p.Memory()
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"program": "pinch", "size": o.size, "batch": o.batch, "devices": o.devices, "parameters": parameters, "open_s": opened.Seconds(),
		"compile_s": compiled.Seconds(), "median_ms": 1e3 * median, "min_ms": 1e3 * times[0].Seconds(), "max_ms": 1e3 * times[len(times)-1].Seconds(),
		"samples_per_s": float64(o.batch) / median, "tflop_per_sample": m.flops() / 1e12, "mfu": float64(o.batch) * m.flops() / median / peak / float64(o.devices),
		"memory_gb": float64(mem.Total()) / 1e9, "temporary_gb": float64(mem.Temporary) / 1e9, "losses_and_norms": losses,
	})
}
