package rig

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinch-robotics/pinch/cmd/internal/program"
	"github.com/pinch-robotics/pinch/eval"
	"github.com/pinch-robotics/pinch/internal/sim"
)

type homeOptions struct {
	Condition int
	Recover   bool
	Cell      cellFlags
	Log       program.LogFlags
}

// AddFlags adds the flags of `pinch home`.
func (o *homeOptions) AddFlags(f *pflag.FlagSet) {
	f.IntVar(&o.Condition, "condition", 0, "number of the initial condition whose starts are home")
	f.BoolVar(&o.Recover, "recover", false, "acknowledge a stop first: you have looked and the arms may move")
	o.Cell.AddFlags(f)
	o.Log.AddFlags(f)
}

// Home makes `pinch home`.
func Home() *cobra.Command {
	var o homeOptions
	cmd := &cobra.Command{
		Use: "home", Short: "move the arms to their home pose, checked for collisions", Args: cobra.NoArgs,
		Long: "Moves both hands to the starts of an initial condition along a joint path that keeps its distances to the table and the other\n" +
			"arm, and refuses when it finds none.\n" + program.ExitHelp,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Condition < 0 {
				return program.Usage("--condition: %d is negative", o.Condition)
			}
			return runHome(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runHome(ctx context.Context, o homeOptions, out, errOut io.Writer) error {
	cell, err := o.Cell.load()
	if err != nil {
		return err
	}
	condition, err := eval.SimCondition(sim.NewCondition(sim.Eval, o.Condition))
	if err != nil {
		return err
	}
	starts, err := condition.HandStarts()
	if err != nil {
		return err
	}
	s, err := connect(ctx, cell, o.Cell.Sim, o.Log.Logger(errOut), errOut)
	if err != nil {
		return err
	}
	defer s.Close()
	if o.Recover {
		if err := s.Recover(ctx); err != nil {
			return err
		}
	}
	if err := s.Home(ctx, starts); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, "both arms are home")
	return err
}
