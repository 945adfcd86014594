// Command pinch-rig carries out the verbs of `pinch` that talk to cameras, grippers and arms. Build tag: opencv.
package main

import (
	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/cmd/internal/verbs/rig"
)

func main() {
	program.Main(program.Root("pinch-rig", "record, deploy, home and eval of pinch", "The part of pinch that talks to rigs and robots.",
		rig.Record(), rig.Deploy(), rig.Home(), rig.Calibrate(), rig.Eval(), rig.Arm(), rig.Hand(), program.Probe(rig.Probe)))
}
