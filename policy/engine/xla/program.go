//go:build xla && cgo

package xla

import (
	"errors"
	"fmt"

	"github.com/gomlx/go-xla/pkg/pjrt"
	"github.com/pinch-robotics/pinch/policy/op"
	"gorgonia.org/gorgonia"
)

// Program is a compiled graph with its inputs on the devices. It is not safe for concurrent use.
type Program struct {
	client  *Client
	module  *Module
	exec    *pjrt.LoadedExecutable
	memory  MemoryStats
	place   map[*gorgonia.Node]int // argument
	output  map[*gorgonia.Node]int
	inputs  []slot
	outputs []*pjrt.Buffer // of the first device
	host    map[int][]float32
}

// slot is the value of one argument.
type slot struct {
	bound   []float32 // the storage that the argument follows; nil if it was set
	buffers []*pjrt.Buffer
	shared  bool // the buffers belong to another program
}

// Compile compiles the computation of the outputs.
func (c *Client) Compile(outputs gorgonia.Nodes, o Options) (*Program, error) {
	o, err := c.fill(o)
	if err != nil {
		return nil, err
	}
	m, err := Emit(outputs, o)
	if err != nil {
		return nil, err
	}
	return c.program(m)
}

// CompileFlow compiles a sampler.
func (c *Client) CompileFlow(f Flow, o Options) (*Program, error) {
	o, err := c.fill(o)
	if err != nil {
		return nil, err
	}
	m, err := EmitFlow(f, o)
	if err != nil {
		return nil, err
	}
	return c.program(m)
}

func (c *Client) program(m *Module) (*Program, error) {
	p := &Program{client: c, module: m, place: map[*gorgonia.Node]int{}, output: map[*gorgonia.Node]int{}, inputs: make([]slot, len(m.Arguments)), host: map[int][]float32{}}
	for i, a := range m.Arguments {
		p.place[a.Node] = i
	}
	for i, n := range m.Outputs {
		p.output[n] = i
	}
	var err error
	p.exec, p.memory, err = c.compile(m)
	return p, err
}

// Memory tells what a run takes on each device.
func (p *Program) Memory() MemoryStats { return p.memory }

// Close gives the program's memory back.
func (p *Program) Close() error {
	err := destroy(p.outputs)
	for _, s := range p.inputs {
		if !s.shared {
			err = errors.Join(err, destroy(s.buffers))
		}
	}
	return errors.Join(err, p.exec.Destroy())
}

// Uses reports whether an output depends on the input.
func (p *Program) Uses(n *gorgonia.Node) bool {
	_, ok := p.place[n]
	return ok
}

func (p *Program) at(n *gorgonia.Node) (int, error) {
	i, ok := p.place[n]
	if !ok {
		return 0, fmt.Errorf("input %q: no output of this program depends on it, or it is computed", n.Name())
	}
	return i, nil
}

// Set copies data, a slice of the input's element type or a number for a bare scalar, to the devices.
func (p *Program) Set(n *gorgonia.Node, data any) error {
	i, err := p.at(n)
	if err != nil {
		return err
	}
	buffers, err := p.client.upload(p.module.Arguments[i], data, p.module.Options.Devices)
	if err != nil {
		return fmt.Errorf("set %q: %w", n.Name(), err)
	}
	return p.replace(i, slot{buffers: buffers})
}

func (p *Program) replace(i int, s slot) error {
	old := p.inputs[i]
	p.inputs[i] = s
	if old.shared {
		return nil
	}
	return destroy(old.buffers)
}

// Bind makes data the storage of a Float32 input. It is copied to the devices now and at each Refresh.
func (p *Program) Bind(n *gorgonia.Node, data []float32) error {
	if err := p.Set(n, data); err != nil {
		return err
	}
	p.inputs[p.place[n]].bound = data
	return nil
}

// Refresh copies all bound inputs to the devices again.
func (p *Program) Refresh() error {
	for i, s := range p.inputs {
		if s.bound != nil {
			if err := p.Bind(p.module.Arguments[i].Node, s.bound); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pass makes output from of another program, of one device as this one, the value of an input. The other program owns it: it holds until
// that program's next run.
func (p *Program) Pass(from *Program, output, input *gorgonia.Node) error {
	i, err := p.at(input)
	if err != nil {
		return err
	}
	o, ok := from.output[output]
	if !ok || from.outputs == nil {
		return fmt.Errorf("pass %q: it is no output of a program that has run", output.Name())
	}
	if p.module.Options.Devices > 1 {
		return fmt.Errorf("pass %q: the program runs on %d devices, want one", output.Name(), p.module.Options.Devices)
	}
	return p.replace(i, slot{buffers: []*pjrt.Buffer{from.outputs[o]}, shared: true})
}

// Run computes the outputs.
func (p *Program) Run() error {
	devices := p.module.Options.Devices
	args := make([]*pjrt.Buffer, 0, devices*len(p.inputs))
	for d := range devices {
		for i, s := range p.inputs {
			if s.buffers == nil {
				return fmt.Errorf("run: input %q was never set", p.module.Arguments[i].Node.Name())
			}
			args = append(args, s.buffers[d])
		}
	}
	results, err := p.exec.Execute(args...).DonateNone().Done()
	if err != nil {
		return fmt.Errorf("run: %w", err)
	}
	n := len(p.module.Outputs)
	if err := errors.Join(destroy(p.outputs), destroy(results[n:])); err != nil {
		return err
	}
	p.outputs = results[:n]
	clear(p.host)
	return nil
}

// Read copies a Float32 output to the host.
func (p *Program) Read(n *gorgonia.Node) ([]float32, error) {
	i, ok := p.output[n]
	if !ok || p.outputs == nil {
		return nil, fmt.Errorf("read %q: it is no output of a program that has run", n.Name())
	}
	if n.Dtype() != op.Float32 {
		return nil, fmt.Errorf("read %q: element type %v, want Float32", n.Name(), n.Dtype())
	}
	if host, ok := p.host[i]; ok {
		return host, nil
	}
	host := make([]float32, hlen(n))
	if err := p.outputs[i].ToHost(raw(host)); err != nil {
		return nil, fmt.Errorf("read %q: %w", n.Name(), err)
	}
	p.host[i] = host
	return host, nil
}

// Read64 is Read for Float64 outputs.
func (p *Program) Read64(n *gorgonia.Node) ([]float64, error) {
	i, ok := p.output[n]
	if !ok || p.outputs == nil || n.Dtype() != op.Float64 {
		return nil, fmt.Errorf("read %q: it is no Float64 output of a program that has run", n.Name())
	}
	host := make([]float64, hlen(n))
	if err := p.outputs[i].ToHost(raw(host)); err != nil {
		return nil, fmt.Errorf("read %q: %w", n.Name(), err)
	}
	return host, nil
}

// hlen is the number of elements of a node.
func hlen(n *gorgonia.Node) int {
	size := 1
	for _, d := range shapeOf(n) {
		size *= d
	}
	return size
}
