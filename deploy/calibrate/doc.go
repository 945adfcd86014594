// Package calibrate measures what a cell file has to say of a robot cell. Each measurement moves the arms through the executor, with all its gates, or asks a person
// to, and gives a value with its error:
//
//	latency   control.action_latency_ms       how long measured hands lag behind commanded ones
//	          control.left_camera_offset_ms   how late the stamps of a wrist camera are (and right_)
//	gripper   control.gripper_latency_ms      the same for fingers; and whether they go where they are told
//	tcp       calibration.left_tip_m          how far the finger tips are from where flange_from_hand puts them (and right_)
//	base      calibration.right_base_m_rad    where the right arm really stands, seen from the left one
//	frames    nothing                         moves each hand along its axes and asks whether that was right
package calibrate
