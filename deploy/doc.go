// Package deploy runs a policy on arms that carry the demonstrator's gripper: the policy server, its client, the executor that turns action
// chunks into joint trajectories, and homing.
//
//	cameras (RTSP) ─┐                                        ┌─ armlink ─ arm process or simulated cell
//	arm states ─────┴─ observe ─► Policy ─► chunk ─► path ─► IK ─► knots
//	                              (openpi)   absolute  seam    limits, distances
//
// Glossary:
//
//	observation  wrist images, right hand in left hand, finger angles, all at one camera time; the prompt
//	chunk        what a policy answers: rows of body-frame motion per hand and finger angles
//	policy time  how far the policy's motion has been consumed; runs with the cell's clock while moving and stands while the arms stand
//	path         absolute hand poses on a fixed grid of policy time, smooth over the seam of two chunks
//	knot         joint positions at a time of the cell's clock, every control period, a lead time ahead of now
//
// The smallest program:
//
//	session, err := deploy.Connect(ctx, cell, deploy.ConnectOptions{})
//	err = session.Home(ctx, starts)
//	result, err := session.Run(ctx, deploy.RunOptions{Policy: client, Prompt: "put the block on the tray"})
//	if result.Stopped() { err = session.Recover(ctx) }
//
// Time is the cell's clock throughout. With a lock-step server the clock stands still while deploy thinks, the policy's latency is the
// configured constant, and equal seeds give equal decisions; with a real-time server latencies are measured.
package deploy
