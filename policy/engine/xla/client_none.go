//go:build !xla || !cgo

package xla

import "gorgonia.org/gorgonia"

// Client is a set of devices of one platform. Without the build tag "xla" there is none.
type Client struct{}

// Open returns ErrNotBuilt.
func Open(OpenOptions) (*Client, error) { return nil, ErrNotBuilt }

// Devices is the number of devices.
func (c *Client) Devices() int { return 0 }

// Platform tells what kind of devices they are.
func (c *Client) Platform() Platform { return "" }

// Close gives the devices back.
func (c *Client) Close() error { return ErrNotBuilt }

// Compile returns ErrNotBuilt.
func (c *Client) Compile(gorgonia.Nodes, Options) (*Program, error) { return nil, ErrNotBuilt }

// CompileFlow returns ErrNotBuilt.
func (c *Client) CompileFlow(Flow, Options) (*Program, error) { return nil, ErrNotBuilt }

// CompileTraining returns ErrNotBuilt.
func (c *Client) CompileTraining(Training, Options) (*Step, error) { return nil, ErrNotBuilt }

// Program is a compiled graph with its inputs on the devices.
type Program struct{}

// Memory tells what a run takes on each device.
func (p *Program) Memory() MemoryStats { return MemoryStats{} }

// Close gives the program's memory back.
func (p *Program) Close() error { return ErrNotBuilt }

// Uses reports whether an output depends on the input.
func (p *Program) Uses(*gorgonia.Node) bool { return false }

// Set returns ErrNotBuilt.
func (p *Program) Set(*gorgonia.Node, any) error { return ErrNotBuilt }

// Bind returns ErrNotBuilt.
func (p *Program) Bind(*gorgonia.Node, []float32) error { return ErrNotBuilt }

// Refresh returns ErrNotBuilt.
func (p *Program) Refresh() error { return ErrNotBuilt }

// Pass returns ErrNotBuilt.
func (p *Program) Pass(*Program, *gorgonia.Node, *gorgonia.Node) error { return ErrNotBuilt }

// Run returns ErrNotBuilt.
func (p *Program) Run() error { return ErrNotBuilt }

// Read returns ErrNotBuilt.
func (p *Program) Read(*gorgonia.Node) ([]float32, error) { return nil, ErrNotBuilt }

// Read64 returns ErrNotBuilt.
func (p *Program) Read64(*gorgonia.Node) ([]float64, error) { return nil, ErrNotBuilt }

// Step is a compiled training step with weights and moments on the devices.
type Step struct{}

// Memory tells what a step takes on each device.
func (s *Step) Memory() MemoryStats { return MemoryStats{} }

// Close gives the step's memory back.
func (s *Step) Close() error { return ErrNotBuilt }

// StateBytes is what weights, moments and average take on each device.
func (s *Step) StateBytes() int64 { return 0 }

// Staged are values of a step's inputs that lie on the devices already.
type Staged struct{}

// Stage returns ErrNotBuilt.
func (s *Step) Stage(gorgonia.Nodes, []any) (*Staged, error) { return nil, ErrNotBuilt }

// Release returns ErrNotBuilt.
func (st *Staged) Release() error { return ErrNotBuilt }

// Use returns ErrNotBuilt.
func (s *Step) Use(*Staged) error { return ErrNotBuilt }

// Add returns ErrNotBuilt.
func (s *Step) Add(share float64, first bool) error { return ErrNotBuilt }

// Write returns ErrNotBuilt.
func (s *Step) Write(State) error { return ErrNotBuilt }

// Read returns ErrNotBuilt.
func (s *Step) Read(State) error { return ErrNotBuilt }

// Set returns ErrNotBuilt.
func (s *Step) Set(*gorgonia.Node, any) error { return ErrNotBuilt }

// Run returns ErrNotBuilt.
func (s *Step) Run(Rates) (loss, norm float64, err error) { return 0, 0, ErrNotBuilt }
