package serving

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/pinch-robotics/pinch/deploy"
)

// session is the policy of one connection: one member of an alias's pool, and another one when that fails. The server calls it from one
// goroutine at a time.
type session struct {
	registry *Registry
	alias    *alias
	tried    map[*member]bool // members that failed this connection

	member   *member
	policy   deploy.Policy
	contract deploy.Contract
}

// choose opens a healthy member that has not failed this connection: the first, or the fastest. cause is why the one before was left.
func (s *session) choose(ctx context.Context, cause error) error {
	faults := []error{cause}
	for {
		var best *member
		var bestLatency time.Duration
		for _, m := range s.alias.members {
			latency, ok := m.ready()
			if !ok || s.tried[m] {
				continue
			}
			if best == nil || (s.alias.Choose == ChooseFastest && latency < bestLatency) {
				best, bestLatency = m, latency
			}
		}
		if best == nil {
			return fmt.Errorf("alias %s: no member of its pool works now: %w", s.alias.name, errors.Join(append(faults, s.reasons())...))
		}
		p, c, err := best.open(ctx)
		if err == nil && !sameMeaning(c, s.alias.contract) {
			best.release(p)
			err = fmt.Errorf("%s now states %s, the pool %s", best, meaning(c), meaning(s.alias.contract))
		}
		if err == nil {
			s.member, s.policy, s.contract = best, p, c
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.leave(best, err)
		faults = append(faults, err)
	}
}

// reasons is why each member of the pool is out.
func (s *session) reasons() error {
	var parts []string
	for _, m := range s.alias.members {
		if st := m.status(); !st.Healthy {
			parts = append(parts, fmt.Sprintf("%s: %s", st.Name, st.Fault))
		}
	}
	return errors.New(strings.Join(parts, "; "))
}

// leave takes a member out, for this connection and, until a probe succeeds, for others.
func (s *session) leave(m *member, err error) {
	s.tried[m] = true
	m.failed(err)
	s.registry.log.Warn("a member of a pool failed", "alias", s.alias.name, "member", m.String(), "err", err)
}

// Metadata implements deploy.Policy: that of the member the connection began with; each answer names its own checkpoint.
func (s *session) Metadata() map[string]any {
	meta := maps.Clone(s.policy.Metadata())
	for k, v := range s.contract.Map() {
		meta[k] = v
	}
	meta["alias"] = s.alias.name
	return meta
}

// Reset implements deploy.Resetter.
func (s *session) Reset() { reset(s.policy) }

// Infer implements deploy.Policy. It asks the connection's member, and those after it when it fails.
func (s *session) Infer(ctx context.Context, obs deploy.Observation) (deploy.Chunk, error) {
	for {
		m, p := s.member, s.policy
		start := time.Now()
		c, err := m.infer(ctx, s.alias.timeout(), func(ctx context.Context) (deploy.Chunk, error) { return p.Infer(ctx, obs) })
		if err == nil {
			m.succeeded(time.Since(start))
			if c.Checkpoint == "" {
				c.Checkpoint = s.contract.Checkpoint
			}
			return c, nil
		}
		if ctx.Err() != nil {
			return c, ctx.Err() // the client has left; nobody failed
		}
		s.leave(m, err)
		m.release(p)
		if err := s.choose(ctx, err); err != nil {
			return deploy.Chunk{}, err
		}
		reset(s.policy)
		s.registry.log.Info("a connection goes on with another member", "alias", s.alias.name, "from", m.String(), "to", s.member.String(),
			"checkpoint", s.contract.Checkpoint)
	}
}

// Close implements deploy.RoutedPolicy.
func (s *session) Close() error {
	s.member.release(s.policy)
	return nil
}
