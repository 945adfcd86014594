//go:build mujoco

package fciserve

import (
	"math"
	"testing"

	"github.com/pinch-robotics/pinch/internal/sim"
)

// The arms of the simulated cell behind the interface: they follow a smooth motion within a hair and without a reflex, and the one that is driven into the
// table feels it: joint_reflex.
func TestArmsOfTheCell(t *testing.T) {
	cell, err := sim.New(sim.Config{Mode: sim.ModeRobot})
	if err != nil {
		t.Fatal(err)
	}
	defer cell.Close()
	plants, starts, advance, err := CellArms(cell)
	if err != nil {
		t.Fatal(err)
	}
	var arms [2]*client
	for i := range arms {
		arms[i] = newClient(t, RobotOptions{Plant: plants[i], Start: starts[i]})
		arms[i].request(1, make([]byte, 113))
	}
	tick := func(q [2][7]float64) {
		for i, c := range arms {
			c.r.Command(append(append(append([]byte(nil), c.state[:8]...), joints(q[i])...), make([]byte, 371-64)...))
			c.r.Close()
		}
		if err := advance(); err != nil {
			t.Fatal(err)
		}
		for _, c := range arms {
			c.open()
		}
	}
	q := starts
	worst := 0.0
	for i := 0; i <= 1500; i++ {
		s := float64(i) * 1e-3
		for a := range q {
			q[a][0] = starts[a][0] + 0.05*(1-math.Cos(2*math.Pi*s/1.5))
		}
		tick(q)
		for a, p := range plants {
			m, _, _ := p.Measure()
			for j := range m {
				worst = math.Max(worst, math.Abs(m[j]-q[a][j]))
			}
		}
	}
	if worst > 0.004 || arms[0].r.Stats.Stops+arms[1].r.Stats.Stops > 0 {
		t.Fatalf("free motion: %.4f rad off, left %+v, right %+v", worst, arms[0].r.Stats, arms[1].r.Stats)
	}
	v := 0.0
	for i := 0; i < 6000 && arms[1].r.Stats.Stops == 0; i++ {
		v = math.Min(v+1e-3, 0.3)
		q[1][1] += v * dt // the right arm bows down to the table
		tick(q)
	}
	if arms[1].state[s10Reflex+errJointReflex] != 1 || arms[1].r.Stats.Violations != 0 {
		t.Errorf("the arm that met the table: mode %d, %+v", arms[1].state[s10RobotMode], arms[1].r.Stats)
	}
}

func joints(q [7]float64) (b []byte) {
	for _, x := range q {
		u := math.Float64bits(x)
		for k := 0; k < 8; k++ {
			b = append(b, byte(u>>(8*k)))
		}
	}
	return b
}
