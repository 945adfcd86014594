// Package arm is the process that owns one robot arm with its gripper: it speaks armlink to the executor, turns segments into joint commands
// by package armrt in the arm controller's own rhythm, and stops by itself when anything is wrong.
//
//	executor ── armlink ──► Host ── Driver ──► arm controller      one exchange per control cycle (2 ms UR, 4 ms xArm)
//	                         │
//	                         └──── Hand ────► gripper bus          on its own goroutine, at the bus's pace
//
// What ends motion, all of it by a ramp within the limits and with the fingers holding: Stop, segments that do not follow, an executor that
// leaves, a gripper bus that falls silent, a loop that is held up, a controller that runs slower than it was told. What the controller does
// by itself (protective stop, user stop) is a reflex: plans are dropped and the command stays where the arm is. Nothing is queued over a stop;
// Recover starts again from where the arm stands. When this process dies, the controller's own watchdog stops the arm: see each driver.
//
// A driver is any type that passes package armtest.
package arm
