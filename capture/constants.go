package capture

import "gonum.org/v1/gonum/spatial/r3"

// handCamera is where the wrist camera sits in {side}_hand_root (m). Source: YUBI URDF, joint hand_root to hand_cam_link.
var handCamera = r3.Vec{X: 0, Y: 0, Z: 0.0426}
