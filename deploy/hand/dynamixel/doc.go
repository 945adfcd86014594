// Package dynamixel drives the gripper's XM430 servo as an arm.Hand.
//
// The servo runs in current-based position mode: the goal is a position, and the goal current is the force with which it may press. Its bus
// watchdog stops it when this process falls silent; it keeps its torque then, so that what it holds stays held. Nothing moves in Start: the goal
// is set to where the servo stands before torque is switched on.
//
// Source: ROBOTIS e-manual, XM430-W350.
package dynamixel
