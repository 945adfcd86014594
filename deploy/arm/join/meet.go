package join

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// meet connects to the scene, if there is one, and to both arm processes, and makes the greeting of the cell.
func (p *pairing) meet(c Config) (*armlink.Hello, error) {
	if c.Scene != "" {
		if err := p.openScene(c.Scene); err != nil {
			return nil, err
		}
	}
	type arrival struct {
		arm int
		err error
	}
	arrived := make(chan arrival, 2)
	for i, addr := range []string{c.Left, c.Right} {
		go func() { arrived <- arrival{i, p.dial(i, addr)} }()
	}
	first := <-arrived
	if first.err != nil {
		p.leave()
		<-arrived
		return nil, first.err
	}
	for waiting := true; waiting; {
		var events chan event
		if p.lockStep {
			if err := p.grant(first.arm, p.links[first.arm].hello.PeriodNS); err != nil {
				return nil, err
			}
			events = p.events
		}
		select {
		case second := <-arrived:
			if second.err != nil {
				return nil, second.err
			}
			waiting = false
		case e := <-events:
			if err := p.early(e); err != nil {
				p.leave()
				<-arrived
				return nil, err
			}
		}
	}
	if p.lockStep {
		if err := p.align(); err != nil {
			return nil, err
		}
	}
	return p.hello(c.Cameras)
}

// openScene connects to the scene of a simulated cell, whose clock the arms keep.
func (p *pairing) openScene(addr string) error {
	m, err := p.greet("the scene", addr, &p.scene, false)
	if err != nil {
		return err
	}
	h, ok := m.(*armlink.Hello)
	if !ok || h.Version != armlink.Version || !h.Sim {
		return fmt.Errorf("the scene at %s began with %+v; want the scene of `pinch sim fci --cell` of this release", addr, m)
	}
	p.lockStep = h.Clock == armlink.LockStep
	p.read(fromScene, p.scene)
	return nil
}

// grant lets an arm's time pass by a step when it has used up what it has: while the other arm's process makes ready, that one needs time.
func (p *pairing) grant(i int, step int64) error {
	l := &p.links[i]
	now := l.hello.StartNS
	if l.state != nil {
		now = max(now, l.state.TNS)
	}
	if now < l.granted {
		return nil
	}
	l.granted = now + step
	return l.conn.Write(&armlink.Advance{UntilNS: l.granted})
}

// early takes what comes before the cell greets its executor.
func (p *pairing) early(e event) error {
	if e.err != nil {
		return fmt.Errorf("a process of the cell ended while it was greeted: %w", e.err)
	}
	switch m := e.msg.(type) {
	case *armlink.State:
		if e.from > 1 || len(m.Arms) != 1 {
			return fmt.Errorf("a state of %d arms came", len(m.Arms))
		}
		p.links[e.from].state = m
	case *armlink.Fault:
		p.faults = append(p.faults, m)
	}
	return nil
}

// alignNS is the grid on which a cell in lock-step begins: cameras stand in the same phase to every beginning, so equal runs see equal pictures.
const alignNS = 1_000_000_000

// align brings both arms to the same moment.
func (p *pairing) align() error {
	until := int64(0)
	for i := range p.links {
		until = max(until, p.links[i].granted, p.links[i].hello.StartNS)
	}
	until = (until + alignNS - 1) / alignNS * alignNS
	for i := range p.links {
		if err := p.links[i].conn.Write(&armlink.Advance{UntilNS: until}); err != nil {
			return fmt.Errorf("%s arm: %w", names[i], err)
		}
	}
	for {
		l, r := p.links[0].state, p.links[1].state
		if l != nil && r != nil && l.TNS >= until && r.TNS >= until {
			return nil
		}
		select {
		case e := <-p.events:
			if err := p.early(e); err != nil {
				return err
			}
		case <-p.ctx.Done():
			return p.ctx.Err()
		}
	}
}
