package arm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// handPatience is how long a gripper bus may fail before the arm stops: a lost packet is nothing, a pulled cable is.
const handPatience = 100 * time.Millisecond

// gripper runs a Hand on a goroutine of its own, so that its bus never holds up the arm's loop.
type gripper struct {
	hand Hand

	mu    sync.Mutex // guards the rest
	goal  float64
	state HandState
	fault error // of the bus, after handPatience
	again bool  // the loop asks for Recover

	cancel context.CancelFunc
	done   chan struct{}
}

// startGripper starts the hand; nil starts none, and the returned gripper mirrors its commands.
func startGripper(ctx context.Context, h Hand) (*gripper, error) {
	g := &gripper{hand: h, done: make(chan struct{})}
	if h == nil {
		close(g.done)
		g.cancel = func() {}
		return g, nil
	}
	st, err := h.Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("start gripper: %w", err)
	}
	g.state, g.goal = st, st.Rad
	life, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	go g.run(life)
	return g, nil
}

func (g *gripper) run(ctx context.Context) {
	defer close(g.done)
	tick := time.NewTicker(g.hand.Period())
	defer tick.Stop()
	var failing time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		g.mu.Lock()
		goal, again := g.goal, g.again
		g.again = false
		g.mu.Unlock()
		var st HandState
		var err error
		if again {
			err = g.hand.Recover(ctx)
		}
		if err == nil {
			st, err = g.hand.Exchange(ctx, goal)
		}
		if ctx.Err() != nil {
			return
		}
		g.mu.Lock()
		switch {
		case err == nil:
			g.state, g.fault, failing = st, nil, time.Time{}
		case failing.IsZero():
			failing = time.Now()
			if errors.Is(err, ErrHandAlarm) {
				g.fault = err
			}
		case errors.Is(err, ErrHandAlarm), time.Since(failing) > handPatience:
			g.fault = err
		}
		g.mu.Unlock()
	}
}

// ErrHandAlarm marks an error of Exchange that is the gripper's own alarm (overload, heat, watchdog): the arm stops at once.
var ErrHandAlarm = errors.New("gripper alarm")

// set gives the hand its goal.
func (g *gripper) set(rad float64) {
	g.mu.Lock()
	g.goal = rad
	if g.hand == nil {
		g.state.Rad = rad
	}
	g.mu.Unlock()
}

// recover asks the hand to become ready again; the fault stands until an exchange succeeds.
func (g *gripper) recover() {
	g.mu.Lock()
	g.again = true
	g.mu.Unlock()
}

// now is the last measured state and the fault that stands.
func (g *gripper) now() (HandState, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.fault
}

// close ends the goroutine and the hand.
func (g *gripper) close() error {
	g.cancel()
	if g.hand == nil {
		return nil
	}
	err := g.hand.Close()
	<-g.done
	return err
}
