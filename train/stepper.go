package train

import (
	"fmt"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/cpu"
)

// stepper makes optimiser steps on an engine. A loss or norm that is not finite comes back with the weights as they were.
type stepper interface {
	// stage brings a batch to where it will be used, beside the step under way; loader workers call it.
	stage(b *filled) error
	// step runs the parts of one batch through the graph and updates the weights, moments and average.
	step(b filled) (loss, norm float64, err error)
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

func (s *hostStepper) stage(*filled) error { return nil }

func (s *hostStepper) step(b filled) (loss, norm float64, err error) {
	if len(b.parts) > 1 {
		return s.accumulate(b.parts)
	}
	if loss, err = s.run(b.parts[0]); err != nil || !finite(loss) {
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
	first := true
	for p, share := range shares(parts) {
		if share == 0 { // nothing valid: its loss is 0/0
			continue
		}
		b := parts[p]
		l, err := s.run(b)
		if err != nil || !finite(l) {
			return l, 0, err
		}
		loss += share * l
		for i, g := range s.graph.Gradients {
			sum, grad := s.sums[i], s.program.Float32(g)
			for j, v := range grad {
				if first {
					sum[j] = 0
				}
				sum[j] += float32(share) * v
			}
		}
		first = false
	}
	return loss, s.update(s.sums), nil
}

// shares are the parts' shares of the valid scalars.
func shares(parts []*policy.Batch) []float64 {
	total := 0.0
	for _, b := range parts {
		total += b.Valid()
	}
	out := make([]float64, len(parts))
	for p, b := range parts {
		out[p] = b.Valid() / total
	}
	return out
}

func (s *hostStepper) sync() error  { return nil }
func (s *hostStepper) close() error { return nil }
