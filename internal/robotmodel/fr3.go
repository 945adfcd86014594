package robotmodel

import (
	"fmt"
	"math"
	"strings"
)

// Joints holds seven joint values, base to flange, in radians (rad/s, rad/s² where a name says so).
type Joints = [7]float64

// DH is one row of a modified (Craig) Denavit-Hartenberg table: Rx(Alpha) Tx(A) Rz(theta) Tz(D).
type DH struct{ A, D, Alpha float64 }

// Limits are the bounds an arm rejects motion beyond.
// Source: Franka control parameters, "necessary conditions" (FR3, system 5.9 and newer).
type Limits struct {
	QMin, QMax Joints // rad
	DQ         Joints // rad/s, far from the ends
	DDQ        Joints // rad/s²
	DDDQ       Joints // rad/s³

	// Position-dependent velocity: dq <= -DQOffset + sqrt(2 DDQDec (QMax - q)), mirrored below.
	DQOffset Joints // rad/s
	DDQDec   Joints // rad/s²
}

// Arm is an arm of six or seven joints: geometry, limits and masses.
type Arm struct {
	Name       string
	Axes       int // joints it has; 0 means seven. A joint it lacks does nothing: its link frame has no axes and its Jacobian column is zero
	Table      [7]DH
	Offset     Joints  // rad, added to a joint's angle to get theta of its row
	FlangeD    float64 // flange beyond joint 7's frame along its z, m
	Limits     Limits
	LinkMassKG [7]float64
	TauMax     Joints // Nm
	// Cartesian limits of the flange: m/s and rad/s.
	FlangeSpeed, FlangeRate float64
	// Rest is a posture away from limits and singularities, rad: the null-space goal when none is given.
	Rest Joints

	solids []Capsule // nil: the FR3's
}

// fr3 is shared by FER and FR3: same geometry, other limits.
var fr3 = Arm{
	Name: "fr3",
	Table: [7]DH{
		{0, 0.333, 0},
		{0, 0, -math.Pi / 2},
		{0, 0.316, math.Pi / 2},
		{0.0825, 0, math.Pi / 2},
		{-0.0825, 0.384, -math.Pi / 2},
		{0, 0, math.Pi / 2},
		{0.088, 0, math.Pi / 2},
	},
	FlangeD: 0.107,
	Limits: Limits{
		QMin:     Joints{-2.9007, -1.8361, -2.9007, -3.0770, -2.8763, 0.4398, -3.0508},
		QMax:     Joints{2.9007, 1.8361, 2.9007, -0.1169, 2.8763, 4.6216, 3.0508},
		DQ:       Joints{2.62, 2.62, 2.62, 2.62, 5.26, 4.18, 5.26},
		DDQ:      Joints{10, 10, 10, 10, 10, 10, 10},
		DDDQ:     Joints{5000, 5000, 5000, 5000, 5000, 5000, 5000},
		DQOffset: Joints{0.6599, 0.2517, 0.2000, 0.3533, 0.5757, 0.4878, 0.4628},
		DDQDec:   Joints{6, 2.585, 3.5, 4, 17, 5.5, 17},
	},
	LinkMassKG:  [7]float64{2.927, 2.936, 2.245, 2.616, 2.327, 1.817, 0.627},
	TauMax:      Joints{87, 87, 87, 87, 12, 12, 12},
	FlangeSpeed: 3.0,
	FlangeRate:  2.5,
	Rest:        Joints{0, -math.Pi / 4, 0, -3 * math.Pi / 4, 0, math.Pi / 2, math.Pi / 4},
}

// FR3 returns the Franka Research 3 with the limits of system 5.9 and newer.
func FR3() Arm { return fr3 }

// FER returns the Franka Emika Robot ("Panda"): the same geometry with rectangular velocity limits.
func FER() Arm {
	a := fr3
	a.Name = "fer"
	a.Limits = Limits{
		QMin: Joints{-2.8973, -1.7628, -2.8973, -3.0718, -2.8973, -0.0175, -2.8973},
		QMax: Joints{2.8973, 1.7628, 2.8973, -0.0698, 2.8973, 3.7525, 2.8973},
		DQ:   Joints{2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61},
		DDQ:  Joints{15, 7.5, 10, 12.5, 15, 20, 20},
		DDDQ: Joints{7500, 3750, 5000, 6250, 7500, 10000, 10000},
	}
	a.FlangeSpeed = 1.7
	return a
}

// ByName returns the arm with that model name.
func ByName(name string) (Arm, error) {
	for _, a := range models() {
		if a.Name == name {
			return a, nil
		}
	}
	return Arm{}, fmt.Errorf("arm model %q is unknown; known: %s", name, strings.Join(Models(), ", "))
}

// VelocityUp returns the highest velocity (rad/s) joint j may have at position q (rad); never negative.
func (l *Limits) VelocityUp(j int, q float64) float64 {
	return velocityBound(l.DQ[j], l.DQOffset[j], l.DDQDec[j], l.QMax[j]-q)
}

// VelocityLow returns the lowest velocity (rad/s, never positive) joint j may have at position q (rad).
func (l *Limits) VelocityLow(j int, q float64) float64 {
	return -velocityBound(l.DQ[j], l.DQOffset[j], l.DDQDec[j], q-l.QMin[j])
}

func velocityBound(max, offset, dec, room float64) float64 {
	if dec == 0 {
		return max
	}
	return math.Min(max, math.Max(0, -offset+math.Sqrt(math.Max(0, 2*dec*room))))
}

// Contains reports whether q lies inside the position limits by at least margin (rad), and if not the first joint (0-based) outside.
func (l *Limits) Contains(q Joints, margin float64) (joint int, ok bool) {
	for j := range q {
		if !(q[j] >= l.QMin[j]+margin && q[j] <= l.QMax[j]-margin) {
			return j, false
		}
	}
	return 0, true
}

// Scaled returns the limits with velocity, acceleration and jerk multiplied by the factors (0 < factor <= 1) and positions pulled in by
// margin (rad). The position-dependent curve moves with the position limits, so it stays inside the original one.
func (l Limits) Scaled(velocity, acceleration, jerk, marginRad float64) Limits {
	for j := range l.QMin {
		l.QMin[j] += marginRad
		l.QMax[j] -= marginRad
		l.DQ[j] *= velocity
		l.DDQ[j] *= acceleration
		l.DDDQ[j] *= jerk
	}
	return l
}
