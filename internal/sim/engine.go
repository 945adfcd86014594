package sim

import "github.com/pinch-robotics/pinch/frames"

// engine is the physics and the renderer under a Cell. MuJoCo is the only one; the interface keeps it behind its build tag.
// Everything but the rendering of a snapshot belongs to one goroutine.
type engine interface {
	// reset goes to the model's own start: all speeds, controls and solver memory zero.
	reset()
	// body, joint and actuator give the handle of a name; the names come from this package, so a missing one panics.
	body(name string) int
	joint(name string) int
	actuator(name string) int
	// setBody places a body that has a free joint or is a mocap body.
	setBody(body int, parentFromBody frames.Pose)
	setJoint(joint int, q float64)
	// stillBody and stillJoint take the speed from a body with a free joint and from a hinge or slide.
	stillBody(body int)
	stillJoint(joint int)
	setControl(actuator int, value float64)
	// forward computes poses and contacts from positions without time passing.
	forward()
	// step lets time pass; the error names a state that is not finite.
	step(ticks int) error
	pose(body int) frames.Pose
	jointState(joint int) (q, dq float64)
	// speed is the linear (m/s) and angular (rad/s) speed of a body with a free joint.
	speed(body int) (linear, angular float64)
	// contacts calls f with the names of the two geoms of each active contact.
	contacts(f func(a, b string))
	// snapshot copies the scene and starts to render it.
	snapshot(shot Shot, size Size, at frames.DeviceTime) *Pending
	close()
}
