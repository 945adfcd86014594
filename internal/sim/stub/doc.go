// Package stub has devices for tests that behave as the real ones do on their wires: a Dynamixel servo, a Robotiq gripper, a Universal Robots
// controller and an xArm controller. Each enforces what the device enforces (ranges, modes, watchdogs, speed limits), keeps the list of
// what it refused, and lets a test cause what a lab causes: an emergency stop, a pulled cable, an object between the fingers, heat.
//
// Independent clients from the vendors' own packages talk to them in the tests, so that a misreading shared by driver and stub would show.
package stub
