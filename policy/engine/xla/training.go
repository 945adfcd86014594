//go:build xla && cgo

package xla

import (
	"errors"
	"fmt"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/gomlx/go-xla/pkg/types/dtypes"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// Step is a compiled training step with weights and moments on the devices. It is not safe for concurrent use, except that Stage may run
// beside Run.
type Step struct {
	client   *Client
	training Training
	module   *Module
	exec     *pjrt.LoadedExecutable
	memory   MemoryStats
	place    map[*gorgonia.Node]int
	states   [][]*pjrt.Buffer // by device, then as in the module
	inputs   [][]*pjrt.Buffer // by argument, then device
	donate   []bool
}

// CompileTraining compiles a training step. Weights must be written before the first run.
func (c *Client) CompileTraining(t Training, o Options) (*Step, error) {
	o, err := c.fill(o)
	if err != nil {
		return nil, err
	}
	m, err := EmitTraining(t, o)
	if err != nil {
		return nil, err
	}
	s := &Step{client: c, training: t, module: m, place: map[*gorgonia.Node]int{}, inputs: make([][]*pjrt.Buffer, len(m.Arguments)), states: make([][]*pjrt.Buffer, m.Options.Devices)}
	for i, a := range m.Arguments {
		s.place[a.Node] = i
	}
	states := statesPerParam * len(t.slabs())
	perDevice := states + 1 + len(m.Arguments)
	s.donate = make([]bool, perDevice*m.Options.Devices)
	for i := range s.donate {
		s.donate[i] = i%perDevice < states
	}
	s.exec, s.memory, err = c.compile(m)
	return s, err
}

// Memory tells what a step takes on each device.
func (s *Step) Memory() MemoryStats { return s.memory }

// Close gives the step's memory back.
func (s *Step) Close() error {
	var err error
	for _, list := range append(s.states, s.inputs...) {
		err = errors.Join(err, destroy(list))
	}
	return errors.Join(err, s.exec.Destroy())
}

// Write copies weights, moments and average to the devices.
func (s *Step) Write(state State) error {
	for d := range s.states {
		if err := destroy(s.states[d]); err != nil {
			return err
		}
		s.states[d] = nil
	}
	for _, slab := range s.training.slabs() {
		for j, parts := range state.parts() {
			data := slab.gather(parts)
			if data == nil {
				return fmt.Errorf("write %s: not given", stateNames[j])
			}
			buffers, err := s.client.upload(slabArgument(slab), data, len(s.states))
			if err != nil {
				return fmt.Errorf("write %s: %w", stateNames[j], err)
			}
			for d := range s.states {
				s.states[d] = append(s.states[d], buffers[d])
			}
		}
	}
	return nil
}

// slabArgument describes a slab to upload.
func slabArgument(s slab) Argument {
	return Argument{Name: "slab", DType: op.Float32, Shape: []int{s.size}}
}

// Read copies weights, moments and average from the first device into the state's slices; what is nil is left out.
func (s *Step) Read(state State) error {
	for k, slab := range s.training.slabs() {
		for j, parts := range state.parts() {
			if parts == nil {
				continue
			}
			if len(s.states[0]) == 0 {
				return fmt.Errorf("read %s: nothing was written", stateNames[j])
			}
			data := make([]float32, slab.size)
			if err := s.states[0][k*statesPerParam+j].ToHost(raw(data)); err != nil {
				return fmt.Errorf("read %s: %w", stateNames[j], err)
			}
			slab.scatter(data, parts)
		}
	}
	return nil
}

// Set copies data to the devices as an input's value.
func (s *Step) Set(n *gorgonia.Node, data any) error {
	i, ok := s.place[n]
	if !ok {
		return fmt.Errorf("input %q: the loss does not depend on it", n.Name())
	}
	buffers, err := s.client.upload(s.module.Arguments[i], data, len(s.states))
	if err != nil {
		return fmt.Errorf("set %q: %w", n.Name(), err)
	}
	old := s.inputs[i]
	s.inputs[i] = buffers
	return destroy(old)
}

// Run makes one step and returns the loss and the gradients' global norm before clipping. If either is not finite the weights stay as
// they were.
func (s *Step) Run(r Rates) (loss, norm float64, err error) {
	var args []*pjrt.Buffer
	var hypers []*pjrt.Buffer
	numbers := r.vector()
	for d := range s.states {
		if len(s.states[d]) == 0 {
			return 0, 0, fmt.Errorf("run: weights were never written")
		}
		hyper, err := s.client.client.BufferFromHost().FromRawData(raw(numbers), dtypes.Float32, []int{hyperCount}).ToDeviceNum(d).Done()
		if err != nil {
			return 0, 0, errors.Join(fmt.Errorf("run: copy the step's numbers to device %d: %w", d, err), destroy(hypers))
		}
		hypers = append(hypers, hyper)
		args = append(append(args, s.states[d]...), hyper)
		for i, list := range s.inputs {
			if list == nil {
				return 0, 0, errors.Join(fmt.Errorf("run: input %q was never set", s.module.Arguments[i].Node.Name()), destroy(hypers))
			}
			args = append(args, list[d])
		}
	}
	results, err := s.exec.Execute(args...).SetDonate(s.donate).Done()
	if err = errors.Join(err, destroy(hypers)); err != nil {
		return 0, 0, fmt.Errorf("run training step: %w", err)
	}
	per := len(results) / len(s.states)
	metrics := make([]float32, 2)
	for d := range s.states {
		s.states[d] = results[d*per : (d+1)*per-1]
		last := results[(d+1)*per-1]
		if d == 0 {
			err = last.ToHost(raw(metrics))
		}
		if err = errors.Join(err, last.Destroy()); err != nil {
			return 0, 0, fmt.Errorf("read the step's loss: %w", err)
		}
	}
	return float64(metrics[0]), float64(metrics[1]), nil
}
