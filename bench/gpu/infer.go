package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// eulerSteps is how often the velocity is computed for one chunk.
const eulerSteps = 10

// requests are timed after a few that warm up.
const requests, warmRequests = 300, 20

// sampler is the network for inference: the encoder's graph and the velocity's.
type sampler struct {
	encoder, step *model
	flow          xla.Flow
}

func newSampler(s size) (*sampler, error) {
	r := &sampler{encoder: &model{size: s, batch: 1, g: gorgonia.NewGraph()}, step: &model{size: s, batch: 1, g: gorgonia.NewGraph()}}
	err := op.Build(func() {
		e, m := r.encoder, r.step
		e.inputs(false)
		context := e.remember(e.encode())
		r.flow.Encoded = append(append(r.flow.Encoded, context.keys...), context.values...)
		m.contextMask = op.Input(m.g, op.Bool, "context_mask", 1, 1, s.context())
		m.noisy = op.Input(m.g, op.Float32, "noisy", 1, s.horizon, actionDim)
		m.time = op.Input(m.g, op.Float32, "time", 1, s.horizon, timeDim)
		var given memory
		for i := range s.depth {
			given.keys = append(given.keys, op.Input(m.g, op.Float32, fmt.Sprintf("keys.%d", i), 1, s.context(), s.dim))
			given.values = append(given.values, op.Input(m.g, op.Float32, fmt.Sprintf("values.%d", i), 1, s.context(), s.dim))
		}
		m.velocity = m.act(m.noisy, m.time, given)
		r.flow.Inputs = append(append(r.flow.Inputs, given.keys...), given.values...)
		r.flow.X, r.flow.Time, r.flow.Velocity = m.noisy, m.time, m.velocity
	})
	for k := range eulerSteps {
		row := make([]float32, s.horizon*timeDim)
		for i := range row {
			row[i] = float32(k+1) / eulerSteps * float32(i%timeDim) / timeDim
		}
		r.flow.Times = append(r.flow.Times, row)
	}
	return r, err
}

// infer times single requests from host to host: observation in, chunk out.
func infer(s size, o options) error {
	r, err := newSampler(s)
	if err != nil {
		return err
	}
	client, xo, err := o.open()
	if err != nil {
		return err
	}
	begin := time.Now()
	p, err := client.CompileFlow(r.flow, xo)
	if err != nil {
		return err
	}
	compiled := time.Since(begin)
	for _, m := range []*model{r.encoder, r.step} {
		for i, w := range m.weights(1) {
			if err := p.Bind(m.params[i], w); err != nil {
				return err
			}
		}
	}
	full, err := newModel(s, 1, false)
	if err != nil {
		return err
	}
	var feeds []feed
	for _, d := range full.data(2) {
		for _, m := range []*model{r.encoder, r.step} {
			for _, n := range m.g.ByName(d.node.Name()) {
				if p.Uses(n) {
					feeds = append(feeds, feed{n, d.data})
				}
			}
		}
	}
	var times []time.Duration
	for n := range warmRequests + requests {
		begin := time.Now()
		for _, d := range feeds {
			if err := p.Set(d.node, d.data); err != nil {
				return err
			}
		}
		if err := p.Run(); err != nil {
			return err
		}
		if _, err := p.Read(r.flow.Velocity); err != nil {
			return err
		}
		if n >= warmRequests {
			times = append(times, time.Since(begin))
		}
	}
	slices.Sort(times)
	ms := func(share float64) float64 { return 1e3 * times[int(share*float64(len(times)-1))].Seconds() }
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"program": "pinch infer", "size": o.size, "steps": eulerSteps, "requests": requests,
		"compile_s": compiled.Seconds(), "p50_ms": ms(0.5), "p99_ms": ms(0.99), "memory_gb": float64(p.Memory().Total()) / 1e9})
}
