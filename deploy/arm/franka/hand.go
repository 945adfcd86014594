package franka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
)

// handPatience is how long a gripper bus may fail before the arm stops: a lost packet is nothing, a pulled cable is.
const handPatience = 100 * time.Millisecond

// hand runs a gripper on a goroutine of its own, so that its bus never holds up anything. In lock-step there is none: the process exchanges with each
// report, while time stands.
type hand struct {
	dev     arm.Hand
	elapsed func() time.Duration

	mu     sync.Mutex // guards what follows
	goal   float64
	rad    float64
	broken error

	failing bool // the last exchange failed; since then, by elapsed
	since   time.Duration

	cancel context.CancelFunc
	done   chan struct{}
}

// startHand starts the gripper and takes its range; without one the finger angle mirrors its command.
func (p *process) startHand(ctx context.Context) error {
	p.gripper = robotmodel.YUBI()
	if p.Hand == nil {
		return nil
	}
	st, err := p.Hand.Start(ctx)
	if err != nil {
		return fmt.Errorf("start gripper: %w", err)
	}
	p.gripper.ClosedRad, p.gripper.OpenRad = p.Hand.Range()
	life, cancel := context.WithCancel(context.Background())
	p.hand = &hand{dev: p.Hand, elapsed: p.elapsed, goal: st.Rad, rad: st.Rad, cancel: cancel, done: make(chan struct{})}
	if p.LockStep {
		close(p.hand.done)
	} else {
		go p.hand.run(life)
	}
	return nil
}

func (p *process) closeHand() {
	if p.hand != nil {
		p.hand.cancel()
		<-p.hand.done
	}
	if p.Hand != nil {
		if err := p.Hand.Close(); err != nil {
			p.log.Warn("close gripper", "err", err)
		}
	}
}

func (h *hand) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(h.dev.Period())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			h.exchange(ctx)
		}
	}
}

// exchange is one round on the gripper's bus.
func (h *hand) exchange(ctx context.Context) {
	h.mu.Lock()
	goal, broken := h.goal, h.broken
	h.mu.Unlock()
	var err error
	if broken != nil {
		err = h.dev.Recover(ctx)
	}
	var st arm.HandState
	if err == nil {
		st, err = h.dev.Exchange(ctx, goal)
	}
	if err != nil && !h.failing {
		h.since = h.elapsed()
	}
	h.failing = err != nil
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		h.rad, h.broken = st.Rad, nil
	case errors.Is(err, arm.ErrHandAlarm), h.elapsed()-h.since > handPatience:
		h.broken = err
	}
}

// set gives the wanted finger angle, rad.
func (h *hand) set(rad float64) {
	h.mu.Lock()
	h.goal = rad
	h.mu.Unlock()
}

// measured is the last measured finger angle, rad.
func (h *hand) measured() float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rad
}

// fault is why the gripper does not answer, nil while it does.
func (h *hand) fault() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.broken
}
