package program

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/internal/doctor"
)

// Probe makes the hidden verb through which `pinch doctor` learns whether a helper's native parts work. It prints one line of
// JSON and succeeds also when a part does not work.
func Probe(parts func() []doctor.Part) *cobra.Command {
	return &cobra.Command{
		Use: "probe", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return json.NewEncoder(cmd.OutOrStdout()).Encode(doctor.Probe{Parts: parts()})
		},
	}
}
