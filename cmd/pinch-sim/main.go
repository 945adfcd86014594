// Command pinch-sim carries out the verb `sim` of `pinch`. Build tag: mujoco.
package main

import (
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/cmd/internal/verbs/sim"
)

func main() {
	program.Main(program.Root("pinch-sim", "the simulated cell of pinch", "The part of pinch that simulates a rig or a robot cell.",
		sim.Group(), program.Probe(sim.Probe)))
}
