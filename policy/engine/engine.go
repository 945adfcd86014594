// Package engine opens what runs a graph: the processor (package cpu) or XLA's devices (package xla). Both give programs of one interface.
package engine

import (
	"fmt"
	"sync"

	"github.com/pinch-robotics/pinch/policy/engine/cpu"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
	"gorgonia.org/gorgonia"
)

// Names of engines.
const (
	CPU = "cpu"
	XLA = "xla"
)

// Options choose an engine and its devices.
type Options struct {
	Name    string // CPU (default) or XLA
	Threads int    // of the CPU engine; 0: one per processor

	// The rest is for XLA.
	Platform      xla.Platform // default xla.CUDA
	Plugin        string       // path of the PJRT plugin; empty: where pip puts it
	Devices       int          // that share a training batch; 0: one
	Precision     xla.Precision
	Deterministic bool
	Shard         xla.Shard // of training
}

// Check reports options that no engine takes.
func (o Options) Check() error {
	switch {
	case o.Name != "" && o.Name != CPU && o.Name != XLA:
		return fmt.Errorf("engine %q: want %s or %s", o.Name, CPU, XLA)
	case o.Precision != "" && o.Precision != xla.Full && o.Precision != xla.BFloat16:
		return fmt.Errorf("precision %q: want %s or %s", o.Precision, xla.BFloat16, xla.Full)
	case o.Devices < 0 || o.Threads < 0:
		return fmt.Errorf("devices %d and threads %d must not be negative", o.Devices, o.Threads)
	}
	return nil
}

// Program is a compiled graph. It is not safe for concurrent use.
type Program interface {
	// Set copies a slice of the input's element type into an input.
	Set(n *gorgonia.Node, data any) error
	// Bind makes data the storage of an input. A device has a copy of it: call Refresh after a change.
	Bind(n *gorgonia.Node, data []float32) error
	// Refresh makes changes of bound storage known.
	Refresh() error
	// Run computes the outputs.
	Run() error
	// Read gives a Float32 output, valid until the next run; the caller must not write to it.
	Read(n *gorgonia.Node) ([]float32, error)
	// Close gives the program's memory back.
	Close() error
}

// Engine compiles graphs for its devices.
type Engine struct {
	options Options
	client  *xla.Client // nil for the processor
}

// clients are the open devices of this process, which the engines share: a GPU's memory is taken once.
var clients = struct {
	sync.Mutex
	open map[clientKey]*xla.Client
}{open: map[clientKey]*xla.Client{}}

type clientKey struct {
	platform xla.Platform
	plugin   string
}

// Open takes the devices, or those that an earlier call has taken. The CPU engine always opens.
func Open(o Options) (*Engine, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	e := &Engine{options: o}
	if o.Name != XLA {
		return e, nil
	}
	clients.Lock()
	defer clients.Unlock()
	key := clientKey{o.Platform, o.Plugin}
	if e.client = clients.open[key]; e.client != nil {
		return e, nil
	}
	var err error
	e.client, err = xla.Open(xla.OpenOptions{Platform: o.Platform, Plugin: o.Plugin, Devices: o.Devices, Deterministic: o.Deterministic})
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", XLA, err)
	}
	clients.open[key] = e.client
	return e, nil
}

// Client is XLA's client, nil for the CPU engine.
func (e *Engine) Client() *xla.Client { return e.client }

// XLA gives the options of graphs on XLA's devices: one device for inference, all that were asked for in training.
func (e *Engine) XLA(training bool) xla.Options {
	o := xla.Options{Precision: e.options.Precision}
	if o.Precision == "" {
		o.Precision = xla.BFloat16
	}
	if training {
		o.Devices, o.Shard = e.options.Devices, e.options.Shard
	}
	return o
}

// Compile compiles the computation of the outputs for one device.
func (e *Engine) Compile(g *gorgonia.ExprGraph, outputs gorgonia.Nodes) (Program, error) {
	if e.client == nil {
		p, err := cpu.Compile(g, outputs, cpu.Options{Threads: e.options.Threads})
		if err != nil {
			return nil, err
		}
		return p, nil
	}
	p, err := e.client.Compile(outputs, e.XLA(false))
	if err != nil {
		return nil, err
	}
	return p, nil
}
