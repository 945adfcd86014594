package franka

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/pinch-robotics/pinch/deploy/arm"
	"github.com/pinch-robotics/pinch/internal/robotmodel"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
	"github.com/pinch-robotics/pinch/internal/wire/fci"
)

// Realtime says what happens when the machine can not be made a real-time one.
type Realtime string

// The choices of Realtime.
const (
	RealtimeRequire Realtime = "require" // the process refuses to start; for hardware
	RealtimeTry     Realtime = "try"     // it warns
	RealtimeOff     Realtime = "off"     // it does not try; for lock-step and tests
)

// Options describe the process of one arm. Zero fields take the defaults.
type Options struct {
	Name    string // "left" or "right"
	Address string // the arm: host or host:port
	Listen  string // armlink for the executor: tcp:host:port or unix:/path; port 0 takes a free one

	Model          string               // of package robotmodel; default fr3, fer for interface version 5
	WorldFromBase  robotmodel.Transform // where the arm stands in the cell
	FlangeFromHand robotmodel.Transform // the one constant that differs between arms
	ActionLatency  time.Duration        // how long the arm lags behind its commands, as calibrated
	Period         time.Duration        // distance of states to the executor; default 10 ms
	// Velocity, Acceleration and Jerk are shares of the limits that this process uses; default 1.
	Velocity, Acceleration, Jerk float64
	FollowingRad                 float64       // as in CoreConfig
	LinkTest                     time.Duration // how long the link is judged before motion; default 1 s
	ModelErrorM                  float64       // the arm's own forward kinematics may differ this much from the model's; default 1 mm

	Collision *fci.CollisionBehavior // nil: as the arm has them
	Stiffness *fci.Joints            // of the arm's joint controller, Nm/rad; nil: as the arm has it
	LoadKG    float64                // beyond the end effector that Desk knows
	LoadXYZ   [3]float64             // its centre in the flange's frame, m

	LockStep bool     // against a simulated arm in lock-step: time passes as the executor grants it
	Realtime Realtime // default require; off in lock-step
	Priority int      // of SCHED_FIFO, 1 to 99; default 80
	CPU      int      // the loop is bound to this processor; -1: to none

	Hand   arm.Hand          // nil: none, the finger angle mirrors its command
	Logger *slog.Logger      // nil: silent
	Ready  func(addr string) // called once with the address to dial; may be nil
	// Timing is given the loop's timing when the process ends; may be nil.
	Timing func(Timing)

	pauseMax time.Duration // of tests: the longest pause between error recoveries
}

func (o Options) withDefaults() (Options, error) {
	if o.Name != "left" && o.Name != "right" {
		return o, fmt.Errorf("arm name %q: want left or right", o.Name)
	}
	if o.Address == "" {
		return o, fmt.Errorf("%s arm: its address is missing", o.Name)
	}
	if o.Listen == "" {
		o.Listen = "tcp:127.0.0.1:0"
	}
	if o.Period == 0 {
		o.Period = 10 * time.Millisecond
	}
	if o.Period < time.Millisecond || o.Period > 50*time.Millisecond || o.Period%time.Millisecond != 0 {
		return o, fmt.Errorf("%s arm: state period %v, want whole milliseconds, 1 to 50", o.Name, o.Period)
	}
	for name, share := range map[string]*float64{"velocity": &o.Velocity, "acceleration": &o.Acceleration, "jerk": &o.Jerk} {
		if *share == 0 {
			*share = 1
		}
		if !(*share >= 0.05 && *share <= 1) {
			return o, fmt.Errorf("%s arm: %s share %v, want 0.05 to 1", o.Name, name, *share)
		}
	}
	if o.LinkTest == 0 {
		o.LinkTest = time.Second
	}
	if o.LinkTest < 200*time.Millisecond || o.LinkTest > time.Minute {
		return o, fmt.Errorf("%s arm: link test of %v, want 0.2 s to 1 min", o.Name, o.LinkTest)
	}
	if o.ModelErrorM == 0 {
		o.ModelErrorM = 1e-3
	}
	if !(o.ModelErrorM > 0 && o.ModelErrorM <= 0.5) {
		return o, fmt.Errorf("%s arm: model error of %v m, want up to 0.5", o.Name, o.ModelErrorM)
	}
	switch {
	case o.LockStep:
		o.Realtime = RealtimeOff
	case o.Realtime == "":
		o.Realtime = RealtimeRequire
	}
	switch o.Realtime {
	case RealtimeRequire, RealtimeTry, RealtimeOff:
	default:
		return o, fmt.Errorf("%s arm: real time %q, want %s, %s or %s", o.Name, o.Realtime, RealtimeRequire, RealtimeTry, RealtimeOff)
	}
	if o.pauseMax == 0 {
		o.pauseMax = recoveryPauseMax
	}
	if o.Priority == 0 {
		o.Priority = 80
	}
	if o.Priority < 1 || o.Priority > 99 {
		return o, fmt.Errorf("%s arm: priority %d, want 1 to 99", o.Name, o.Priority)
	}
	if o.WorldFromBase == (robotmodel.Transform{}) {
		o.WorldFromBase = robotmodel.Identity()
	}
	if o.FlangeFromHand == (robotmodel.Transform{}) {
		o.FlangeFromHand = robotmodel.FlangeFromHand()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// clock is the armlink clock of the process.
func (o *Options) clock() armlink.Clock {
	if o.LockStep {
		return armlink.LockStep
	}
	return armlink.RealTime
}

// Error recoveries are at least this far apart; each that is followed by another within calmTime doubles the distance, up to the most. An arm that is
// recovered over and over against an obstacle pushes on.
const (
	recoveryPause    = time.Second
	recoveryPauseMax = 30 * time.Second
	calmTime         = 30 * time.Second
)
