package cellserve

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/spatial/r3"

	"github.com/pinch-robotics/pinch/internal/sim"
	"github.com/pinch-robotics/pinch/internal/wire/armlink"
)

// judge follows the scene since the last SetScene.
type judge struct {
	progress sim.Progress
	closest  float64 // m, right fingertip centre to block centre
	maxRise  float64 // m, of the block over its rest on the table
	collided bool
}

func newJudge() judge { return judge{closest: math.Inf(1)} }

// judgeTicks is how often the scene is judged, ms.
const judgeTicks = 5

func (j *judge) watch(t sim.Truth) {
	j.progress.Update(t)
	j.closest = math.Min(j.closest, r3.Norm(r3.Sub(t.Tips[sim.Right], t.Block.Pos)))
	j.maxRise = math.Max(j.maxRise, t.Block.Pos.Z-sim.BlockHalfHeight)
	j.collided = j.collided || t.Collision
}

// truth is the answer to QueryTruth.
//
// Bodies: block, tray, left_hand, right_hand. Flags of this instant: reached, lifted, carried, placed, held_left, held_right,
// touched_left, touched_right, on_tray, on_table, collision; since SetScene: collided. Values: milestones_done (0 to 4),
// milestone_1_ns to milestone_4_ns (those reached), closest_reach_m, max_rise_m, block_speed (m/s).
func (j *judge) truth(t sim.Truth) *armlink.Truth {
	m := t.Milestones()
	out := &armlink.Truth{
		TNS: int64(t.Time),
		Bodies: map[string]armlink.Pose{
			"block": t.Block.ArrayXYZXYZW(), "tray": t.Tray.ArrayXYZXYZW(),
			"left_hand": t.Hands[sim.Left].ArrayXYZXYZW(), "right_hand": t.Hands[sim.Right].ArrayXYZXYZW(),
		},
		Flags: map[string]bool{
			"reached": m.Reached, "lifted": m.Lifted, "carried": m.Carried, "placed": m.Placed,
			"held_left": t.Held[sim.Left], "held_right": t.Held[sim.Right], "touched_left": t.Touched[sim.Left], "touched_right": t.Touched[sim.Right],
			"on_tray": t.OnTray, "on_table": t.OnTable, "collision": t.Collision, "collided": j.collided,
		},
		Values: map[string]float64{
			"milestones_done": float64(j.progress.Done), "max_rise_m": j.maxRise, "block_speed": t.BlockSpeed,
		},
	}
	if !math.IsInf(j.closest, 1) {
		out.Values["closest_reach_m"] = j.closest
	}
	for i := range j.progress.Done {
		out.Values[fmt.Sprintf("milestone_%d_ns", i+1)] = float64(j.progress.Times[i])
	}
	return out
}
