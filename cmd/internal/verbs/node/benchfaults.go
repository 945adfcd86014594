package node

import (
	"github.com/spf13/cobra"

	"github.com/pinch-robotics/pinch/bench"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

// benchFaults makes `pinch bench faults`.
func benchFaults() *cobra.Command {
	var o bench.FaultsOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use: "faults DATASET", Short: "plant known faults in copies of a clean dataset and count what the check finds", Args: cobra.ExactArgs(1),
		Long: "Plants faults that bug reports describe, one kind at a time, in random episodes of a copy of a clean dataset (every episode with its\n" +
			"own files, as pinch records them), runs the check and prints, for each kind, how many were planted and found and how many episodes\n" +
			"without a fault were flagged. The dataset is not touched.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := program.CheckCount("--episodes", o.Episodes, 1, 1_000_000); err != nil {
				return err
			}
			o.Dataset, o.Progress = args[0], cmd.ErrOrStderr()
			r, err := bench.Faults(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return r.WriteJSON(cmd.OutOrStdout())
			}
			return r.WriteText(cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Episodes, "episodes", 50, "`number` of episodes that get a fault of each kind")
	f.StringSliceVar(&o.Kinds, "kinds", nil, "`names` of kinds or of their groups (default: all)")
	f.StringSliceVar(&o.Clean, "clean", nil, "further clean `datasets` to run the check on")
	f.Uint64Var(&o.Seed, "seed", 1, "`seed` of the faults")
	f.StringVar(&o.Work, "work", "", "`folder` for the copies, on the file system of the dataset to save space (default: a temporary one)")
	f.BoolVar(&asJSON, "json", false, "print the report as JSON, missed faults included")
	return cmd
}
