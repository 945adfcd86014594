//go:build xla && cgo

package xla

import (
	"errors"
	"fmt"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// Step is a compiled training step with weights and moments on the devices. It is not safe for concurrent use, except that Stage may run
// beside every other method but Close.
type Step struct {
	client   *Client
	training Training
	options  Options
	slabs    []slab
	module   *Module // of the program that takes the graph's inputs
	exec     *pjrt.LoadedExecutable
	add      *pjrt.LoadedExecutable // of a step in parts; nil without
	memory   MemoryStats
	place    map[*gorgonia.Node]int
	states   [][]*pjrt.Buffer // by device, then as in the module
	sums     [][]*pjrt.Buffer // by device: gradients and loss of the parts so far
	inputs   [][]*pjrt.Buffer // by argument, then device
}

// CompileTraining compiles a training step. Weights must be written before the first run.
func (c *Client) CompileTraining(t Training, o Options) (*Step, error) {
	o, err := c.fill(o)
	if err != nil {
		return nil, err
	}
	s := &Step{client: c, training: t, options: o, slabs: t.slabs(o), place: map[*gorgonia.Node]int{}, states: make([][]*pjrt.Buffer, o.Devices)}
	if t.Parts {
		err = s.compileParts()
	} else {
		if s.module, err = EmitTraining(t, o); err == nil {
			s.exec, s.memory, err = c.compile(s.module)
		}
	}
	if err != nil {
		return nil, err
	}
	s.inputs = make([][]*pjrt.Buffer, len(s.module.Arguments))
	for i, a := range s.module.Arguments {
		s.place[a.Node] = i
	}
	return s, nil
}

// compileParts compiles the two programs of a step in parts. The memory that Memory tells is that of the larger, with what it does not see of
// the other's beside it.
func (s *Step) compileParts() error {
	add, step, err := EmitParts(s.training, s.options)
	if err != nil {
		return err
	}
	var adding, stepping MemoryStats
	if s.add, adding, err = s.client.compile(add); err != nil {
		return err
	}
	if s.exec, stepping, err = s.client.compile(step); err != nil {
		return errors.Join(err, s.add.Destroy())
	}
	s.module, s.memory = add, stepping
	var weights int64 // of the adding program's arguments; the moments and the average lie beside them
	for _, slab := range s.slabs {
		n := int64(4 * slab.stored)
		if slab.cuts(s.options)[0] {
			n /= int64(s.options.Devices)
		}
		weights += n
	}
	states := s.stateBytes()
	if adding.Total()+states-weights > stepping.Total() {
		s.memory = adding
		s.memory.Arguments += states - weights
	}
	return nil
}

// stateBytes is what weights, moments and average take on each device.
func (s *Step) stateBytes() (total int64) {
	for _, slab := range s.slabs {
		for _, cut := range slab.cuts(s.options) {
			n := int64(4 * slab.stored)
			if cut {
				n /= int64(s.options.Devices)
			}
			total += n
		}
	}
	return total
}

// Memory tells what a step takes on each device.
func (s *Step) Memory() MemoryStats { return s.memory }

// StateBytes is what weights, moments and average take on each device: part of Memory.
func (s *Step) StateBytes() int64 { return s.stateBytes() }

// Close gives the step's memory back.
func (s *Step) Close() error {
	var err error
	for _, lists := range [][][]*pjrt.Buffer{s.states, s.sums, s.inputs} {
		for _, list := range lists {
			err = errors.Join(err, destroy(list))
		}
	}
	if s.add != nil {
		err = errors.Join(err, s.add.Destroy())
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
	for _, slab := range s.slabs {
		cuts := slab.cuts(s.options)
		for j, parts := range state.parts() {
			data := slab.gather(parts)
			if data == nil {
				return fmt.Errorf("write %s: not given", stateNames[j])
			}
			if err := s.put(s.states, data, cuts[j]); err != nil {
				return fmt.Errorf("write %s: %w", stateNames[j], err)
			}
		}
	}
	return nil
}

// put copies a vector to the devices, whole or a part to each, and appends its buffers to the devices' lists.
func (s *Step) put(lists [][]*pjrt.Buffer, data []float32, cut bool) error {
	buffers, err := s.client.upload(Argument{Name: "vector", DType: op.Float32, Shape: []int{len(data)}, Cut: cut}, data, len(lists))
	if err != nil {
		return err
	}
	for d := range lists {
		lists[d] = append(lists[d], buffers[d])
	}
	return nil
}

// Read copies weights, moments and average from the devices into the state's slices; what is nil is left out.
func (s *Step) Read(state State) error {
	for k, slab := range s.slabs {
		cuts := slab.cuts(s.options)
		for j, parts := range state.parts() {
			if parts == nil {
				continue
			}
			if len(s.states[0]) == 0 {
				return fmt.Errorf("read %s: nothing was written", stateNames[j])
			}
			data, devices := make([]float32, slab.stored), 1
			if cuts[j] {
				devices = len(s.states)
			}
			share := slab.stored / devices
			for d := range devices {
				if err := s.states[d][k*statesPerParam+j].ToHost(raw(data[d*share : (d+1)*share])); err != nil {
					return fmt.Errorf("read %s: %w", stateNames[j], err)
				}
			}
			slab.scatter(data, parts)
		}
	}
	return nil
}

// Set copies data to the devices as an input's value.
func (s *Step) Set(n *gorgonia.Node, data any) error {
	buffers, err := s.stage(n, data)
	if err != nil {
		return err
	}
	i := s.place[n]
	old := s.inputs[i]
	s.inputs[i] = buffers
	return destroy(old)
}

func (s *Step) stage(n *gorgonia.Node, data any) ([]*pjrt.Buffer, error) {
	i, ok := s.place[n]
	if !ok {
		return nil, fmt.Errorf("input %q: the loss does not depend on it", n.Name())
	}
	buffers, err := s.client.upload(s.module.Arguments[i], data, len(s.states))
	if err != nil {
		return nil, fmt.Errorf("set %q: %w", n.Name(), err)
	}
	return buffers, nil
}

// Staged are values of a step's inputs that lie on the devices already.
type Staged struct {
	place   []int
	buffers [][]*pjrt.Buffer
}

// Stage copies the values of inputs to the devices, beside a step that runs. Use makes them the inputs, or Release gives them back.
func (s *Step) Stage(nodes gorgonia.Nodes, data []any) (*Staged, error) {
	st := &Staged{}
	for k, n := range nodes {
		buffers, err := s.stage(n, data[k])
		if err != nil {
			return nil, errors.Join(err, st.Release())
		}
		st.place, st.buffers = append(st.place, s.place[n]), append(st.buffers, buffers)
	}
	return st, nil
}

// Release gives the memory of values that were not used back.
func (st *Staged) Release() error {
	var err error
	for _, list := range st.buffers {
		err = errors.Join(err, destroy(list))
	}
	st.buffers = nil
	return err
}

// Use makes staged values the inputs of the next run. They belong to the step from then on.
func (s *Step) Use(st *Staged) error {
	var err error
	for k, list := range st.buffers {
		i := st.place[k]
		err = errors.Join(err, destroy(s.inputs[i]))
		s.inputs[i] = list
	}
	st.buffers = nil
	return err
}

// Run makes one step and returns the loss and the gradients' global norm before clipping. If either is not finite the weights stay as
// they were. With Training.Parts it makes the step of the parts that Add has added up.
func (s *Step) Run(r Rates) (loss, norm float64, err error) {
	if len(s.states[0]) == 0 {
		return 0, 0, errors.New("run: weights were never written")
	}
	if s.training.Parts && s.sums == nil {
		return 0, 0, errors.New("run: no part was added")
	}
	extra := make([][]*pjrt.Buffer, len(s.states))
	if err := s.put(extra, r.vector(), false); err != nil {
		return 0, 0, fmt.Errorf("run: copy the step's numbers: %w", err)
	}
	arguments := []span{{s.states, true}, {extra, false}}
	inputs := s.inputs
	if s.training.Parts {
		arguments, inputs = []span{{s.states, true}, {s.sums, false}, {extra, false}}, nil
	}
	results, err := s.execute(s.exec, arguments, inputs)
	for _, list := range extra {
		err = errors.Join(err, destroy(list))
	}
	if err != nil {
		return 0, 0, fmt.Errorf("run training step: %w", err)
	}
	metrics := make([]float32, 2)
	for d, list := range results {
		end := len(list) - 1
		s.states[d] = list[:end]
		if d == 0 {
			err = list[end].ToHost(raw(metrics))
		}
		if err = errors.Join(err, list[end].Destroy()); err != nil {
			return 0, 0, fmt.Errorf("read the step's loss: %w", err)
		}
	}
	return float64(metrics[0]), float64(metrics[1]), nil
}

// Add runs the graph on the inputs, one part of a batch, and adds up its gradients and its loss with the weight share; first begins a new sum.
func (s *Step) Add(share float64, first bool) error {
	if len(s.states[0]) == 0 {
		return errors.New("add a part: weights were never written")
	}
	if s.sums == nil {
		s.sums = make([][]*pjrt.Buffer, len(s.states))
		for _, slab := range s.slabs {
			if slab.frozen() {
				continue
			}
			if err := s.put(s.sums, make([]float32, slab.stored), slab.cut); err != nil {
				return fmt.Errorf("make room for gradients: %w", err)
			}
		}
		if err := s.put(s.sums, []float32{0}, false); err != nil {
			return fmt.Errorf("make room for the loss: %w", err)
		}
	}
	numbers := []float32{float32(share), 1}
	if first {
		numbers[1] = 0
	}
	weights, extra := make([][]*pjrt.Buffer, len(s.states)), make([][]*pjrt.Buffer, len(s.states))
	if err := s.put(extra, numbers, false); err != nil {
		return fmt.Errorf("add a part: %w", err)
	}
	for d, list := range s.states {
		for k := range s.slabs {
			weights[d] = append(weights[d], list[k*statesPerParam])
		}
	}
	results, err := s.execute(s.add, []span{{weights, false}, {s.sums, true}, {extra, false}}, s.inputs)
	for _, list := range extra {
		err = errors.Join(err, destroy(list))
	}
	if err != nil {
		return fmt.Errorf("add a part: %w", err)
	}
	s.sums = results
	return nil
}

// span is a run of arguments, by device.
type span struct {
	buffers [][]*pjrt.Buffer
	donated bool // results overwrite them
}

// execute runs a program on spans of arguments and the graph's inputs, and gives its results by device.
func (s *Step) execute(exec *pjrt.LoadedExecutable, spans []span, inputs [][]*pjrt.Buffer) ([][]*pjrt.Buffer, error) {
	var args []*pjrt.Buffer
	var donate []bool
	for d := range s.states {
		for _, part := range spans {
			for _, b := range part.buffers[d] {
				args, donate = append(args, b), append(donate, part.donated)
			}
		}
		for i, list := range inputs {
			if list == nil {
				return nil, fmt.Errorf("input %q was never set", s.module.Arguments[i].Node.Name())
			}
			args, donate = append(args, list[d]), append(donate, false)
		}
	}
	results, err := exec.Execute(args...).SetDonate(donate).Done()
	if err != nil {
		return nil, err
	}
	per := len(results) / len(s.states)
	out := make([][]*pjrt.Buffer, len(s.states))
	for d := range out {
		out[d] = results[d*per : (d+1)*per]
	}
	return out, nil
}
