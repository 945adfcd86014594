package policy

import (
	"fmt"
	"math"
	"slices"
	"sync/atomic"
)

// Clip bounds a normalised number before the loss and before the network, so that one outlier beyond the quantiles can not
// own the gradient. Clipped numbers are counted.
const Clip = 1.5

// Floors below which the spread between the 1 % and 99 % quantile counts as no motion. A dimension that hardly moves is
// divided by its floor instead of by nearly nothing.
const (
	floorMetres   = 3e-3 // 3 mm
	floorRadians  = 2e-2
	floorRelative = 1e-3 // of the widest dimension with the same unit
)

// Rot6DRule says how the six rotation numbers of a pose are normalised.
type Rot6DRule string

const (
	// Rot6DIdentity leaves the six numbers as they are: they lie in [-1, 1] already and keep their geometry.
	Rot6DIdentity Rot6DRule = "identity"
	// Rot6DQuantile treats them like other numbers, with a floor of 0.1: small turns weigh more in the loss.
	Rot6DQuantile Rot6DRule = "quantile"
)

const floorRot6D = 0.1

// Stats hold what normalisation needs: n = (x - Centre) / Half, where Centre and Half come from the 1 % and 99 % quantiles
// of the training rows. State has one entry per dimension, action one per (step, dimension).
type Stats struct {
	SpecHash string    `json:"spec_hash"` // Spec.Hash of the transform the numbers were measured for
	Method   string    `json:"method"`    // quantile_01_99
	Rot6D    Rot6DRule `json:"rot6d"`
	Rows     int       `json:"rows"` // training rows measured
	State    Range     `json:"state"`
	Action   Range     `json:"action"`
}

// statsMethod names the only method there is.
const statsMethod = "quantile_01_99"

// Range holds quantiles and the resulting centre and half width. Shape is {dim} or {steps, dim}; all slices have its product
// of numbers.
type Range struct {
	Shape  []int     `json:"shape"`
	Q01    []float64 `json:"q01"`
	Q99    []float64 `json:"q99"`
	Centre []float64 `json:"centre"`
	Half   []float64 `json:"half"`
	Floor  []string  `json:"floored,omitempty"` // names of dimensions whose spread was below the floor
}

// Check compares the statistics with the Spec they shall serve, naming the field that does not fit.
func (st Stats) Check(s Spec) error {
	switch {
	case st.Method != statsMethod:
		return fmt.Errorf("normalisation: field method is %q, want %q", st.Method, statsMethod)
	case st.SpecHash != s.Hash():
		return fmt.Errorf("normalisation: field spec_hash is %q but the spec's hash is %q: statistics of another transform; recompute them", st.SpecHash, s.Hash())
	case st.Rot6D != Rot6DIdentity && st.Rot6D != Rot6DQuantile:
		return fmt.Errorf("normalisation: field rot6d is %q, want %q or %q", st.Rot6D, Rot6DIdentity, Rot6DQuantile)
	}
	if err := st.State.check([]int{s.StateDim()}); err != nil {
		return fmt.Errorf("normalisation: field state: %w", err)
	}
	if err := st.Action.check([]int{s.Horizon, s.ActionDim()}); err != nil {
		return fmt.Errorf("normalisation: field action: %w", err)
	}
	return nil
}

func (r Range) check(shape []int) error {
	if !slices.Equal(r.Shape, shape) {
		return fmt.Errorf("shape is %v, want %v", r.Shape, shape)
	}
	n := 1
	for _, d := range shape {
		n *= d
	}
	for _, f := range []struct {
		name string
		v    []float64
	}{{"q01", r.Q01}, {"q99", r.Q99}, {"centre", r.Centre}, {"half", r.Half}} {
		if len(f.v) != n {
			return fmt.Errorf("%s has %d numbers, want %d", f.name, len(f.v), n)
		}
		if err := checkFinite(f.v); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for i, h := range r.Half {
		if h <= 0 {
			return fmt.Errorf("half of number %d is %v, want a positive width", i, h)
		}
	}
	return nil
}

// ClipCount counts normalised numbers that lay outside [-Clip, Clip]. Safe for concurrent use.
type ClipCount struct{ clipped, total atomic.Int64 }

// Share is the clipped part of all numbers so far, 0 to 1.
func (c *ClipCount) Share() float64 {
	if n := c.total.Load(); n > 0 {
		return float64(c.clipped.Load()) / float64(n)
	}
	return 0
}

// NormalizeState writes normalised state to dst; c may be nil.
func (st Stats) NormalizeState(dst []float32, state []float64, c *ClipCount) {
	st.State.normalize(dst, state, c)
}

// NormalizeAction writes a normalised chunk (steps x dim) to dst; c may be nil.
func (st Stats) NormalizeAction(dst []float32, chunk []float64, c *ClipCount) {
	st.Action.normalize(dst, chunk, c)
}

// UnnormalizeAction is the inverse of NormalizeAction for numbers that were not clipped.
func (st Stats) UnnormalizeAction(dst []float64, chunk []float32) {
	for i, n := range chunk {
		dst[i] = st.Action.Centre[i] + st.Action.Half[i]*float64(n)
	}
}

// UnnormalizeState is the inverse of NormalizeState for numbers that were not clipped.
func (st Stats) UnnormalizeState(dst []float64, state []float32) {
	for i, n := range state {
		dst[i] = st.State.Centre[i] + st.State.Half[i]*float64(n)
	}
}

func (r Range) normalize(dst []float32, src []float64, c *ClipCount) {
	clipped := int64(0)
	for i, x := range src {
		n := (x - r.Centre[i]) / r.Half[i]
		if n < -Clip || n > Clip {
			n = math.Min(math.Max(n, -Clip), Clip)
			clipped++
		}
		dst[i] = float32(n)
	}
	if c != nil {
		c.clipped.Add(clipped)
		c.total.Add(int64(len(src)))
	}
}
