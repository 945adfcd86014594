package policy

import (
	"errors"
	"fmt"
)

// ErrTooLarge marks a network or a batch that can not fit into this machine's memory.
var ErrTooLarge = errors.New("too large for this machine")

// machineMemory is the memory of this machine in bytes, 0 when unknown. Tests replace it.
var machineMemory = physicalMemory

// checkMemory refuses a network and batch whose bytes, counted from below (weights, gradients and optimiser, and what each block keeps
// of a batch), exceed the machine's memory: the runtime would end the program without a word of what to change.
// The architecture must have passed Check.
func checkMemory(s Spec, a Architecture, batch, draws int) error {
	have := machineMemory()
	if have == 0 {
		return nil
	}
	weights, sample, draw := leastFloats(s, a)
	if need := 4 * 5 * weights; need > have { // weights, average, gradient, two moments
		return fmt.Errorf("network of at least %.0f GB (the machine has %.0f GB): %w; lower the widths or depths in arch, or max_tokens",
			need/1e9, have/1e9, ErrTooLarge)
	}
	if need := 4 * (5*weights + float64(batch)*(sample+float64(draws)*draw)); need > have {
		return fmt.Errorf("training step of at least %.0f GB (the machine has %.0f GB): %w; lower batch (%d), draws (%d), horizon (%d), max_tokens (%d) or image_size",
			need/1e9, have/1e9, ErrTooLarge, batch, draws, s.Horizon, s.Prompt.MaxTokens)
	}
	return nil
}

// leastFloats counts numbers from below: of all weights, and of what a training step keeps for one sample and for one noise draw of it.
func leastFloats(s Spec, a Architecture) (weights, sample, draw float64) {
	f := func(n int) float64 { return float64(n) }
	block := func(dim, mlp, depth int) float64 { return f(depth) * (4 + 2*f(mlp)) * f(dim) * f(dim) }
	weights = block(a.VisionDim, 0, a.VisionDepth) + 2*f(a.VisionDepth)*f(a.VisionDim)*f(a.visionHidden()) + block(a.TextDim, 1, a.TextDepth) +
		block(a.Dim, a.MLP, a.Depth) + (f(s.Prompt.MaxTokens)+f(s.Prompt.Vocabulary))*f(a.TextDim)
	cols, rows := a.grid(s)
	cameras, image := f(len(s.Cameras)*s.frames()), f(cols)*f(rows)
	sample = cameras*image*(f(a.patchDim())+f(a.VisionDepth)*(4*f(a.VisionDim)+f(a.VisionHeads)*image)) +
		f(a.TextDepth)*f(s.Prompt.MaxTokens)*(4*f(a.TextDim)+f(a.TextHeads)*f(s.Prompt.MaxTokens))
	draw = f(a.Depth) * f(s.Horizon) * (4*f(a.Dim) + f(a.Heads)*f(s.Horizon))
	return weights, sample, draw
}
