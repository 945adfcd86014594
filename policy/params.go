package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Init says how a parameter starts.
type Init uint8

// Ways to start: zero, one, normal with standard deviation 0.02 (tables), normal with 1/sqrt(inputs) (matrices).
const (
	InitZero Init = iota
	InitOne
	InitTable
	InitMatrix
)

// ParamInfo describes one parameter.
type ParamInfo struct {
	Name  string
	Shape []int
	Init  Init
	at    int // offset in the slab
}

// Len is the number of scalars.
func (p ParamInfo) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Decay says whether weight decay applies: to matrices of linear layers only, never to biases, gains, offsets or tables.
func (p ParamInfo) Decay() bool { return p.Init == InitMatrix }

// Params are the weights of a network: named views of one slab of float32.
type Params struct {
	Info []ParamInfo
	Slab []float32
	at   map[string]int
}

// newParams lays the parameters out one after another.
func newParams(info []ParamInfo) *Params {
	p := &Params{Info: info, at: map[string]int{}}
	n := 0
	for i := range info {
		info[i].at = n
		n += info[i].Len()
		p.at[info[i].Name] = i
	}
	p.Slab = make([]float32, n)
	return p
}

// Clone copies the values; the layout is shared.
func (p *Params) Clone() *Params {
	c := *p
	c.Slab = append([]float32(nil), p.Slab...)
	return &c
}

// View gives the values of one parameter, row-major, as a window of the slab; nil when there is none of that name.
func (p *Params) View(name string) []float32 {
	i, ok := p.at[name]
	if !ok {
		return nil
	}
	return p.view(p.Info[i])
}

func (p *Params) view(info ParamInfo) []float32 { return p.Slab[info.at : info.at+info.Len()] }

// NewParams lays out the parameters of a network and draws their first values. Each parameter has a random stream of its
// own, so that a change of one leaves the others as they were.
func NewParams(s Spec, a Architecture, seed uint64) (*Params, error) {
	net, err := layout(s, a)
	if err != nil {
		return nil, err
	}
	p := newParams(net)
	for i, info := range p.Info {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		v := p.view(info)
		switch info.Init {
		case InitOne:
			for j := range v {
				v[j] = 1
			}
		case InitTable:
			normal(v, 0.02, rng)
		case InitMatrix:
			normal(v, 1/math.Sqrt(float64(info.Shape[0])), rng)
		}
	}
	return p, nil
}

// normal draws from the normal distribution cut at two standard deviations.
func normal(v []float32, std float64, rng *rand.Rand) {
	for i := range v {
		x := rng.NormFloat64()
		for math.Abs(x) > 2 {
			x = rng.NormFloat64()
		}
		v[i] = float32(std * x)
	}
}

// layout builds the loss graph for one sample, only to learn which parameters it has.
func layout(s Spec, a Architecture) ([]ParamInfo, error) {
	t, err := BuildLoss(s, a, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("lay out parameters: %w", err)
	}
	return t.info, nil
}

// Layout lists the parameters of a network without making them, whether this machine could hold it or not.
func Layout(s Spec, a Architecture) ([]ParamInfo, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := a.Check(s); err != nil {
		return nil, err
	}
	t, err := buildLoss(s, a, 1, 1, false)
	if err != nil {
		return nil, err
	}
	return t.info, nil
}

// Hidden says whether the parameter is a matrix between hidden widths, which the Muon optimiser is for: not the first layers of
// pictures, state, time and actions, nor tables and heads.
func (p ParamInfo) Hidden() bool {
	switch p.Name {
	case "vision.patch.w", "state.in.w", "time.in.w", "action.in.w":
		return false
	}
	return p.Init == InitMatrix && len(p.Shape) == 2
}

// Index is the place of a parameter, -1 when there is none of that name.
func (p *Params) Index(name string) int {
	if i, ok := p.at[name]; ok {
		return i
	}
	return -1
}
