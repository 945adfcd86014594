package arm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/pinch-robotics/pinch/internal/armrt"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// Options describe one arm process.
type Options struct {
	Name           string               // "left" or "right"
	Listen         string               // tcp:host:port or unix:/path; port 0 takes a free one
	WorldFromBase  robotmodel.Transform // where the arm stands in the cell
	FlangeFromHand robotmodel.Transform // the one constant that differs between arms
	ActionLatency  time.Duration        // how long the arm lags behind its commands, as calibrated
	Period         time.Duration        // distance of states; default 10 ms
	// Velocity, Acceleration and Jerk are shares of the model's limits that this process uses; 0 means 1.
	Velocity, Acceleration, Jerk float64
	// FollowingRad stops the arm when a joint stays this far from its command for followTime; default 0.25.
	FollowingRad float64
	Logger       *slog.Logger      // nil: silent
	Ready        func(addr string) // called once with the address to dial, when the arm is ready; nil: nobody waits
	Observe      func(Observation) // every control cycle, on the loop's goroutine; nil: nobody
	Now          func() time.Time  // the host clock that stamps segments and states; nil: time.Now
}

// Observation is one control cycle as the arm process sees it.
type Observation struct {
	TNS      int64 // host's clock
	Command  armrt.Command
	Measured Measured
	Hand     HandState
}

// followTime is how long a joint may be far from its command.
const followTime = 100 * time.Millisecond

func (o Options) withDefaults() Options {
	if o.Period == 0 {
		o.Period = 10 * time.Millisecond
	}
	for _, share := range []*float64{&o.Velocity, &o.Acceleration, &o.Jerk} {
		if *share == 0 {
			*share = 1
		}
	}
	if o.FollowingRad == 0 {
		o.FollowingRad = 0.25
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Serve starts the driver and the hand (nil: none) and serves executors, one after the other, until ctx ends; it returns nil then, with the arm
// at rest. The error of a controller that disappears ends it. Driver and hand are closed in any case.
func Serve(ctx context.Context, d Driver, h Hand, o Options) (err error) {
	o = o.withDefaults()
	defer func() { err = errors.Join(err, d.Close()) }()
	model, err := robotmodel.ByName(d.Model())
	if err != nil {
		return err
	}
	if d.Cycle() < armrt.Tick || d.Cycle()%armrt.Tick != 0 {
		return fmt.Errorf("arm %s: a control cycle of %v is no whole number of %v", o.Name, d.Cycle(), armrt.Tick)
	}
	l, err := armlink.Listen(o.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	g, err := startGripper(ctx, h)
	if err != nil {
		if h != nil {
			err = errors.Join(err, h.Close())
		}
		return err
	}
	defer func() { err = errors.Join(err, g.close()) }()
	m, err := d.Start(ctx)
	if err != nil {
		return fmt.Errorf("start %s arm (%s): %w", o.Name, model.Name, err)
	}
	p, err := newProcess(d, g, model, o, m)
	if err != nil {
		return err
	}
	clients := make(chan *client)
	accepting, stop := context.WithCancel(ctx)
	defer stop()
	go accept(accepting, l, clients)
	if o.Ready != nil {
		o.Ready(l.Addr().Network() + ":" + l.Addr().String())
	}
	return p.run(ctx, clients)
}

// accept offers each connection to the loop.
func accept(ctx context.Context, l net.Listener, clients chan<- *client) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case clients <- newClient(nc):
		case <-ctx.Done():
			_ = nc.Close()
			return
		}
	}
}
