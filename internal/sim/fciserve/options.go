package fciserve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
)

// Options say where and how to serve.
type Options struct {
	Arms []ArmOptions
	// LockStep: time passes only as clients answer, from the first command of a motion on, or always for a client that answers every state. Else time
	// is real.
	LockStep bool
	// Shared, when set, is called once in each tick after all arms have moved: arms that share a world tick together.
	Shared func() error
	Logger *slog.Logger // nil: silent
	// Jitter delays each state datagram by a random time up to this; real time only.
	Jitter time.Duration
	// Priority is the SCHED_FIFO priority of the arms' clocks in real time, 1 to 99; 0: ordinary threads. Where it is refused they run without.
	Priority int
	// Ready is called once with the arms' addresses (host:port) when clients can connect; may be nil.
	Ready func(addrs []string)
	// Control is called on the loop's own goroutine once per millisecond and arm, and may press stops and inject faults; may be nil.
	Control func(arm int, r *Robot)
}

// ArmOptions are one arm's.
type ArmOptions struct {
	Robot  *Robot
	Listen string        // host:port of TCP; default 127.0.0.1:1337
	Phase  time.Duration // its clock ticks this much after whole milliseconds; real time without Shared only
}

func (o *Options) check() error {
	if len(o.Arms) == 0 {
		return errors.New("simulated arms: none is given")
	}
	for i := range o.Arms {
		a := &o.Arms[i]
		if a.Listen == "" {
			a.Listen = "127.0.0.1:1337"
		}
		if _, _, err := net.SplitHostPort(a.Listen); err != nil {
			return fmt.Errorf("simulated arm: address %q: want host:port", a.Listen)
		}
		if a.Robot == nil {
			return fmt.Errorf("simulated arm at %s: no robot is given", a.Listen)
		}
		if a.Phase < 0 || a.Phase >= time.Millisecond {
			return fmt.Errorf("simulated arm at %s: clock phase %v, want 0 to 1 ms", a.Listen, a.Phase)
		}
	}
	if o.Jitter < 0 || o.Jitter > 100*time.Millisecond {
		return fmt.Errorf("simulated arms: jitter of %v, want 0 to 100 ms", o.Jitter)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
