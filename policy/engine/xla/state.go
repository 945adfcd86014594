package xla

import "math"

// Rates are the numbers of one training step.
type Rates struct {
	Rate         float64 // learning rate
	Beta1, Beta2 float64 // as in Training
	Eps          float64 // added to the root of the second moment
	Decay        float64 // weight decay, of the parameters that decay
	Average      float64 // decay of the running average
	Step         int     // 1 for the first step
	Muon         float64 // learning rate of the parameters that Muon updates
}

// vector folds the rates as kernel.AdamW does: both bias corrections go into the size of the step and eps.
func (r Rates) vector() []float32 {
	root2 := math.Sqrt(1 - math.Pow(r.Beta2, float64(r.Step)))
	v := make([]float32, hyperCount)
	v[hyperSize] = float32(r.Rate * root2 / (1 - math.Pow(r.Beta1, float64(r.Step))))
	v[hyperEps] = float32(r.Eps * root2)
	v[hyperDecay] = float32(1 - r.Rate*r.Decay)
	v[hyperAverage] = float32(r.Average)
	v[hyperShrink] = float32(r.Rate * r.Decay)
	v[hyperMuon] = float32(r.Muon)
	v[hyperMuonShrink] = float32(r.Muon * r.Decay)
	return v
}

// State holds what a training step changes, on the host: per parameter, in the order of Training.Params, the weights, the two moments of
// the gradient and the running average of the weights.
type State struct {
	Weights, First, Second, Average [][]float32
}

var stateNames = [statesPerParam]string{"weights", "first moment", "second moment", "average"}

// parts are the four kinds, in the order of a module's arguments; those that the state lacks are nil.
func (s State) parts() [statesPerParam][][]float32 {
	return [statesPerParam][][]float32{s.Weights, s.First, s.Second, s.Average}
}

// MemoryStats are the bytes that a compiled program takes on each device, by XLA's buffer assignment.
type MemoryStats struct {
	Arguments, Results, Aliased, Temporary, Code int64
}

// Total is the memory of a run: what is aliased is counted once.
func (m MemoryStats) Total() int64 { return m.Arguments + m.Results - m.Aliased + m.Temporary + m.Code }
