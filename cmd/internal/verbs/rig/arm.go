package rig

import (
	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// armVerbs make the verbs of `pinch arm`: one process for each kind of arm.
var armVerbs = []func() *cobra.Command{ArmFranka, ArmUR, ArmXArm, ArmJoin}

// Arm makes `pinch arm` with its verbs.
func Arm() *cobra.Command {
	var verbs []*cobra.Command
	for _, v := range armVerbs {
		verbs = append(verbs, v())
	}
	return program.Group("arm", "the process that owns one robot arm", verbs...)
}
