package fciserve

// Plant is what a Robot moves. Its owner calls it from the one goroutine that ticks the Robot.
type Plant interface {
	// Place puts the plant at rest without motion.
	Place(q [7]float64)
	// Step lets one millisecond pass with the given desired positions (rad) and speeds (rad/s).
	Step(qd, dqd [7]float64)
	// Measure returns measured positions (rad), speeds (rad/s) and external torques (Nm) now.
	Measure() (q, dq, tauExt [7]float64)
}

// Kinematic is a Plant without masses: each joint follows its desired position with a short lag and hangs a little below it, so that measured and
// desired positions differ as on a real arm.
type Kinematic struct {
	q, dq  [7]float64
	tauExt [7]float64
}

// The lag is that of two poles at 1/followTau; the sag stands for gravity against the joints' finite stiffness.
const (
	followTau = 0.004 // s
	sagRad    = 5e-4
)

// Place implements Plant.
func (k *Kinematic) Place(q [7]float64) {
	for j := range q {
		q[j] -= sagRad
	}
	k.q, k.dq = q, [7]float64{}
}

// Step implements Plant.
func (k *Kinematic) Step(qd, dqd [7]float64) {
	const w, h = 1 / followTau, 1e-3
	for j := range qd {
		e := qd[j] - sagRad - k.q[j]
		// Implicit Euler of q'' = w² e + 2 w (dqd - q').
		k.dq[j] = (k.dq[j] + h*(w*w*e+2*w*dqd[j])) / (1 + 2*w*h + w*w*h*h)
		k.q[j] += h * k.dq[j]
	}
}

// Measure implements Plant.
func (k *Kinematic) Measure() (q, dq, tauExt [7]float64) { return k.q, k.dq, k.tauExt }

// Push sets an external torque on each joint in Nm.
func (k *Kinematic) Push(tauExt [7]float64) { k.tauExt = tauExt }
