package train

import (
	"errors"
	"fmt"
	"math"
	"sync"

	"gorgonia.org/gorgonia"

	"github.com/pinch-robotics/pinch/policy"
	"github.com/pinch-robotics/pinch/policy/engine"
	"github.com/pinch-robotics/pinch/policy/engine/xla"
)

// deviceStepper keeps weights, moments and average on XLA's devices, where a step is one program, or two when its batch comes in parts.
type deviceStepper struct {
	*optimiser
	graph   *policy.Training
	program *xla.Step
	state   xla.State // views of the optimiser's memory
	synced  int       // step at which the host's memory was current

	mu     sync.Mutex // guards staged
	staged map[*xla.Staged]bool
}

func newDeviceStepper(c Config, g *policy.Training, o *optimiser) (*deviceStepper, error) {
	eng, err := engine.Open(c.engine())
	if err != nil {
		return nil, err
	}
	s := &deviceStepper{optimiser: o, graph: g, synced: o.steps, staged: map[*xla.Staged]bool{}}
	for _, info := range o.params.Info {
		s.state.Weights = append(s.state.Weights, o.params.View(info.Name))
		s.state.First = append(s.state.First, o.m.View(info.Name))
		s.state.Second = append(s.state.Second, o.v.View(info.Name))
		s.state.Average = append(s.state.Average, o.ema.View(info.Name))
	}
	if s.program, err = eng.Client().CompileTraining(o.deviceTraining(g), eng.XLA(true)); err != nil {
		return nil, fmt.Errorf("compile training step: %w", err)
	}
	return s, s.program.Write(s.state)
}

// deviceTraining describes the configured step.
func (o *optimiser) deviceTraining(g *policy.Training) xla.Training {
	c := o.cfg
	t := xla.Training{Loss: g.Loss, Params: g.Params, Gradients: g.Gradients, Factors: o.factor, Beta1: c.Beta1, Beta2: c.Beta2, Clip: c.Clip,
		Momentum: c.MuonMomentum, Parts: c.accumulated() > 1}
	for _, info := range o.params.Info {
		t.Decays = append(t.Decays, info.Decay())
		t.Muon = append(t.Muon, c.Optimiser == muon && info.Hidden())
	}
	if c.Remat {
		t.Keep = g.Keep
	}
	return t
}

// stage copies the batch to the devices.
func (s *deviceStepper) stage(b *filled) error {
	for _, part := range b.parts {
		var nodes gorgonia.Nodes
		var values []any
		for _, f := range s.graph.Feeds(part) {
			nodes, values = append(nodes, f.Node), append(values, f.Value)
		}
		st, err := s.program.Stage(nodes, values)
		if err != nil {
			return err
		}
		b.staged = append(b.staged, st)
		s.mu.Lock()
		s.staged[st] = true
		s.mu.Unlock()
	}
	return nil
}

// use makes a staged part the input of the next run; a batch that was never staged leaves the inputs as they are.
func (s *deviceStepper) use(b filled, part int) error {
	if b.staged == nil {
		return nil
	}
	st := b.staged[part]
	s.mu.Lock()
	delete(s.staged, st)
	s.mu.Unlock()
	return s.program.Use(st)
}

func (s *deviceStepper) step(b filled) (loss, norm float64, err error) {
	if len(b.parts) > 1 {
		err = s.add(b)
	} else {
		err = s.use(b, 0)
	}
	if err != nil {
		return 0, 0, err
	}
	c := s.cfg
	rate := c.rateAt(s.steps)
	loss, norm, err = s.program.Run(xla.Rates{Rate: rate, Beta1: c.Beta1, Beta2: c.Beta2, Eps: c.Epsilon, Decay: c.Decay,
		Average: c.emaAt(s.steps), Step: s.steps + 1, Muon: c.MuonRate * rate / c.Rate})
	if err == nil && finite(loss) && finite(norm) {
		s.steps++
	}
	return loss, norm, err
}

// add runs the parts of a batch, each weighted by its valid scalars.
func (s *deviceStepper) add(b filled) error {
	first := true
	for p, share := range shares(b.parts) {
		if err := s.use(b, p); err != nil {
			return err
		}
		if share == 0 { // nothing valid: its loss is 0/0
			continue
		}
		if err := s.program.Add(share, first); err != nil {
			return err
		}
		first = false
	}
	if first {
		return fmt.Errorf("no step of the batch lies inside its episode: %w", ErrNotFinite)
	}
	return nil
}

func (s *deviceStepper) sync() error {
	if s.synced == s.steps {
		return nil
	}
	if err := s.program.Read(s.state); err != nil {
		return err
	}
	s.synced = s.steps
	return nil
}

func (s *deviceStepper) close() error {
	var err error
	for st := range s.staged {
		err = errors.Join(err, st.Release())
	}
	return errors.Join(err, s.program.Close())
}

// memory says in words what a step takes on each device, by XLA's buffer assignment.
func (s *deviceStepper) memory() string {
	m := s.program.Memory()
	gb := func(n int64) float64 { return math.Round(float64(n)/1e6) / 1e3 }
	return fmt.Sprintf("%.3f GB on each device: %.3f weights, moments and average, %.3f other arguments, %.3f temporary", gb(m.Total()), gb(s.program.StateBytes()),
		gb(m.Arguments-s.program.StateBytes()), gb(m.Temporary))
}
