// Package score holds pure metrics: what a trial scored (milestones with declared weights), how close predicted motion is to
// recorded motion (replay errors), and where in a task trials fail (hazards). It reads no clock, file or socket.
package score
