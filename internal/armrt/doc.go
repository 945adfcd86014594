// Package armrt turns the time-stamped trajectory segments of armlink into one joint command per millisecond that never breaks a limit.
//
// A Runtime is one arm with its gripper. It has no clock, no goroutine and no I/O: its owner calls Step once per millisecond with the time,
// and Plan, Stop and Recover when messages arrive. Eight axes, seven joints and the finger angle, go through the same three stages:
//
//	knots ─► path (C2, quintic between knots) ─► reference ─► tracker ─► command
//	             ▲ time slows to a stop when segments end or Stop comes      every command obeys position, velocity, acceleration, jerk
//
// The tracker keeps one invariant: from the state after each command, braking as hard as the limits allow stays inside all limits. A wished
// acceleration that would break it is reduced, at worst to that braking, so nothing that arrives can cause a violation.
//
//	          Plan                    path ends in motion, Stop
//	idle ───────────► moving ───────────────────────────────► ramp ───► stopped ──Recover──► idle
//	 ▲   path ends at rest │
//	 └─────────────────────┘          Reflex: the path is dropped
//	 any mode ──────────────────────────────────────────────► ramp ───► reflex ───Recover──► idle
package armrt

import "time"

// Tick is the period of Step.
const Tick = time.Millisecond

const dt = 1e-3 // Tick in seconds
