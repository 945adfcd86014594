package core

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/demo"
	"github.com/pinch-robotics/pinch/cmd/internal/program"
)

type demoOptions struct{ demo.Options }

// AddFlags adds the flags of `pinch demo`.
func (o *demoOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVarP(&o.Out, "out", "o", "demo-out", "the output `folder`: new, or that of an interrupted demo")
	f.IntVar(&o.Episodes, "episodes", 160, "demonstrations to record")
	f.IntVar(&o.Trials, "trials", 15, "unseen conditions of the evaluation")
	f.Uint64Var(&o.Seed, "seed", 1, "of training and evaluation")
	f.StringArrayVar(&o.Train, "train", nil, "one `KEY=VALUE` of the training, for instance steps=200; may be given again")
}

func (o *demoOptions) checkFlags() error {
	if err := program.CheckCount("--episodes", o.Episodes, 1, 10_000); err != nil {
		return err
	}
	return program.CheckCount("--trials", o.Trials, 1, 10_000)
}

// Demo makes `pinch demo`.
func Demo() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use: "demo", Short: "walk the whole loop in a simulator: record, dataset, train, deploy, score", Args: cobra.NoArgs,
		Long: "Records demonstrations from a simulated handheld rig, makes a dataset, trains a policy, serves it, drives two simulated arms\n" +
			"with it and scores trials beside three baselines. It is a script of other verbs and prints each command. An interrupted\n" +
			"demo goes on where it stopped; a finished one only prints its table.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.checkFlags(); err != nil {
				return err
			}
			o.Console, o.Now, o.Helper = cmd.OutOrStdout(), time.Now, program.HelperPath
			return demo.Run(cmd.Context(), o.Options)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}
