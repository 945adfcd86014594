package sim

import (
	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// Group makes `pinch sim` with its verbs.
func Group() *cobra.Command {
	return program.Group("sim", "serve the simulated cell as a handheld rig or as arms", Handheld(), Robot(), FCI())
}
