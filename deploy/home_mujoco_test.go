//go:build mujoco && cgo

package deploy

import (
	"testing"

	"github.com/pinch-robotics/pinch/internal/sim"
)

// Every start the task can ask for is reached from the one before, with the clearances kept.
func TestHomeReachesTheConditionsOfTheTask(t *testing.T) {
	s := simSession(t)
	n := 12
	if testing.Short() {
		n = 5
	}
	for i := 0; i < n; i++ {
		prepare(t, s, sim.NewCondition(sim.Eval, i))
		if d := s.surfaces(&scene{}); d < s.cell.Safety.ArmClearanceM-1e-3 {
			t.Errorf("condition %d: arms stand %.1f mm apart", i, 1000*d)
		}
	}
}
