package robotmodel

import "math"

// Joints is how many joints the arm has.
func (a *Arm) Joints() int {
	if a.Axes == 0 {
		return len(a.Table)
	}
	return a.Axes
}

// Models lists the names that ByName knows.
func Models() []string {
	var names []string
	for _, a := range models() {
		names = append(names, a.Name)
	}
	return names
}

func models() []Arm {
	return []Arm{FER(), FR3(), UR("ur3e"), UR("ur5e"), UR("ur10e"), UR("ur16e"), UR("ur5"), UR("ur10"), XArm6(), XArm7()}
}

// lacking bounds the seventh axis of a six-joint arm, which no device sees: wide enough for every margin, never used.
func lacking(l *Limits) {
	l.QMin[6], l.QMax[6], l.DQ[6], l.DDQ[6], l.DDDQ[6] = -0.1, 0.1, 1, 10, 5000
}

// urSize is one UR arm: the lengths (m) of the vendor's standard Denavit-Hartenberg table, joint speeds in degrees per second, masses of the
// six links and joint torques.
type urSize struct {
	d1, a2, a3, d4, d5, d6 float64
	degS                   [6]float64
	mass                   [6]float64
	tau                    [6]float64
	radius                 float64 // of the upper arm, m
}

// Source: Universal Robots, "DH parameters for calculations of kinematics and dynamics" and the data sheets (joint speeds, torques).
var urSizes = map[string]urSize{
	"ur3e": {0.15185, -0.24355, -0.2132, 0.13105, 0.08535, 0.0921, [6]float64{180, 180, 180, 360, 360, 360},
		[6]float64{1.98, 3.4445, 1.437, 0.871, 0.805, 0.261}, [6]float64{54, 54, 28, 9, 9, 9}, 0.055},
	"ur5e": {0.1625, -0.425, -0.3922, 0.1333, 0.0997, 0.0996, [6]float64{180, 180, 180, 180, 180, 180},
		[6]float64{3.761, 8.058, 2.846, 1.37, 1.3, 0.365}, [6]float64{150, 150, 150, 28, 28, 28}, 0.065},
	"ur10e": {0.1807, -0.6127, -0.57155, 0.17415, 0.11985, 0.11655, [6]float64{120, 120, 180, 180, 180, 180},
		[6]float64{7.369, 13.051, 3.989, 2.1, 1.98, 0.615}, [6]float64{330, 330, 150, 56, 56, 56}, 0.085},
	"ur16e": {0.1807, -0.4784, -0.36, 0.17415, 0.11985, 0.11655, [6]float64{120, 120, 180, 180, 180, 180},
		[6]float64{7.369, 10.45, 4.321, 2.18, 2.033, 0.907}, [6]float64{330, 330, 150, 56, 56, 56}, 0.085},
	"ur5": {0.089159, -0.425, -0.39225, 0.10915, 0.09465, 0.0823, [6]float64{180, 180, 180, 180, 180, 180},
		[6]float64{3.7, 8.393, 2.33, 1.219, 1.219, 0.1879}, [6]float64{150, 150, 150, 28, 28, 28}, 0.065},
	"ur10": {0.1273, -0.612, -0.5723, 0.163941, 0.1157, 0.0922, [6]float64{120, 120, 180, 180, 180, 180},
		[6]float64{7.1, 12.7, 4.27, 2, 2, 0.365}, [6]float64{330, 330, 150, 56, 56, 56}, 0.085},
}

// UR returns an arm of Universal Robots: "ur3e", "ur5e", "ur10e", "ur16e", or of the CB3 series "ur5", "ur10". Base is the controller's
// own base frame, in which the stretched arm at zero points to -X; a robot's individual calibration is not in it. The vendor states no limits
// of acceleration and jerk; those here are ours and gentler than a protective stop.
func UR(name string) Arm {
	s, known := urSizes[name]
	if !known {
		panic("robotmodel: no UR arm " + name)
	}
	// The vendor's table is the standard convention; each row's a and alpha move to the next row of a modified table.
	a := Arm{Name: name, Axes: 6, Table: [7]DH{
		{D: s.d1},
		{Alpha: math.Pi / 2},
		{A: s.a2},
		{A: s.a3, D: s.d4},
		{Alpha: math.Pi / 2, D: s.d5},
		{Alpha: -math.Pi / 2, D: s.d6},
	}, FlangeSpeed: 1.5, FlangeRate: 3,
		Rest: Joints{0, -1.6, -1.7, 3.3 - 1.5*math.Pi, math.Pi / 2, 0}}
	for j := 0; j < 6; j++ {
		a.Limits.QMin[j], a.Limits.QMax[j] = -2*math.Pi, 2*math.Pi
		a.Limits.DQ[j] = s.degS[j] * math.Pi / 180
		a.Limits.DDQ[j], a.Limits.DDDQ[j] = 10, 5000
		a.LinkMassKG[j], a.TauMax[j] = s.mass[j], s.tau[j]
	}
	a.Limits.QMin[2], a.Limits.QMax[2] = -math.Pi, math.Pi
	lacking(&a.Limits)
	a.solids = urSolids(s)
	return a
}

// urSolids draws capsules around the links from the lengths: shoulder, upper arm and forearm beside each other, three wrists.
func urSolids(s urSize) []Capsule {
	r := s.radius
	side := s.d4 + 0.01 // the upper arm runs this far beside the shoulder's axis, the forearm back beside it
	return []Capsule{
		{Link: LinkBase, A: Vec{0, 0, 0.04}, B: Vec{0, 0, s.d1}, Radius: r + 0.01},
		{Link: 1, A: Vec{0, 0, 0}, B: Vec{0, -0.05, 0}, Radius: r + 0.005},
		{Link: 2, A: Vec{0, 0, side}, B: Vec{s.a2, 0, side}, Radius: r},
		{Link: 3, A: Vec{0, 0, 0.02}, B: Vec{s.a3, 0, 0.02}, Radius: r * 0.85},
		{Link: 4, A: Vec{0, 0, -s.d4 / 2}, B: Vec{0, 0, 0.02}, Radius: r * 0.75},
		{Link: 5, A: Vec{0, 0, -s.d5 / 2}, B: Vec{0, 0, 0.02}, Radius: r * 0.75},
		{Link: 6, A: Vec{0, 0, -s.d6 / 2}, B: Vec{0, 0, -0.01}, Radius: r * 0.7},
	}
}

// xarmLimits fills speeds for n joints: 180 degrees per second everywhere. Source: xArm user manual. Acceleration and jerk are ours: servo
// mode carries out whatever comes.
func xarmLimits(a *Arm, n int) {
	for j := 0; j < n; j++ {
		a.Limits.DQ[j], a.Limits.DDQ[j], a.Limits.DDDQ[j] = math.Pi, 10, 5000
	}
	// The controller stops with error C24 above 1.2 m/s of the tool in servo mode; reported from 1 m/s on with a stretched arm.
	a.FlangeSpeed, a.FlangeRate = 0.9, 3
}

// XArm6 returns the UFACTORY xArm 6. Source: UFACTORY, "Kinematic and dynamic parameters of xArm 6" (standard table, model 2); joint
// ranges from the vendor's Python SDK (type 4).
func XArm6() Arm {
	tilt := math.Atan(284.5 / 53.5) // the upper arm's line between its joints against the mechanical zero
	a := Arm{Name: "xarm6", Axes: 6, Table: [7]DH{
		{D: 0.267},
		{Alpha: -math.Pi / 2},
		{A: math.Hypot(0.2845, 0.0535)},
		{A: 0.0775, Alpha: -math.Pi / 2, D: 0.3425},
		{Alpha: math.Pi / 2},
		{A: 0.076, Alpha: -math.Pi / 2, D: 0.097},
	}, Offset: Joints{1: -tilt, 2: tilt},
		LinkMassKG: [7]float64{2.46, 2.21, 1.925, 1.36, 1.354, 0.17}, TauMax: Joints{50, 50, 32, 32, 32, 20},
		Rest: Joints{0, -0.6, -0.9, 0, 1.5, 0}}
	a.Limits.QMin = Joints{-2 * math.Pi, -2.059488, -3.92699, -2 * math.Pi, -1.692969, -2 * math.Pi}
	a.Limits.QMax = Joints{2 * math.Pi, 2.094395, 0.191986, 2 * math.Pi, math.Pi, 2 * math.Pi}
	xarmLimits(&a, 6)
	lacking(&a.Limits)
	a.solids = []Capsule{
		{Link: LinkBase, A: Vec{0, 0, 0.05}, B: Vec{0, 0, 0.2}, Radius: 0.075},
		{Link: 1, A: Vec{0, 0, -0.06}, B: Vec{0, 0, 0}, Radius: 0.075},
		{Link: 2, A: Vec{0, 0, 0}, B: Vec{0.2895, 0, 0}, Radius: 0.085},
		{Link: 3, A: Vec{0, 0, 0}, B: Vec{0.0775, 0.15, 0}, Radius: 0.075},
		{Link: 4, A: Vec{0, 0, -0.2}, B: Vec{0, 0, 0}, Radius: 0.065},
		{Link: 5, A: Vec{0, 0, 0}, B: Vec{0.076, 0.02, 0}, Radius: 0.06},
		{Link: 6, A: Vec{0, 0, -0.05}, B: Vec{0, 0, -0.01}, Radius: 0.045},
	}
	return a
}

// XArm7 returns the UFACTORY xArm 7. Source: link origins of the vendor's ROS description, joint ranges from its Python SDK (type 4).
func XArm7() Arm {
	a := Arm{Name: "xarm7", Table: [7]DH{
		{D: 0.267},
		{Alpha: -math.Pi / 2},
		{Alpha: math.Pi / 2, D: 0.293},
		{A: 0.0525, Alpha: math.Pi / 2},
		{A: 0.0775, Alpha: math.Pi / 2, D: 0.3425},
		{Alpha: math.Pi / 2},
		{A: 0.076, Alpha: -math.Pi / 2, D: 0.097},
	},
		LinkMassKG: [7]float64{2.459, 1.916, 1.6854, 1.774, 1.357, 1.362, 0.17}, TauMax: Joints{50, 50, 32, 32, 32, 20, 20},
		Rest: Joints{0, -0.3, 0, 1.2, 0, 1.5, 0}}
	a.Limits.QMin = Joints{-2 * math.Pi, -2.059488, -2 * math.Pi, -0.191986, -2 * math.Pi, -1.692969, -2 * math.Pi}
	a.Limits.QMax = Joints{2 * math.Pi, 2.094395, 2 * math.Pi, 3.92699, 2 * math.Pi, math.Pi, 2 * math.Pi}
	xarmLimits(&a, 7)
	a.solids = []Capsule{
		{Link: LinkBase, A: Vec{0, 0, 0.05}, B: Vec{0, 0, 0.2}, Radius: 0.075},
		{Link: 1, A: Vec{0, 0, -0.06}, B: Vec{0, 0, 0}, Radius: 0.075},
		{Link: 2, A: Vec{0, 0, 0}, B: Vec{0, -0.12, 0}, Radius: 0.07},
		{Link: 3, A: Vec{0, 0, -0.15}, B: Vec{0, 0, 0}, Radius: 0.07},
		{Link: 4, A: Vec{0, 0, 0}, B: Vec{0.0775, -0.15, 0}, Radius: 0.07},
		{Link: 5, A: Vec{0, 0, -0.2}, B: Vec{0, 0, 0}, Radius: 0.065},
		{Link: 6, A: Vec{0, 0, 0}, B: Vec{0.076, 0.02, 0}, Radius: 0.06},
		{Link: 7, A: Vec{0, 0, -0.05}, B: Vec{0, 0, -0.01}, Radius: 0.045},
	}
	return a
}
