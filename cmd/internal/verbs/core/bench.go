package core

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/demo"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

type benchEvalOptions struct{ demo.Options }

// AddFlags adds the flags of `pinch bench eval`.
func (o *benchEvalOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Out, "demo", "demo-out", "the output `folder` of a finished demo")
	f.IntVar(&o.Trials, "trials", 60, "unseen conditions")
	f.Uint64Var(&o.Seed, "seed", 1, "of order and statistics")
}

// Bench makes `pinch bench`: the verb `eval` is a script of other verbs, everything else is the helper's.
func Bench(pass *cobra.Command) *cobra.Command {
	var o benchEvalOptions
	again := &cobra.Command{
		Use: "eval", Short: "repeat the demo's evaluation with more trials", Args: cobra.NoArgs,
		Long: "Runs the demo's policy and the baselines on more unseen conditions and writes a report beside the first.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := program.CheckCount("--trials", o.Trials, 1, 10_000); err != nil {
				return err
			}
			o.Console, o.Now, o.Helper = cmd.OutOrStdout(), time.Now, program.HelperPath
			return demo.Again(cmd.Context(), o.Options)
		},
	}
	o.AddFlags(again.Flags())
	pass.AddCommand(again)
	return pass
}
