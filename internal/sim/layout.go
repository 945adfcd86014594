package sim

// The table-top, in the cell frame: origin on the table top, X away from the robots' bases, Y to the left, Z up. Lengths in
// metres, angles in radians, masses in kilograms.
const (
	tableHalfX, tableHalfY = 0.70, 0.80
	minHandZ, maxHandZ     = 0.08, 0.80 // hand_root heights at which a start makes sense

	// PickCentreX and PickCentreY are the middle of the pick area, a square of twice PickHalf. The area is 18 cm wide, a
	// little more than the 16 cm the task promises; its far corner is 0.62 m from the right base, well inside the 0.85 m reach.
	PickCentreX, PickCentreY = 0.02, -0.18
	PickHalf                 = 0.09

	trayCentreX, trayCentreY     = 0.02, 0.10
	trayHalfVaryX, trayHalfVaryY = 0.03, 0.02
	trayYawVary                  = 0.15

	leftBesideTray = 0.20  // the left hand hovers that far to the left of the tray
	leftBehindTray = -0.04 // and that far behind it, so that its fingers do not hide the tray
	leftZ          = 0.25
	leftVary       = 0.025
	rightZ         = 0.24 // finger tips 15 cm above the table
	rightBehind    = 0.08 // the right hand begins that far behind the middle of the pick area: what its camera sees lies before it
	rightVary      = 0.045
	rightVaryZ     = 0.02
	handTiltVary   = 0.06 // 3.4 degrees
	handYawVary    = 0.20 // 11 degrees
	startAngle     = 0.45 // both hands begin open
	startAngleVary = 0.03
)

// The block: a square column, so that a turn of a quarter looks the same and any yaw has a face within 45 degrees.
const (
	BlockHalfWidth  = 0.019
	BlockHalfHeight = 0.026
	blockMass       = 0.060
)

// The tray: a plate with a low rim, lower than the finger tips of a hand that puts the block down.
const (
	TrayHalf       = 0.080 // outer
	trayFloor      = 0.004 // height of the plate's upper side over the table
	trayRimHeight  = 0.012
	trayRimHalf    = 0.003
	trayInnerHalf  = TrayHalf - 2*trayRimHalf
	robotBaseX     = -0.48
	robotBaseHalfY = 0.30
)

// FingerMaxRad is the largest finger angle, the joint's limit in the rig's URDF.
const FingerMaxRad = 0.94
