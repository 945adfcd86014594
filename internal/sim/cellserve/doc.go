// Package cellserve serves the simulated cell in ModeRobot as an arm process: two FR3 arms with grippers over armlink, their
// wrist cameras over RTSP, and, for evaluation, scene resets and truth. It is to deploy what the process beside real arms is.
//
//	armlink ◄──► server ──1 ms──► armrt left, armrt right ──► sim.Cell ──► render threads ──► RTSP left, right[, scene]
//
// In lock-step time passes only inside an Advance grant, so that equal messages give equal runs; in real time it follows the
// host's clock. One client at a time; when it leaves, the arms ramp down and the next one may come.
package cellserve
