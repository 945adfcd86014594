// Package xla runs graphs of policy/op operations through XLA.
//
// A graph is written as StableHLO text, each operation by its own lowering, and compiled by a PJRT plugin: a shared library that XLA's
// users install with JAX, opened at run time. One process drives all devices of a machine. A training step is one program: forward and
// backward pass, clipping, AdamW and the running average; weights and moments stay on the devices, and each step reuses their memory.
//
//	c, err := xla.Open(xla.OpenOptions{Platform: xla.CUDA})
//	p, err := c.Compile(g, gorgonia.Nodes{y}, xla.Options{Precision: xla.BFloat16})
//	err = p.Set(x, pixels)
//	err = p.Run()
//	fmt.Println(p.Float32(y))
//
// Writing text is pure Go. Running it needs cgo and the build tag "xla"; without it Open returns ErrNotBuilt.
package xla
