package train

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// stepper makes optimiser steps on an engine. A loss or norm that is not finite comes back with the weights as they were.
type stepper interface {
	// step runs the parts of one batch through the graph and updates the weights, moments and average.
	step(parts []*policy.Batch) (loss, norm float64, err error)
	// sync makes the optimiser's parameters, moments and average current in the host's memory.
	sync() error
	close() error
}

// newStepper compiles the training graph for the configured engine.
func newStepper(c Config, g *policy.Training, o *optimiser) (stepper, error) {
	if c.Engine == engine.XLA {
		return newDeviceStepper(c, g, o)
	}
	return newHostStepper(c, g, o)
}

// hostStepper computes gradients on the processor, in the optimiser's own memory.
type hostStepper struct {
	*optimiser
	graph   *policy.Training
	program *cpu.Program
	sums    [][]float32 // of the gradients, where a batch has several parts
}

func newHostStepper(c Config, g *policy.Training, o *optimiser) (*hostStepper, error) {
	program, err := cpu.Compile(g.Graph, g.Outputs(), cpu.Options{Threads: c.Threads})
	if err != nil {
		return nil, fmt.Errorf("compile training step: %w", err)
	}
	for i, info := range o.params.Info {
		if err := program.Bind(g.Params[i], o.params.View(info.Name)); err != nil {
			return nil, fmt.Errorf("parameter %q: %w", info.Name, err)
		}
	}
	return &hostStepper{optimiser: o, graph: g, program: program}, nil
}

func (s *hostStepper) step(parts []*policy.Batch) (loss, norm float64, err error) {
	if len(parts) > 1 {
		return s.accumulate(parts)
	}
	if loss, err = s.run(parts[0]); err != nil || !finite(loss) {
		return loss, 0, err
	}
	grads := make([][]float32, len(s.graph.Gradients))
	for i, g := range s.graph.Gradients {
		grads[i] = s.program.Float32(g)
	}
	return loss, s.update(grads), nil
}

// run computes loss and gradients of one part.
func (s *hostStepper) run(b *policy.Batch) (loss float64, err error) {
	for _, f := range s.graph.Feeds(b) {
		if err := s.program.Set(f.Node, f.Value); err != nil {
			return 0, err
		}
	}
	if err := s.program.Run(); err != nil {
		return 0, err
	}
	return s.program.Scalar(s.graph.Loss), nil
}

// accumulate adds up the gradients of the parts, each weighted by its valid scalars, so that they are those of one larger batch: each
// part has divided by its own number.
func (s *hostStepper) accumulate(parts []*policy.Batch) (loss, norm float64, err error) {
	if s.sums == nil {
		for _, info := range s.params.Info {
			s.sums = append(s.sums, make([]float32, info.Len()))
		}
	}
	total := 0.0
	for _, b := range parts {
		total += b.Valid()
	}
	for p, b := range parts {
		share := b.Valid() / total
		if share == 0 { // nothing valid: its loss is 0/0
			continue
		}
		l, err := s.run(b)
		if err != nil || !finite(l) {
			return l, 0, err
		}
		loss += share * l
		for i, g := range s.graph.Gradients {
			sum, grad := s.sums[i], s.program.Float32(g)
			for j, v := range grad {
				if p == 0 {
					sum[j] = 0
				}
				sum[j] += float32(share) * v
			}
		}
	}
	return loss, s.update(s.sums), nil
}

func (s *hostStepper) sync() error  { return nil }
func (s *hostStepper) close() error { return nil }

// onlyAdam refuses what a device's step can not do yet.
func (c Config) onlyAdam(p *policy.Params) error {
	if c.accumulated() > 1 || c.Optimiser != adamW {
		return fmt.Errorf("engine %s makes AdamW steps on whole batches: set accumulate=1 and optimiser=%s, or engine=%s", engine.XLA, adamW, engine.CPU)
	}
	for i, f := range c.factors(p) {
		if f != 1 {
			return fmt.Errorf("engine %s has one learning rate for all parameters, %s has %v times it: set encoder_rate, text_rate and layer_decay to 1 and freeze nothing, or engine=%s",
				engine.XLA, p.Info[i].Name, f, engine.CPU)
		}
	}
	return nil
}

// deviceStepper keeps weights, moments and average on XLA's devices, where the whole step is one program.
type deviceStepper struct {
	*optimiser
	graph   *policy.Training
	program *xla.Step
	state   xla.State // views of the optimiser's memory
	synced  int       // step at which the host's memory was current
}

func newDeviceStepper(c Config, g *policy.Training, o *optimiser) (*deviceStepper, error) {
	if err := c.onlyAdam(o.params); err != nil {
		return nil, err
	}
	eng, err := engine.Open(c.engine())
	if err != nil {
		return nil, err
	}
	t := xla.Training{Loss: g.Loss, Params: g.Params, Gradients: g.Gradients, Beta1: c.Beta1, Beta2: c.Beta2, Clip: c.Clip}
	s := &deviceStepper{optimiser: o, graph: g, synced: o.steps}
	for _, info := range o.params.Info {
		t.Decays = append(t.Decays, info.Decay())
		s.state.Weights = append(s.state.Weights, o.params.View(info.Name))
		s.state.First = append(s.state.First, o.m.View(info.Name))
		s.state.Second = append(s.state.Second, o.v.View(info.Name))
		s.state.Average = append(s.state.Average, o.ema.View(info.Name))
	}
	if s.program, err = eng.Client().CompileTraining(t, eng.XLA(true)); err != nil {
		return nil, fmt.Errorf("compile training step: %w", err)
	}
	return s, s.program.Write(s.state)
}

func (s *deviceStepper) step(parts []*policy.Batch) (loss, norm float64, err error) {
	for _, f := range s.graph.Feeds(parts[0]) {
		if err := s.program.Set(f.Node, f.Value); err != nil {
			return 0, 0, err
		}
	}
	c := s.cfg
	loss, norm, err = s.program.Run(xla.Rates{Rate: c.rateAt(s.steps), Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Epsilon, Decay: c.Decay,
		Average: c.emaAt(s.steps), Step: s.steps + 1})
	if err == nil && finite(loss) && finite(norm) {
		s.steps++
	}
	return loss, norm, err
}

func (s *deviceStepper) sync() error {
	if s.synced == s.steps {
		return nil
	}
	if err := s.program.Read(s.state); err != nil {
		return err
	}
	s.synced = s.steps
	return nil
}

func (s *deviceStepper) close() error { return s.program.Close() }
