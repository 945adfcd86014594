//go:build !mujoco || !cgo

package sim

func newEngine(Config) (engine, error) { return nil, ErrNotBuilt }
