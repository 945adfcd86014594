// Package robotmodel holds the numbers of the robots we drive: link geometry, limits and masses of the arms, geometry of the gripper; and
// the forward kinematics and Jacobian that follow from them. Nothing in it has state or allocates on the hot path.
//
// Frames: base is the arm's first link frame (z up along joint 1), flange the mounting face (z out of it), hand the gripper's hand_root (+X
// toward the fingers, +Y toward the left jaw, +Z toward the camera). A Transform named baseFromFlange maps flange coordinates to base.
package robotmodel
