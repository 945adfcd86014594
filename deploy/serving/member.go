package serving

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
)

// Loader opens what a member stands for. For a checkpoint it is called once and its policy shared; for a remote server it is called for each
// connection.
type Loader func(ctx context.Context, m Member) (deploy.Policy, error)

// member is one policy of a pool, with what has been seen of it. Safe for concurrent use.
type member struct {
	Member
	load Loader

	mu       sync.Mutex // guards the rest
	shared   deploy.Policy
	contract deploy.Contract
	healthy  bool
	fault    string        // why it is not
	latency  time.Duration // moving average of its answers, 0: none yet
	answers  int
	failures int
	busy     int // calls that were given up and still run
}

func newMember(m Member, load Loader) *member { return &member{Member: m, load: load} }

// probe loads the member if need be and has it answer once. It becomes healthy, or its fault says why not.
func (m *member) probe(ctx context.Context, timeout time.Duration) error {
	p, contract, err := m.open(ctx)
	if err == nil {
		var prompt string
		if len(contract.Prompts) > 0 {
			prompt = contract.Prompts[0]
		}
		// The first answer pays for compilation, so only the second one is timed.
		if _, err = deploy.WarmUp(ctx, p, prompt); err == nil {
			start := time.Now()
			if _, err = m.infer(ctx, timeout, func(ctx context.Context) (deploy.Chunk, error) { return deploy.WarmUp(ctx, p, prompt) }); err == nil {
				m.succeeded(time.Since(start))
			}
		}
		reset(p)
		m.release(p)
	}
	if err != nil {
		m.failed(err)
		return err
	}
	m.mu.Lock()
	m.contract, m.healthy, m.fault = contract, true, ""
	m.mu.Unlock()
	return nil
}

// open gives a policy for one connection and its contract.
func (m *member) open(ctx context.Context) (deploy.Policy, deploy.Contract, error) {
	m.mu.Lock()
	p := m.shared
	m.mu.Unlock()
	if p == nil {
		var err error
		if p, err = m.load(ctx, m.Member); err != nil {
			return nil, deploy.Contract{}, fmt.Errorf("load %s: %w", m, err)
		}
		if m.Checkpoint != "" {
			m.mu.Lock()
			m.shared = p
			m.mu.Unlock()
		}
	}
	c, err := deploy.ReadContract(p.Metadata(), m.Contract)
	if err != nil {
		m.release(p)
		return nil, c, fmt.Errorf("%s: %w", m, err)
	}
	return p, c, nil
}

// release ends a connection's use of a policy.
func (m *member) release(p deploy.Policy) {
	m.mu.Lock()
	mine := p == m.shared
	m.mu.Unlock()
	if c, ok := p.(io.Closer); ok && !mine {
		_ = c.Close()
	}
}

func reset(p deploy.Policy) {
	if r, ok := p.(deploy.Resetter); ok {
		r.Reset()
	}
}

// infer calls f with a time limit. A policy that does not heed its context is left to finish by itself; until it has, the member is busy and
// gets no new work.
func (m *member) infer(ctx context.Context, timeout time.Duration, f func(context.Context) (deploy.Chunk, error)) (deploy.Chunk, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	type answer struct {
		c   deploy.Chunk
		err error
	}
	done := make(chan answer, 1)
	m.mu.Lock()
	m.busy++
	m.mu.Unlock()
	go func() {
		defer cancel()
		c, err := f(ctx)
		m.mu.Lock()
		m.busy--
		m.mu.Unlock()
		done <- answer{c, err}
	}()
	select {
	case a := <-done:
		if a.err == nil {
			a.err = a.c.Check()
		}
		return a.c, a.err
	case <-ctx.Done():
		select {
		case a := <-done: // it had answered just then
			if a.err == nil {
				a.err = a.c.Check()
			}
			return a.c, a.err
		default:
		}
		return deploy.Chunk{}, fmt.Errorf("%s: no answer within %v: %w", m, timeout, ctx.Err())
	}
}

// latencyShare is the weight of a new measurement in the average.
const latencyShare = 0.2

func (m *member) succeeded(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answers++
	if m.latency == 0 {
		m.latency = took
		return
	}
	m.latency += time.Duration(latencyShare * float64(took-m.latency))
}

func (m *member) failed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
	m.healthy, m.fault = false, err.Error()
}

// refuse makes a member unusable for a reason of its pool's.
func (m *member) refuse(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.healthy, m.fault = false, why
}

// MemberStatus is what has been seen of a member.
type MemberStatus struct {
	Name       string  `json:"name"`
	Healthy    bool    `json:"healthy"`
	Fault      string  `json:"fault,omitempty"`
	Checkpoint string  `json:"checkpoint"`
	LatencyMS  float64 `json:"latency_ms"`
	Answers    int     `json:"answers"`
	Failures   int     `json:"failures"`
}

func (m *member) status() MemberStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	return MemberStatus{Name: m.String(), Healthy: m.healthy, Fault: m.fault, Checkpoint: m.contract.Checkpoint,
		LatencyMS: float64(m.latency) / 1e6, Answers: m.answers, Failures: m.failures}
}

// stated is the contract the member stated when it was probed.
func (m *member) stated() deploy.Contract {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.contract
}

// idle reports whether no call that was given up still runs.
func (m *member) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.busy == 0
}

// ready reports whether new work may go to the member, and how fast it is.
func (m *member) ready() (latency time.Duration, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latency, m.healthy
}
