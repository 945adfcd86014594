package fciserve

import (
	"fmt"

	"github.com/pinch-robotics/pinch/internal/sim"
)

// stiffness is the published default of the arm's joint impedance controller, Nm/rad. External torque on the simulated cell is read from how far a
// joint is held from its desired position; free motion stays below 0.002 rad, 6 Nm.
var stiffness = [7]float64{3000, 3000, 3000, 2500, 2500, 2000, 2000}

// CellArm is one arm of the simulated cell as a Plant. Both arms share the cell: after both have stepped, Advance lets its time pass.
type CellArm struct {
	Cell *sim.Cell
	Side sim.Side

	qd [7]float64
}

// Place implements Plant.
func (a *CellArm) Place(q [7]float64) {
	a.qd = q
	_ = a.Cell.SetArm(a.Side, q, a.Cell.GripperAngle(a.Side)) // fails for a handheld cell only, which CellArms refuses
}

// Step implements Plant.
func (a *CellArm) Step(qd, dqd [7]float64) {
	a.qd = qd
	a.Cell.SetJoints(a.Side, qd, dqd)
}

// Measure implements Plant.
func (a *CellArm) Measure() (q, dq, tauExt [7]float64) {
	q, dq = a.Cell.Joints(a.Side)
	for j := range q {
		tauExt[j] = stiffness[j] * (q[j] - a.qd[j])
	}
	return q, dq, tauExt
}

// CellArms makes both arms of a cell, left first, and the function that lets a millisecond of its time pass.
func CellArms(cell *sim.Cell) (plants [2]*CellArm, start [2][7]float64, advance func() error, err error) {
	if cell.Mode() != sim.ModeRobot {
		return plants, start, nil, fmt.Errorf("arms of the simulated cell: the cell is in mode %v", cell.Mode())
	}
	for _, s := range sim.Sides {
		plants[s] = &CellArm{Cell: cell, Side: s}
		start[s], _ = cell.Joints(s)
	}
	return plants, start, func() error { return cell.Advance(cell.Now() + sim.TickNS) }, nil
}
