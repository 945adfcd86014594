// Package franka is the real-time process of one Franka arm: it answers the arm's states with joint positions every millisecond and takes
// trajectory segments from the executor over armlink.
//
//	arm ── 1 kHz states (UDP) ──► loop ── Core ── armrt ──► commands (UDP) ──► arm      one locked thread, no garbage, no waiting
//	                               ▲   │ functions in, reports out: channels that never block the loop
//	arm ◄── calls (TCP) ──── process ──┴── armlink ──► executor; gripper on a goroutine of its own
//
// Core has no clock and no socket. It judges every state, keeps path time by the arm's own count of milliseconds, and takes what the arm holds for its
// last command as the base of the next one; so lost packets (up to 19 in a row) cost nothing but their time, and no backward difference that the
// arm computes ever breaks a limit.
//
//	            MoveJoints                hold q_d, judge the link        segments
//	no motion ─────────────► starting ─────────────────────────► ready ────────────► as armrt: moving, ramp, stopped
//	    ▲                        the arm ends it (reflex, user stop, 20 lost)                    │
//	    └────────────────────────────────────────────────────────────────────────────────────────┘
//
// Whatever ends a motion drops the plan. It starts again only when the operator acknowledges (armlink Recover): errors are cleared at most once
// in a while, the arm is asked for a new motion, and the first command is exactly its desired position.
package franka
