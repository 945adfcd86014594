package join

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

var names = [2]string{"left", "right"}

// Where events come from, beside the arms 0 and 1.
const (
	fromClient = 2
	fromScene  = 3
)

// event is one message, or the end of a connection.
type event struct {
	from int
	msg  armlink.Message
	err  error
}

// link is one arm process.
type link struct {
	conn  *armlink.Conn
	hello *armlink.Hello
	state *armlink.State // newest; nil: none yet
	heard time.Time
	gone  bool
	told  bool // the other arm has been stopped because of this one

	granted int64 // lock-step, before the executor is greeted: how far its time may pass
}

// pairing joins two arm processes for one executor. run owns it.
type pairing struct {
	ctx      context.Context
	client   *armlink.Conn
	links    [2]link
	scene    *armlink.Conn // nil: the cell is real
	lockStep bool
	silence  time.Duration
	events   chan event
	faults   []*armlink.Fault // before the executor was greeted
	lastNS   int64
	once     sync.Once
	mu       sync.Mutex // guards the opening of connections against close
	closed   bool
	wg       sync.WaitGroup
}

// greet connects to a process and reads its first message. A process in lock-step may wait for another's time to pass before it greets.
func (p *pairing) greet(what, addr string, into **armlink.Conn, patient bool) (armlink.Message, error) {
	ctx, cancel := context.WithCancel(p.ctx)
	if !patient {
		ctx, cancel = context.WithTimeout(p.ctx, dialTime)
	}
	defer cancel()
	conn, err := armlink.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if !p.keep(conn, into) {
		return nil, fmt.Errorf("%s: %w", what, context.Canceled)
	}
	giveUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
	m, err := conn.Read()
	if !giveUp() || err != nil {
		return nil, fmt.Errorf("%s at %s does not answer: %w", what, addr, err)
	}
	return m, nil
}

// keep notes a connection so that close finds it; one that comes after close is closed.
func (p *pairing) keep(conn *armlink.Conn, into **armlink.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return false
	}
	*into = conn
	return true
}

// dial connects to an arm process, reads its Hello and goes on reading.
func (p *pairing) dial(i int, addr string) error {
	m, err := p.greet(names[i]+" arm", addr, &p.links[i].conn, p.lockStep)
	if err != nil {
		return err
	}
	clock := armlink.RealTime
	if p.lockStep {
		clock = armlink.LockStep
	}
	h, ok := m.(*armlink.Hello)
	switch {
	case !ok:
		return fmt.Errorf("%s arm at %s began with %T (%v) instead of Hello", names[i], addr, m, m)
	case h.Version != armlink.Version:
		return fmt.Errorf("%s arm at %s speaks armlink %d, this program %d; use programs of one release", names[i], addr, h.Version, armlink.Version)
	case h.Clock != clock:
		return fmt.Errorf("%s arm at %s keeps a %s clock, want %s: the clock of the scene where there is one (scene:), else real time", names[i], addr, h.Clock, clock)
	case len(h.Arms) != 1 || h.Arms[0].Name != names[i]:
		return fmt.Errorf("%s arm at %s says that it drives %v; check the addresses", names[i], addr, armNames(h))
	}
	p.links[i].hello = h
	p.read(i, p.links[i].conn)
	return nil
}

func armNames(h *armlink.Hello) (out []string) {
	for _, a := range h.Arms {
		out = append(out, a.Name)
	}
	return out
}

// clockSpread is how far the clocks of two arm processes may be apart: they are to run on one computer.
const clockSpread = 100 * time.Millisecond

// hello is the greeting of the cell.
func (p *pairing) hello(cameras []Camera) (*armlink.Hello, error) {
	l, r := p.links[0].hello, p.links[1].hello
	h := &armlink.Hello{Version: armlink.Version, Clock: l.Clock, PeriodNS: l.PeriodNS, StartNS: max(l.StartNS, r.StartNS), Sim: p.scene != nil,
		ActionLatencyNS: max(l.ActionLatencyNS, r.ActionLatencyNS), Arms: []armlink.ArmInfo{l.Arms[0], r.Arms[0]},
		Cameras: append(append([]armlink.CameraInfo(nil), l.Cameras...), r.Cameras...)}
	for _, c := range cameras {
		info := armlink.CameraInfo{Name: c.Name, URL: c.URL, Kind: c.Kind, PeriodNS: int64(1e9 / c.RateHz)}
		if p.lockStep { // at whole seconds of the cell's clock there is a frame, but that one was captured before the executor came
			info.PhaseNS = info.PeriodNS
		}
		h.Cameras = append(h.Cameras, info)
	}
	if p.lockStep {
		h.StartNS = p.links[0].state.TNS
		return h, nil
	}
	if d := time.Duration(l.StartNS - r.StartNS).Abs(); d > clockSpread {
		return nil, fmt.Errorf("the clocks of the two arm processes are %v apart; run both on one computer", d)
	}
	return h, nil
}

// read moves a connection's messages into events until it ends.
func (p *pairing) read(from int, conn *armlink.Conn) {
	p.wg.Add(1)
	go func() {
		defer p.wg.Done()
		for {
			m, err := conn.Read()
			select {
			case p.events <- event{from, m, err}:
			case <-p.ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
}

// run forwards until the executor leaves, or an arm is gone and the other one stands.
func (p *pairing) run() error {
	var silent <-chan time.Time
	if !p.lockStep {
		watch := time.NewTicker(p.silence / 4)
		defer watch.Stop()
		silent = watch.C
	}
	for i := range p.links {
		p.links[i].heard = time.Now()
	}
	for {
		select {
		case <-p.ctx.Done():
			return p.ctx.Err()
		case e := <-p.events:
			if err := p.take(e); err != nil {
				return err
			}
		case <-silent:
			for i := range p.links {
				if l := &p.links[i]; !l.gone && time.Since(l.heard) > p.silence {
					p.lose(i, fmt.Sprintf("its process has been silent for %v", p.silence))
				}
			}
		}
		if done := p.finished(); done != nil {
			return done
		}
	}
}

func (p *pairing) take(e event) error {
	switch e.from {
	case fromClient:
		if e.err != nil {
			return fmt.Errorf("the executor left: %w", e.err)
		}
		return p.order(e.msg)
	case fromScene:
		if e.err != nil {
			return fmt.Errorf("the scene has ended: %w", e.err)
		}
		return p.client.Write(e.msg)
	}
	l := &p.links[e.from]
	if e.err != nil {
		p.lose(e.from, fmt.Sprintf("its process has ended (%v)", e.err))
		return nil
	}
	l.heard = time.Now()
	switch m := e.msg.(type) {
	case *armlink.State:
		if len(m.Arms) != 1 {
			p.lose(e.from, fmt.Sprintf("its process sent a state of %d arms", len(m.Arms)))
			return nil
		}
		if !l.gone {
			l.state = m
			p.watch(e.from)
		}
		if p.complete(e.from) {
			return p.report()
		}
	case *armlink.Fault:
		return p.client.Write(m)
	}
	return nil
}

// complete tells whether the state that came from an arm makes one of the cell: any of the left arm's; in lock-step the one that brings both to the same
// moment.
func (p *pairing) complete(from int) bool {
	l, r := &p.links[0], &p.links[1]
	if !p.lockStep || l.gone || r.gone {
		return from == 0 || l.gone
	}
	return l.state != nil && r.state != nil && l.state.TNS == r.state.TNS
}

// order passes a message of the executor on.
func (p *pairing) order(m armlink.Message) error {
	switch m := m.(type) {
	case *armlink.Segment:
		for i, name := range names {
			if m.Arm == name {
				p.send(i, m)
				return nil
			}
		}
		return p.client.Write(&armlink.Fault{Of: m.Kind(), Text: fmt.Sprintf("segment for arm %q", m.Arm)})
	case *armlink.Stop, *armlink.Recover:
		for i := range p.links {
			p.send(i, m)
		}
		return nil
	case *armlink.Advance:
		if p.lockStep {
			for i := range p.links {
				p.send(i, m)
			}
			return nil
		}
	case *armlink.SetScene, *armlink.QueryTruth:
		if p.scene != nil {
			return p.scene.Write(m)
		}
	}
	return p.client.Write(&armlink.Fault{Of: m.Kind(), Text: fmt.Sprintf("%T is for simulated cells", m)})
}

func (p *pairing) send(i int, m armlink.Message) {
	if l := &p.links[i]; !l.gone {
		if err := l.conn.Write(m); err != nil {
			p.lose(i, fmt.Sprintf("its process does not take messages (%v)", err))
		}
	}
}

// watch stops the other arm, once for each stop of this one.
func (p *pairing) watch(i int) {
	l := &p.links[i]
	a := l.state.Arms[0]
	switch {
	case !a.Mode.NeedsRecover():
		l.told = false
	case !l.told:
		l.told = true
		p.stopOther(i, a.Reason)
	}
}

func (p *pairing) stopOther(i int, why string) {
	o := &p.links[1-i]
	if o.gone || (o.state != nil && o.state.Arms[0].Mode.NeedsRecover()) {
		return
	}
	p.send(1-i, &armlink.Stop{Reason: fmt.Sprintf("the %s arm stopped: %s", names[i], why)})
}

// lose marks an arm as gone and stops the other one.
func (p *pairing) lose(i int, why string) {
	l := &p.links[i]
	if l.gone {
		return
	}
	l.gone = true
	_ = l.conn.Close()
	st := armlink.State{Arms: []armlink.ArmState{{}}}
	if l.state != nil {
		st = *l.state
		st.Arms = []armlink.ArmState{l.state.Arms[0]}
	}
	st.Arms[0].Mode, st.Arms[0].Reason = armlink.ModeReflex, why
	st.Arms[0].DQ, st.Arms[0].DQCmd = armlink.Joints{}, armlink.Joints{}
	l.state = &st
	p.stopOther(i, why)
	_ = p.report()
}

// finished is the error that ends the session: an arm is gone, and the other one stands or is gone too.
func (p *pairing) finished() error {
	for i := range p.links {
		o := &p.links[1-i]
		if p.links[i].gone && (o.gone || (o.state != nil && o.state.Arms[0].Mode != armlink.ModeRamp && o.state.Arms[0].Mode != armlink.ModeMoving)) {
			return fmt.Errorf("%s arm: %s", names[i], p.links[i].state.Arms[0].Reason)
		}
	}
	return nil
}

// report sends the state of both arms.
func (p *pairing) report() error {
	l, r := p.links[0].state, p.links[1].state
	if l == nil || r == nil {
		return nil
	}
	at := max(l.TNS, p.lastNS)
	if p.links[0].gone {
		at = max(r.TNS, p.lastNS)
	}
	p.lastNS = at
	return p.client.Write(&armlink.State{TNS: at, Arms: []armlink.ArmState{carry(l, at), carry(r, at)}})
}

// carryMost is the longest time over which a state is carried on by its velocity.
const carryMost = 20e6

// carry moves a state to another moment.
func carry(s *armlink.State, at int64) armlink.ArmState {
	a := s.Arms[0]
	dt := min(max(float64(at-s.TNS), -carryMost), carryMost) * 1e-9
	for j := range a.Q {
		a.Q[j] += a.DQ[j] * dt
		a.QCmd[j] += a.DQCmd[j] * dt
	}
	return a
}

// close ends all connections.
func (p *pairing) close() {
	p.once.Do(func() {
		_ = p.client.Close()
		p.leave()
	})
}

// leave ends the connections to scene and arms; the executor can still be told why.
func (p *pairing) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.scene != nil {
		_ = p.scene.Close()
	}
	for i := range p.links {
		if p.links[i].conn != nil {
			_ = p.links[i].conn.Close()
		}
	}
}
