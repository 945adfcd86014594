package policy

import (
	"fmt"
	"math"
	"slices"

	"github.com/pinch-robotics/pinch/internal/quantile"
)

// maxFitRows bounds the rows that FitStats sorts: above it, every n-th row is taken. 200,000 rows of 320 numbers are 512 MB.
const maxFitRows = 200_000

// FitStats measures the statistics of the training rows: every row of the given episodes is an observation. Steps beyond an
// episode's end do not count. Only numbers are read, never video.
func FitStats(s Spec, rule Rot6DRule, episodes []Episode) (Stats, error) {
	total := 0
	for _, e := range episodes {
		total += e.Length
	}
	if total == 0 {
		return Stats{}, fmt.Errorf("fit normalisation: no training rows")
	}
	every := (total + maxFitRows - 1) / maxFitRows
	fit := NewFitter(s, rule)
	sv, av, valid := make([]float64, s.StateDim()), make([]float64, s.Horizon*s.ActionDim()), make([]bool, s.Horizon)
	next := 0
	for i, e := range episodes {
		for t := range e.Length {
			if next++; (next-1)%every != 0 {
				continue
			}
			if err := s.EncodeState(sv, e, t); err != nil {
				return Stats{}, fmt.Errorf("fit normalisation: episode %d of the training set, row %d: %w", i, t, err)
			}
			if err := s.EncodeTargets(av, valid, e, t); err != nil {
				return Stats{}, fmt.Errorf("fit normalisation: episode %d of the training set, row %d: %w", i, t, err)
			}
			fit.Add(sv, av, valid)
		}
	}
	return fit.Stats()
}

// Fitter measures statistics sample by sample.
type Fitter struct {
	spec          Spec
	rule          Rot6DRule
	rows          int
	state, action samples
}

// NewFitter begins to measure for a Spec.
func NewFitter(s Spec, rule Rot6DRule) *Fitter {
	if rule == "" {
		rule = Rot6DIdentity
	}
	return &Fitter{spec: s, rule: rule, state: newSamples(s.StateDim()), action: newSamples(s.Horizon * s.ActionDim())}
}

// Add takes a sample: its state, its chunk (as EncodeState and EncodeTargets write them) and which steps are valid; the others do not count.
func (f *Fitter) Add(state, chunk []float64, valid []bool) {
	f.rows++
	f.state.add(state, 0)
	dim := f.spec.ActionDim()
	for k, ok := range valid {
		if ok {
			f.action.add(chunk[k*dim:(k+1)*dim], k*dim)
		}
	}
}

// Stats gives the statistics of what was added.
func (f *Fitter) Stats() (Stats, error) {
	if f.rows == 0 {
		return Stats{}, fmt.Errorf("fit normalisation: no training rows")
	}
	s := f.spec
	st := Stats{SpecHash: s.Hash(), Method: statsMethod, Rot6D: f.rule, Rows: f.rows}
	st.State = f.state.ranges([]int{s.StateDim()}, s.stateDims(), f.rule)
	st.Action = f.action.ranges([]int{s.Horizon, s.ActionDim()}, s.actionDims(), f.rule)
	return st, nil
}

// dimension says what one number of a state vector or action row is.
type dimension struct {
	name  string
	unit  Unit
	rot6d bool
}

func (s Spec) stateDims() []dimension {
	var dims []dimension
	for _, in := range s.State {
		dims = append(dims, dimensions(in.Feature, in.Dim(), in.Unit, in.Representation == PoseRot6D)...)
	}
	return dims
}

func (s Spec) actionDims() []dimension {
	var dims []dimension
	for _, out := range s.Action {
		dims = append(dims, dimensions(out.Name, out.Dim(), out.Unit, out.Pose())...)
	}
	return dims
}

var poseDimNames = [rot6dPoseDim]string{"x", "y", "z", "r00", "r01", "r02", "r10", "r11", "r12"}

func dimensions(name string, n int, unit Unit, pose bool) []dimension {
	dims := make([]dimension, n)
	for i := range dims {
		dims[i] = dimension{name: fmt.Sprintf("%s.%d", name, i), unit: unit}
		if pose {
			dims[i] = dimension{name: name + "." + poseDimNames[i], unit: Metre, rot6d: i >= 3}
		}
	}
	return dims
}

// samples keeps one list of numbers per dimension.
type samples [][]float64

func newSamples(dim int) samples { return make(samples, dim) }

func (s samples) add(v []float64, at int) {
	for i, x := range v {
		s[at+i] = append(s[at+i], x)
	}
}

// ranges makes quantiles, then centre and half width under the rules of the dimensions; dims repeats over the steps.
func (s samples) ranges(shape []int, dims []dimension, rule Rot6DRule) Range {
	n := len(s)
	r := Range{Shape: shape, Q01: make([]float64, n), Q99: make([]float64, n), Centre: make([]float64, n), Half: make([]float64, n)}
	widest := map[Unit]float64{}
	for i, v := range s {
		slices.Sort(v)
		if len(v) > 0 { // a step that lies beyond the end of every episode has no numbers: 0
			r.Q01[i], r.Q99[i] = quantile.Linear(v, 0.01), quantile.Linear(v, 0.99)
		}
		if d := dims[i%len(dims)]; !d.rot6d {
			widest[d.unit] = math.Max(widest[d.unit], r.Q99[i]-r.Q01[i])
		}
	}
	for i := range s {
		d := dims[i%len(dims)]
		if d.rot6d && rule == Rot6DIdentity {
			r.Centre[i], r.Half[i] = 0, 1
			continue
		}
		spread, floor := r.Q99[i]-r.Q01[i], d.floor(widest[d.unit])
		if spread < floor {
			r.Floor = append(r.Floor, fmt.Sprintf("%s@%d", d.name, i/len(dims)))
		}
		r.Centre[i], r.Half[i] = (r.Q01[i]+r.Q99[i])/2, math.Max(spread, floor)/2
	}
	return r
}

// floor is the least spread of a dimension. A dimension without a unit that never moves at all gets 1, so that its
// normalised value is 0 for the constant and finite for anything else.
func (d dimension) floor(widest float64) float64 {
	switch {
	case d.rot6d:
		return floorRot6D
	case d.unit == Metre:
		return math.Max(floorMetres, floorRelative*widest)
	case d.unit == Radian:
		return math.Max(floorRadians, floorRelative*widest)
	case widest == 0:
		return 1
	}
	return floorRelative * widest
}
